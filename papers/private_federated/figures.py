"""What the figures and the table of the federated paper measure: errors, losses and ε."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from tacit.errors import PrivacyWarning
from tacit.reproduce import Record, draw_lines

from .federations import Federation, federation

__all__ = ["draw", "value"]


def value(
    config: dict[str, Any], panel: dict[str, Any], method: dict[str, Any], run: int, x: Any
) -> float | dict[str, float]:
    """Return the share of test rows that are classified wrongly, or a curve by rounds."""
    data = federation(panel["data"], run)
    if config["kind"] == "rounds":
        return _by_round(config, panel, method, data, run)
    return _error(_fitted(method, data, float(x), run), data)


def _fitted(method: Mapping[str, Any], data: Federation, epsilon: float, run: int) -> Any:
    """Return the fitted model; δ is 1/m as in the paper, or "auto", the library's own."""
    X, y, tasks = data.train
    options = {"classes": data.classes, **method.get("parameters", {})}
    if options.get("fine_tune") == "none":
        options["fine_tune"] = None
    if method["estimator"] != "SingleTask":
        options["epsilon"] = math.inf if method.get("open") else epsilon
        options["delta"] = method.get("delta", 1 / data.n_tasks)
        options["random_state"] = run
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of seeded noise
        return getattr(tacit, f"{method['estimator']}Classifier")(**options).fit(X, y, tasks=tasks)


def _error(model: Any, data: Federation) -> float:
    """Return the mean over tasks of the share of wrong answers."""
    X, y, tasks = data.test
    wrong = np.bincount(tasks, model.predict(X, tasks=tasks) != y, minlength=data.n_tasks)
    counts = np.bincount(tasks, minlength=data.n_tasks)
    return float((wrong[counts > 0] / counts[counts > 0]).mean())


def _by_round(
    config: Mapping[str, Any],
    panel: Mapping[str, Any],
    method: Mapping[str, Any],
    data: Federation,
    run: int,
) -> dict[str, float]:
    """Return ε, or the average loss of the tasks' training rows, after some rounds.

    The average is nobody's to see but a simulation's: `OwnLosses` says that it is not sound. ε does
    not depend on how tasks end.
    """
    from tacit.neural import own_losses

    X, y, tasks = data.train
    rounds, epsilon = [int(x) for x in config["x"]], float(config["epsilon"])
    if panel["measure"] == "epsilon":
        parameters = {**method.get("parameters", {}), "fine_tune": "none"}
        model = _fitted({**method, "parameters": parameters}, data, epsilon, run)
        spent = [0.0, *(row["epsilon"] for row in model.history_)]
        return {str(t): float(spent[t]) for t in rounds}
    found = own_losses(_fitted(method, data, epsilon, run), X, y, tasks=tasks, rounds=rounds)
    average = found.average().values
    return {str(t): float(number) for t, number in zip(rounds, average, strict=True)}


def draw(config: dict[str, Any], record: Record, path: Path) -> None:
    """Draw lines over ε or over rounds."""
    draw_lines(config, record, path)
