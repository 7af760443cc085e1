"""A shared part and a part of one's own."""

import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput
from tacit.penalties import OWN_PENALTIES

from .rows import rows_of


@pytest.mark.parametrize("own", OWN_PENALTIES)
@pytest.mark.parametrize("shared", ["low-rank", "group-sparse"])
def test_every_pair_of_penalties_learns_in_private(shared, own):
    X, y, task = rows_of()
    model = tacit.LowRankSparseRegressor(50.0, shared=shared, own=own, n_rounds=1, random_state=0)
    model.fit(X, y, tasks=task)
    assert model.score(X, y, tasks=task) > 0.8
    assert model.billboard_.read(0).shape == ((5, 5) if shared == "low-rank" else (5,))


def test_an_outlying_task_keeps_its_own_part():
    X, y, task = rows_of()
    W = np.zeros(5)
    W[4] = 40.0
    y = np.where(task == 0, X @ W, y)
    model = tacit.LowRankSparseRegressor(50.0, random_state=0).fit(X, y, tasks=task)
    np.testing.assert_allclose(model.coef_[0], W, atol=2.0)


@pytest.mark.parametrize(
    ("parameters", "text"), [({"own": "groups"}, "own='groups'"), ({"shared": "x"}, "shared='x'")]
)
def test_unknown_penalties_are_refused_by_name(parameters, text):
    X, y, task = rows_of()
    with pytest.raises(InvalidInput, match=text):
        tacit.LowRankSparseRegressor(**parameters).fit(X, y, tasks=task)
