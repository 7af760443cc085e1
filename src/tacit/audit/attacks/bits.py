"""The bit attack: with the releases frozen, what others get may not differ in a single bit.

Joint privacy rests on the releases being all that crosses from task to task. So one task's data are
changed, in value and in number, the releases are replaced by the recorded ones, and everything
that anybody else receives is compared byte for byte. A last bit that moves is a channel nobody
accounted for: a product over all rows, a batch size, a number of BLAS threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tacit._types import Array
from tacit.audit.attacks.result import AttackResult
from tacit.audit.attacks.runs import Run, example_tasks, fitted, frozen, name_of
from tacit.audit.canary import is_binary
from tacit.errors import PrivacyLeak
from tacit.privacy.bounds import Bound
from tacit.privacy.unit import Unit
from tacit.tasks import TaskSet

__all__ = ["SIZES", "bit_attack", "bit_attack_bound", "moved", "rerun", "with_task"]

SIZES = ((5, 9, 24), (12, 25, 60))
"""Tasks, rows and features that the bit attack tries by default."""

_CHANGED = 2


def with_task(tasks: TaskSet, task: int, X: Array, y: Array) -> TaskSet:
    """Return ``tasks`` with the data of one task replaced by any number of rows."""
    keep = tasks.task_of_row != task
    return TaskSet.from_arrays(
        np.concatenate([tasks.X[keep], X]),
        np.concatenate([np.asarray(tasks.y)[keep], y]),
        np.concatenate([tasks.task_of_row[keep], np.full(len(X), task)]),
    )


def rerun(estimator: Any, tasks: TaskSet, before: Run) -> Run:
    """Fit on other data while the billboard repeats the releases of ``before``.

    Where privacy is not joint, the release *is* the models of all tasks; there only the noise is
    repeated, by its seed.
    """
    if before.model.privacy_.definition == "differential privacy":
        return fitted(estimator, tasks)
    with frozen(before.releases):
        return fitted(estimator, tasks)


def moved(before: Run, after: Run, task: int, *, same_size: bool) -> list[str]:
    """Return what anybody but ``task`` can see to differ, in words.

    Statements of a run that protects rows besides name how many there are, and take their δ from
    it; they are compared for equal sizes only.
    """
    first, second = before.public(task), after.public(task)
    if not same_size and "row_privacy_" in first:
        for seen in (first, second):
            del seen["row_privacy_"], seen["privacy_"]
    findings = [f"{name} is there for one data set only" for name in first.keys() ^ second.keys()]
    for name in first.keys() & second.keys():
        old, new = first[name], second[name]
        if isinstance(old, str) or isinstance(new, str):
            if old != new:
                findings.append(f"{name} says something else")
        elif (old.dtype, old.shape) != (new.dtype, new.shape):
            findings.append(f"{name} has another shape or type")
        elif old.tobytes() != new.tobytes():
            findings.append(f"{name} moves{_by_how_much(old, new)}")
    return findings


def _by_how_much(old: Array, new: Array) -> str:
    if old.dtype.kind != "f":
        return ""
    with np.errstate(all="ignore"):
        return f" by up to {np.nanmax(np.abs(old - new), initial=0.0):.1e}"


def _changes(tasks: TaskSet, task: int, unit: Unit) -> Iterator[tuple[str, TaskSet]]:
    rng = np.random.default_rng(1)
    binary = is_binary(tasks)
    own = int(tasks.counts[task])
    sizes = {"other values": own}
    if unit is Unit.TASK:  # with rows as unit their number is public, and neighbours share it
        sizes |= {"many more rows": 3 * own + 7, "one row more": own + 1, "one row only": 1}
    for name, n_rows in sizes.items():
        X = 10 * rng.standard_normal((n_rows, tasks.n_features))
        y = (
            rng.integers(0, 2, n_rows).astype(float)
            if binary
            else 100 * rng.standard_normal(n_rows)
        )
        yield name, with_task(tasks, task, X, y)


def bit_attack(
    estimator: Any, *, sizes: Sequence[tuple[int, int, int]] = SIZES, threads: Sequence[int] = (2,)
) -> AttackResult:
    """Change one task, freeze the releases, and compare what the others get bit by bit.

    Parameters
    ----------
    sizes
        Tasks, rows of a task (at least) and features to try: libraries change their arithmetic
        with the size.
    threads
        Numbers of BLAS threads to try, the same for both runs that are compared.
    """
    findings: list[str] = []
    n_runs = 0
    for n_tasks, n_rows, n_features in sizes:
        tasks = example_tasks(estimator, n_tasks=n_tasks, n_rows=n_rows, n_features=n_features)
        for n_threads in threads:
            found = _moved_with(estimator, tasks, n_threads)
            if found is None:
                return AttackResult("bit", name_of(estimator), (), 1)
            n_runs += len(found)
            findings += [
                f"{change} ({n_tasks} tasks, {n_features} features, {n_threads} threads): {one}"
                for change, words in found.items()
                for one in words
            ]
    return AttackResult("bit", name_of(estimator), tuple(findings), n_runs)


def _moved_with(estimator: Any, tasks: TaskSet, n_threads: int) -> dict[str, list[str]] | None:
    """Return what moves with each change, or None where nothing is claimed."""
    from threadpoolctl import threadpool_limits

    found: dict[str, list[str]] = {}
    with threadpool_limits(n_threads, user_api="blas"):
        before = fitted(estimator, tasks)
        if not np.isfinite(before.model.privacy_.epsilon):
            return None
        for change, neighbour in _changes(tasks, _CHANGED, Unit(before.model.privacy_.unit)):
            same_size = neighbour.n_rows == tasks.n_rows
            try:
                after = rerun(estimator, neighbour, before)
                found[change] = moved(before, after, _CHANGED, same_size=same_size)
            except PrivacyLeak as error:
                found[change] = [str(error)]
    return found


def bit_attack_bound(bound: Bound, *, n_units: int = 64, n_features: int = 24) -> AttackResult:
    """Change one unit's message and compare what the bound makes of all others, bit by bit."""
    rng = np.random.default_rng(0)
    messages = rng.standard_normal((n_units, n_features)) * 10.0 ** rng.integers(
        -3, 4, (n_units, 1)
    )
    others = np.arange(n_units) != _CHANGED
    before, findings = bound(messages)[others], []
    loud = {"huge": 1e300, "denormal": 5e-324, "zero": 0.0, "NaN": np.nan, "infinite": np.inf}
    for name, value in loud.items():
        messages[_CHANGED] = value
        try:
            with np.errstate(all="raise", under="ignore"):
                after = bound(messages)
        except Exception as error:  # whatever is raised tells of the message
            findings.append(f"a {name} message stops everybody: {error}")
            continue
        if after[others].tobytes() != before.tobytes():
            findings.append(f"a {name} message moves the others'")
        if not np.isfinite(after[_CHANGED]).all():
            findings.append(f"a {name} message stays as it is")
    return AttackResult("bit", type(bound).__name__, tuple(findings), len(loud))
