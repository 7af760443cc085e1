"""The structure attack: is what is released consistent with one data set only?

Noise hides a value only if every neighbour could have released the same bits. So the bits are read
for what they give away by themselves: types and shapes, values off the public grid, a grid or a
support that moves with the data, −0.0, values that come again although the noise is fresh, an error
where the neighbour succeeds; and for objective perturbation the noise is solved for
(`tacit.audit.attacks.inversion`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit._types import AnyArray, Array
from tacit.audit.attacks.inversion import inversion_findings
from tacit.audit.attacks.result import AttackResult
from tacit.audit.attacks.runs import example_tasks, name_of, watched
from tacit.audit.canary import canary_pairs
from tacit.audit.estimator import fit_on
from tacit.privacy.entropy import SeededEntropy
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.unit import Unit
from tacit.tasks import TaskSet

__all__ = ["compare_structure", "structure_attack", "structure_attack_mechanism"]

# Noise of 2²⁰ grid steps leaves the low bits of a float empty; a release that fills them is not
# rounded to a grid that the noise's scale decides.
_FULL_BITS = 46
# The finest bit of n values on one grid is missed with probability 2⁻ⁿ; this many are certain.
_CERTAIN_BITS = 40
_AGAIN = 3


def _finest_bit(values: Array) -> Array:
    """Return, by entry, the exponent of the lowest set bit; zeros are left out."""
    mantissa, exponent = np.frexp(values[values != 0])
    whole = np.abs(np.ldexp(mantissa, 53)).astype(np.int64)
    lowest = np.log2((whole & -whole).astype(np.float64)).astype(np.int64)
    bits: Array = exponent - 53 + lowest
    return bits


def _grid_findings(first: Array, second: Array) -> list[str]:
    bits = [_finest_bit(np.unique(side)) for side in (first, second)]
    if not len(bits[0]) or not len(bits[1]):
        return []
    values = np.unique(np.concatenate([first.ravel(), second.ravel()]))
    values = values[values != 0]
    filled = np.frexp(values)[1] - _finest_bit(values)
    if np.median(filled) > _FULL_BITS:
        return [f"releases are on no grid: {int(np.median(filled))} bits of a number are in use"]
    apart = abs(int(bits[0].min()) - int(bits[1].min()))
    if apart >= max(1, math.ceil(_CERTAIN_BITS / min(len(bits[0]), len(bits[1])))):
        return [f"the grid moves with the data, by 2**{apart}"]
    return []


def _atoms(draws: Array) -> dict[int, float]:
    """Return the entries in which fresh noise gave one value again and again, with that value."""
    found = {}
    for index, column in enumerate(draws.reshape(len(draws), -1).T):
        values, counts = np.unique(column, return_counts=True)
        if counts.max() >= max(_AGAIN, len(column) // 20):
            found[index] = float(values[counts.argmax()])
    return found


def compare_structure(first: Array, second: Array) -> list[str]:
    """Return what the bits of two neighbours' releases give away, draw on axis 0, in words."""
    if first.dtype != second.dtype or first.shape[1:] != second.shape[1:]:
        return [
            f"{first.dtype} of shape {first.shape[1:]} or {second.dtype} of shape "
            f"{second.shape[1:]}, depending on the data"
        ]
    both = np.concatenate([first, second])
    findings = []
    if not np.isfinite(both).all():
        findings.append("a release is not finite")
    elif both.dtype.kind == "f":
        findings += _grid_findings(first.astype(float), second.astype(float))
    if (np.signbit(both) & (both == 0)).any():
        findings.append("-0.0 is released, which only some sums can become")
    atoms = _atoms(first), _atoms(second)
    differ = [k for k in atoms[0].keys() | atoms[1].keys() if atoms[0].get(k) != atoms[1].get(k)]
    if differ:
        findings.append(f"{len(differ)} entries come again although the noise is fresh")
    return findings


def _release_all(estimator: Any, tasks: TaskSet, seed: int) -> list[Array]:
    with watched() as heard:
        if not hasattr(estimator, "fit_source"):
            fit_on(estimator, tasks, seed)
        else:
            from sklearn.base import clone

            one = clone(estimator).set_params(random_state=seed)
            one.fit(tasks.X, tasks.y, source=one.fit_source(tasks.X, tasks.y))
    return [np.asarray(release.value) for release in heard]


