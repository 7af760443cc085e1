"""Small logistic tasks on their kernel matrices: the same fits as on the features' side."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tacit.numerics import hierarchical_logistic, logistic, logistic_paths, newton
from tacit.numerics.hierarchical import Candidates, Frame
from tacit.numerics.hierarchical_logistic import LogisticTasks, evidence_of_each, scores_of_each
from tacit.numerics.prior import Prior
from tacit.tasks import TaskSet

ALPHAS = np.logspace(-3, 3, 7)
COUNTS = (1, 2, 3, 8, 9, 17, 30, 41, 64)


def some_tasks(seed: int, d: int = 40, *, weighted: bool = False) -> TaskSet:
    rng = np.random.default_rng(seed)
    counts = np.array(COUNTS)
    X = rng.standard_normal((int(counts.sum()), d))
    y = (X[:, 0] + 0.5 * rng.standard_normal(len(X)) > 0).astype(float)
    y[counts[:6].sum() : counts[:7].sum()] = 1.0  # one class only
    weights = rng.uniform(0.2, 3.0, len(X)) if weighted else None
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return TaskSet(X, y, offsets, tuple(range(len(counts))), np.arange(len(X)), weights=weights)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_both_sides_find_the_same_path(monkeypatch, intercept, weighted, shared) -> None:
    tasks = some_tasks(0, weighted=weighted)
    rng = np.random.default_rng(1)
    root = rng.standard_normal((40, 40))
    prior = Prior(0.3 * rng.standard_normal(40), root @ root.T / 40) if shared else Prior()
    found = logistic_paths(tasks, ALPHAS, prior=prior, intercept=intercept)
    monkeypatch.setattr(logistic, "is_small", lambda *_: False)
    monkeypatch.setattr(newton.newton, "__defaults__", (1e-13,))
    other = logistic_paths(tasks, ALPHAS, prior=prior, intercept=intercept)
    for name in ("coef", "intercept", "loo_predictions", "loo_errors", "log_evidence"):
        expected = getattr(other, name)
        assert np.allclose(getattr(found, name), expected, rtol=1e-6, atol=1e-6), name


@pytest.mark.parametrize("alphas", [[50.0, 50.0, 1e-4, 0.99e-4, 3.0], [1.0, 0.5, 0.4, 1e-3, 1e-6]])
def test_a_path_of_uneven_steps_passes_the_fits_of_its_strengths(alphas) -> None:
    tasks = some_tasks(4)
    path = logistic_paths(tasks, np.array(alphas), intercept=True)
    for place, alpha in enumerate(alphas):
        alone = logistic_paths(tasks, np.array([alpha]), intercept=True)
        for name in ("coef", "intercept", "loo_errors", "log_evidence"):
            expected = getattr(alone, name)[0]
            assert np.allclose(getattr(path, name)[place], expected, rtol=1e-6, atol=1e-6), name


@pytest.mark.parametrize("intercept", [False, True])
def test_both_sides_find_the_same_modes(monkeypatch, intercept) -> None:
    tasks = some_tasks(2)
    frame = Frame(np.zeros(40), np.ones(40), intercept)
    rng = np.random.default_rng(3)
    levels = np.array([0.1, 1.0, 10.0]) if intercept else np.zeros(1)
    means = 0.2 * rng.standard_normal((2, frame.size))
    shapes = (None, np.diag(rng.uniform(0.2, 2.0, 40)))
    candidates = Candidates(means, np.array([0.01, 0.1, 1.0]), levels, shapes)
    weights = rng.standard_normal(candidates.size)
    home = LogisticTasks(frame, tasks)

    def said() -> list[np.ndarray]:
        evidence = home.evidence(candidates)
        return [evidence, *home.averaged(candidates, weights), home.scores(means[0], 0.3, 2.0)]

    found = said()
    monkeypatch.setattr(hierarchical_logistic, "is_small", lambda *_: False)
    for one, expected in zip(found, said(), strict=True):
        assert np.allclose(one, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300, 1e160])
def test_a_task_with_bad_numbers_changes_no_bit_of_the_others(bad: float) -> None:
    tasks = some_tasks(4)
    X = np.concatenate([tasks.X, tasks.X])  # every size twice: neighbours in one stack
    y = np.concatenate([tasks.y, tasks.y])
    offsets = np.concatenate([tasks.offsets, tasks.offsets[1:] + len(tasks.X)])
    both = TaskSet(X, y, offsets, tuple(range(2 * len(COUNTS))), np.arange(len(X)))
    spoilt = X.copy()
    spoilt[tasks.offsets[:-1]] = bad
    hostile = TaskSet(spoilt, y, offsets, both.names, np.arange(len(X)))
    clean, found = (logistic_paths(t, ALPHAS, intercept=True) for t in (both, hostile))
    m = len(COUNTS)
    assert np.array_equal(found.coef[:, m:], clean.coef[:, m:])
    assert np.array_equal(found.loo_errors[:, m:], clean.loo_errors[:, m:])
    assert np.array_equal(found.log_evidence[:, m:], clean.log_evidence[:, m:])
    assert np.isfinite(found.coef).all()


def test_a_task_alone_finds_the_same_bits() -> None:
    tasks = some_tasks(5, weighted=True)
    together = logistic_paths(tasks, ALPHAS, intercept=True)
    for i in range(len(COUNTS)):
        alone = logistic_paths(tasks.take_tasks(np.array([i])), ALPHAS, intercept=True)
        assert np.array_equal(alone.coef[:, 0], together.coef[:, i])
        assert np.array_equal(alone.log_evidence[:, 0], together.log_evidence[:, i])


def test_the_bits_of_small_tasks_do_not_depend_on_where_their_arrays_lie() -> None:
    # Each fit places its arrays anew. With sums taken in any order one in a hundred differed.
    rng, d = np.random.default_rng(6), 20
    frame = Frame(np.zeros(d), np.ones(d))
    slopes, levels = 10.0 ** np.arange(-2, 1.6, 0.5) / d, 10.0 ** np.arange(-2.0, 2)
    candidates = Candidates(0.2 * rng.standard_normal((1, d + 1)), slopes, levels)
    for _ in range(40):
        counts = rng.integers(3, 6, 6)
        X = rng.standard_normal((int(counts.sum()), d))
        y = (rng.random(len(X)) < 0.5).astype(float)
        tasks = TaskSet.from_arrays(X, y, np.repeat(np.arange(6), counts))
        together = LogisticTasks(frame, tasks).evidence(candidates)
        for i in range(6):
            alone = LogisticTasks(frame, tasks.take_tasks(np.array([i])))
            assert np.array_equal(alone.evidence(candidates)[0], together[i])


FIRST_FIT = """
import sys
import numpy as np
import tacit
loaded = []
for d in (8, 30):
    X = np.random.default_rng(0).normal(size=(90, d))
    y, tasks = (X[:, 0] > 0).astype(int), np.arange(90) // 15
    tacit.SingleTaskClassifier().fit(X, y, tasks=tasks)
    for epsilon in (0.1, 200.0):
        tacit.SharedPriorClassifier(epsilon).fit(X, y, tasks=tasks)
    loaded.append("numba" in sys.modules)
