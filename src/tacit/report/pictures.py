"""Charts that stand alone: histogram, spectrum, map, audit; each says in words what it shows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from tacit._types import AnyArray, Array
from tacit.report.markup import Markup, number, tag
from tacit.report.svg import Axis, line, text

__all__ = ["audit_plot", "histogram", "map_plot", "reliability_plot", "spectrum_plot"]

_MOST_NAMES = 60


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


def _x_axis(axis: Axis, top: int, label: str) -> list[Markup]:
    marks = [line("0%", str(top), "100%", str(top), "axis")]
    for value in axis.ticks(5):
        share = axis.share(value)
        anchor = "start" if share < 0.04 else "end" if share > 0.96 else "middle"
        marks.append(text(number(value), axis.at(value), str(top + 16), anchor=anchor))
    marks.append(text(label, "50%", str(top + 36), "axis-label", "middle"))
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
        marks.append(line(axis.at(0), "6", axis.at(0), "186", "zero"))
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
        marks.append(line("0%", top, "100%", top, "noise-edge"))
    for rank, value in enumerate(shown):
        x = f"{100 * (rank + 0.5) / len(shown):.2f}%"
        kind = "stem" if rank < n_out or band is None else "stem-noise"
        marks.append(line(x, axis.above(0), x, axis.above(value), kind))
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
    marks.append(line("0%", axis.above(0), "100%", axis.above(0), "axis"))
    plot = tag("svg", *marks, y=6, height=190, width="100%", class_="plot")
    said = f"{n_out} of {len(values)} directions stand out of the noise." if band else ""
    said += f" Largest eigenvalue {number(values[0])}, smallest {number(values[-1])}."
    label = text("shared directions, strongest first", "50%", "216", "axis-label", "middle")
    return _figure("Strength of shared directions", said, plot, label, height=226, class_="chart")


def map_plot(points: Array, names: Sequence[str], own: int | None, title: str) -> Markup:
    """Return tasks in the plane; names are drawn where they cover nothing on a wide screen."""
    across, up = Axis.of(points[:, 0], padding=0.12), Axis.of(points[:, 1], padding=0.1)
    marks = [line(across.at(0), "0%", across.at(0), "100%", "grid")]
    if (points[:, 1] < 0).any():
        marks.append(line("0%", up.above(0), "100%", up.above(0), "grid"))
    for index, (x, y) in enumerate(points):
        mine = index == own
        marks.append(
            tag(
                "circle",
                tag("title", names[index] if names else f"task {index + 1}"),
                cx=across.at(x),
                cy=up.above(y),
                r=6 if mine else 4.5 if len(points) <= 300 else 2.5,
                class_="dot-own" if mine else "dot",
            )
        )
    if names and len(points) <= _MOST_NAMES:
        spots = [(900 * across.share(x), 380 * (1 - up.share(y))) for x, y in points]
        for index, left_side in _placed(spots, names, own):
            x, y = points[index]
            marks.append(
                tag(
                    "text",
                    names[index],
                    x=across.at(x),
                    y=up.above(y),
                    dx=-9 if left_side else 9,
                    dy=4,
                    text_anchor="end" if left_side else None,
                    class_="map-own" if index == own else "map-label",
                )
            )
    said = f"{len(points)} tasks placed by what was released about them; near means alike."
    return _figure(title, said, *marks, height=380, class_="chart map")


def _placed(
    spots: Sequence[tuple[float, float]], names: Sequence[str], own: int | None
) -> Iterator[tuple[int, bool]]:
    """Yield the tasks whose names fit, and whether to the left of their dot; one's own comes first.

    Boxes are those of a chart 900 wide, letters 7 wide and 15 high.
    """
    taken: list[tuple[float, float, float]] = []
    order = sorted(range(len(spots)), key=lambda index: index != own)
    for index in order:
        x, y = spots[index]
        width = 7.0 * len(names[index]) + 6
        for left_side, low in ((False, x + 7), (True, x - 7 - width)):
            high = low + width
            dots = any(
                low - 5 < a < high + 5 and abs(b - y) < 11
                for other, (a, b) in enumerate(spots)
                if other != index
            )
            boxes = any(low < b and high > a and abs(top - y) < 15 for a, b, top in taken)
            free = low > 0 and high < 900 and not dots and not boxes
            if free or (index == own and left_side):
                taken.append((low, high, y))
                yield index, left_side
                break


def reliability_plot(bins: Sequence[tuple[float, float, int]]) -> Markup:
    """Return shares that happened over probabilities that were given; discs grow with the rows."""
    axis = Axis(0.0, 1.0)
    marks = [
        line("0%", axis.above(tick), "100%", axis.above(tick), "grid") for tick in axis.ticks()
    ]
    marks.append(line("0%", "100%", "100%", "0%", "diagonal"))
    for (x1, y1, _), (x2, y2, _) in itertools.pairwise(bins):
        marks.append(line(axis.at(x1), axis.above(y1), axis.at(x2), axis.above(y2), "curve"))
    most = max(count for *_, count in bins)
    for expected, happened, count in bins:
        tip = f"expected {number(expected)}, happened {number(happened)}, {count} rows"
        marks.append(
            tag(
                "circle",
                tag("title", tip),
                cx=axis.at(expected),
                cy=axis.above(happened),
                r=f"{3 + 5 * (count / most) ** 0.5:.1f}",
                class_="dot-own",
            )
        )
    plot = tag("svg", *marks, y=10, height=200, width="100%", class_="plot")
    worst = max(abs(expected - happened) for expected, happened, _ in bins)
    said = f"{len(bins)} tenths; the largest gap between probability and share is {number(worst)}."
    return _figure(
        "Calibration",
        said,
        plot,
        *_x_axis(axis, 210, "probability given (up: share that happened)"),
        height=252,
        class_="chart",
    )


def audit_plot(pairs: Sequence[tuple[float, float, bool]]) -> Markup:
    """Return measured lower bounds over claimed ε, with the line that no sound claim crosses."""
    highest = max(max(claim, lower) for claim, lower, _ in pairs)
    axis = Axis(0.0, highest * 1.1 or 1.0)
    marks = [
        line("0%", axis.above(tick), "100%", axis.above(tick), "grid") for tick in axis.ticks()
    ]
    marks.append(line("0%", "100%", "100%", "0%", "diagonal"))
    labels = [
        tag("text", number(tick), x="0", y=axis.above(tick), dy=-4, class_="tick")
        for tick in axis.ticks()[1:]
    ]
    ordered = sorted(pairs)
    for (x1, y1, _), (x2, y2, _) in itertools.pairwise(ordered):
        marks.append(line(axis.at(x1), axis.above(y1), axis.at(x2), axis.above(y2), "curve"))
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
    plot = tag("svg", *marks, *labels, y=10, height=230, width="100%", class_="plot")
    worst = sum(violated for *_, violated in pairs)
    said = f"{len(pairs)} attacks; {worst} found more than was claimed."
    return _figure(
        "Claimed and measured privacy loss",
        said,
        plot,
        *_x_axis(axis, 240, "claimed ε (up: the ε that an attack could prove)"),
        height=282,
        class_="chart",
    )