def structure_attack(estimator: Any, *, n_seeds: int = 6) -> AttackResult:
    """Fit on two neighbours with fresh noise each time, and compare the bits of every release."""
    tasks = example_tasks(estimator)
    probe = fit_on(estimator, tasks, 0)
    if not np.isfinite(probe.privacy_.epsilon) or not probe.privacy_.n_releases:
        return AttackResult("structure", name_of(estimator), (), 1)
    unit = Unit(probe.privacy_.unit)
    pair = canary_pairs(tasks, unit=unit)[-1]
    runs: list[list[list[Array]]] = [[], []]
    findings: list[str] = []
    for seed in range(2 * n_seeds):
        try:
            data = (pair.first, pair.second)[seed % 2]
            runs[seed % 2].append(_release_all(estimator, data, seed))
        except Exception as error:  # an error is a release of one bit
            findings.append(f"one neighbour ends with {type(error).__name__}: {error}")
    if not findings:
        findings += _by_release(*runs)
        if any("objective" in name for name in probe.privacy_.mechanisms):
            findings += inversion_findings(estimator)
    return AttackResult("structure", name_of(estimator), tuple(findings), 2 * n_seeds)


def _by_release(first: Sequence[list[Array]], second: Sequence[list[Array]]) -> list[str]:
    if len({len(run) for run in (*first, *second)}) > 1:
        return ["the number of releases depends on the data"]
    findings = []
    for number in range(len(first[0])):
        sides = [[run[number] for run in side] for side in (first, second)]
        if any(one.shape != sides[0][0].shape for side in sides for one in side):
            findings.append(f"release {number}: its shape depends on the data")
            continue
        found = compare_structure(*(np.stack(side) for side in sides))
        findings += [f"release {number}: {one}" for one in found]
    return findings


def structure_attack_mechanism(
    mechanism: Mechanism, *, n_features: int = 3, n_trials: int = 600, n_zeros: int = 0
) -> AttackResult:
    """Draw releases of worst-case neighbours and compare their bits and their supports.

    Parameters
    ----------
    n_zeros
        Entries of a sum of −0.0 to release besides: noise rounds to zero about once in 2²².
    """
    from tacit.audit import specimens

    findings: list[str] = []
    pairs = specimens.pairs(mechanism, n_features)
    for name, pair in pairs.items():
        # Off the grid, as sums of real messages are.
        third = np.eye(n_features) / 3 if pair[0].ndim > 1 else 1 / 3
        sides = (pair[0] + third, pair[1] + third)
        contest = specimens.contest(name, mechanism, sides, SeededEntropy(0))
        draws = [contest.draw(which, n_trials) for which in (0, 1)]
        found = compare_structure(*draws) + _support_findings(draws, sides)
        findings += [f"{name}: {one}" for one in found]
    if n_zeros:
        released = mechanism.release(np.full(n_zeros, -(2.0**-60)), SeededEntropy(0)).value
        if (np.signbit(released) & (released == 0)).any():
            findings.append("a sum just below zero releases -0.0")
    return AttackResult("structure", mechanism.name, tuple(findings), 2 * n_trials * len(pairs))


def _above(draws: Array, value: Array) -> AnyArray:
    """Return which draws lie above the value itself: in every entry, or as a matrix."""
    if value.ndim == 2:
        return np.asarray(np.linalg.eigvalsh(draws - value)[..., 0] >= 0)
    return np.asarray((draws >= value).all(axis=tuple(range(1, draws.ndim))))


def _support_findings(draws: Sequence[Array], sides: Sequence[Array]) -> list[str]:
    for value in sides:
        for sign in (1.0, -1.0):
            inside = [float(_above(sign * side, sign * value).mean()) for side in draws]
            if max(inside) == 1.0 and min(inside) < 0.98:
                return [
                    f"the support moves with the data: {100 * (1 - min(inside)):.0f} % of one "
                    "neighbour's releases are impossible for the other"
                ]
    return []
