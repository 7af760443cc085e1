"""Whoever holds two neighbouring data sets cannot tell which of them a released model is from.

The noise b in the objective follows from a model and a candidate data set:
b(w) = −Σ (σ(z) − y) x − α (w − c). Two attackers judge the two candidates by it. One looks for
structure: is b(w) on any grid of powers of two? The other compares the densities of w that the
candidates imply, the most powerful test there is against ideal noise. At ε = 0.1 nobody can be
right with probability above e^ε / (1 + e^ε) + δ = 0.525.

Rows are short multiples of 2⁻⁶, which ``rows="clip"`` leaves as they are: the attacker knows
the rows that enter the objective to the last bit.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import binom

import tacit
from tacit.privacy.accounting.gaussian import gaussian_mu
from tacit.privacy.bounds import RowClip

EPSILON, ALPHA, CONSTANT, N_ROWS, N_FEATURES, ETA = 0.1, 128.0, 0.25, 6, 4, 0.5
REACH = math.sqrt(1 + CONSTANT**2)
GROUPS = ((0, 1), (2, 3))
STEPS = 2.0 ** np.arange(-34, 6)
FALSE_ALARM = 1e-3
OPTIONS = {"alpha": ALPHA, "rows": "clip", "intercept_scaling": CONSTANT}


def _candidates():
    """Return two data sets that differ in their last row as far as they can."""
    rng = np.random.default_rng(5)
    X = np.round(2.0**6 * rng.uniform(-0.49, 0.49, (N_ROWS, N_FEATURES))) / 2.0**6
    X[-1] = 0.453125
    y = np.arange(N_ROWS) % 2
    other = X.copy()
    other[-1] *= -1
    return (X, y), (other, y)


def _with_constant(rows):
    return np.hstack([rows, np.full((len(rows), 1), CONSTANT)])


def _strength_of_the_stack(n_rows, delta):
    """Return the public level-1 strength: R²(1 + β/10 + 4β²/n), or 2E‖b‖ if that is more."""
    size = len(GROUPS) + 1
    reach = REACH * (1 + 2.0**-50)
    noise = 2 * reach * (size / EPSILON if delta == 0 else math.sqrt(size) / _mu(delta))
    ratio = noise / reach
    return max(2 * noise, reach**2 * (1 + ratio * (0.1 + 4 * ratio / n_rows)))


def _mu(delta):
    return gaussian_mu(EPSILON, delta)


class Evidence:
    """What one released model w says about one candidate: distance to a grid, log-density."""

    def __init__(self, w, rows, labels, strength, centre, share, delta):
        z = rows @ w
        b = -(expit(z) - labels) @ rows - strength * (w - centre)
        # Only grids that are coarser than the arithmetic here and far finer than the noise.
        steps = STEPS[np.abs(b).max() / 64 > STEPS][:, None]
        self.distance = float(np.abs(b / steps - np.rint(b / steps)).max(axis=1).min())
        hessian = (rows.T * (expit(z) * expit(-z))) @ rows + strength * np.eye(len(w))
        if delta == 0:
            log_noise = -EPSILON * share / (2 * REACH) * np.linalg.norm(b)
        else:
            deviation = 2 * REACH / _mu(delta) / math.sqrt(share)  # K equal shares
            log_noise = -0.5 * (b @ b) / deviation**2
        self.log_density = float(log_noise + np.linalg.slogdet(hessian)[1])


def _plain(release, data, delta, centre):
    rows, labels = _with_constant(data[0]), data[1]
    evidence = Evidence(release[0], rows, labels, ALPHA, centre[0], 1.0, delta)
    return evidence.distance, evidence.log_density


def _grouped(release, data, delta, centres, chosen=slice(None)):
    parts = [
        Evidence(
            w,
            _with_constant(data[0][chosen][:, list(group)]),
            data[1][chosen],
            ALPHA,
            centre,
            1 / len(GROUPS),
            delta,
        )
        for w, group, centre in zip(release, GROUPS, centres, strict=False)
    ]
    return max(part.distance for part in parts), sum(part.log_density for part in parts)


def _stacked(release, data, delta, centres):
    """Judge level 0 and level 1 together, over all halves that may have been drawn."""
    found = []
    for half in itertools.combinations(range(N_ROWS), N_ROWS // 2):
        rest = np.setdiff1d(np.arange(N_ROWS), half)
        distance, log_density = _grouped(release, data, delta, centres, list(half))
        answers = [
            2 * expit(_with_constant(data[0][rest][:, list(group)]) @ w) - 1
            for w, group in zip(release, GROUPS, strict=False)
        ]
        rows = _with_constant(RowClip(1.0)(np.stack(answers, axis=1) / math.sqrt(len(GROUPS))))
        prior = np.array([math.sqrt(0.5), math.sqrt(0.5), 0.0])
        strength = _strength_of_the_stack(len(rest), delta)
        top = Evidence(release[-1], rows, data[1][rest], strength, prior, 1.0, delta)
        found.append((max(distance, top.distance), log_density + top.log_density))
    distances, log_densities = zip(*found, strict=True)
    return min(distances), float(logsumexp(log_densities))


def _coefficients(model):
    return [np.append(model.coef_[0], model.intercept_[0] / CONSTANT)]


def _groups_and_stack(model):
    levels = [
        np.append(model.coef_[0][list(group)], model.group_intercept_.reshape(-1)[k] / CONSTANT)
        for k, group in enumerate(GROUPS)
    ]
    return [*levels, np.append(model.stack_coef_.reshape(-1), model.intercept_[0] / CONSTANT)]


def _setting(name, delta):
    """Return (fit a seed and data, judge a release and data) of one attacked release."""
    options = {**OPTIONS, "delta": delta}
    split = {"n_groups": len(GROUPS), **options}
    zero = [np.zeros(N_FEATURES + 1)]
    zeros = [np.zeros(3)] * len(GROUPS)
    source = _candidates()[1]

    def package_of(method, kwargs):
        return method(EPSILON, random_state=7, **kwargs).fit_source(*source)

    if name == "PrivateLogisticRegression":
        model = tacit.PrivateLogisticRegression

        def fit(seed, data):
            return _coefficients(model(EPSILON, random_state=seed, **options).fit(*data))

        return fit, lambda w, data: _plain(w, data, delta, zero)
    method, kwargs = (
        (tacit.TransferClassifier, options)
        if name.startswith("TransferClassifier")
        else (tacit.FeatureSplitTransferClassifier, split)
    )
    plain = method is tacit.TransferClassifier
    if name.endswith("source"):

        def fit(seed, data):
            package = method(EPSILON, random_state=seed, **kwargs).fit_source(*data)
            return [model[0] for model in package.models]

        judge = _plain if plain else _grouped
        return fit, lambda w, data: judge(w, data, delta, zero if plain else zeros)
    package = package_of(method, kwargs)
    centres = [(1 - ETA) * model[0] for model in package.models]
    read = _coefficients if plain else _groups_and_stack

    def fit(seed, data):
        model = method(EPSILON, random_state=seed, eta=ETA, **kwargs)
        return read(model.fit(*data, source=package))

    judge = _plain if plain else _stacked
    return fit, lambda w, data: judge(w, data, delta, centres)


def attack(name, delta, n_fits):
    """Return how often the two attackers name the right data set."""
    fit, judge = _setting(name, delta)
    candidates = _candidates()
    coins = np.random.default_rng(11).integers(2, size=n_fits)
    by_structure = by_density = 0
    for seed, truth in enumerate(coins):
        release = fit(1000 + seed, candidates[truth])
        (first, first_density), (second, second_density) = (judge(release, c) for c in candidates)
        by_structure += int(second < first) == truth
        by_density += int(second_density > first_density) == truth
    return by_structure, by_density


SETTINGS = (
    "PrivateLogisticRegression",
    "TransferClassifier source",
    "TransferClassifier target",
    "FeatureSplitTransferClassifier source",
    "FeatureSplitTransferClassifier target",
)


def _limit(n_fits, delta):
    right = math.exp(EPSILON) / (1 + math.exp(EPSILON)) + delta
    return int(binom.ppf(1 - FALSE_ALARM, n_fits, right))


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("name", SETTINGS)
def test_neither_structure_nor_density_betrays_the_data(name, delta):
    right = attack(name, delta, 80)
    assert max(right) <= _limit(80, delta), right


@pytest.mark.statistical
@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("name", SETTINGS)
def test_neither_structure_nor_density_betrays_the_data_in_400_fits(name, delta):
    """The false-alarm rate is 0.1 % a case; the seeds are fixed."""
    right = attack(name, delta, 400)
    assert max(right) <= _limit(400, delta), right


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_a_model_is_released_on_a_grid_that_the_data_do_not_choose(delta):
    """Models of different data lie on one and the same grid of powers of two."""
    exponents = set()
    for seed, data in enumerate(_candidates() * 20):
        model = tacit.PrivateLogisticRegression(EPSILON, delta, random_state=seed, **OPTIONS)
        w = model.fit(*data).coef_[0]
        steps = [step for step in 2.0 ** np.arange(-60, 0) if np.all(w / step == np.rint(w / step))]
        exponents.add(math.log2(max(steps)))
    assert max(exponents) < -20
    assert max(exponents) - min(exponents) <= 5  # a coarser grid holds all four by chance


def test_hostile_rows_neither_raise_nor_stop_a_private_fit():
    """A refusal would be an output that is not paid for."""
    X, y = _candidates()[0]
    for scale in (1e150, 1e-300, 0.0):
        for alpha in ("auto", 1e-9, 1e9):
            model = tacit.PrivateLogisticRegression(EPSILON, alpha=alpha, random_state=0)
            assert np.isfinite(model.fit(X * scale, y).coef_).all()
