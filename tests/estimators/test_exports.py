"""A party's model for places without tacit: coefficients and ONNX give the same answers."""

from __future__ import annotations

import csv
import json

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.errors import InvalidInput


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    tasks = np.repeat(["north", "south"], 30)
    frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["age", "dose", "size"])
    return frame, frame.to_numpy() @ [1.0, -2.0, 0.5] + (tasks == "north"), tasks


def _models(rows):
    X, y, tasks = rows
    three = np.array(["low", "mid", "top"])[np.digitize(y, [-1, 1])]
    yield tacit.SingleTaskRegressor().fit(X, y, tasks=tasks)
    yield tacit.SingleTaskClassifier().fit(X, np.where(y > 0, "yes", "no"), tasks=tasks)
    yield tacit.SingleTaskClassifier().fit(X, (y > 0).astype(int), tasks=tasks)
    yield tacit.SingleTaskClassifier().fit(X, three, tasks=tasks)


def test_coefficients_in_csv_predict_as_the_model_does(rows, tmp_path):
    X, _, _ = rows
    model = next(_models(rows))
    model.export(tmp_path / "north.csv", task="north")
    with (tmp_path / "north.csv").open() as stream:
        lines = list(csv.DictReader(stream))
    assert {line["task"] for line in lines} == {"north"}
    weights = {line["feature"]: float(line["weight"]) for line in lines}
    level = weights.pop("(intercept)")
    by_hand = X[list(weights)].to_numpy() @ np.array(list(weights.values())) + level
    np.testing.assert_allclose(by_hand, model.predict(X, tasks=["north"] * 60))


def test_coefficients_in_json_say_how_to_use_them(rows, tmp_path):
    X, _, _ = rows
    for model in _models(rows):
        model.export(tmp_path / "all.json")
        body = json.loads((tmp_path / "all.json").read_text())
        assert [part["task"] for part in body["tasks"]] == ["north", "south"]
        assert body["features"] == ["age", "dose", "size"]
        south = body["tasks"][1]
        scores = X.to_numpy() @ np.array(south["weights"]).T + south["intercepts"]
        if "classes" not in body:
            np.testing.assert_allclose(scores[:, 0], model.predict(X, tasks=["south"] * 60))
            continue
        shares = 1 / (1 + np.exp(-scores))
        if len(body["classes"]) == 2:
            shares = np.hstack([1 - shares, shares])
        shares = shares / shares.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(shares, model.predict_proba(X, tasks=["south"] * 60))


def test_onnx_answers_as_the_model_does_to_the_last_digits(rows, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="pip install onnxruntime onnx")
    pytest.importorskip("onnx")
    X, _, _ = rows
    for model in _models(rows):
        file = model.export(tmp_path / "north.onnx", task="north")
        session = runtime.InferenceSession(file.read_bytes())
        assert json.loads(session.get_modelmeta().custom_metadata_map["features"])[0] == "age"
        answers = session.run(None, {"X": X.to_numpy()})
        expected = model.predict(X, tasks=["north"] * 60)
        if not hasattr(model, "classes_"):
            np.testing.assert_allclose(answers[0][:, 0], expected, rtol=1e-12)
            continue
        np.testing.assert_array_equal(answers[0], expected)
        np.testing.assert_allclose(
            answers[1], model.predict_proba(X, tasks=["north"] * 60), rtol=1e-12, atol=1e-15
        )


def test_what_cannot_be_exported_is_said_by_name(rows, tmp_path):
    model = next(_models(rows))
    with pytest.raises(InvalidInput, match="task='west'"):
        model.export(tmp_path / "west.csv", task="west")
    with pytest.raises(InvalidInput, match="must end in"):
        model.export(tmp_path / "north.pkl", task="north")
    with pytest.raises(InvalidInput, match=r"onnx"):
        model.export(tmp_path / "all.onnx")
    assert list(tmp_path.iterdir()) == []