tasks = np.arange(90) // 3
tacit.SingleTaskClassifier().fit(X, y, tasks=tasks)
print(*loaded, "numba" in sys.modules)
"""


def test_a_first_fit_of_few_tasks_compiles_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_FIT], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False", "True"]


FORMS = """
import inspect, sys, warnings
import numpy as np
import tacit
warnings.simplefilter("ignore")
X = np.random.default_rng(0).normal(size=(60, 20))
y, tasks = (X[:, 0] > 0).astype(int), np.arange(60) // 15
forms = ({}, {"epsilon": float("inf")}, {"clip": 2.0}, {"n_rounds": 1}, {"update": "proximal"})
fitted = 0
for name in tacit.__all__:
    if not name.endswith("Classifier") or name.startswith(("Neural", "PrivateFed")):
        continue
    kind = getattr(tacit, name)
    known = inspect.signature(kind).parameters
    for form in forms:
        if set(form) <= set(known):
            kind(**form).fit(X, y, tasks=tasks)
            fitted += 1
            if "numba" in sys.modules:
                sys.exit(f"{name} with {form} compiles")
print(fitted)
"""


def test_no_form_of_an_estimator_compiles_for_few_tasks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORMS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout) >= 20


@pytest.mark.parametrize("many", [False, True])
def test_whoever_is_fitted_elsewhere_a_task_finds_the_same_bits(many: bool) -> None:
    tasks = some_tasks(6, d=5)
    together = logistic_paths(tasks, ALPHAS, intercept=True, many=many)
    for i in range(len(COUNTS)):
        own = tasks.take_tasks(np.array([i]))
        alone = logistic_paths(own, ALPHAS, intercept=True, many=many)
        assert np.array_equal(alone.coef[:, 0], together.coef[:, i])
        assert np.array_equal(alone.log_evidence[:, 0], together.log_evidence[:, i])
    other = logistic_paths(tasks, ALPHAS, intercept=True, many=not many)
    assert np.allclose(together.coef, other.coef, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_labels_side_by_side_have_the_bits_of_one_after_the_other(
    many: bool, intercept: bool
) -> None:
    rng, d = np.random.default_rng(8), 5
    rows = some_tasks(8, d=d)
    outputs = [rows.replace(y=(rng.random(len(rows.X)) < 0.4).astype(float)) for _ in range(3)]
    frame = Frame(np.zeros(d), np.ones(d), intercept=intercept, many_labels=many)
    framed = [LogisticTasks(frame, one) for one in outputs]
    means = 0.3 * rng.standard_normal((3, 2, frame.size))
    levels = np.array([0.1, 2.0]) if intercept else np.zeros(1)
    shapes = (None, np.diag(np.linspace(0.2, 2.0, d)))
    candidates = [Candidates(mean, np.array([0.1, 1.0]), levels, shapes) for mean in means]
    scores = scores_of_each(framed, means[:, 0], 0.7, 1.3)
    evidence = evidence_of_each(framed, candidates)
    for c, one in enumerate(framed):
        assert np.array_equal(scores[:, c], one.scores(means[c, 0], 0.7, 1.3))
        assert np.array_equal(evidence[c], one.evidence(candidates[c]))
    assert np.abs(scores[:, 0] - scores[:, 1]).max() > 0.1
