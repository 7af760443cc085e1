"""Families of priors: what a task's own rows say of them, and what they cannot say."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.special import expit

from tacit.losses import LogisticLoss, SquaredLoss
from tacit.numerics.local_fit import local_fit
from tacit.numerics.prior_families import Family, _by_labels, family_fit
from tacit.tasks import TaskSet

STRENGTHS = (1.0, 10.0, 100.0)
LOSSES = [SquaredLoss(), LogisticLoss()]


def made(loss, n_tasks=40, n_rows=12, d=4, seed=0):
    """Return tasks with one model in common, and that model."""
    rng = np.random.default_rng(seed)
    task, model = np.repeat(np.arange(n_tasks), n_rows), rng.standard_normal(d)
    X = rng.standard_normal((len(task), d))
    score = X @ model
    if loss.name == "logistic":
        y = 1.0 * (rng.random(len(task)) < 1 / (1 + np.exp(-2 * score)))
    else:
        y = score + rng.standard_normal(len(task))
    return TaskSet.from_arrays(X, y, task), model


def distance(fit, model):
    return np.linalg.norm(fit.coef - model, axis=1)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_what_rows_speak_for_is_taken_and_what_they_speak_against_is_not(loss):
    tasks, model = made(loss)
    alone = local_fit(tasks, loss)
    good, bad = (
        family_fit(
            tasks, loss, [Family(mean, 0.1 * np.eye(4), STRENGTHS)], favour=0.0, intercept=True
        )
        for mean in (model, -3 * model)
    )
    assert distance(good, model).mean() < 0.8 * distance(alone, model).mean()
    assert distance(bad, model).mean() < 1.1 * distance(alone, model).mean()


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_favour_is_each_tasks_own_and_moves_it_between_its_fit_and_the_shared_one(loss):
    tasks, model = made(loss)
    family = Family(model, 1e-6 * np.eye(4), STRENGTHS)
    favour = np.where(np.arange(40) % 2, 40.0, -40.0)
    fit = family_fit(tasks, loss, [family], favour=favour, intercept=True)
    alone = local_fit(tasks, loss)
    np.testing.assert_allclose(fit.coef[::2], alone.coef[::2], rtol=1e-6, atol=1e-6)
    assert np.median(distance(fit, model)[1::2] / distance(alone, model)[1::2]) < 0.05


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_chance_does_not_speak_for_a_family(loss):
    tasks, _ = made(loss, n_tasks=300, n_rows=8)
    rng = np.random.default_rng(1)
    # Every task's own fit, moved by as much as few rows can hardly tell.
    alone = local_fit(tasks, loss)
    mean = alone.coef + 0.3 * rng.standard_normal(alone.coef.shape)
    family = Family(mean, 1e-6 * np.eye(4), (1.0,))
    fit = family_fit(tasks, loss, [family], favour=0.0, intercept=True)
    share = np.linalg.norm(fit.coef - alone.coef) / np.linalg.norm(mean - alone.coef)
    assert share < {"squared": 0.75, "logistic": 0.8}[loss.name]  # 0.81 if labels were sure


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_task_finds_the_same_bits_alone_and_among_others(loss):
    tasks, model = made(loss)
    family = Family(model, np.eye(4), STRENGTHS)
    fit = family_fit(tasks, loss, [family], favour=0.5, intercept=True)
    one = family_fit(tasks.take_tasks([7]), loss, [family], favour=0.5, intercept=True)
    assert np.array_equal(one.coef[0], fit.coef[7])
    assert one.intercept[0] == fit.intercept[7]


def test_a_task_of_one_row_or_of_no_finite_fit_has_a_model():
    tasks, model = made(SquaredLoss(), n_tasks=3)
    lone = TaskSet.from_arrays(
        np.vstack([tasks.X, np.ones((1, 4)), 1e200 * tasks.X[:6]]),
        np.concatenate([np.asarray(tasks.y), [2.0], np.asarray(tasks.y)[:6]]),
        np.concatenate([tasks.task_of_row, [3], np.full(6, 4)]),
    )
    family = Family(model, np.eye(4), STRENGTHS)
    fit = family_fit(lone, SquaredLoss(), [family], favour=0.0, intercept=True)
    assert np.isfinite(fit.coef).all()
    assert np.isfinite(fit.intercept).all()


def test_what_is_known_beforehand_does_not_overrule_rows_that_lose_by_it():
    """Priors that shrink far too much, offered at odds of twenty to one, cost next to nothing."""
    rng = np.random.default_rng(0)
    models, task = rng.normal(size=(240, 6)), np.repeat(np.arange(240), 33)
    X = rng.normal(size=(len(task), 6))
    y = np.einsum("nd,nd->n", X, models[task]) + 2 * rng.normal(size=len(task))
    tasks = TaskSet.from_arrays(X, y, task)
    wrong = [Family(np.zeros((240, 6)), 0.02 * np.eye(6), (1.0, 2.0))]

    def error(favour):
        fit = family_fit(tasks, SquaredLoss(), wrong, favour=favour, intercept=True)
        return 4 + np.mean(np.sum((fit.coef - models) ** 2, axis=1))

    assert error(3.0) < 1.02 * error(-50.0)


def test_what_was_told_in_a_unit_beyond_a_tasks_answers_is_not_believed():
    """A model of noise under a bound that is far too loose, in tasks of as many rows as slopes."""
    rng = np.random.default_rng(0)
    models, task = rng.normal(size=(200, 10)), np.repeat(np.arange(200), 14)
    X = rng.normal(size=(len(task), 10))
    y = np.einsum("nd,nd->n", X, models[task]) + rng.normal(size=len(task))
    tasks = TaskSet.from_arrays(X, y, task)

    noise = [Family(3 * rng.normal(size=10), np.eye(10), (0.1, *STRENGTHS), spread=400.0)]

    def error(favour):
        fit = family_fit(tasks, SquaredLoss(), noise, favour=favour, intercept=True)
        return 1 + np.mean(np.sum((fit.coef - models) ** 2, axis=1))

    assert error(-1.0) < 1.01 * error(-50.0)


def test_labels_that_are_told_well_alone_are_not_given_up_for_what_others_share():
    rng = np.random.default_rng(3)
    n_tasks, n_rows, d = 30, 160, 4
    task = np.repeat(np.arange(n_tasks), n_rows)
    X = rng.standard_normal((len(task), d))
    models = rng.standard_normal((n_tasks, d)) + 1.0
    y = 1.0 * (np.einsum("nd,nd->n", X, models[task]) > 0)
    seen = np.arange(len(task)) % 2 == 0
    train = TaskSet.from_arrays(X[seen], y[seen], task[seen])
    loss = LogisticLoss()

    def left(fit):
        scores = np.einsum("nd,nd->n", X, fit.coef[task]) + fit.intercept[task]
        return loss.value(scores, y)[~seen].mean()

    common = Family(np.ones(d), np.eye(d), STRENGTHS)
    shared = family_fit(train, loss, [common], favour=3.0, intercept=True)
    assert left(shared) < 1.01 * left(local_fit(train, loss))


def test_the_level_of_labels_is_its_own_affair_however_strongly_slopes_are_held():
    tasks, model = made(LogisticLoss(), n_tasks=6, n_rows=400)
    rng = np.random.default_rng(1)
    score = tasks.X @ model + 2.0
    labels = 1.0 * (rng.random(len(score)) < 1 / (1 + np.exp(-score)))
    tasks = TaskSet.from_arrays(tasks.X, labels, tasks.task_of_row)
    held = Family(model, 1e-8 * np.eye(4), (100.0, 1e4), np.zeros(6), 1.0)
    fit = family_fit(tasks, LogisticLoss(), [held], favour=3.0, intercept=True)
    np.testing.assert_allclose(fit.intercept, 2.0, atol=0.5)
    assert distance(fit, model).max() < 0.5


def test_few_labels_take_what_tells_them_far_better():
    """Five labels and twenty slopes: alone nothing can be told, and what is offered tells much."""
    rng = np.random.default_rng(5)
    task, model = np.repeat(np.arange(200), 45), rng.standard_normal(20) / 2
    X, seen = rng.standard_normal((len(task), 20)), np.tile(np.arange(45) < 5, 200)
    y = 1.0 * (rng.random(len(task)) < 1 / (1 + np.exp(-X @ model)))
    train, loss = TaskSet.from_arrays(X[seen], y[seen], task[seen]), LogisticLoss()
    family = Family(model, 0.01 * np.eye(20), STRENGTHS, np.zeros(200), 1.0)

    def left(fit):
        scores = np.einsum("nd,nd->n", X, fit.coef[task]) + fit.intercept[task]
        return loss.value(scores, y)[~seen].mean()

    told, alone = loss.value(X @ model, y)[~seen].mean(), left(local_fit(train, loss))
    shared = left(family_fit(train, loss, [family], favour=0.0, intercept=True))
    assert alone - shared > 0.85 * (alone - told)


def test_rows_speak_for_a_family_as_the_mean_of_what_they_might_have_said():
    rng = np.random.default_rng(0)
    offsets = np.array([0, 3, 40])
    site = np.repeat([0, 1], np.diff(offsets))
    tasks = TaskSet.from_arrays(np.zeros((40, 1)), np.zeros(40), site)
    gain = rng.standard_normal(40) + 0.3
    apart = np.stack([np.zeros(40), gain, 1e6 * np.ones(40)])
    totals = np.add.reduceat(apart, offsets[:-1], axis=1)
    odds = _by_labels(tasks, -totals / tasks.counts, apart, 0.0)
    for place, (first, last) in enumerate(pairwise(offsets)):
        said = totals[1, place] + np.linalg.norm(gain[first:last]) * rng.standard_normal(400_000)
        assert expit(odds[1, place]) == pytest.approx(expit(said).mean(), abs=0.02)
    np.testing.assert_allclose(odds[2], np.sqrt(8 / np.pi * tasks.counts), rtol=1e-6)
