"""What the figures of the asynchronous paper measure, and how they are drawn.

A run of a scheme gives the objective (Figs. 2 and 7), the rank of P and the errors of the first
five tasks (Figs. 3–6) all at once, so a file has the figures of one data set.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import PrivacyWarning
from tacit.reproduce import Record

from .experiments import Course, Data, alone, course, load

__all__ = ["chosen", "draw", "tuned", "value"]

N_SHOWN = 5  # tasks, as in the paper
_POINTS = 10  # of a curve
_TUNED = Path(__file__).parent / "tuned.json"
TASKS = tuple(f"task {number + 1}" for number in range(N_SHOWN))


@lru_cache(maxsize=1)
def _choices() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_TUNED.read_text(encoding="utf-8"))
    return found


def tuned(data: str, scheme: str, epsilon: float) -> dict[str, Any]:
    """Return what ``tune.py`` chose for a scheme on other draws."""
    found: dict[str, Any] = _choices()[scheme][data][f"{epsilon:g}"]
    return found


def chosen(config: dict[str, Any]) -> list[Any]:
    """Return the tuned choices that a figure depends on."""
    data = config["panel"][0]["data"]
    private = [m for m in config["method"] if m.get("scheme") in ("printed", "sound")]
    return [tuned(data, m["scheme"], m["epsilon"]) for m in private]


@lru_cache(maxsize=4)
def _loaded(name: str, seed: int) -> Data:
    return load(name, seed)


def value(
    config: dict[str, Any],
    panel: dict[str, Any],
    method: dict[str, Any],
    run: int,
    x: Any,  # noqa: ARG001 - levels are this paper's own: turns
) -> Mapping[Any, float]:
    """Run a scheme once; return what every panel shows of it, by (panel, level)."""
    data = _loaded(panel["data"], run)
    if method["scheme"] == "alone":
        wrong = alone(data)
        return {("error", "all"): wrong[:N_SHOWN].mean()} | {
            (task, "all"): wrong[number] for number, task in enumerate(TASKS)
        }
    epsilon, options = float(method.get("epsilon", np.inf)), dict(config["options"])
    if method["scheme"] != "open":
        options["step"] = tuned(panel["data"], method["scheme"], epsilon)["step"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # the figure says which one leaks
        found = course(
            data, method["scheme"], epsilon, turns=int(config["turns"]), options=options, seed=run
        )
    return _shown(found)


def _shown(found: Course) -> dict[Any, float]:
    turns = len(found.objective)
    places = sorted({round(place) for place in np.linspace(0, turns - 1, _POINTS)})
    errors = found.errors[:, :N_SHOWN]
    curves = {"objective": found.objective, "rank of P": found.rank, "error": errors.mean(axis=1)}
    curves |= {task: errors[:, number] for number, task in enumerate(TASKS)}
    shown = {
        (name, place + 1): float(curve[place]) for name, curve in curves.items() for place in places
    }
    half = turns // 2
    changes = {
        "objective": np.diff(found.objective[half:]) / found.objective[-1],
        "error": np.diff(errors[half:], axis=0),
    }
    shown |= {("fluctuation", name): float(np.std(change)) for name, change in changes.items()}
    if np.isfinite(found.epsilon):
        shown["ε in all", "end"] = found.epsilon
    return shown


def draw(config: dict[str, Any], record: Record, path: Path) -> None:
    """Draw objective and rank, and below them the errors of five tasks, a scheme a panel."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    methods = record.methods("objective")
    figure = plt.figure(figsize=(2.4 * len(methods), 6.4), layout="constrained")
    above, below = figure.subfigures(2, 1)
    left, right = above.subplots(1, 2)
    for name in methods:
        style = "--" if "leaks" in name else "-"
        left.plot(*_curve(record, "objective", name), style, label=_label(record, name))
        right.plot(*_curve(record, "rank of P", name), style)
    left.set(xlabel="turns of a task", ylabel="objective", yscale="log")
    right.set(xlabel="turns of a task", ylabel="rank of P")
    above.legend(loc="outside lower center", ncols=3, fontsize=8)
    axes = below.subplots(1, len(methods), sharey=True, squeeze=False)[0]
    for axis, name in zip(axes, methods, strict=True):
        for task in TASKS:
            axis.plot(*_curve(record, task, name), lw=1)
        axis.set_title(name.replace(", ", "\n", 1), fontsize=8)
        axis.set(xlabel="turns of a task")
    level = record.of("error", "single task").mean()
    for axis in axes:
        axis.axhline(level, ls=":", color="k", lw=1)
    axes[0].set(ylabel=f"{config['error']}; dotted: alone")
    figure.suptitle(config["title"], fontsize=10)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _curve(record: Record, panel: str, method: str) -> tuple[list[int], list[float]]:
    levels = record.levels(panel, method)
    return [int(x) for x in levels], [float(record.of(panel, method, x).mean()) for x in levels]


def _label(record: Record, method: str) -> str:
    total = record.of("ε in all", method, "end")
    if not total.size or "in all" in method:
        return method
    return f"{method}: ε = {total.mean():.4g} in all"
