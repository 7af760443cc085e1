"""The figures of the model-protected paper: run, record, draw, check."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from experiments import load, score, train
from leak import leak_rows
from rich.progress import Progress
from rounds import allocation_value, ratio_values
from scipy.stats import mannwhitneyu

from tacit.reproduce import Check

__all__ = ["run"]

Rows = list[dict[str, str]]
_KEYS = ("panel", "method", "x", "run")


class Record:
    """A CSV of finished runs, written row by row, so that an interrupted figure continues."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: Rows = []
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                self.rows = [row for row in csv.DictReader(file) if row.get("value")]
        self._done = {tuple(row[key] for key in _KEYS) for row in self.rows}

    def has(self, *key: Any) -> bool:
        return tuple(map(str, key)) in self._done

    def add(self, *key: Any, value: float) -> None:
        row = dict(zip(_KEYS, map(str, key), strict=True)) | {"value": repr(float(value))}
        new = not self.path.exists()
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, (*_KEYS, "value"))
            if new:
                writer.writeheader()
            writer.writerow(row)
        self.rows.append(row)
        self._done.add(tuple(map(str, key)))

    def values(self, panel: str, method: str, x: Any) -> np.ndarray:
        wanted = (panel, method, str(x))
        return np.array(
            [
                float(row["value"])
                for row in self.rows
                if (row["panel"], row["method"], row["x"]) == wanted
            ]
        )


def run(config: dict[str, Any], *, quick: bool, out: Path, progress: bool) -> list[Check]:
    """Run one figure."""
    record = Record(out / f"{config['figure']}.csv")
    jobs = _jobs(config, quick)
    with Progress(disable=not progress) as bar:
        meter = bar.add_task(config["title"], total=len(jobs))
        for job in jobs:
            _do(config, record, *job)
            bar.advance(meter)
    _draw(config, record, out / f"{config['figure']}.png")
    return _checks(config, record)


def _jobs(config: dict[str, Any], quick: bool) -> list[tuple[dict[str, Any], int, Any]]:
    runs = config["quick_runs"] if quick else config["runs"]
    levels = config["quick_x"] if quick else config["x"]
    config["levels"] = levels
    return list(itertools.product(config["panel"], range(runs), levels))


def _do(config: dict[str, Any], record: Record, panel: dict[str, Any], number: int, x: Any) -> None:
    kind = config["kind"]
    if kind == "leak":
        for method, values in leak_rows(config).items():
            for task, value in enumerate(values):
                if not record.has(panel["name"], method, task, number):
                    record.add(panel["name"], method, task, number, value=value)
        return
    if kind == "ratio":
        for method in config["method"]:
            for t, value in enumerate(ratio_values(config, panel, method, number), start=1):
                if not record.has(panel["name"], method["name"], t, number):
                    record.add(panel["name"], method["name"], t, number, value=value)
        return
    for method in config["method"]:
        if method.get("panel", panel["name"]) != panel["name"]:
            continue
        # Methods without privacy do not depend on ε: computed once, drawn as a line.
        at = "all" if method.get("open") and kind == "tradeoff" else x
        if record.has(panel["name"], method["name"], at, number):
            continue
        value = _value(config, panel, method, number, x)
        record.add(panel["name"], method["name"], at, number, value=value)


def _value(
    config: dict[str, Any], panel: dict[str, Any], method: dict[str, Any], number: int, x: Any
) -> float:
    if config["kind"] == "allocation":
        return allocation_value(config, panel, method, number, float(x))
    estimator_kind = "Regressor" if panel["metric"] == "nmse" else "Classifier"
    if config["kind"] == "tasks":
        rows, test = load(panel["data"], number, int(x))
        values = []
        for epsilon in panel["epsilons"]:
            model = train(method, rows, epsilon, kind=estimator_kind, seed=number)
            values.append(score(model, test, panel["metric"], config["scored_tasks"]))
        return float(np.mean(values))
    rows, test = load(panel["data"], number)
    model = train(method, rows, float(x), kind=estimator_kind, seed=number)
    return score(model, test, panel["metric"])


