"""Products of all models with one small matrix, and the threads they run on."""

import contextlib
import os
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tacit.numerics.shared_map import apply_map, second_moment, symmetric_spectrum
from tacit.numerics.threads import parallel_map

sizes = pytest.mark.parametrize("m", [1, 3, 60_000])


@sizes
def test_the_second_moment_and_the_map_equal_plain_products(m):
    rng = np.random.default_rng(0)
    W, shared = rng.standard_normal((m, 9)), rng.standard_normal((9, 4))
    assert_allclose(second_moment(W), W.T @ W, rtol=1e-12, atol=1e-9)
    assert_allclose(apply_map(W, shared), W @ shared, rtol=1e-12, atol=1e-12)
    assert apply_map(W.astype(np.float32), shared).dtype == np.float32


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("d", "r"), [(1, 1), (7, 1), (20, 20), (30, 4), (50, 50), (65, 3), (257, 40), (300, 300)]
)
def test_a_task_is_mapped_to_the_same_bits_in_any_stack(d, r, dtype):
    rng = np.random.default_rng(3)
    W, shared = rng.standard_normal((1000, d)).astype(dtype), rng.standard_normal((d, r))
    together = apply_map(W, shared)
    for low, high in [(0, 1), (255, 257), (999, 1000), (3, 900), (511, 768)]:
        assert_array_equal(apply_map(W[low:high], shared), together[low:high])
        spread = np.repeat(W[low:high], 2, axis=1)[:, ::2]  # not contiguous
        assert_array_equal(apply_map(spread, shared), together[low:high])
    alone = np.concatenate([apply_map(w[None], shared) for w in W[:300]])
    assert_array_equal(alone, together[:300])


def test_sums_do_not_depend_on_the_number_of_threads(monkeypatch):
    W = np.random.default_rng(1).standard_normal((60_000, 9))
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        found.append(second_moment(W))
    assert_array_equal(found[0], found[1])


def test_the_spectrum_rebuilds_its_matrix():
    A = np.random.default_rng(2).standard_normal((7, 7))
    values, vectors = symmetric_spectrum(A + A.T)
    assert (np.diff(values) >= 0).all()
    assert_allclose((vectors * values) @ vectors.T, A + A.T, atol=1e-12)


def test_a_parallel_map_keeps_the_order_and_may_be_nested():
    def outer(i):
        return sum(parallel_map(lambda j: i * j, range(20)))

    assert parallel_map(outer, range(30)) == [190 * i for i in range(30)]


def test_an_error_in_any_item_is_raised():
    with pytest.raises(ZeroDivisionError):
        parallel_map(lambda i: 1 / (i - 7), range(20))


@pytest.fixture
def several_processors():
    allowed = getattr(os, "sched_getaffinity", lambda _: {0})(0)
    if len(allowed) < 2:
        pytest.skip("one processor only")
    return allowed


@pytest.fixture
def several_threads(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


def test_no_two_threads_of_a_map_share_a_processor(several_threads, several_processors):
    together = threading.Barrier(2)

    def placed(item):
        if item < 2:
            together.wait(10)
        return threading.get_ident(), frozenset(os.sched_getaffinity(0))

    found = set(parallel_map(placed, range(20)))
    assert len(found) == len({thread for thread, _ in found}) > 1
    assert frozenset.union(*(places for _, places in found)) == several_processors
    assert sum(len(places) for _, places in found) == len(several_processors)


@pytest.mark.parametrize("fails", [False, True])
def test_the_caller_has_all_its_processors_again(several_threads, several_processors, fails):
    with pytest.raises(ZeroDivisionError) if fails else contextlib.nullcontext():
        parallel_map(lambda i: 1 / (i - 7 * fails + 0.5 * (not fails)), range(20))
    assert os.sched_getaffinity(0) == several_processors


def test_an_inner_map_has_the_processors_of_its_thread(several_threads, several_processors):
    def outer(_):
        mine = os.sched_getaffinity(0)
        inner = parallel_map(lambda _: frozenset(os.sched_getaffinity(0)), range(20))
        return all(places <= mine for places in inner) and os.sched_getaffinity(0) == mine

    assert all(parallel_map(outer, range(20)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_the_threads_are_made_anew_in_a_forked_process():
    parallel_map(abs, range(10))
    child = os.fork()
    if child == 0:
        os._exit(0 if parallel_map(abs, range(-9, 0)) == list(range(9, 0, -1)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
