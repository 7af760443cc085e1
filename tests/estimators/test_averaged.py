"""The average of the tasks' own models."""

import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput

from .rows import rows_of

INF = float("inf")


def test_without_privacy_it_is_the_mean_of_the_single_task_models():
    X, y, task = rows_of()
    own = tacit.SingleTaskRegressor().fit(X, y, tasks=task)
    model = tacit.AveragedRegressor(INF).fit(X, y, tasks=task)
    np.testing.assert_allclose(model.coef_[7], own.coef_.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(model.shared_intercept_, own.intercept_.mean(), rtol=1e-12)


def test_with_a_large_budget_and_clip_it_is_that_mean_again():
    X, y, task = rows_of()
    exact = tacit.AveragedRegressor(INF).fit(X, y, tasks=task)
    model = tacit.AveragedRegressor(1e5, clip=50.0, random_state=0).fit(X, y, tasks=task)
    np.testing.assert_allclose(model.shared_coef_, exact.shared_coef_, atol=0.1)
    assert (model.coef_ == model.coef_[0]).all()


def test_directions_get_their_length_and_intercept_at_home():
    X, y, task = rows_of()
    model = tacit.AveragedRegressor(1e4, random_state=0).fit(X, y, tasks=task)
    lengths = np.linalg.norm(model.coef_, axis=1)
    assert len(np.unique(lengths.round(9))) > 10
    units = model.coef_[lengths > 0] / lengths[lengths > 0, None]
    np.testing.assert_allclose(units, np.broadcast_to(units[0], units.shape), atol=1e-9)
    assert model.shared_coef_ is None


@pytest.mark.parametrize(
    ("parameters", "text"),
    [({"clip": 0.0}, "clip=0"), ({"mechanism": "laplace"}, "mechanism='laplace'")],
)
def test_bad_parameters_are_refused_by_name(parameters, text):
    X, y, task = rows_of()
    with pytest.raises(InvalidInput, match=text):
        tacit.AveragedRegressor(**parameters).fit(X, y, tasks=task)
