"""Minibatches: every row once an epoch, in an order of the task's own key."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import InvalidInput

jax = pytest.importorskip("jax", reason="needs the extra neural")

import jax.numpy as jnp  # noqa: E402

from tacit.neural import StackedRows  # noqa: E402
from tacit.neural.rows import order_of, shuffled  # noqa: E402

MOST = 1100


@jax.jit
def places(count, seed, epoch):
    order = order_of(jax.random.key(seed), epoch)
    return shuffled(jnp.minimum(jnp.arange(MOST), count - 1), count, order)


def order(count, seed=0, epoch=0):
    return np.asarray(places(jnp.int32(count), seed, epoch))[:count]


@pytest.mark.parametrize("count", [*range(1, 35), 63, 64, 65, 1000, 1024, 1025])
def test_an_order_is_a_permutation(count):
    np.testing.assert_array_equal(np.sort(order(count)), np.arange(count))


def test_keys_and_epochs_give_other_orders():
    orders = {tuple(order(40, seed, epoch)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


def test_a_row_is_anywhere_in_the_order_equally_often():
    """Chi-squared of a 12 × 12 table over 2 000 keys; false alarm below 1e-6."""
    table = np.zeros((12, 12))
    for seed in range(2000):
        table[np.arange(12), order(12, seed)] += 1
    expected = 2000 / 12
    statistic = ((table - expected) ** 2 / expected).sum() * 11 / 12
    assert statistic < 121 + 5.5 * np.sqrt(2 * 121)


def test_an_epoch_takes_every_row_once_and_pads_with_weight_zero():
    rows = StackedRows.of(np.arange(50.0).reshape(25, 2), np.arange(25), np.array([0, 2, 25]))
    order = order_of(jax.random.key(0), 0)
    minibatch = jax.jit(lambda b: rows.of_task(1).minibatch(order, b, 10))
    taken = [minibatch(b) for b in range(3)]
    seen = np.concatenate([np.asarray(y)[np.asarray(w) == 1] for _, y, w in taken])
    np.testing.assert_array_equal(np.sort(seen), np.arange(2, 25))
    assert float(taken[-1][2].sum()) == 3


def test_offsets_that_do_not_fit_the_rows_are_refused():
    with pytest.raises(InvalidInput, match="offsets: end at 3, but X has 4 rows"):
        StackedRows.of(np.zeros((4, 2)), np.zeros(4), np.array([0, 3]))
