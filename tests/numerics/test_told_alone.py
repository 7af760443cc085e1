"""Labels that a task tells well alone are not given up for a model from others."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.losses import LogisticLoss
from tacit.numerics.evidence import personal_models
from tacit.numerics.hierarchical import Candidates, Frame
from tacit.numerics.hierarchical_logistic import LogisticTasks
from tacit.numerics.local_fit import LocalFit, local_fit
from tacit.numerics.told_alone import doubted, own_left_out
from tacit.tasks import TaskSet

LOSS = LogisticLoss()
FRAME = Frame(np.zeros(4), np.ones(4))
ALONE = Candidates(np.zeros((1, 5)), np.array([0.1, 1.0]), np.array([1.0]))


def labelled(n_tasks=30, n_rows=160, steep=np.inf, seed=3):
    """Tasks whose models lie about a common one, half of their rows to learn from."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), n_rows)
    X = rng.standard_normal((len(task), 4))
    z = np.einsum("nd,nd->n", X, (rng.standard_normal((n_tasks, 4)) + 1.0)[task])
    y = 1.0 * (z > 0 if np.isinf(steep) else rng.random(len(z)) < 1 / (1 + np.exp(-steep * z)))
    seen = np.arange(len(task)) % 2 == 0
    return (TaskSet.from_arrays(X[part], y[part], task[part]) for part in (seen, ~seen))


def narrow(mean=0.3):
    """A prior that shrinks, and public evidence that speaks for it strongly."""
    shared = Candidates(np.append(np.full(4, mean), 0.0)[None], np.array([0.02]), np.array([0.1]))
    return shared, np.r_[np.full(shared.size, 300.0), np.zeros(ALONE.size)]


def left(fit, test):
    of = test.task_of_row
    z = np.einsum("nd,nd->n", test.X, fit.coef[of]) + fit.intercept[of]
    return float(LOSS.value(z, np.asarray(test.y)).mean())


def test_public_evidence_does_not_overrule_a_task_that_tells_its_labels():
    train, test = labelled()
    own = local_fit(train, LOSS)
    shared, weights = narrow()
    found = personal_models(LogisticTasks(FRAME, train), shared, ALONE, weights, own)
    assert left(found, test) < 1.02 * left(own, test)


def test_labels_that_hardly_anybody_tells_leave_the_evidence_as_it_is():
    """The common model is far better than a few rows of one's own: most of its gain is kept."""
    train, test = labelled(n_rows=24, steep=0.4)
    own, home = local_fit(train, LOSS), LogisticTasks(FRAME, train)
    shared, weights = narrow(0.4)
    found = personal_models(home, shared, ALONE, weights, own)
    models, _ = home.averaged(shared, weights[: shared.size])
    whole = LocalFit(*FRAME.model(models))
    assert left(whole, test) < 0.97 * left(own, test)
    kept = (left(own, test) - left(found, test)) / (left(own, test) - left(whole, test))
    assert kept > 0.7


def test_several_classes_share_by_how_hard_they_are_to_tell_alone():
    """Whatever the evidence says: half where labels are told well, all where hardly at all."""
    shares = []
    for steep in (8.0, 0.2):
        train, _ = labelled(steep=steep)
        own = own_left_out(train, intercept=True, many=None)
        odds = np.full(train.n_tasks, 300.0)
        free = doubted(odds, train, own, own)
        reined = doubted(odds, train, own, own, most=1.0)
        assert (reined <= free).all()
        shares.append(np.mean(1 / (1 + np.exp(-reined))))
    assert 0.5 <= shares[0] < 0.7
    assert shares[1] > 0.95


def test_classes_that_are_too_few_to_tell_are_shared_as_the_evidence_says():
    """Even odds are the most for tasks that have three labels of either kind, and for no other."""
    train, _ = labelled(steep=8.0)
    own = own_left_out(train, intercept=True, many=None)
    odds = np.full(train.n_tasks, 300.0)
    assert (doubted(odds, train, own, own, most=0.0) <= 0).all()
    rare = train.replace(y=np.zeros(len(train.y)))
    own = own_left_out(rare, intercept=True, many=None)
    np.testing.assert_array_equal(
        doubted(odds, rare, own, own, most=0.0), doubted(odds, rare, own, own)
    )


