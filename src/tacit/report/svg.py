"""Charts as inline SVG, drawn in Python so that they need no script.

Positions along x are percentages and text keeps its size: a chart fits a phone and a wide screen
without being scaled. Colours are classes of the style sheet, so that dark mode and print work.
Lanes (one strip in a table cell) are hidden from screen readers: the numbers stand beside them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from tacit._types import Array
from tacit.report.markup import Markup, join, number, tag

__all__ = ["Axis", "axis_lane", "bar", "dots", "legend", "line", "mark_definitions", "text"]

N_SERIES = 5  # marks and colours in the style sheet


class Axis:
    """A linear scale from numbers to per cent, with round ticks."""

    def __init__(self, low: float, high: float, *, padding: float = 0.0) -> None:
        if not (math.isfinite(low) and math.isfinite(high)) or high <= low:
            low, high = (low - 0.5, low + 0.5) if math.isfinite(low) else (0.0, 1.0)
        spread = (high - low) * padding
        self.low, self.high = low - spread, high + spread

    @classmethod
    def of(cls, values: Array, *, zero: bool = False, padding: float = 0.04) -> Axis:
        """Return the scale that holds all finite ``values``, and zero if asked."""
        finite = np.asarray(values, dtype=float).ravel()
        finite = finite[np.isfinite(finite)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        if zero:
            low, high = min(low, 0.0), max(high, 0.0)
        return cls(low, high, padding=padding)

    def share(self, value: float) -> float:
        """Return where ``value`` lies, 0 to 1."""
        return min(max((float(value) - self.low) / (self.high - self.low), 0.0), 1.0)

    def at(self, value: float) -> str:
        """Return where ``value`` lies as a percentage from the left."""
        return f"{100 * self.share(value):.2f}%"

    def above(self, value: float) -> str:
        """Return where ``value`` lies as a percentage from the top."""
        return f"{100 * (1 - self.share(value)):.2f}%"

    def ticks(self, count: int = 4) -> list[float]:
        """Return round numbers inside the scale."""
        raw = (self.high - self.low) / count
        unit = 10.0 ** math.floor(math.log10(raw))
        step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(n * step, 12) for n in range(first, last + 1)]


def _lane(*marks: Markup, height: int = 20) -> Markup:
    return tag("svg", *marks, class_="lane", height=height, aria_hidden="true", focusable="false")


def line(x1: str, y1: str, x2: str, y2: str, class_: str) -> Markup:
    """Return a straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def text(content: str, x: str, y: str, class_: str = "tick", anchor: str | None = None) -> Markup:
    """Return a text that keeps its size whatever the chart's width."""
    return tag("text", content, x=x, y=y, class_=class_, text_anchor=anchor)


def _rect(low: float, high: float, y: int, height: int, class_: str) -> Markup:
    left, right = sorted((low, high))
    width = max(right - left, 0.002)
    return tag(
        "rect",
        x=f"{100 * left:.2f}%",
        y=y,
        width=f"{100 * width:.2f}%",
        height=height,
        rx=1.5,
        class_=class_,
    )


def bar(axis: Axis, value: float, *, before: float | None = None, other: bool = False) -> Markup:
    """Return a lane with a bar from 0 to ``value``; ``before`` pales what was there already.

    ``other`` is grey: a bar to compare with.
    """
    start = 0.0
    marks = [line("0%", "10", "100%", "10", "track")]
    if before is not None and before > start:
        marks.append(_rect(axis.share(start), axis.share(before), 4, 12, "bar-before"))
        start = before
    sign = "bar-minus" if value < start else "bar-other" if other else "bar"
    marks.append(_rect(axis.share(start), axis.share(value), 4, 12, sign))
    if axis.low < 0 < axis.high:
        marks.append(line(axis.at(0), "1", axis.at(0), "19", "zero"))
    return _lane(*marks)


def dots(axis: Axis, values: Sequence[float]) -> Markup:
    """Return a lane with one mark a method, the first on top and joined to the second."""
    marks = [line("0%", "10", "100%", "10", "track")]
    if len(values) > 1:
        sign = "gain" if values[0] <= values[1] else "loss"
        marks.append(line(axis.at(values[0]), "10", axis.at(values[1]), "10", sign))
    for series in range(len(values) - 1, -1, -1):
        marks.append(_mark(series, axis.at(values[series]), "10"))
    return _lane(*marks)


def _mark(series: int, x: str, y: str) -> Markup:
    kind = series % N_SERIES
    return tag("use", href=f"#mark{kind}", x=x, y=y, class_=f"series{kind}")


def mark_definitions() -> Markup:
    """Return the marks that lanes use: a disc, a square, a diamond, a triangle, a cross."""
    shapes = (
        "M-5 0A5 5 0 1 0 5 0A5 5 0 1 0 -5 0Z",
        "M-4-4H4V4H-4Z",
        "M0-5.5L5.5 0L0 5.5L-5.5 0Z",
        "M0-5L5.2 4H-5.2Z",
        "M-4-1.2H-1.2V-4H1.2V-1.2H4V1.2H1.2V4H-1.2V1.2H-4Z",
    )
    symbols = join(tag("path", d=shape, id=f"mark{kind}") for kind, shape in enumerate(shapes))
    return tag("svg", tag("defs", symbols), class_="hidden", aria_hidden="true", focusable="false")


def axis_lane(axis: Axis) -> Markup:
    """Return the tick labels that stand over a column of lanes."""
    marks = []
    ticks = axis.ticks(3)
    for value in ticks if len(ticks) > 1 else axis.ticks(6):
        share = axis.share(value)
        anchor = "start" if share < 0.08 else "end" if share > 0.92 else "middle"
        marks.append(text(number(value), axis.at(value), "12", anchor=anchor))
    return _lane(*marks, height=16)


def legend(names: Iterable[str]) -> Markup:
    """Return the marks with their methods' names."""
    items = (
        tag(
            "li",
            tag(
                "svg",
                _mark(series, "7", "7"),
                width=14,
                height=14,
                aria_hidden="true",
                focusable="false",
            ),
            name,
        )
        for series, name in enumerate(names)
    )
    return tag("ul", join(items), class_="legend")
