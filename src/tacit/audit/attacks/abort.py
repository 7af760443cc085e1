"""The abort attack: no task's data, however hostile, may stop or change anybody else's run.

Whether a run finishes is seen by all, and it is a function of the data that no noise covers. So one
task's rows are replaced by the worst there are: the run has to finish, what is released has to be
finite, and with the releases frozen everybody else has to get the same bits as before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tacit._types import Array
from tacit.audit.attacks.bits import moved, rerun, with_task
from tacit.audit.attacks.result import AttackResult
from tacit.audit.attacks.runs import example_tasks, fitted, name_of
from tacit.audit.canary import is_binary
from tacit.privacy.entropy import SeededEntropy
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.unit import Unit
from tacit.tasks import TaskSet

__all__ = ["HOSTILE", "abort_attack", "abort_attack_mechanism", "hostile_task"]

Rows = tuple[Array, Array]

_HOSTILE_TASK = 2
_LARGEST = float(np.finfo(np.float64).max)
_STRANGER = 7.0


def _huge(X: Array, y: Array) -> Rows:
    return 1e160 * X, 1e200 * y


def _overflowing(X: Array, y: Array) -> Rows:
    # Finite, but any sum of two entries is not, and the difference of two such sums is NaN.
    return _LARGEST * np.where(X > 0, 1.0, -1.0), _LARGEST * np.where(y > 0, 1.0, -1.0)


def _denormal(X: Array, y: Array) -> Rows:
    return 5e-324 * np.sign(X), 5e-324 * np.sign(y)


def _constant(X: Array, y: Array) -> Rows:
    return np.ones_like(X), np.ones_like(y)


def _empty(X: Array, y: Array) -> Rows:
    # What is left of a task when cleaning took everything: rows that say nothing.
    return np.zeros_like(X), np.zeros_like(y)


def _single(X: Array, y: Array) -> Rows:
    return X[:1], y[:1]


def _duplicated(X: Array, y: Array) -> Rows:
    return np.repeat(X[:, :1], X.shape[1], axis=1), y


def _scaled(X: Array, y: Array) -> Rows:
    return X * 10.0 ** np.linspace(-300, 300, X.shape[1]), y


def _extreme(X: Array, y: Array) -> Rows:
    return X, np.where(y > 0, 1e308, -1e308)


HOSTILE: dict[str, Callable[[Array, Array], Rows]] = {
    "huge": _huge,
    "overflowing": _overflowing,
    "denormal": _denormal,
    "constant": _constant,
    "empty": _empty,
    "single row": _single,
    "duplicated columns": _duplicated,
    "wildly scaled": _scaled,
    "extreme target": _extreme,
}
"""The kinds of hostile task, from ordinary rows and targets to theirs."""


def hostile_task(tasks: TaskSet, task: int, kind: str) -> TaskSet:
    """Return ``tasks`` with one task's rows made hostile.

    A classifier's labels stay labels: an extreme one is a label nobody declared, the others keep
    the task's own, or one of them where the targets are constant.
    """
    span = slice(tasks.offsets[task], tasks.offsets[task + 1])
    targets = np.asarray(tasks.y)
    X, y = HOSTILE[kind](tasks.X[span], targets[span])
    if is_binary(tasks):
        labels = targets[span][: len(X)]
        y = {"extreme target": np.full(len(X), _STRANGER), "constant": y, "empty": y}.get(
            kind, labels
        )
    return with_task(tasks, task, X, y)


def abort_attack(estimator: Any, *, kinds: Sequence[str] = tuple(HOSTILE)) -> AttackResult:
    """Fit with one hostile task of every kind; see that nobody else notices.

    A kind that changes the number of rows is left out where the unit is the row: there the number
    is public, and a party that has too few is refused before it takes part.
    """
    tasks = example_tasks(estimator)
    before = fitted(estimator, tasks)
    if not np.isfinite(before.model.privacy_.epsilon):
        return AttackResult("abort", name_of(estimator), (), 1)
    findings, n_runs = [], 1
    for kind in kinds:
        neighbour = hostile_task(tasks, _HOSTILE_TASK, kind)
        same_size = neighbour.n_rows == tasks.n_rows
        if before.model.privacy_.unit == Unit.ROW and not same_size:
            continue
        n_runs += 1
        try:
            after = rerun(estimator, neighbour, before)
            found = moved(before, after, _HOSTILE_TASK, same_size=same_size)
        except Exception as error:  # whatever is raised is what everybody sees
            found = [f"the run ends with {type(error).__name__}: {error}"]
        findings += [f"{kind}: {one}" for one in found]
    return AttackResult("abort", name_of(estimator), tuple(findings), n_runs)


def abort_attack_mechanism(mechanism: Mechanism, *, n_features: int = 3) -> AttackResult:
    """Release the extremes of what bounded messages can add up to; none may fail."""
    from tacit.audit.specimens import is_matrix

    shape = (n_features, n_features) if is_matrix(mechanism) else (n_features,)
    findings = []
    sums = {"zero": 0.0, "negative zero": -0.0, "denormal": 5e-324, "a million tasks": 1e6}
    for name, value in sums.items():
        try:
            release = mechanism.release(np.full(shape, value), SeededEntropy(0))
        except Exception as error:  # whatever is raised is what everybody sees
            findings.append(f"{name}: ends with {type(error).__name__}: {error}")
            continue
        if not np.isfinite(release.value).all():
            findings.append(f"{name}: the release is not finite")
    return AttackResult("abort", mechanism.name, tuple(findings), len(sums))
