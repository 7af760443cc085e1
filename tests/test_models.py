"""Model files come back exactly; damaged, foreign and newer ones are refused with the remedy."""

from __future__ import annotations

import errno
import json
import math
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tacit import models
from tacit.errors import InvalidInput, ModelFileError

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters(codec="utf-8"), max_size=5),
)
names = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=5)
arrays = st.dictionaries(
    st.sampled_from(["coef", "intercept", "file", "x.mean"]),
    st.one_of(npst.integer_dtypes(), npst.floating_dtypes(), npst.boolean_dtypes()).flatmap(
        lambda kind: npst.arrays(kind, npst.array_shapes(min_dims=0, max_dims=3, min_side=0))
    ),
    max_size=3,
)


def same(left, right):
    """Equal in value and in type, NaN and the sign of zero included."""
    if type(left) is not type(right):
        return False
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        both_nan = math.isnan(left) and math.isnan(right)
        return both_nan or (left == right and math.copysign(1, left) == math.copysign(1, right))
    return left == right


@pytest.fixture
def saved(tmp_path):
    folder = tmp_path / "model"
    models.save(
        folder, kind="LowRankRegressor", manifest={"epsilon": 1.0}, arrays={"coef": np.arange(6.0)}
    )
    return folder


def arrays_file(folder):
    return next(folder.glob("arrays-*.npz"))


@given(st.lists(names, max_size=6), arrays)
def test_a_round_trip_is_exact(tmp_path_factory, task_names, stored):
    folder = tmp_path_factory.mktemp("round") / "trip"
    models.save(folder, kind="any", manifest={"tasks": task_names, "empty": {}}, arrays=stored)
    kind, manifest, read = models.read(folder)
    assert kind == "any"
    assert manifest["empty"] == {}
    assert same(tuple(manifest["tasks"]), tuple(task_names))
    assert read.keys() == stored.keys()
    for name, array in stored.items():
        assert read[name].dtype == array.dtype
        assert read[name].shape == array.shape
        assert read[name].tobytes() == array.tobytes()


def test_column_major_and_text_arrays_round_trip(tmp_path):
    stored = {"F": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "text": np.array(["a", "bé"])}
    models.save(tmp_path, kind="any", manifest={}, arrays=stored)
    read = models.read(tmp_path)[2]
    np.testing.assert_array_equal(read["F"], stored["F"])
    np.testing.assert_array_equal(read["text"], stored["text"])


def test_the_same_model_gives_the_same_bytes(tmp_path):
    for name in ("first", "second"):
        models.save(tmp_path / name, kind="any", manifest={"a": 1}, arrays={"w": np.ones(3)})
    for file in (tmp_path / "first").iterdir():
        assert file.read_bytes() == (tmp_path / "second" / file.name).read_bytes()


def test_saving_again_replaces_the_model_and_leaves_other_files_alone(saved):
    (saved / "ledger.db").write_text("kept")
    models.save(saved, kind="other", manifest={}, arrays={"coef": np.zeros(2)})
    kind, _, read = models.read(saved)
    assert kind == "other"
    np.testing.assert_array_equal(read["coef"], [0.0, 0.0])
    assert len(list(saved.glob("arrays-*.npz"))) == 1
    assert (saved / "ledger.db").read_text() == "kept"
    assert len(list(saved.iterdir())) == 3


def test_a_failed_save_leaves_the_old_model(saved, monkeypatch):
    def no_space(*_):
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", no_space)
        with pytest.raises(OSError, match="no space left"):
            models.save(saved, kind="other", manifest={}, arrays={"coef": np.zeros(2)})
    assert models.read(saved)[0] == "LowRankRegressor"
    assert len(list(saved.iterdir())) == 2


@pytest.mark.parametrize(
    ("manifest", "stored", "message"),
    [
        ({"a": object()}, {}, r"manifest\['a'\]: .* of type object cannot be stored"),
        ({"a": {"b": {1, 2}}}, {}, r"manifest\['a'\]\['b'\]: .* of type set"),
        ({"a": {1: "x"}}, {}, "key 1 cannot be stored"),
        ({"a": {"__tuple__": []}}, {}, "key '__tuple__' cannot be stored"),
        ({}, {"w": np.array([object()])}, "'w' holds Python objects"),
        ({}, {"../w": np.ones(1)}, r"'\.\./w' is no usable name"),
    ],
)
def test_what_cannot_be_stored_is_named_and_nothing_is_written(tmp_path, manifest, stored, message):
    with pytest.raises(InvalidInput, match=message):
        models.save(tmp_path / "model", kind="any", manifest=manifest, arrays=stored)
    assert not (tmp_path / "model").exists()


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match=r"holds no model .*pass the folder"):
        models.read(tmp_path / "nowhere")
    with pytest.raises(ModelFileError, match="holds no model"):
        models.read(tmp_path)


@pytest.mark.parametrize("size", [0, 10, 300])
def test_truncated_files_are_refused(saved, size):
    path = arrays_file(saved)
    content = path.read_bytes()
    path.write_bytes(content[:size])
    with pytest.raises(ModelFileError, match=r"truncated or was changed .*save the model again"):
        models.read(saved)
    path.write_bytes(content)
    manifest = saved / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:size])
    with pytest.raises(ModelFileError, match=r"is damaged \(not JSON\)"):
        models.read(saved)


def test_edited_files_are_refused(saved):
    manifest = saved / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"epsilon": 1.0', '"epsilon": 0.1'))
    with pytest.raises(ModelFileError, match=r"manifest\.json: was changed after it was saved"):
        models.read(saved)
    manifest.write_text(text)
    content = bytearray(arrays_file(saved).read_bytes())
    content[-100] ^= 1
    arrays_file(saved).write_bytes(content)
    with pytest.raises(ModelFileError, match="was changed after it was saved"):
        models.read(saved)
    arrays_file(saved).unlink()
    with pytest.raises(ModelFileError, match="is missing; copy the whole folder"):
        models.read(saved)


def test_foreign_files_are_refused_and_not_overwritten(tmp_path):
    (tmp_path / "manifest.json").write_text('{"name": "a web app"}')
    with pytest.raises(ModelFileError, match="was not written by tacit"):
        models.read(tmp_path)
    with pytest.raises(ModelFileError, match="choose another folder"):
        models.save(tmp_path, kind="any", manifest={}, arrays={})
    assert (tmp_path / "manifest.json").read_text() == '{"name": "a web app"}'
    (tmp_path / "file").write_text("x")
    with pytest.raises(ModelFileError, match="is a file; name a folder"):
        models.save(tmp_path / "file", kind="any", manifest={}, arrays={})


def test_a_newer_format_asks_for_an_upgrade(saved):
    manifest = saved / "manifest.json"
    body = json.loads(manifest.read_text())
    body |= {"format_version": models.FORMAT_VERSION + 1, "tacit_version": "9.0"}
    manifest.write_text(json.dumps(body))
    with pytest.raises(ModelFileError, match=r"written by tacit 9\.0.*pip install --upgrade tacit"):
        models.read(saved)
