"""Tasks under a common Gaussian prior, against dense algebra."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from scipy.stats import multivariate_t

from tacit.numerics.hierarchical import Candidates, Frame, SquaredTasks
from tacit.numerics.hierarchical_logistic import LogisticTasks
from tacit.tasks import TaskSet

SIZES = [1, 2, 5, 9, 17, 40]


@pytest.fixture(autouse=True, params=[False, True], ids=["few", "many"])
def _kernels(request, monkeypatch):
    monkeypatch.setattr(Frame.__init__, "__defaults__", (True, request.param, request.param))


def _frame(d, *, intercept=True):
    rng = np.random.default_rng(5)
    origin = rng.normal(size=d) if intercept else np.zeros(d)
    return Frame(origin, rng.uniform(0.5, 2.0, d), intercept)


def _design(X, frame):
    Z = (X - frame.origin) / frame.scale
    return np.column_stack([Z, np.ones(len(Z))]) if frame.intercept else Z


def _covariance(frame, slope, level, shape):
    d = frame.origin.size
    C = np.zeros((frame.size, frame.size))
    C[:d, :d] = slope * (np.eye(d) if shape is None else shape @ shape.T)
    if frame.intercept:
        C[d, d] = level
    return C


def _candidates(frame, *, shapes=(None,)):
    rng = np.random.default_rng(6)
    levels = np.array([0.01, 2.0, 1e3]) if frame.intercept else np.zeros(1)
    return Candidates(
        rng.normal(size=(len(shapes), frame.size)), np.array([0.02, 0.7, 30.0]), levels, shapes
    )


def _cells(candidates):
    return [
        (shape, mean, slope, level)
        for shape, mean in zip(candidates.shapes, candidates.means, strict=True)
        for slope in candidates.slopes
        for level in candidates.levels
    ]


@pytest.mark.parametrize("intercept", [True, False])
def test_evidence_is_the_density_of_the_targets_with_the_noise_level_integrated_out(
    ragged, by_task, intercept
):
    tasks, frame = ragged(SIZES, 4), _frame(4, intercept=intercept)
    shape = np.random.default_rng(7).normal(size=(4, 4))
    candidates = _candidates(frame, shapes=(None, shape))
    found = SquaredTasks.of(tasks, frame).evidence(candidates)
    for number, (X, y) in enumerate(by_task(tasks)):
        Z, dense = _design(X, frame), []
        for root, mean, slope, level in _cells(candidates):
            V = np.eye(len(y)) + Z @ _covariance(frame, slope, level, root) @ Z.T
            # ∫ N(y; Zμ, σ²V) dσ²/σ² is the limit of a multivariate t with few degrees of freedom.
            dense.append(multivariate_t(Z @ mean, V * 1e-12, df=1e-9).logpdf(y))
        both = found[number] - found[number].max(), np.array(dense) - np.max(dense)
        np.testing.assert_allclose(both[0], both[1], rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize("intercept", [True, False])
def test_models_are_posterior_means_averaged_with_the_weights(ragged, by_task, intercept):
    tasks, frame = ragged(SIZES, 4), _frame(4, intercept=intercept)
    shape = np.random.default_rng(7).normal(size=(4, 4))
    candidates = _candidates(frame, shapes=(None, shape))
    home = SquaredTasks.of(tasks, frame)
    log_weights = np.random.default_rng(8).normal(size=candidates.size)
    found, total = home.averaged(candidates, log_weights)
    logs = home.evidence(candidates) + log_weights
    np.testing.assert_allclose(total, logsumexp(logs, axis=1), rtol=1e-10)
    weights = softmax(logs, axis=1)
    for number, (X, y) in enumerate(by_task(tasks)):
        Z, dense = _design(X, frame), np.zeros(frame.size)
        cells = zip(weights[number], _cells(candidates), strict=True)
        for weight, (root, mean, slope, level) in cells:
            C = _covariance(frame, slope, level, root)
            gain = C @ Z.T @ np.linalg.inv(np.eye(len(y)) + Z @ C @ Z.T)
            dense += weight * (mean + gain @ (y - Z @ mean))
        np.testing.assert_allclose(found[number], dense, rtol=1e-7, atol=1e-8)


def test_scores_are_the_posterior_shift_in_the_priors_own_units(ragged, by_task):
    tasks, frame = ragged(SIZES, 4), _frame(4)
    mean = np.random.default_rng(1).normal(size=frame.size)
    found = SquaredTasks.of(tasks, frame).scores(mean, 0.6, 3.0)
    C = _covariance(frame, 0.6, 3.0, None)
    for number, (X, y) in enumerate(by_task(tasks)):
        Z = _design(X, frame)
        shift = C @ Z.T @ np.linalg.solve(np.eye(len(y)) + Z @ C @ Z.T, y - Z @ mean)
        np.testing.assert_allclose(found[number], shift / np.sqrt(np.diag(C)), rtol=1e-8)


def test_a_far_out_row_cannot_make_a_score_longer_than_half_the_residuals(ragged, by_task):
    tasks = ragged(SIZES, 3)
    tasks = tasks.replace(X=tasks.X * 1e6)
    frame = Frame(np.zeros(3), np.ones(3))
    scores = SquaredTasks.of(tasks, frame).scores(np.zeros(4), 1.0, 1.0)
    for score, (_, y) in zip(scores, by_task(tasks), strict=True):
        assert np.linalg.norm(score) <= 0.5 * np.linalg.norm(y) * (1 + 1e-6)


def test_a_logistic_mode_solves_its_stationarity_condition(ragged, by_task):
    tasks, frame = ragged(SIZES, 3, labels=True), _frame(3)
    mean = np.random.default_rng(2).normal(size=4)
    scores = LogisticTasks(frame, tasks).scores(mean, 0.8, 2.0)
    root = np.sqrt(np.array([0.8, 0.8, 0.8, 2.0]))
    for score, (X, y) in zip(scores, by_task(tasks), strict=True):
        Z = _design(X, frame)
        odds = 1 / (1 + np.exp(-Z @ (mean + root * score)))
        np.testing.assert_allclose(root * (Z.T @ (y - odds)), score, atol=1e-7)


def test_the_logistic_evidence_is_close_to_the_integral(ragged, by_task):
    tasks = ragged([3, 12], 1, labels=True)
    frame = Frame(np.zeros(1), np.ones(1), intercept=False)
    candidates = Candidates(np.array([[0.3]]), np.array([0.5, 4.0]), np.zeros(1))
    found = LogisticTasks(frame, tasks).evidence(candidates)
    w = np.linspace(-30, 30, 60001)
    for evidence, (X, y) in zip(found, by_task(tasks), strict=True):
        z = np.outer(X[:, 0], w)
        likelihood = (y[:, None] * z - np.logaddexp(0, z)).sum(axis=0)
        for value, slope in zip(evidence, candidates.slopes, strict=True):
            prior = -0.5 * (w - 0.3) ** 2 / slope - 0.5 * np.log(2 * np.pi * slope)
            exact = np.log(np.trapezoid(np.exp(likelihood + prior), w))
            assert value == pytest.approx(exact, abs=0.1)


def test_logistic_models_average_the_modes(ragged):
    tasks, frame = ragged(SIZES, 3, labels=True), _frame(3)
    home = LogisticTasks(frame, tasks)
    candidates = _candidates(frame, shapes=(None, np.diag([1.0, 0.1, 3.0])))
    parts = [
        home.averaged(candidates, np.where(cell, 0.0, -1e6))[0] for cell in np.eye(candidates.size)
    ]
    log_weights = np.random.default_rng(3).normal(size=candidates.size)
    logs = home.evidence(candidates) + log_weights
    models, totals = home.averaged(candidates, log_weights)
    np.testing.assert_allclose(totals, logsumexp(logs, axis=1), rtol=1e-10)
    together = np.einsum("gmp,mg->mp", np.array(parts), softmax(logs, axis=1))
    np.testing.assert_allclose(models, together, rtol=1e-7)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("own_means", [False, True])
def test_a_task_computes_the_same_bits_in_any_company(ragged, labels, own_means):
    sizes = [3, 12, 1, 7, 33, 12, 5, 2, 90]
    tasks, frame = ragged(sizes, 5, labels=labels), _frame(5)
    candidates = _candidates(frame, shapes=(None, np.diag([1.0, 2.0, 1.0, 0.1, 0.5])))
    mean = candidates.means[0]
    apart = np.random.default_rng(7).normal(size=(len(sizes), 2, frame.size))

    def results(part, members):
        given = replace(candidates, apart=apart[members]) if own_means else candidates
        home = LogisticTasks(frame, part) if labels else SquaredTasks.of(part, frame)
        averaged = home.averaged(given, np.zeros(given.size))
        return home.scores(mean, 0.5, 10.0), home.evidence(given), *averaged

    everybody = results(tasks, slice(None))
    cuts = tasks.offsets
    for number in range(len(sizes)):
        rows = slice(cuts[number], cuts[number + 1])
        alone = results(TaskSet.from_arrays(tasks.X[rows], tasks.y[rows]), [number])
        for one, many in zip(alone, everybody, strict=True):
            np.testing.assert_array_equal(one[0], many[number])


@pytest.mark.parametrize("labels", [False, True])
def test_means_of_a_tasks_own_are_as_good_as_means_of_all(ragged, labels):
    sizes = [3, 12, 33]
    tasks, frame = ragged(sizes, 5, labels=labels), _frame(5)
    candidates = _candidates(frame, shapes=(None, np.diag([1.0, 2.0, 1.0, 0.1, 0.5])))
    apart = np.random.default_rng(7).normal(size=(len(sizes), 2, frame.size))
    home = LogisticTasks(frame, tasks) if labels else SquaredTasks.of(tasks, frame)

    def results(given):
        return home.evidence(given), *home.averaged(given, np.zeros(given.size))

    found = results(replace(candidates, apart=apart))
    for number in range(len(sizes)):
        moved = results(replace(candidates, means=candidates.means + apart[number]))
        for one, other in zip(found, moved, strict=True):
            np.testing.assert_allclose(one[number], other[number], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("size", [1e60, 1e200, 1e308])
def test_a_task_that_overflows_says_nothing_and_stops_nobody(ragged, labels, size):
    tasks, frame = ragged([6, 6, 6], 3, labels=labels), Frame(np.zeros(3), np.ones(3))
    wild = np.array(tasks.X)
    wild[6:12] *= size
    candidates = _candidates(frame)
    calm, mad = (
        (LogisticTasks(frame, part) if labels else SquaredTasks.of(part, frame))
        for part in (tasks, tasks.replace(X=wild))
    )
    scores, evidence = mad.scores(np.zeros(4), 1.0, 1.0), mad.evidence(candidates)
    assert np.isfinite(scores).all()
    assert np.isfinite(evidence).all()
    np.testing.assert_array_equal(scores[[0, 2]], calm.scores(np.zeros(4), 1.0, 1.0)[[0, 2]])
    np.testing.assert_array_equal(evidence[[0, 2]], calm.evidence(candidates)[[0, 2]])


def test_a_model_in_the_frame_predicts_the_same_on_the_features_as_they_came():
    frame = _frame(4)
    rng = np.random.default_rng(9)
    X, model = rng.normal(size=(7, 4)), rng.normal(size=(1, 5))
    coef, offset = frame.model(model)
    np.testing.assert_allclose(X @ coef[0] + offset[0], _design(X, frame) @ model[0])
