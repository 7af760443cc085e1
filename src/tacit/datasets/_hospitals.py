"""The embedded demo: twenty invented hospitals, made in code, the same on every machine."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from tacit._types import Array
from tacit.datasets._dataset import Dataset

__all__ = ["load_hospitals"]

# Invented names with their patients on record: from a village clinic to a teaching hospital.
_HOSPITALS = {
    "Alder Vale": 16,
    "Ashbourne General": 44,
    "Brackwater": 18,
    "Calder Royal": 72,
    "Dunmere": 14,
    "Eastholm": 27,
    "Fernhill": 13,
    "Greyfriars": 35,
    "Hallow Bridge": 17,
    "Inverlock": 22,
    "Kingsmoor": 58,
    "Larkfield": 12,
    "Marlow Infirmary": 40,
    "Northgate": 31,
    "Oakhurst": 18,
    "Penrose Memorial": 24,
    "Quayside": 15,
    "Ravensworth": 50,
    "St Brannoc": 20,
    "Westerdale": 29,
}
# Feature: population mean and standard deviation, digits on record.
_FEATURES = {
    "age": (68.0, 12.0, 0),
    "emergency": (0.55, 0.5, 0),
    "comorbidities": (2.2, 1.5, 0),
    "systolic_bp": (136.0, 19.0, 0),
    "creatinine": (95.0, 24.0, 0),
    "haemoglobin": (128.0, 17.0, 0),
    "albumin": (38.0, 5.0, 1),
    "prior_admissions": (1.4, 1.2, 0),
}
# Effect of one standard deviation on days of stay: common to all hospitals, then along the two
# axes on which they differ (how sick their wards are, and how early they discharge).
_COMMON = np.array([0.9, 0.7, 1.0, -0.2, 0.5, -0.5, -0.8, 0.5])
_AXES = np.array(
    [
        [0.2, 1.0, 0.7, -0.1, 0.6, -0.5, -1.0, 0.1],
        [-1.0, 0.2, 0.6, 0.4, -0.2, 0.2, 0.1, 0.9],
    ]
)
_SEED = 1730


def load_hospitals() -> Dataset:
    """Length of stay at twenty invented hospitals, 12 to 72 patients each (regression).

    ``extras["readmitted"]`` is a second, binary target. The effect of the features is a common
    one plus a mixture of two ways in which hospitals differ, with a base stay of each hospital's
    own: a hospital alone has too few rows, one model for all is wrong for most, and learning
    together helps. The rows are generated, no patient exists.
    """
    # RandomState, not a Generator: NumPy promises that its stream never changes.
    random = np.random.RandomState(_SEED)
    counts = np.array(list(_HOSPITALS.values()))
    tasks = np.repeat(np.array(list(_HOSPITALS)), counts)
    task = np.repeat(np.arange(len(counts)), counts)
    case_mix = 0.35 * random.standard_normal((len(counts), len(_FEATURES)))
    X = _on_record(case_mix[task] + random.standard_normal((len(task), len(_FEATURES))), random)
    mean, deviation, _ = np.array(list(_FEATURES.values())).T
    standard = (X - mean) / deviation
    effects = _COMMON + random.standard_normal((len(counts), 2)) @ _AXES
    base = 9.0 + 0.8 * random.standard_normal(len(counts))
    need = np.einsum("ij,ij->i", standard, effects[task])
    stay = base[task] + need + 2.2 * random.standard_normal(len(task))
    readmitted = random.uniform(size=len(task)) < expit(0.9 * need - 0.4)
    return Dataset(
        name="hospitals",
        X=X,
        y=np.round(np.maximum(stay, 0.5), 1),
        tasks=tasks,
        feature_names=tuple(_FEATURES),
        task_names=tuple(_HOSPITALS),
        kind="regression",
        description=(
            "Twenty invented hospitals: days of stay and readmission, from eight measurements at "
            "admission. Generated in code; no patient exists. Terms: those of the package."
        ),
        extras={"readmitted": readmitted.astype(np.int8)},
    )


def _on_record(scores: Array, random: np.random.RandomState) -> Array:
    """Standard scores as clinical readings, rounded as they would be written down."""
    X = np.empty_like(scores)
    for column, (name, (mean, deviation, digits)) in enumerate(_FEATURES.items()):
        if name == "emergency":
            X[:, column] = random.uniform(size=len(X)) < expit(scores[:, column] + 0.2)
        else:
            X[:, column] = np.round(mean + deviation * scores[:, column], int(digits))
    for name in ("comorbidities", "prior_admissions"):
        column = list(_FEATURES).index(name)
        X[:, column] = np.maximum(X[:, column], 0.0)
    return X