def test_odds_are_believed_up_to_the_most():
    train, _ = labelled(n_rows=24, steep=0.4)
    own, home = local_fit(train, LOSS), LogisticTasks(FRAME, train)
    shared, weights = narrow(0.4)
    whole = personal_models(home, shared, ALONE, weights, LocalFit(own.coef + 1, own.intercept))
    half = personal_models(home, shared, ALONE, weights, own, most=0.0)
    models, _ = home.averaged(shared, weights[: shared.size])
    assert np.linalg.norm(whole.coef - models[:, :4]) < np.linalg.norm(half.coef - models[:, :4])
    away = np.linalg.norm(half.coef - own.coef, axis=1)
    assert (away <= 0.5 * np.linalg.norm(models[:, :4] - own.coef, axis=1) + 1e-12).all()


def test_rows_left_out_are_told_as_if_they_had_never_been_there():
    """One step of Newton's is close to a fit without the row, under one prior."""
    train, _ = labelled(n_tasks=1, n_rows=60, steep=1.0)
    shared, _ = narrow()
    weights = np.zeros(shared.size)

    def mode(rows):
        return LogisticTasks(FRAME, rows).averaged(shared, weights)[0]

    told = LogisticTasks(FRAME, train)._left_out(mode(train), shared, weights)
    for row in range(5):
        rest = np.delete(np.arange(len(train.X)), row)
        model = mode(TaskSet.from_arrays(train.X[rest], np.asarray(train.y)[rest]))[0]
        z = train.X[row] @ model[:4] + model[4]
        assert told[row] == pytest.approx(float(LOSS.value(z, train.y[row])), rel=2e-3)


def test_odds_are_the_same_in_any_company_and_a_hostile_task_keeps_its_own():
    train, _ = labelled(n_tasks=6, n_rows=40)
    X = np.array(train.X)
    X[train.task_of_row == 2] *= 1e160
    train = train.replace(X=X)
    shared, weights = narrow()

    def odds(rows):
        home = LogisticTasks(FRAME, rows)
        models, _ = home.averaged(shared, weights[: shared.size])
        start = np.full(rows.n_tasks, 5.0)
        return home.doubted(start, models, shared, weights[: shared.size])

    together = odds(train)
    assert np.isfinite(together).all()
    for number in range(train.n_tasks):
        assert odds(train.take_tasks([number]))[0] == together[number]


def test_long_tasks_of_one_size_are_told_apart():
    train, _ = labelled(n_tasks=3, n_rows=4400, steep=1.0)
    shared, _ = narrow()
    weights = np.zeros(shared.size)
    models = LogisticTasks(FRAME, train).averaged(shared, weights)[0]
    together = LogisticTasks(FRAME, train)._left_out(models, shared, weights)
    for number in range(3):
        one = LogisticTasks(FRAME, train.take_tasks([number]))
        told = one._left_out(models[number : number + 1], shared, weights)
        assert np.array_equal(told, together[slice(*train.offsets[number : number + 2])])


def test_too_few_labels_of_a_kind_say_nothing_against_sharing():
    train, _ = labelled(n_tasks=2, n_rows=40)
    y = np.zeros(len(train.X))
    y[[0, 1, 25, 26, 27, 28]] = 1.0  # two in the first task, four in the second
    train = train.replace(y=y)
    own = np.full(len(y), 0.01)
    worse = own + np.random.default_rng(0).random(len(y))
    found = doubted(np.full(2, 5.0), train, own, worse)
    assert found[0] == 5.0
    assert found[1] < 0


def test_luck_with_some_rows_is_not_telling_labels_well():
    """The same mean loss alone, and as much lost by sharing: a few rows' luck speaks softer."""
    y = np.tile([1.0, 0.0], 40)
    train = TaskSet.from_arrays(np.zeros((80, 4)), y, np.repeat([0, 1], 40))
    evenly, by_luck = np.full(40, 0.25), np.where(np.arange(40) < 4, 2.5, 0.0)
    lost = 0.016 + np.tile([0.05, -0.05], 40)  # two standard errors
    own = np.concatenate([evenly, by_luck])
    found = doubted(np.full(2, 5.0), train, own, own + lost)
    assert found[0] < -7.0
    assert found[1] > 2.0


def test_own_losses_are_those_of_the_single_task_fit_without_the_row():
    train, _ = labelled(n_tasks=1, n_rows=80, steep=1.0)
    told = own_left_out(train, intercept=True, many=None)
    rest = np.arange(1, len(train.X))
    fit = local_fit(TaskSet.from_arrays(train.X[rest], np.asarray(train.y)[rest]), LOSS)
    z = train.X[0] @ fit.coef[0] + fit.intercept[0]
    assert told[0] == pytest.approx(float(LOSS.value(z, train.y[0])), rel=0.1)
