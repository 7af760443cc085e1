"""Estimators to and from model folders (npz + JSON manifest, see :mod:`tacit.models`)."""

from __future__ import annotations

import json
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tacit import models
from tacit._version import __version__
from tacit.errors import InvalidInput, ModelFileError
from tacit.estimators._private import Sizes
from tacit.privacy.billboard import Billboard
from tacit.privacy.statement import Statement

__all__ = ["BILLBOARD", "load", "save"]

BILLBOARD = "billboard.npz"
_ARRAYS = ("coef_", "intercept_", "shared_coef_", "shared_intercept_", "classes_")


def _parameters(estimator: Any) -> dict[str, Any]:
    """Return the constructor parameters a JSON file can hold; handles such as a ledger stay out."""
    kept: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        try:
            json.dumps(value)
        except TypeError:
            if name in estimator._given_again:
                kept[name] = None
            continue
        kept[name] = value
    return kept


def save(estimator: Any, directory: str | PathLike[str], *, task: Any = None) -> None:
    """Write a fitted estimator; with ``task``, only that task's personal model."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    names = tuple(estimator.task_names_)
    if task is not None and task not in names:
        raise InvalidInput(f"task={task!r}: not one of the model's {len(names)} tasks")
    arrays = {
        name: np.asarray(getattr(estimator, name))
        for name in (*_ARRAYS, *estimator._task_arrays, *estimator._public_arrays)
        if getattr(estimator, name, None) is not None
    }
    objects = "classes_" in arrays and arrays["classes_"].dtype == object
    if objects:  # text, as pandas has it: stored in fixed width
        arrays["classes_"] = np.array(arrays["classes_"].tolist())
    if task is not None:
        own = [names.index(task)]
        for name in ("coef_", "intercept_", *estimator._task_arrays):
            if name in arrays:
                arrays[name] = arrays[name][own]
        names = (task,)
    billboard, sizes = estimator.billboard_, getattr(estimator, "_sizes", None)
    manifest = {
        "tacit": __version__,
        "parameters": _parameters(estimator),
        "n_features_in_": estimator.n_features_in_,
        "feature_names_in_": list(getattr(estimator, "feature_names_in_", ())) or None,
        "task_names_": names,
        "privacy_": json.loads(estimator.privacy_.to_json()),
        "history_": estimator.history_,
        "sizes": None if sizes is None else asdict(sizes),
        "billboard": None if billboard is None else billboard.head,
        "object_classes": objects,
    }
    if billboard is not None:
        Path(directory).mkdir(parents=True, exist_ok=True)
        billboard.save(Path(directory) / BILLBOARD)
    models.save(directory, kind=type(estimator).__name__, manifest=manifest, arrays=arrays)


def load(directory: str | PathLike[str]) -> Any:
    """Read back an estimator written by ``save``; predictions are the same to the last bit."""
    import tacit

    kind, manifest, arrays = models.read(directory)
    if kind not in (*tacit.ESTIMATORS, *tacit.NEURAL):
        raise ModelFileError(
            f"{directory}: holds a {kind!r}, which this version of tacit does not know; "
            f"it was written by tacit {manifest.get('tacit')}"
        )
    try:
        estimator = getattr(tacit, kind)(**manifest["parameters"])
        estimator.n_features_in_ = manifest["n_features_in_"]
        if manifest["feature_names_in_"] is not None:
            estimator.feature_names_in_ = np.asarray(manifest["feature_names_in_"], dtype=object)
        estimator.task_names_ = tuple(manifest["task_names_"])
        estimator.privacy_ = Statement.from_json(json.dumps(manifest["privacy_"]))
        estimator.history_ = tuple(manifest["history_"])
    except (KeyError, TypeError) as error:
        raise ModelFileError(f"{directory}: the manifest lacks or misuses {error}") from error
    if manifest.get("sizes") is not None:
        estimator._sizes = Sizes(**manifest["sizes"])
    estimator.billboard_ = _billboard(Path(directory) / BILLBOARD, manifest.get("billboard"))
    estimator.shared_coef_ = estimator.shared_intercept_ = None
    for name, value in arrays.items():
        setattr(estimator, name, value)
    if manifest.get("object_classes"):
        estimator.classes_ = estimator.classes_.astype(object)
    return estimator


def _billboard(path: Path, head: str | None) -> Billboard | None:
    """Return the model's releases; None if they are not there, or another model's."""
    if head is None or not path.exists():
        return None
    found = Billboard.load(path)
    return found if found.head == head else None
