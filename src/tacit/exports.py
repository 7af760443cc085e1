"""A party's model for places without tacit: plain coefficients, or ONNX.

Personal models are private to their party. Without a task these files hold every party's model and
are the coordinator's to guard, like a folder that `save` writes.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Hashable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tacit._files import write_whole
from tacit._types import Array
from tacit._version import __version__
from tacit.errors import InvalidInput

__all__ = ["export"]

INTERCEPT = "(intercept)"
_OPSET = 17


def export(model: Any, path: str | PathLike[str], *, task: Hashable | None = None) -> Path:
    """Write coefficients as .csv or .json, or one task's model as .onnx."""
    check_is_fitted(model)
    if not hasattr(model, "coef_"):
        raise InvalidInput(
            f"{type(model).__name__}: has no coefficients to write; use save, and tacit.load there"
        )
    names = tuple(model.task_names_)
    if task is not None and task not in names:
        raise InvalidInput(f"task={task!r}: not one of the model's {len(names)} tasks")
    file, chosen = Path(path), names if task is None else (task,)
    writers: dict[str, Callable[[Any, tuple[Hashable, ...]], str | bytes]] = {
        ".csv": _csv,
        ".json": _json,
        ".onnx": _onnx,
    }
    if file.suffix.lower() not in writers:
        raise InvalidInput(f"path={str(path)!r}: must end in {', '.join(writers)}")
    write_whole(file, writers[file.suffix.lower()](model, chosen))
    return file


def _features(model: Any) -> list[str]:
    given = getattr(model, "feature_names_in_", None)
    if given is not None:
        return [str(name) for name in given]
    return [f"feature {number + 1}" for number in range(model.n_features_in_)]


def _outputs(model: Any, task: Hashable) -> tuple[Array, Array]:
    """Return a task's weights (k, d) and intercepts (k,)."""
    index = model.task_names_.index(task)
    return np.atleast_2d(model.coef_[index]), np.atleast_1d(model.intercept_[index])


def _labels(model: Any) -> list[Any]:
    """Return which class each output speaks for: of two classes the second."""
    if not hasattr(model, "classes_"):
        return [None]
    classes = model.classes_.tolist()
    return classes[1:] if len(classes) == 2 else classes


def _lines(model: Any, tasks: tuple[Hashable, ...]) -> Iterator[list[Any]]:
    features, labels = _features(model), _labels(model)
    for task in tasks:
        for label, weights, level in zip(labels, *_outputs(model, task), strict=True):
            named = "" if label is None else label
            yield from ([task, named, f, float(w)] for f, w in zip(features, weights, strict=True))
            yield [task, named, INTERCEPT, float(level)]


def _csv(model: Any, tasks: tuple[Hashable, ...]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["task", "class", "feature", "weight"])
    writer.writerows(_lines(model, tasks))
    return stream.getvalue()


def _json(model: Any, tasks: tuple[Hashable, ...]) -> str:
    how = "score = intercept + sum of weight times feature"
    body: dict[str, Any] = {"tacit": __version__, "method": type(model).__name__}
    if hasattr(model, "classes_"):
        body["classes"] = model.classes_.tolist()
        two = len(model.classes_) == 2
        each = "1 / (1 + exp(-score))"
        how += (
            f"; probability of the second class = {each}"
            if two
            else (f"; probability of a class = {each}, divided by the sum over classes")
        )
    body |= {"prediction": how, "features": _features(model), "tasks": []}
    for task in tasks:
        coef, intercept = _outputs(model, task)
        body["tasks"].append(
            {"task": task, "weights": coef.tolist(), "intercepts": intercept.tolist()}
        )
    return json.dumps(body, ensure_ascii=False, indent=1, default=str) + "\n"


def _onnx(model: Any, tasks: tuple[Hashable, ...]) -> bytes:
    """Return one task's model: double precision, input ``X``, outputs as of predict(_proba)."""
    try:
        from onnx import TensorProto, checker, helper
    except ImportError:
        raise InvalidInput(
            "onnx: writing .onnx needs the package; install it with pip install 'tacit[onnx]', or "
            "write .json"
        ) from None
    if len(tasks) != 1:
        raise InvalidInput(
            f"task=None: an .onnx file holds one party's model, not {len(tasks)}; name one"
        )
    coef, intercept = _outputs(model, tasks[0])
    k, d = coef.shape
    weights = helper.make_tensor("weights", TensorProto.DOUBLE, (d, k), coef.T.ravel().tolist())
    levels = helper.make_tensor("levels", TensorProto.DOUBLE, (k,), intercept.tolist())
    nodes = [
        helper.make_node("MatMul", ["X", "weights"], ["products"]),
        helper.make_node("Add", ["products", "levels"], ["scores"]),
    ]
    constants, outputs = [weights, levels], []
    if not hasattr(model, "classes_"):
        nodes[-1].output[0] = "prediction"
        outputs.append(helper.make_tensor_value_info("prediction", TensorProto.DOUBLE, (None, 1)))
    else:
        more, extra, outputs = _classifying(model, helper, TensorProto)
        nodes, constants = nodes + more, constants + extra
    given = helper.make_tensor_value_info("X", TensorProto.DOUBLE, (None, d))
    graph = helper.make_graph(nodes, "tacit", [given], outputs, constants)
    whole = helper.make_model(
        graph, producer_name="tacit", opset_imports=[helper.make_opsetid("", _OPSET)]
    )
    whole.ir_version = min(whole.ir_version, 8)  # runtimes of several years read it
    helper.set_model_props(whole, {"features": json.dumps(_features(model), ensure_ascii=False)})
    checker.check_model(whole)
    data: bytes = whole.SerializeToString()
    return data


def _classifying(model: Any, helper: Any, kinds: Any) -> tuple[list[Any], list[Any], list[Any]]:
    classes = model.classes_.tolist()
    words = isinstance(classes[0], str)
    whole = all(isinstance(label, int) for label in classes)
    kind = kinds.STRING if words else kinds.INT64 if whole else kinds.DOUBLE
    kept = [label.encode() for label in classes] if words else classes
    constants = [helper.make_tensor("classes", kind, (len(classes),), kept)]
    nodes = [helper.make_node("Sigmoid", ["scores"], ["positive"])]
    if len(classes) == 2:
        constants.append(helper.make_tensor("one", kinds.DOUBLE, (), [1.0]))
        nodes += [
            helper.make_node("Sub", ["one", "positive"], ["negative"]),
            helper.make_node("Concat", ["negative", "positive"], ["probabilities"], axis=1),
            helper.make_node("ArgMax", ["probabilities"], ["code"], axis=1, keepdims=0),
        ]
    else:
        constants += [
            helper.make_tensor("axis", kinds.INT64, (1,), [1]),
            helper.make_tensor("least", kinds.DOUBLE, (), [float(np.finfo(float).tiny)]),
        ]
        nodes += [
            helper.make_node("ReduceSum", ["positive", "axis"], ["sum"], keepdims=1),
            helper.make_node("Max", ["sum", "least"], ["total"]),
            helper.make_node("Div", ["positive", "total"], ["probabilities"]),
            helper.make_node("ArgMax", ["scores"], ["code"], axis=1, keepdims=0),
        ]
    nodes.append(helper.make_node("Gather", ["classes", "code"], ["prediction"], axis=0))
    outputs = [
        helper.make_tensor_value_info("prediction", kind, (None,)),
        helper.make_tensor_value_info("probabilities", kinds.DOUBLE, (None, len(classes))),
    ]
    return nodes, constants, outputs
