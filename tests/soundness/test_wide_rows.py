"""Rows of more than 8192 numbers: numpy adds a lone one up in another order than one of many."""

import numpy as np
import pytest

from tacit import AveragedClassifier
from tacit._rows import row_dots
from tacit.audit.attacks.bits import moved
from tacit.audit.attacks.runs import fitted, frozen
from tacit.losses import SquaredLoss
from tacit.numerics.kernels import NumpyKernel, row_products
from tacit.numerics.local_fit import local_fit
from tacit.numerics.prior import Prior
from tacit.numerics.prior_average import averaged_fit
from tacit.privacy._steps import row_norms
from tacit.tasks import TaskSet

D = 9001


def _tasks(counts, *, classes=False):
    model = np.random.default_rng(9).standard_normal(D) / 50
    X, y = [], []
    for task, count in enumerate(counts):
        rng = np.random.default_rng((0, task))
        X.append(rng.standard_normal((count, D)))
        y.append(X[-1] @ model + 0.1 * rng.standard_normal(count))
    y = np.concatenate(y)
    return TaskSet.from_arrays(
        np.concatenate(X),
        (y > 0).astype(float) if classes else y,
        np.repeat(np.arange(len(counts)), counts),
    )


@pytest.mark.parametrize("d", [1, 4096, 4097, 8192, 8193, 9001, 20000])
def test_a_lone_row_is_added_up_like_one_of_many(d):
    left, right = np.random.default_rng(0).standard_normal((2, 6, d))
    together = row_dots(left, right)
    alone = np.concatenate([row_dots(left[[i]], right[[i]]) for i in range(6)])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_allclose(together, (left * right).sum(axis=1), rtol=1e-9, atol=1e-9)


def test_releases_frozen_others_rows_move_no_wide_model():
    estimator, counts = AveragedClassifier(epsilon=1.0, classes=(0, 1)), [3, 6, 4, 3, 4]
    before = fitted(estimator, _tasks(counts, classes=True))
    for n_rows in (13, 14):  # 14: the last row of all is worked off by itself
        counts[1] = n_rows
        with frozen(before.releases):
            after = fitted(estimator, _tasks(counts, classes=True))
        assert moved(before, after, 1, same_size=False) == []


@pytest.mark.parametrize("n_others", [20, 26, 27, 28, 54])
def test_predictions_and_gradients_of_a_wide_row_stand_for_themselves(n_others):
    own, vector = np.random.default_rng(1).standard_normal((2, D))
    others = np.ones((n_others, D))
    assert row_products(np.vstack([others, own]), vector)[-1] == row_dots(own, vector)

    def gradient(first):
        X = np.vstack([np.ones((first, D)), own, np.ones((3, D))])
        offsets = np.array([0, first, first + 1, first + 4])
        kernel = NumpyKernel(X, np.ones(len(X)), offsets, SquaredLoss())
        return kernel.combine(np.tile(vector, (3, 1)), np.ones(3), 0.0)[1]

    np.testing.assert_array_equal(gradient(n_others - 1), gradient(1))


@pytest.mark.parametrize("size", [1.0, 1e200, 1e-200])
def test_the_norm_of_a_wide_message_is_its_own(size):
    messages = size * np.random.default_rng(2).standard_normal((7, D))
    alone = np.concatenate([row_norms(message[None]) for message in messages])
    np.testing.assert_array_equal(row_norms(messages), alone)


def test_a_wide_task_alone_in_its_batch_or_bucket_fits_as_among_others():
    tasks, loss = _tasks([1, 2, 2, 3]), SquaredLoss()
    prior = [Prior(np.linspace(-0.01, 0.01, D))]
    for fit in (
        lambda rows: local_fit(rows, loss, intercept=True),
        lambda rows: averaged_fit(rows, loss, prior, intercept=True),
    ):
        together = fit(tasks)
        for i in range(tasks.n_tasks):
            alone = fit(tasks.take_tasks(np.array([i])))
            assert together.coef[i].tobytes() == alone.coef[0].tobytes()
            assert together.intercept[i] == alone.intercept[0]
