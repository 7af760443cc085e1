"""What a third attack found, on the default conversation and what it stands on."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import tacit
from tacit.engines import Local
from tacit.numerics.logistic_dual import dual_path


def _stack(sizes, d=12):
    """Return stacked tasks of several sizes, padded with zero rows, as a bucket holds them."""
    rng = np.random.default_rng(0)
    rows, labels = np.zeros((len(sizes), max(sizes), d)), np.zeros((len(sizes), max(sizes)))
    for task, size in enumerate(sizes):
        rows[task, :size] = rng.normal(size=(size, d))
        labels[task, :size] = rng.integers(0, 2, size)
    shares = (np.arange(max(sizes)) < np.array(sizes)[:, None]).astype(float)
    return rows, labels, shares, np.array(sizes)


@pytest.mark.parametrize("bordered", [True, False])
@pytest.mark.parametrize("large", [1e155, 1e200, 1e307])
def test_what_overflows_in_a_longer_task_does_not_reach_the_next_of_its_stack(large, bordered):
    """Its NaN stayed in the work space, beyond the next task's rows: NaN times zero is NaN."""
    rows, labels, shares, counts = _stack([18, 17, 17, 18, 17])

    def found(rows):
        table = np.tile([3.0, 0.3, 0.03], (5, 1))
        levels = np.full((5, 3), 0.1) if bordered else None
        order = np.tile(np.arange(3), (5, 1))
        zeros, accuracy = np.zeros_like(labels), 1e-8
        path = dual_path(
            rows, zeros, labels, shares, counts, table, levels, order, accuracy=accuracy
        )
        return path.coef, path.intercept, path.evidence

    before = found(rows)
    rows = rows.copy()
    rows[0] *= large
    with np.errstate(all="ignore"):
        after = found(rows)
    assert np.isnan(after[2][0]).all()
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one[1:], other[1:])


def test_a_personal_model_does_not_depend_on_the_threads_that_are_free():
    """The last step at home, of a fit in one process, was outside the one thread of the rest."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(100), 8)
    X = rng.normal(size=(800, 100))
    y = X @ rng.normal(size=100) / 10 + rng.normal(size=800)
    models = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            model = tacit.LowRankRegressor(epsilon=200.0, random_state=0).fit(X, y, tasks=labels)
            model.fit_task(X[:20], y[:20], name="later")
        assert model.shared_covariance_ is not None
        models.append((model.coef_, model.intercept_))
    for one, other in zip(*models, strict=True):
        np.testing.assert_array_equal(one, other)


def test_homes_of_an_earlier_run_are_not_taken_up_by_another_with_other_rows(tmp_path):
    """Single-task fits of the earlier rows were averaged into the models of the later ones."""
    pl = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    task, X = np.repeat(np.arange(30), 12), rng.normal(size=(360, 3))
    columns = {"task": task, **{f"x{j}": X[:, j] for j in range(3)}}
    for name in ("earlier", "later"):  # of as many rows, and nothing in common
        y = (X * rng.normal(size=(30, 3))[task]).sum(axis=1)
        pl.DataFrame({**columns, "y": y}).write_parquet(tmp_path / f"{name}.parquet")

    def fitted(name, homes):
        model = tacit.LowRankRegressor(
            epsilon=200.0, random_state=0, engine=Local(homes=tmp_path / homes)
        )
        return model.fit_parquet(tmp_path / f"{name}.parquet", tasks="task", target="y").coef_

    fitted("earlier", "used")
    np.testing.assert_array_equal(fitted("later", "used"), fitted("later", "fresh"))
