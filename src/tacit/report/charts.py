"""Charts as inline SVG, drawn in Python so that they need no script.

Positions along x are percentages and text keeps its size: a chart fits a phone and a wide screen
without being scaled. Colours are classes of the style sheet, so that dark mode and print work.
Lanes (one strip in a table cell) are hidden from screen readers: the numbers stand beside them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from tacit._types import AnyArray, Array
from tacit.report.markup import Markup, join, number, tag

__all__ = ["Axis", "audit_plot", "bar", "dots", "histogram", "legend", "map_plot", "spectrum_plot"]

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


def _figure(title: str, description: str, *marks: Markup, height: int, class_: str) -> Markup:
    name = "-".join(title.lower().split())  # titles are unique on a page
    return tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", description, id=f"{name}-text"),
        *marks,
        class_=class_,
        height=height,
        role="img",
        aria_labelledby=f"{name}-title {name}-text",
    )


def _line(x1: str, y1: str, x2: str, y2: str, class_: str) -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def _text(content: str, x: str, y: str, class_: str = "tick", anchor: str | None = None) -> Markup:
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


def bar(axis: Axis, value: float, *, start: float = 0.0, before: float | None = None) -> Markup:
    """Return a lane with a bar from ``start`` to ``value``; ``before`` greys what was there."""
    marks = [_line("0%", "10", "100%", "10", "track")]
    if before is not None and before > start:
        marks.append(_rect(axis.share(start), axis.share(before), 4, 12, "bar-before"))
        start = before
    sign = "bar-minus" if value < start else "bar"
    marks.append(_rect(axis.share(start), axis.share(value), 4, 12, sign))
    if axis.low < 0 < axis.high:
        marks.append(_line(axis.at(0), "1", axis.at(0), "19", "zero"))
    return _lane(*marks)


def dots(axis: Axis, values: Sequence[float]) -> Markup:
    """Return a lane with one mark a method, the first on top and joined to the second."""
    marks = [_line("0%", "10", "100%", "10", "track")]
    if len(values) > 1:
        sign = "gain" if values[0] <= values[1] else "loss"
        marks.append(_line(axis.at(values[0]), "10", axis.at(values[1]), "10", sign))
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
    for value in axis.ticks(3):
        share = axis.share(value)
        anchor = "start" if share < 0.08 else "end" if share > 0.92 else "middle"
        marks.append(_text(number(value), axis.at(value), "12", anchor=anchor))
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


def _x_axis(axis: Axis, top: int, label: str) -> list[Markup]:
    marks = [_line("0%", str(top), "100%", str(top), "axis")]
    for value in axis.ticks(5):
        share = axis.share(value)
        anchor = "start" if share < 0.04 else "end" if share > 0.96 else "middle"
        marks.append(_text(number(value), axis.at(value), str(top + 16), anchor=anchor))
    marks.append(_text(label, "50%", str(top + 36), "axis-label", "middle"))
    return marks


def histogram(values: AnyArray, *, title: str, label: str, n_bins: int = 40) -> Markup:
    """Return counts of tasks by value; a line marks zero where the values change sign."""
    finite = np.asarray(values, dtype=float)
    axis = Axis.of(finite)
    counts, edges = np.histogram(finite, bins=n_bins, range=(axis.low, axis.high))
    most = max(int(counts.max()), 1)
    marks = []
    for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True):
        if count:
            height = max(170 * int(count) / most, 1.5)
            share, width = axis.share(low), 100 * (axis.share(high) - axis.share(low))
            tip = f"{count} tasks between {number(low)} and {number(high)}"
            marks.append(
                tag(
                    "rect",
                    tag("title", tip),
                    x=f"{100 * share + 0.1:.2f}%",
                    y=f"{186 - height:.1f}",
                    width=f"{width - 0.2:.2f}%",
                    height=f"{height:.1f}",
                    class_="bar-minus" if high <= 0 else "bar",
                )
            )
    if axis.low < 0 < axis.high:
        marks.append(_line(axis.at(0), "6", axis.at(0), "186", "zero"))
    said = f"{finite.size} tasks, median {number(float(np.median(finite)))}, fullest bin {most}."
    return _figure(title, said, *marks, *_x_axis(axis, 186, label), height=226, class_="chart")


def spectrum_plot(values: Array, band: tuple[float, float] | None, n_out: int) -> Markup:
    """Return eigenvalues as stems, largest first, over the band that noise alone would fill."""
    shown = values[:30]
    axis = Axis.of(np.append(shown, [0.0, *(band or ())]), padding=0.06)
    marks = []
    if band is not None:
        top = axis.above(band[1])
        height = f"{100 * (axis.share(band[1]) - axis.share(band[0])):.2f}%"
        marks.append(tag("rect", x="0", y=top, width="100%", height=height, class_="noise"))
        marks.append(_line("0%", top, "100%", top, "noise-edge"))
    for rank, value in enumerate(shown):
        x = f"{100 * (rank + 0.5) / len(shown):.2f}%"
        kind = "stem" if rank < n_out or band is None else "stem-noise"
        marks.append(_line(x, axis.above(0), x, axis.above(value), kind))
        marks.append(
            tag(
                "circle",
                tag("title", f"direction {rank + 1}: {number(value)}"),
                cx=x,
                cy=axis.above(value),
                r=4.5,
                class_=f"{kind}-dot",
            )
        )
    marks.append(_line("0%", axis.above(0), "100%", axis.above(0), "axis"))
    plot = tag("svg", *marks, y=6, height=190, width="100%", class_="plot")
    said = f"{n_out} of {len(values)} directions stand out of the noise." if band else ""
    said += f" Largest eigenvalue {number(values[0])}, smallest {number(values[-1])}."
    label = _text("shared directions, strongest first", "50%", "216", "axis-label", "middle")
    return _figure("Strength of shared directions", said, plot, label, height=226, class_="chart")


def map_plot(points: Array, names: Sequence[str], own: int | None, title: str) -> Markup:
    """Return tasks in the plane; names are drawn where they do not collide on a wide screen."""
    across, up = Axis.of(points[:, 0], padding=0.12), Axis.of(points[:, 1], padding=0.1)
    drawn: list[tuple[float, float, float]] = []
    marks = [_line(across.at(0), "0%", across.at(0), "100%", "grid")]
    marks.append(_line("0%", up.above(0), "100%", up.above(0), "grid"))
    labels = []
    for index, (x, y) in enumerate(points):
        mine = index == own
        name = names[index] if index < len(names) else ""
        marks.append(
            tag(
                "circle",
                tag("title", name or f"task {index + 1}"),
                cx=across.at(x),
                cy=up.above(y),
                r=6 if mine else 4.5 if len(points) <= 300 else 2.5,
                class_="dot-own" if mine else "dot",
            )
        )
        left, top = 660 * across.share(x), 380 * (1 - up.share(y))
        free = all(
            abs(top - b) > 14 or left + 7 * len(name) < a or left > a + w for a, b, w in drawn
        )
        if name and len(points) <= 60 and (free or mine):
            drawn.append((left, top, 7.0 * len(name) + 10))
            flip = across.share(x) > 0.8
            labels.append(
                tag(
                    "text",
                    name,
                    x=across.at(x),
                    y=up.above(y),
                    dx=-9 if flip else 9,
                    dy=4,
                    text_anchor="end" if flip else None,
                    class_="map-own" if mine else "map-label",
                )
            )
    said = f"{len(points)} tasks placed by what was released about them; near means alike."
    return _figure(title, said, *marks, *labels, height=380, class_="chart map")


def audit_plot(pairs: Sequence[tuple[float, float, bool]]) -> Markup:
    """Return measured lower bounds over claimed ε, with the line that no sound claim crosses."""
    highest = max(max(claim, lower) for claim, lower, _ in pairs)
    axis = Axis(0.0, highest * 1.1 or 1.0)
    marks = [_line("0%", "100%", "100%", "0%", "diagonal")]
    ordered = sorted(pairs)
    for (x1, y1, _), (x2, y2, _) in itertools.pairwise(ordered):
        marks.append(_line(axis.at(x1), axis.above(y1), axis.at(x2), axis.above(y2), "curve"))
    for claim, lower, violated in ordered:
        tip = f"claimed ε = {number(claim)}, measured at least {number(lower)}"
        marks.append(
            tag(
                "circle",
                tag("title", tip),
                cx=axis.at(claim),
                cy=axis.above(lower),
                r=5,
                class_="dot-bad" if violated else "dot-own",
            )
        )
    plot = tag("svg", *marks, y=10, height=230, width="100%", class_="plot")
    caption = _text("claim", "99%", "24", "axis-label", "end")
    worst = sum(violated for *_, violated in pairs)
    said = f"{len(pairs)} attacks; {worst} found more than was claimed."
    return _figure(
        "Claimed and measured privacy loss",
        said,
        plot,
        caption,
        *_x_axis(axis, 240, "claimed ε (dots: what an attack could prove)"),
        height=282,
        class_="chart",
    )
