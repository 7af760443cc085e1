"""Loaders of real data sets; the files are not part of the package (see `locate`)."""

from __future__ import annotations

import numpy as np

from tacit._types import AnyArray
from tacit.datasets._catalogue import CATALOGUE
from tacit.datasets._dataset import Dataset
from tacit.datasets._files import locate

__all__ = [
    "load_chem97",
    "load_diabetes130",
    "load_fashion_mnist",
    "load_femnist",
    "load_har",
    "load_heart_disease",
    "load_landmine",
    "load_mnist",
    "load_newsgroup",
    "load_office_caltech",
    "load_parkinsons",
    "load_school",
    "load_stackex_cs",
    "load_vehicle",
    "load_yeast",
]


def load_school() -> Dataset:
    """Exam scores of 15,362 students in 139 London schools (regression).

    ``extras["split_train"]`` holds the ten standard 75/25 splits.
    """
    return _load("school")


def load_mnist() -> Dataset:
    """Handwritten digits, 70,000 images by 836 writers, one task per writer (10 classes).

    ``extras["split_train"]`` is the official split; no writer is on both sides of it.
    """
    return _load("mnist")


def load_fashion_mnist() -> Dataset:
    """Clothing images, 70,000 of 10 classes; one task, since the source has none."""
    return _load("fashion_mnist")


def load_femnist() -> Dataset:
    """Handwritten characters of 206 writers, 62 classes; the test part of a published split."""
    return _load("femnist")


def load_har() -> Dataset:
    """Activities of 21 people from smartphone sensors (6 classes, 561 features)."""
    return _load("har")


def load_heart_disease() -> Dataset:
    """Heart disease at four hospitals (binary); has missing values.

    NaN marks them; ``chol`` = 0 is missing too, unmarked in the source. ``extras["y_num"]``
    grades the disease 0 to 4.
    """
    return _load("heart_disease")


def load_landmine() -> Dataset:
    """Landmines in 29 fields from radar features (binary, 6 % positive)."""
    return _load("landmine")


def load_parkinsons() -> Dataset:
    """Parkinson's scores of 42 patients from voice recordings (regression).

    ``extras["y_motor"]`` is the motor score. Scores were interpolated in time, so random splits
    are optimistic.
    """
    return _load("parkinsons")


def load_vehicle() -> Dataset:
    """Vehicle class at 23 road-side sensors (binary); features standardised per sensor."""
    return _load("vehicle")


def load_chem97() -> Dataset:
    """Chemistry A-level scores in 131 education authorities (regression).

    ``extras["school"]`` numbers the 2,410 schools, for finer tasks.
    """
    return _load("chem97")


def load_diabetes130() -> Dataset:
    """Readmission of diabetic patients by medical specialty (binary, 30 tasks).

    ``extras``: ``patient`` (one person may have several rows), ``first_encounter``,
    ``expired_or_hospice`` and ``y_any`` (readmitted at any time).
    """
    return _load("diabetes130")


def load_office_caltech() -> Dataset:
    """Office objects in four image domains, SURF word counts (10 classes)."""
    return _load("office_caltech")


def load_newsgroup() -> Dataset:
    """Newsgroup posts, computers against science, two related tasks (binary)."""
    return _load("newsgroup")


def load_yeast() -> Dataset:
    """Functions of yeast genes: 14 binary outcomes of the same 2,417 rows, one task each."""
    return _load("yeast")


def load_stackex_cs() -> Dataset:
    """Tags of computer-science questions: 274 binary outcomes of the same 9,270 rows."""
    return _load("stackex_cs")


def _load(name: str) -> Dataset:
    entry = CATALOGUE[name]
    with np.load(locate(entry.file, entry.sha256), allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    X, several = arrays.pop("X"), arrays.pop("Y", None)
    y = several if several is not None else arrays.pop("y")
    task = arrays.pop("task", None)
    feature_names, class_names = _names(arrays, "feature_names"), _names(arrays, "class_names")
    task_names = _names(arrays, "task_names")
    if not task_names:
        n_tasks = y.shape[1] if task is None else int(task.max()) + 1
        task_names = tuple(f"{entry.task_word} {number}" for number in range(n_tasks))
    return Dataset(
        name=name,
        X=X,
        y=y,
        tasks=None if task is None else np.asarray(task_names)[task],
        feature_names=feature_names,
        task_names=task_names,
        kind=entry.kind,
        description=f"{entry.summary} Terms: {entry.terms}",
        missing=entry.missing,
        class_names=class_names,
        extras=arrays,
    )


def _names(arrays: dict[str, AnyArray], key: str) -> tuple[str, ...]:
    return tuple(arrays.pop(key).tolist()) if key in arrays else ()
