"""Train a cohort: one compiled program, a loop over tasks inside it, one stream a core.

A task's result depends on its own rows, its key and the public centre alone, bit for bit: tasks
are taken one after the other (no batching over tasks, whose blocking could change bits), each with
as many steps as its own rows need, in an order that comes from its own key. Loops have traced
lengths, so neither the cohort's size nor the tasks' sizes are compiled in or padded.

Large multinomial logistic models are trained by a compiled kernel of their own (`_softmax`), under
the same rules.

On a CPU every stream computes on one thread: small products gain nothing from two, and results do
not depend on how many there are. On a GPU there is one stream.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from threading import Lock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.neural._local import LocalTraining, Own, local_turn
from tacit.neural._memory import give_back
from tacit.neural._softmax import hand_over, parcels, suits, sum_of
from tacit.neural.rows import StackedRows
from tacit.numerics.threads import n_threads, parallel_map
from tacit.privacy.clipped_sums import ClippedSum

__all__ = ["LocalTraining", "Turn", "train_cohort"]

_PARCEL_BYTES = 1 << 20
_MOST_TASKS = 256


@dataclass(frozen=True)
class Turn:
    """What some tasks of the cohort end a turn with.

    ``positions`` (b,) of the tasks, ``updates`` (b, …) to be bounded and sent (None if they were
    added to a sum), ``models`` (b, …) to be kept at home (None if the tasks keep no model); leaves
    are float32 arrays.
    """

    positions: IntArray
    updates: Any
    models: Any


def _parcel(
    training: LocalTraining,
    models: Any,
    centre: Any,
    rows: StackedRows,
    positions: Any,
    owns: Own,
    n_tasks: Any,
    turn: Any,
    clip: Any,
) -> tuple[Any, Any]:
    """Return models and updates of the first ``n_tasks`` of the parcel's slots, traced."""

    def one(k: Any, ends: tuple[Any, Any]) -> tuple[Any, Any]:
        kept, updates = ends
        own: Own = jax.tree.map(lambda leaf: leaf[k], owns)
        own = replace(own, key=jax.random.fold_in(jax.random.wrap_key_data(own.key), turn))
        long = own.stretch is not None
        near = jax.tree.map(lambda leaf: own.stretch * leaf, centre) if long else centre
        start = near if kept is None else jax.tree.map(lambda leaf: leaf[k], kept)
        model, update = local_turn(training, start, near, rows.of_task(positions[k]), own, clip)

        def put(stack: Any, leaf: Any) -> Any:
            return jax.lax.dynamic_update_index_in_dim(stack, leaf, k, 0)

        if kept is not None:
            kept = jax.tree.map(put, kept, model)
        return kept, jax.tree.map(put, updates, update)

    capacity = len(positions)
    zeros = jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), centre)
    return jax.lax.fori_loop(0, n_tasks, one, (models, zeros))


@cache
def _compiled(backend: str) -> Any:
    options = {"xla_cpu_multi_thread_eigen": False} if backend == "cpu" else None
    return jax.jit(_parcel, static_argnums=0, donate_argnums=1, compiler_options=options)


