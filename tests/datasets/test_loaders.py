"""Real data sets: sizes and known figures (from the sources' documentation)."""

from __future__ import annotations

import numpy as np
import pytest

from tacit import datasets
from tacit.errors import InvalidInput

SIZES = {
    "school": (15_362, 139, 27, "regression"),
    "mnist": (70_000, 836, 784, "multiclass"),
    "fashion_mnist": (70_000, 1, 784, "multiclass"),
    "femnist": (6_237, 206, 784, "multiclass"),
    "har": (7_352, 21, 561, "multiclass"),
    "heart_disease": (920, 4, 13, "binary"),
    "landmine": (14_820, 29, 9, "binary"),
    "parkinsons": (5_875, 42, 19, "regression"),
    "vehicle": (1_860, 23, 100, "binary"),
    "chem97": (31_022, 131, 3, "regression"),
    "diabetes130": (101_766, 30, 49, "binary"),
    "office_caltech": (2_533, 4, 800, "multiclass"),
    "newsgroup": (3_702, 2, 2_000, "binary"),
    "yeast": (2_417, 14, 103, "binary"),
    "stackex_cs": (9_270, 274, 635, "binary"),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_set_has_its_published_size_and_consistent_names(data, name):
    loaded = data(name)
    n_rows, n_tasks, n_features, kind = SIZES[name]
    assert loaded.X.shape == (n_rows, n_features)
    assert len(loaded.task_names) == n_tasks
    assert loaded.kind == kind
    assert len(loaded.feature_names) in (0, n_features)
    assert "Terms:" in loaded.description
    assert loaded.y.shape[0] == n_rows
    if loaded.tasks is None:
        assert loaded.y.shape[1] == n_tasks
    else:
        assert set(loaded.tasks.tolist()) == set(loaded.task_names)
    if kind == "binary":
        assert set(np.unique(loaded.y).tolist()) == {0, 1}
    has_missing = loaded.X.dtype.kind == "f" and bool(np.isnan(loaded.X).any())
    assert has_missing == bool(loaded.missing)
    assert repr(loaded).startswith(f"Dataset('{name}', {kind}, n_tasks={n_tasks}")


def test_every_loader_of_the_catalogue_is_tested_here():
    assert set(SIZES) == set(datasets.CATALOGUE)


def test_school_has_its_ten_standard_splits(data):
    school = data("school")
    assert school.extras["split_train"].shape == (10, 15_362)
    assert set(school.extras["split_train"].sum(axis=1).tolist()) == {11_472}
    tasks = school.taskset()
    assert (tasks.n_tasks, tasks.n_rows, tasks.X.dtype) == (139, 15_362, np.float32)
    assert tasks.feature_names == school.feature_names


def test_missing_values_need_a_public_filling(data):
    heart = data("heart_disease")
    with pytest.raises(InvalidInput, match="NaN in task"):
        heart.taskset()
    filled = heart.taskset(fill=-1.0)
    assert filled.X.dtype == np.float32
    assert np.sum(filled.X == -1.0) >= np.isnan(heart.X).sum()
    graded = heart.taskset(fill=0.0, y=heart.extras["y_num"])
    assert graded.y.max() == 4


def test_outcomes_of_the_same_rows_become_tasks(data):
    yeast = data("yeast")
    tasks = yeast.taskset(outcomes=[3, 1])
    assert tasks.names == ("outcome 1", "outcome 3")
    np.testing.assert_array_equal(tasks.y[: len(yeast.X)], yeast.y[:, 1])
    np.testing.assert_array_equal(tasks.X[len(yeast.X) :], yeast.X)
    with pytest.raises(InvalidInput, match=r"274 copies of 9270 rows .*choose fewer"):
        data("stackex_cs").taskset()


def test_precision_of_whole_number_features_can_be_chosen(data):
    caltech = data("office_caltech")
    assert caltech.taskset().X.dtype == np.float64
    assert caltech.taskset(dtype=np.float32).X.dtype == np.float32
