"""Tables that read well without a script and can be sorted and filtered with one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tacit.report.markup import Markup, join, number, tag

__all__ = ["Cell", "details", "facts_list", "folded", "table"]

_UNSEEN = tag("span", "Chart", class_="unseen")  # a heading for those who hear the page
_LONG = 15  # rows; a longer table stays off paper
_TALL = 40  # rows; a longer table scrolls in a window of its own


class Cell:
    """A table cell: what is shown, and the value it is sorted by."""

    def __init__(self, shown: Any, value: float | None = None, class_: str | None = None) -> None:
        self.shown, self.value, self.class_ = shown, value, class_

    @classmethod
    def of(cls, value: float, text: str | None = None, class_: str = "") -> Cell:
        """Return a number's cell."""
        shown = number(value) if text is None else text
        return cls(shown, float(value), f"num {class_}".strip())

    def markup(self, *, head: bool) -> Markup:
        """Return the cell's element; a row's first cell is its heading."""
        value = None if self.value is None else f"{self.value:.12g}"
        if head:
            return tag("th", self.shown, scope="row", data_v=value, class_=self.class_)
        return tag("td", self.shown, data_v=value, class_=self.class_)


def _heading(heading: Any, kind: str) -> Markup:
    if kind == "lane":
        return tag("th", _UNSEEN, heading, scope="col", class_=kind)
    return tag("th", heading, scope="col", class_=kind, data_sort=kind)


def table(
    caption: Any,
    columns: Sequence[tuple[Any, str]],
    rows: Sequence[Sequence[Any]],
    *,
    label: str,
    sortable: bool = False,
    filterable: bool = False,
) -> Markup:
    """Return a table in a region that scrolls sideways on its own.

    ``columns`` are (heading, kind) with kind "text", "num" or "lane" (a picture, not sorted).
    """
    heads = join(_heading(heading, kind) for heading, kind in columns)
    body = join(
        tag(
            "tr",
            join(
                (cell if isinstance(cell, Cell) else Cell(cell)).markup(head=position == 0)
                for position, cell in enumerate(row)
            ),
        )
        for row in rows
    )
    whole = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", heads)),
        tag("tbody", body),
        data_sortable=sortable,
        data_filter=f"Filter {label}" if filterable else None,
    )
    class_ = "scroll tall" if len(rows) > _TALL else "scroll"
    return tag("div", whole, class_=class_, role="region", aria_label=label, tabindex=0)


def folded(whole: Markup, n_rows: int, what: str) -> Markup:
    """Return a table that is there on a screen and, if it is long, folded on paper."""
    if n_rows <= _LONG:
        return whole
    note = f"Folded on paper: {n_rows} lines, one for each {what}; they are there on a screen."
    return tag("div", tag("p", note, class_="note paper"), whole, class_="folded")


def facts_list(pairs: Iterable[tuple[str, Any]]) -> Markup:
    """Return a definition list."""
    return tag(
        "dl",
        join(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs),
        class_="facts",
    )


def details(summary: str, *content: Any) -> Markup:
    """Return a part that opens on demand."""
    return tag("details", tag("summary", summary), *content)