@contextmanager
def _on_one_processor() -> Iterator[None]:
    """Let this thread see one processor: XLA cuts loops into as many parts as it sees.

    Parts of a few microseconds wait for each other longer than they work, and the other
    processors have streams of their own.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        yield
    finally:
        os.sched_setaffinity(0, allowed)


_compiling = Lock()
_begun: set[Any] = set()


def _first(kind: Any, run: Callable[[], Any]) -> Any:
    """Run what may have to be compiled: once, though several streams ask for it."""
    with _compiling, _on_one_processor():
        done = run()
        if kind not in _begun:
            _begun.add(kind)
            give_back()
    return done


def _capacity(centre: Any) -> int:
    """Return the slots of a parcel: a constant of the model, so that nothing compiles twice."""
    size = 4 * sum(np.size(leaf) for leaf in jax.tree.leaves(centre))
    return max(1, min(_MOST_TASKS, _PARCEL_BYTES // size))


def _nothing() -> None:
    pass


def _slots(values: AnyArray, capacity: int) -> AnyArray:
    return np.resize(values, (capacity, *values.shape[1:]))


def _traced(
    training: LocalTraining,
    rows: StackedRows,
    positions: IntArray,
    centre: Any,
    models: Any,
    owns: Own,
    turn: int,
    clip: float,
    total: ClippedSum | None,
) -> Callable[[IntArray], tuple[Any, Any]]:
    """Return what trains some of ``positions``, given their places there: models and updates.

    With a ``total``, updates are added to it, and None is returned for them.
    """
    centre = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), centre)
    capacity, backend = _capacity(centre), jax.default_backend()
    run = _compiled(backend)
    kind = (
        training,
        backend,
        models is None,
        owns.stretch is None,
        rows.X.shape,
        rows.y.dtype,
        len(rows.counts),
    )

    def parcel(places: IntArray) -> tuple[Any, Any]:
        slots = _slots(positions[places], capacity).astype(np.int32)
        kept = None if models is None else jax.tree.map(lambda leaf: leaf[slots], models)
        own = jax.tree.map(lambda leaf: leaf[slots], owns)
        count, call, radius = np.int32(len(places)), np.uint32(turn), np.float32(clip)
        turns = partial(run, training, kept, centre, rows, slots, own, count, call, radius)
        ends = turns() if kind in _begun else _first(kind, turns)
        kept, updates = jax.tree.map(lambda leaf: np.asarray(leaf)[: len(places)], ends)
        if total is not None:
            total.add(jax.tree.leaves(updates))
            updates = None
        return kept, updates

    return parcel


def train_cohort(
    training: LocalTraining,
    rows: StackedRows,
    positions: IntArray,
    *,
    centre: Any,
    models: Any,
    keys: AnyArray,
    turn: int,
    strength: float | Array,
    learning_rate: float | Array,
    clip: float = float("inf"),
    stretch: float | Array | None = None,
    total: ClippedSum | None = None,
) -> Iterator[Turn]:
    """Yield the turns of the tasks at ``positions``, a few tasks at a time, in their order.

    Parameters
    ----------
    training : LocalTraining
        What a task does; compiled the first time it is seen.
    rows : StackedRows
        Rows of all tasks of the stack.
    positions : ndarray of shape (b,)
        Tasks that take part.
    centre : pytree
        The public centre, float32.
    models : pytree or None
        Personal models (m, …) to start from; None starts every task at the centre and keeps none.
    keys : ndarray of shape (m, 2), uint32
        A key a task, kept at home.
    turn : int
        Number of the call; another one gives other minibatches.
    strength : float or ndarray of shape (m,)
        λ of the pull, for all or by task.
    learning_rate : float or ndarray of shape (m,)
        Step, for all or by task.
    clip : float
        Radius γ of an update.
    stretch : None, float or ndarray of shape (m,)
        How many times as long a task takes the centre; other than 1 only for models that are linear
        in their parameters.
    total : ClippedSum or None
        Where updates are bounded and added up, in the order of the centre's leaves, by the stream
        that made them, while they are near the processor; turns have none then. It is complete
        when the turns have come to their end.

    Guarantee: none by itself; for ``total``, that of `ClippedSum`. Updates have norm γ up to
    rounding in float32; the bound that the sensitivity rests on is taken again, exactly, by
    `ClippedSum` or `tacit.privacy.VectorClip` as they leave.
    """
    numbers = (
        None if value is None else np.broadcast_to(np.asarray(value, np.float32), len(keys))
        for value in (strength, learning_rate, stretch)
    )
    given = (rows, positions, centre, models, Own(keys, *numbers), turn, clip)
    backend, laid = jax.default_backend(), None
    if stretch is None and suits(training, centre, backend):
        laid = None if total is None else sum_of(centre, total.bound)
        train = parcels(training, *given, laid)
    else:
        train = _traced(training, *given, total)
    capacity = _capacity(centre)

    def parcel(low: int) -> Turn:
        places = np.arange(low, min(low + capacity, len(positions)))
        kept, updates = train(places)
        return Turn(positions[places], updates, kept)

    # Every training of a large model needs tens of megabytes, and so does what is done between
    # cohorts: neither is to add to the other.
    trim = give_back if capacity == 1 else _nothing
    trim()
    starts = range(0, len(positions), capacity)
    if total is not None and models is None and backend == "cpu":
        yield from parallel_map(parcel, starts)
    else:
        yield from _in_order(parcel, starts, n_threads() if backend == "cpu" else 1)
    if laid is not None and total is not None:
        hand_over(laid, centre, total)
    trim()


def _in_order(parcel: Callable[[int], Turn], starts: range, streams: int) -> Iterator[Turn]:
    """Yield the turns of parcels, no more of which wait at a time than there are streams."""
    waiting: deque[Future[Turn]] = deque()
    with ThreadPoolExecutor(streams) as pool:
        for low in starts:
            waiting.append(pool.submit(parcel, low))
            if len(waiting) > streams:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
