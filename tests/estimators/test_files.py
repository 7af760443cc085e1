"""Models go to a folder and come back the same."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.errors import InvalidInput, ModelFileError


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(60, 3)), columns=["age", "dose", "weight"])
    tasks = [("site", i % 3) for i in range(60)]
    return X, X.to_numpy() @ [1.0, 2.0, 3.0] + rng.normal(size=60), tasks


def test_round_trip_is_exact(tmp_path, rows):
    X, y, tasks = rows
    model = tacit.MeanRegularizedRegressor(epsilon=2.0, random_state=0, clip=5.0)
    model.fit(X, y, tasks=tasks).save(tmp_path / "model")
    back = tacit.load(tmp_path / "model")
    assert back.get_params() == model.get_params()
    assert back.task_names_ == model.task_names_
    assert back.privacy_ == model.privacy_
    assert back.history_ == model.history_
    np.testing.assert_array_equal(back.predict(X, tasks=tasks), model.predict(X, tasks=tasks))


def test_classifier_classes_come_back(tmp_path, rows):
    X, y, tasks = rows
    labels = np.where(y > 0, "ill", "well")
    model = tacit.SingleTaskClassifier().fit(X, labels, tasks=tasks)
    model.save(tmp_path / "model")
    back = tacit.load(tmp_path / "model")
    np.testing.assert_array_equal(back.predict(X, tasks=tasks), model.predict(X, tasks=tasks))


def test_a_partys_folder_holds_its_own_model_only(tmp_path, rows):
    X, y, tasks = rows
    model = tacit.SingleTaskRegressor().fit(X, y, tasks=tasks)
    model.save(tmp_path / "own", task=("site", 1))
    own = tacit.load(tmp_path / "own")
    assert own.task_names_ == (("site", 1),)
    assert own.coef_.shape == (1, 3)
    mine = [task == ("site", 1) for task in tasks]
    np.testing.assert_allclose(
        own.predict(X[mine], tasks=[("site", 1)] * sum(mine)),
        model.predict(X, tasks=tasks)[mine],
        rtol=1e-12,
    )
    with pytest.raises(InvalidInput, match="task="):
        model.save(tmp_path / "other", task="nobody")


def test_foreign_and_edited_folders_are_refused(tmp_path, rows):
    X, y, tasks = rows
    with pytest.raises(ModelFileError):
        tacit.load(tmp_path)
    tacit.SingleTaskRegressor().fit(X, y, tasks=tasks).save(tmp_path / "model")
    manifest = next((tmp_path / "model").glob("*.json"))
    body = json.loads(manifest.read_text())
    body["kind"] = "NoSuchRegressor"
    manifest.write_text(json.dumps(body))
    with pytest.raises(ModelFileError):
        tacit.load(tmp_path / "model")


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        tacit.SingleTaskRegressor().save(tmp_path / "model")
