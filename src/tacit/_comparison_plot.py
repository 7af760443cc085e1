"""The picture of a comparison: score against ε, with the spread over splits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import InvalidInput

if TYPE_CHECKING:
    from tacit.comparison import Comparison

__all__ = ["plot"]

_COLOURS = ("#0b63a5", "#ae4c08", "#00755a", "#86478a", "#5d6068")
_MARKS = ("o", "s", "D", "^", "P")
_QUIET = "#5a5f69"
_NAMES = {"r2": "R²", "roc_auc": "AUC"}


def check_plot(path: Path) -> None:
    """Raise if no picture could be written there, before anything is spent on it."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidInput(
            "plot: needs matplotlib; install it with pip install 'tacit[report]'"
        ) from None
    known = FigureCanvasAgg(Figure()).get_supported_filetypes()
    if path.suffix.lstrip(".").lower() not in known:
        raise InvalidInput(f"path={str(path)!r}: must end in .png, .svg or .pdf")


def plot(found: Comparison, path: Path) -> Path:
    """Write the picture in the format of the file's name."""
    check_plot(path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.2, 4.7), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _draw(axes, found)
    figure.savefig(path)
    return path


def _draw(axes: Any, found: Comparison) -> None:
    budgets = sorted({e.epsilon for e in found.entries if 0 < e.epsilon < math.inf})
    methods = [m for m in dict.fromkeys(e.method for e in found.entries) if m not in _LEVELS]
    for number, method in enumerate(methods):
        mine = [e for e in found.entries if e.method == method]
        colour = _COLOURS[number % len(_COLOURS)]
        _curve(axes, method, [e for e in mine if math.isfinite(e.epsilon)], number, colour)
        free = next(e for e in mine if math.isinf(e.epsilon))
        _level(axes, f"{method}, no noise", free.mean, colour, (0, (1, 1.6)))
    for entry in found.entries:
        if entry.method in _LEVELS:
            _level(axes, entry.method, entry.mean, _QUIET, _LEVELS[entry.method])
    axes.set_xscale("log")
    axes.set_xticks(budgets, [f"{value:g}" for value in budgets])
    axes.minorticks_off()
    axes.set_xlabel("ε of one fit (smaller is more private)")
    axes.set_ylabel(f"{_NAMES.get(found.measure, found.measure)} on held-out rows")
    axes.set_title(
        f"{found.n_tasks} tasks, {found.n_rows} rows; band: deviation over splits",
        fontsize=9.5,
        color=_QUIET,
        loc="left",
    )
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(axis="y", color="#e2dfd8", linewidth=0.8)
    # Below, so that the picture keeps its width on a phone.
    axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)


_LEVELS: dict[str, Any] = {"single-task": "-", "pooled": (0, (5, 2))}


def _curve(axes: Any, name: str, entries: list[Any], number: int, colour: str) -> None:
    x, mean = [e.epsilon for e in entries], [e.mean for e in entries]
    low = [e.mean - e.spread for e in entries]
    high = [e.mean + e.spread for e in entries]
    axes.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
    mark = _MARKS[number % len(_MARKS)]
    axes.plot(x, mean, marker=mark, color=colour, linewidth=2, label=name, zorder=3)


def _level(axes: Any, name: str, value: float, colour: str, style: Any) -> None:
    axes.axhline(value, color=colour, linewidth=1.3, linestyle=style, label=name)
