"""Curves with their spread, a panel each; what most of the papers' figures are."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacit.reproduce._record import Record

__all__ = ["draw_lines"]

_Y_LABELS = {"nmse": "nMSE", "auc": "mean AUC"}


def draw_lines(config: Mapping[str, Any], record: Record, path: Path) -> None:
    """Draw every method's mean over runs against the level, with one standard deviation.

    Dashed lines leak; horizontal dotted ones have no ε. A method has one colour throughout.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    panels = config["panel"]
    names = dict.fromkeys(name for panel in panels for name in record.methods(panel["name"]))
    hues = {name: mpl.colormaps["tab20"](number % 20) for number, name in enumerate(names)}
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    size = (4.8 * columns, 3.4 * rows + 0.19 * -(-len(names) // columns))  # the legend is below
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for axis, panel in zip(axes.flat, panels, strict=False):
        _draw_panel(axis, config, panel, record, hues)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_axis_off()
    shown: dict[str, Any] = {}
    for axis in axes.flat:
        shown |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(
        list(shown.values()), list(shown), fontsize=8, loc="outside lower center", ncols=columns
    )
    title = textwrap.fill(config["title"], 68 * columns)
    figure.suptitle(title, fontsize=11 if columns > 1 else 9)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_panel(
    axis: Any,
    config: Mapping[str, Any],
    panel: Mapping[str, Any],
    record: Record,
    hues: Mapping[str, Any],
) -> None:
    leaking = {m["name"] for m in config["method"] if m.get("leaking")}
    for name in record.methods(panel["name"]):
        levels = record.levels(panel["name"], name)
        if levels == ["all"]:
            mean = record.of(panel["name"], name).mean()
            axis.axhline(mean, ls=":", lw=1.6, label=f"{name} (no ε)", color=hues[name])
            continue
        series = [record.of(panel["name"], name, x) for x in levels]
        means = np.array([values.mean() for values in series])
        spread = np.array([values.std() for values in series])
        x = np.array([float(level) for level in levels])
        style = "--" if name in leaking else ":" if name.startswith("published") else "-"
        axis.plot(x, means, style, marker="o", ms=3, label=name, color=hues[name])
        axis.fill_between(x, means - spread, means + spread, alpha=0.12, color=hues[name])
    _finish(axis, config, panel)


def _finish(axis: Any, config: Mapping[str, Any], panel: Mapping[str, Any]) -> None:
    axis.set_xscale(config.get("x_scale", "log"))
    if config.get("ticks"):
        axis.set_xticks(config["ticks"], [f"{tick:g}" for tick in config["ticks"]])
        axis.minorticks_off()
    bottom, top = panel.get("bottom"), panel.get("top")
    if bottom is not None or top is not None:
        axis.set_ylim(bottom=bottom, top=top)
    axis.set_title(panel["name"], fontsize=9)
    axis.set_xlabel(config.get("x_label", "ε"))
    axis.set_ylabel(_Y_LABELS.get(panel.get("metric", ""), config.get("y_label", "")))
    axis.grid(alpha=0.3)
