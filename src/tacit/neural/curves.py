"""Losses by round (Fig. 2 of the paper): what a task, anybody, or a simulation may look at.

A loss is data. A task's own, on its own rows, is the task's to see, at home and for free; the
shared model's on rows that were declared public follows from releases; the average over tasks is
nobody's but a simulation's, and says so.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tacit._types import AnyArray, Array, IntArray
from tacit.engines.conduct import read_on
from tacit.errors import InvalidInput, UnknownTask
from tacit.neural._outputs import lost
from tacit.neural.protocol import Centre, CohortProtocol
from tacit.neural.rows import StackedRows
from tacit.privacy.accounting.composition import compose
from tacit.tasks import TaskSet, within_range

__all__ = ["AverageLosses", "OwnLosses", "PublicLosses", "own_losses", "public_losses"]


@dataclass(frozen=True, eq=False)
class AverageLosses:
    """The average over tasks (t,): a function of everybody's rows that no budget paid for."""

    rounds: IntArray
    epsilon: Array
    values: Array
    sound: bool = False


@dataclass(frozen=True, eq=False)
class PublicLosses:
    """The shared model's mean loss (t,) on rows that were declared public, and ε by then (t,)."""

    rounds: IntArray
    epsilon: Array
    values: Array
    sound: bool = True


@dataclass(frozen=True, eq=False)
class OwnLosses:
    """Every task's mean loss (t, m) after some rounds, and ε by then (t,).

    Column i was computed at home from task i's rows and the releases, and is for that task alone.
    """

    rounds: IntArray
    epsilon: Array
    values: Array
    task_names: tuple[Hashable, ...]

    def of(self, task: Hashable) -> Array:
        """Return the curve of one task, for that task."""
        if task not in self.task_names:
            raise UnknownTask(f"task={task!r}: no rows of it were given")
        curve: Array = self.values[:, self.task_names.index(task)]
        return curve

    def average(self) -> AverageLosses:
        """Return the average over tasks, for simulations: it is not sound to tell anybody."""
        return AverageLosses(self.rounds, self.epsilon, self.values.mean(axis=1))


def own_losses(
    estimator: Any, X: Any, y: Any, *, tasks: Any = None, rounds: Sequence[int] | None = None
) -> OwnLosses:
    """Return what every task's own model would lose on the rows given, had the run ended earlier.

    Parameters
    ----------
    estimator : a fitted estimator of `tacit.neural`
        Its billboard is read again from the beginning, round by round.
    X, y, tasks
        The tasks' own rows.
    rounds : sequence of int, optional
        After how many releases to look; by default before the first and after each.

    Guarantee: joint DP at no cost, as long as column i is shown to task i alone: it is a function
    of task i's rows and of releases. `OwnLosses.average` is not sound, and says so.
    """
    protocol, states, asked, spent = _states(estimator, rounds)
    rows = _task_set(estimator, X, y, tasks)
    counts, values = np.maximum(np.diff(rows.offsets), 1), []
    for public in states:
        home = protocol.start(rows, np.full(rows.n_tasks, -1))
        models: AnyArray = protocol.finish(home, public)
        if not models.shape[1]:
            models = np.tile(protocol.shared(public), (rows.n_tasks, 1))
        values.append(lost(protocol.training, protocol.layout.tree(models), home.rows, (1.0,))[0])
    return OwnLosses(asked, spent, np.array(values) / counts, rows.names)


def public_losses(
    estimator: Any, X: Any, y: Any, *, rounds: Sequence[int] | None = None
) -> PublicLosses:
    """Return the shared model's mean loss after some rounds, on rows that are declared public.

    Guarantee: post-processing of releases. Rows of a task are not public; giving them here shows
    whoever reads the result a function of them that nobody paid for.
    """
    protocol, states, asked, spent = _states(estimator, rounds)
    tasks = _task_set(estimator, X, y, None)
    given = np.asarray(tasks.y)
    y_kept = given.astype(np.int32) if protocol.classes else given
    rows = StackedRows.of(tasks.X, y_kept, tasks.offsets)
    values = [
        lost(protocol.training, protocol.layout.tree(protocol.shared(public)[None]), rows, (1.0,))[
            0, 0
        ]
        for public in states
    ]
    return PublicLosses(asked, spent, np.array(values) / max(tasks.n_rows, 1))


def _states(
    estimator: Any, rounds: Sequence[int] | None
) -> tuple[CohortProtocol, list[Centre], IntArray, Array]:
    """Return the protocol, the public states after ``rounds``, those, and ε by then."""
    check_is_fitted(estimator)
    protocol, _ = estimator._public_state(estimator.billboard_)
    if not isinstance(protocol, CohortProtocol):
        raise InvalidInput(f"estimator={estimator}: must be one of tacit.neural")
    _, schedule = estimator._staged(estimator._sizes)
    postings = list(estimator.billboard_)
    asked = np.arange(len(postings) + 1) if rounds is None else np.asarray(rounds, dtype=int)
    if asked.size == 0 or asked.min() < 0 or asked.max() > len(postings):
        raise InvalidInput(f"rounds={rounds}: must lie between 0 and {len(postings)}")
    states, public = [protocol.opening()], protocol.opening()
    for posting in postings:
        public = read_on(protocol, schedule, public, [posting])
        states.append(public)
    return protocol, [states[t] for t in asked], asked, _spent(estimator, asked)


def _spent(estimator: Any, asked: IntArray) -> Array:
    """Return ε after so many releases."""
    if not estimator._private:
        return np.where(asked > 0, np.inf, 0.0)
    stated, delta = estimator.privacy_, estimator._run_delta(estimator._sizes)
    events = estimator.billboard_.events
    costs = {
        int(t): compose(events[:t], delta=delta, adjacency=stated.adjacency).epsilon if t else 0.0
        for t in np.unique(asked)
    }
    return np.array([costs[int(t)] for t in asked])


def _task_set(estimator: Any, X: Any, y: Any, tasks: Any) -> TaskSet:
    """Return rows as a fit of the same model would see them."""
    from tacit.estimators import _input

    X, tasks = _input.without_task_column(X, tasks)
    rows = _input.features(estimator, X, reset=False)
    targets = estimator._encode_known(estimator._target_values(y, len(rows)))
    known = targets[:, 0] if targets.shape[1] == 1 else targets.argmax(axis=1)
    labels = None if tasks is None else _input.labels_of_rows(tasks, len(rows))
    return within_range(TaskSet.from_arrays(rows, known, labels))