def _draw(config: dict[str, Any], record: Record, path: Path) -> None:
    panels = config["panel"]
    figure, axes = plt.subplots(1, len(panels), figsize=(5.2 * len(panels), 4.2), squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        _draw_panel(axis, config, panel, record)
    shown = {}
    for axis in axes[0]:
        shown |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    axes[0][-1].legend(
        shown.values(), shown.keys(), fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5)
    )
    figure.suptitle(config["title"], fontsize=11)
    figure.savefig(path, dpi=130, bbox_inches="tight")
    plt.close(figure)


def _names(panel: dict[str, Any], record: Record) -> list[str]:
    rows = [row["method"] for row in record.rows if row["panel"] == panel["name"]]
    return list(dict.fromkeys(rows))


def _draw_panel(axis: Any, config: dict[str, Any], panel: dict[str, Any], record: Record) -> None:
    leaking = {m["name"] for m in config.get("method", []) if m.get("leaking")}
    limits: list[float] = []
    names = [name for every in config["panel"] for name in _names(every, record)]
    hues = {name: f"C{number}" for number, name in enumerate(dict.fromkeys(names))}
    for name in _names(panel, record):
        everywhere = record.values(panel["name"], name, "all")
        style = "--" if name in leaking else "-"
        if everywhere.size:
            axis.axhline(
                everywhere.mean(), ls=":", lw=1.4, label=f"{name} (no ε)", color=hues[name]
            )
            limits.append(float(everywhere.mean()))
            continue
        xs = sorted(
            {
                float(r["x"])
                for r in record.rows
                if r["method"] == name and r["panel"] == panel["name"]
            }
        )
        at = {float(r["x"]): r["x"] for r in record.rows if r["method"] == name}
        series = [record.values(panel["name"], name, at[x]) for x in xs]
        means = np.array([values.mean() for values in series])
        spread = np.array([values.std() for values in series])
        axis.plot(xs, means, style, marker="o", ms=3, label=name, color=hues[name])
        axis.fill_between(xs, means - spread, means + spread, alpha=0.12, color=hues[name])
        limits.extend(means.tolist())
    axis.set_xscale(config.get("x_scale", "log"))
    if limits and panel.get("top"):
        axis.set_ylim(top=panel["top"], bottom=min(limits) * 0.9)
    axis.set_title(panel["name"], fontsize=9)
    axis.set_xlabel(config.get("x_label", "ε"))
    axis.set_ylabel(
        {"nmse": "nMSE", "auc": "mean AUC"}.get(panel.get("metric", ""), config.get("y_label", ""))
    )
    axis.grid(alpha=0.3)


def _checks(config: dict[str, Any], record: Record) -> list[Check]:
    checks = []
    for expected in config.get("expected", []):
        # A quick run has fewer levels; rounds and tasks are always all there.
        swept = config["kind"] in ("tradeoff", "allocation")
        if swept and expected.get("x") is not None and expected["x"] not in config["levels"]:
            continue
        checks.append(_check(expected, record))
    return checks


def _mean(record: Record, panel: str, method: str, x: Any) -> float:
    values = record.values(panel, method, x)
    values = values if values.size else record.values(panel, method, "all")
    return float(values.mean()) if values.size else float("nan")


def _check(expected: dict[str, Any], record: Record) -> Check:
    """Compare a mean with a number, with another method's mean, or two levels by rank test."""
    panel, method, x = expected["panel"], expected["method"], expected.get("x", "all")
    if "falls_to" in expected:
        first = record.values(panel, method, expected["x_from"])
        last = record.values(panel, method, expected["falls_to"])
        p = float(mannwhitneyu(last, first, alternative="less").pvalue)
        text = (
            f"{panel}, {method}: error at {expected['falls_to']} below that at "
            f"{expected['x_from']} (Mann–Whitney p = {p:.2g}, wanted < {expected['p']})"
        )
        return Check(text, p < expected["p"])
    value = _mean(record, panel, method, x)
    if "than" in expected:
        other = _mean(record, panel, expected["than"], x)
        ratio = value / other
        text = (
            f"{panel}, {method} at {x}: {value:.4f}, {ratio:.3f} times {expected['than']} "
            f"({other:.4f}), wanted ≤ {expected['ratio']}"
        )
        return Check(text, ratio <= expected["ratio"])
    low, high = expected.get("at_least", -np.inf), expected.get("at_most", np.inf)
    text = f"{panel}, {method} at {x}: {value:.4f}, wanted in [{low}, {high}]"
    return Check(text, bool(low <= value <= high))
