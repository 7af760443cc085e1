"""What each kind of figure measures, and how it is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacit.reproduce import Record, draw_lines

from .experiments import choices, load, score, train
from .leak import draw_leak, leak_values
from .relations import draw_relations, relation_values
from .rounds import allocation_value, ratio_values

__all__ = ["chosen", "draw", "value"]


def chosen(config: dict[str, Any]) -> list[Any]:
    """Return the tuned choices that a figure depends on."""
    data = {panel.get("data") for panel in config["panel"]}
    used = {method["tuned"] for method in config["method"] if "tuned" in method}
    return [(name, part, choices(name).get(part)) for name in sorted(used) for part in sorted(data)]


def value(
    config: dict[str, Any], panel: dict[str, Any], method: dict[str, Any], run: int, x: Any
) -> float | Mapping[Any, float]:
    """Measure one method once."""
    kind = config["kind"]
    if kind == "leak":
        return leak_values(config, method, run)
    if kind == "ratio":
        return ratio_values(config, panel, method, run)
    if kind == "relations":
        return relation_values(config, panel, method, run)
    if kind == "allocation":
        return allocation_value(config, panel, method, run, float(x))
    if kind == "tasks":
        return _with_tasks(config, panel, method, run, int(x))
    return _tradeoff(panel, method, run, float(x))


def _tradeoff(panel: dict[str, Any], method: dict[str, Any], run: int, epsilon: float) -> float:
    rows, test = load(panel["data"], run, share=panel.get("share", 0.3))
    kind = "Regressor" if panel["metric"] == "nmse" else "Classifier"
    model = train(method, rows, epsilon, data=panel["data"], kind=kind, seed=run)
    return score(model, test, panel["metric"])


def _with_tasks(
    config: dict[str, Any], panel: dict[str, Any], method: dict[str, Any], run: int, n_tasks: int
) -> float:
    """Return the error of the first tasks, averaged over privacy levels, among ``n_tasks``."""
    rows, test = load(panel["data"], run, n_tasks)
    values = []
    for epsilon in panel["epsilons"]:
        model = train(method, rows, epsilon, data=panel["data"], kind="Regressor", seed=run)
        values.append(score(model, test, panel["metric"], config["scored_tasks"]))
    return float(np.mean(values))


def draw(config: dict[str, Any], record: Record, path: Path) -> None:
    """Draw a figure the way the paper does."""
    special = {"leak": draw_leak, "relations": draw_relations}
    special.get(config["kind"], draw_lines)(config, record, path)
