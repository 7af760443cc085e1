"""One small pool of threads for kernels that run without the GIL.

Plain threads instead of a compiled threading layer: they survive ``fork`` (the pool is made anew
in the child), never clash with a caller's own threads, and keep compilation short.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

__all__ = ["batched_map", "n_threads", "one_blas_thread", "parallel_map", "quiet_arithmetic"]

Item = TypeVar("Item")
Result = TypeVar("Result")

_pools: dict[int, ThreadPoolExecutor] = {}
os.register_at_fork(after_in_child=_pools.clear)


def n_threads() -> int:
    """Return how many threads to use: the processor's share, or ``OMP_NUM_THREADS`` if lower."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    asked = os.environ.get("OMP_NUM_THREADS", "")
    limit = int(asked) if asked.isdigit() and int(asked) > 0 else None
    return max(1, min(available or 1, limit or available or 1))


@cache
def _asks_processor() -> Callable[[], int] | None:
    """Return what tells the processor of this thread, where the system lets threads be placed."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    return getattr(ctypes.CDLL(None), "sched_getcpu", None)


def _dealt(threads: int) -> list[set[int]]:
    """Deal the processors of this thread among as many threads; it keeps the one it runs on."""
    asks = _asks_processor()
    if asks is None:
        return [set() for _ in range(threads)]
    here = asks()
    order = sorted(os.sched_getaffinity(0), key=lambda place: (place != here, place))
    return [set(order[part::threads]) for part in range(threads)]


@contextmanager
def _placed(processors: set[int]) -> Iterator[None]:
    """Keep this thread on some processors within a ``with`` block; anywhere if there are none.

    The system wakes a thread next to the one that called it, and in virtual machines takes up to
    four milliseconds to see that two threads share a processor while another has nothing to do:
    a short map is over by then.
    """
    if not processors:
        yield
        return
    allowed = os.sched_getaffinity(0)
    try:
        with suppress(OSError):  # processors taken away meanwhile
            os.sched_setaffinity(0, processors)
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, allowed)


def parallel_map(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Apply ``function`` to every item and return the results in the order of the items.

    The calling thread works too, and every thread takes the next item as it becomes free, so a
    thread held up by other programs does not hold up the rest. No two threads share a processor
    meanwhile. May be nested: an inner map has the processors of the thread it is called on.
    """
    work = list(items)
    threads = min(n_threads(), len(work))
    if threads <= 1:
        return [function(item) for item in work]
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads - 1, thread_name_prefix="tacit")
    results: dict[int, Result] = {}
    positions = iter(range(len(work)))

    def take_turns(processors: set[int]) -> None:
        with _placed(processors):
            for position in positions:
                results[position] = function(work[position])

    here, *elsewhere = _dealt(threads)
    others = [_pools[threads].submit(take_turns, processors) for processors in elsewhere]
    try:
        take_turns(here)
    finally:
        # A turn that never started (the pool is busy with an outer map) has nothing left to do.
        started = [other for other in others if not other.cancel()]
        for other in started:
            other.result()
    return [results[position] for position in range(len(work))]


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def batched_map(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Do as `parallel_map`, for functions that work off stacks of tasks, in `quiet_arithmetic`."""

    def quietly(item: Item) -> Result:
        with np.errstate(all="ignore"):  # threads of the pool do not inherit it
            return function(item)

    with quiet_arithmetic():
        return parallel_map(quietly, items)


class _OneThread:
    """Holds the linear-algebra library to one thread while anybody is inside.

    Counted, because the setting belongs to the whole process: if every block restored what it
    found, one that ends would give the threads back to another that is still at work.
    """

    def __init__(self) -> None:
        self._inside = 0
        self._limit: Any = None
        self._renew_lock()
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        """Have a lock that nobody holds: a forked process lacks the threads that held it."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit = _libraries().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *failure: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.restore_original_limits()


_one_thread = _OneThread()


def one_blas_thread() -> AbstractContextManager[None]:
    """Hold the linear-algebra library to one thread within a ``with`` block.

    Its own threads gain nothing on matrices of a task's size, and on a busy machine their spinning
    made a batched ``eigh`` of 35 × 35 matrices 40 times slower. And they cut a product differently
    as their number and the load differ, so that the last bits of a task's model would tell what
    else the process had to do.
    """
    return _one_thread


@contextmanager
def quiet_arithmetic() -> Iterator[None]:
    """Do the tasks' arithmetic within: one BLAS thread, and no floating-point warning.

    A warning is raised for the whole process and would tell everybody that some task's numbers
    overflow; what a task computes badly shows in that task's own result.
    """
    with one_blas_thread(), np.errstate(all="ignore"):
        yield
