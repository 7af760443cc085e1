"""Personal models drawn to a shared mean."""

import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput

from .rows import rows_of

INF = float("inf")


def test_the_pull_goes_from_single_task_models_to_one_model():
    X, y, task = rows_of()
    spread = [
        np.std(tacit.MeanRegularizedRegressor(INF, alpha=alpha).fit(X, y, tasks=task).coef_, axis=0)
        for alpha in (1e-3, 1.0, 1e6)
    ]
    assert spread[0].sum() > 1.05 * spread[1].sum()
    assert (spread[1] > 100 * spread[2]).all()


def test_a_clip_gives_a_shared_model_that_answers_strangers():
    X, y, task = rows_of()
    model = tacit.MeanRegularizedRegressor(
        1e4, clip=20.0, n_rounds=2, unknown_task="shared", random_state=0
    ).fit(X, y, tasks=task)
    expected = X[:5] @ model.shared_coef_[0] + model.shared_intercept_[0]
    np.testing.assert_allclose(model.predict(X[:5], tasks=["new"] * 5), expected)
    assert len(model.billboard_) == 2


def test_three_classes_are_one_message():
    X, y, task = rows_of(classes=3)
    model = tacit.MeanRegularizedClassifier(1.0, n_rounds=1).fit(X, y, tasks=task)
    assert model.billboard_.read(0).shape == (3, 5)
    assert model.coef_.shape == (30, 3, 5)
    assert model.privacy_.n_releases == 1


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"n_rounds": 0}, "n_rounds=0"),
        ({"alpha": -2.0}, "alpha=-2.0"),
        ({"epsilon": 0.0}, "epsilon=0.0"),
        ({"delta": 1.0}, "delta=1.0"),
        ({"progress": 3}, "progress=3"),
    ],
)
def test_bad_parameters_are_refused_by_name(parameters, text):
    X, y, task = rows_of()
    with pytest.raises(InvalidInput, match=text):
        tacit.MeanRegularizedRegressor(**parameters).fit(X, y, tasks=task)
