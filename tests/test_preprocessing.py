"""Public ranges and own means as scikit-learn transformers."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import tacit
from tacit.errors import InvalidInput, UnknownTask
from tacit.preprocessing import PublicRangeScaler, TaskMeanImputer

X = np.array([[40.0, 1.2], [np.nan, 0.4], [70.0, 2.0], [120.0, np.nan]])
TASKS = ["A", "A", "B", "B"]


@pytest.mark.parametrize("transformer", [PublicRangeScaler({}), TaskMeanImputer()])
def test_scikit_learn_takes_it_for_its_own(transformer):
    check_estimator(transformer, on_skip=None)


def test_ranges_are_brought_to_one_size_and_nothing_is_learned_from_rows():
    for ranges in ({0: (0, 100)}, [(0, 100), None]):
        scaler = PublicRangeScaler(ranges).fit(np.zeros((1, 2)))
        np.testing.assert_allclose(
            scaler.transform(X), [[-0.2, 1.2], [np.nan, 0.4], [0.4, 2.0], [1.4, np.nan]]
        )
    cut = PublicRangeScaler({0: (0, 100)}, outside="clip").fit_transform(X)
    assert cut[3, 0] == 1.0
    assert cut[2, 1] == 2.0  # no range, no cut
    with pytest.raises(InvalidInput, match="row 3, column 0 is 120, beyond its range 0 … 100"):
        PublicRangeScaler({0: (0, 100)}, outside="error").fit_transform(X)


def test_columns_of_a_frame_go_by_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["age", "score"])
    scaled = PublicRangeScaler({"age": (0, 100)}).fit_transform(frame)
    assert scaled[0, 0] == pytest.approx(-0.2)
    with pytest.raises(InvalidInput, match="'years' is no column"):
        PublicRangeScaler({"years": (0, 100)}).fit(frame)


@pytest.mark.parametrize("ranges", [{0: (5, 5)}, {0: (1,)}, {7: (0, 1)}, [(0, 1)], None, {0: "ab"}])
def test_ranges_that_are_none_are_refused(ranges):
    with pytest.raises(InvalidInput, match="ranges"):
        PublicRangeScaler(ranges).fit(X)


def test_gaps_are_filled_from_the_task_s_own_rows_alone():
    imputer = TaskMeanImputer().fit(X, tasks=TASKS)
    filled = imputer.transform(X, tasks=TASKS)
    assert (filled[1, 0], filled[3, 1]) == (40.0, 2.0)
    changed = X.copy()
    changed[2:] = 1e6
    other = TaskMeanImputer().fit(changed, tasks=TASKS).transform(changed, tasks=TASKS)
    np.testing.assert_array_equal(other[:2], filled[:2])
    # A gap where the task had none at fit time, as in a fold of its rows.
    assert imputer.transform([[np.nan, 1.0]], tasks=["B"])[0, 0] == X[2:, 0].mean()
    with pytest.raises(UnknownTask, match="'C' was not there"):
        imputer.transform([[np.nan, 1.0]], tasks=["C"])


def test_a_pipeline_routes_the_tasks():
    with sklearn.config_context(enable_metadata_routing=True):
        scaler, model = PublicRangeScaler({0: (0, 100)}), tacit.SingleTaskRegressor()
        chain = make_pipeline(scaler, TaskMeanImputer(), model)  # nothing is requested by hand
        chain.fit(X, [1.0, 2.0, 3.0, 4.0], tasks=TASKS)
        assert np.isfinite(chain.predict(X, tasks=TASKS)).all()
