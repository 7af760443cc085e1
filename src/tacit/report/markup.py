"""HTML and SVG as values: text is escaped unless it is already markup, numbers never print NaN."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable
from typing import Any

__all__ = [
    "Markup",
    "aligned",
    "join",
    "number",
    "percent",
    "plural",
    "shortened",
    "tag",
    "tiny",
    "whole",
]

_VOID = frozenset({"meta", "link", "br", "hr", "input", "line", "rect", "circle", "path"})


class Markup(str):
    """Text that is markup already; everything else is escaped when it enters a page."""

    __slots__ = ()


def _escaped(part: Any) -> str:
    if isinstance(part, Markup):
        return str(part)
    # Control characters are not allowed in HTML, escaped or not.
    text = "".join(c if c in "\n\t" or (ord(c) >= 32 and ord(c) != 127) else "�" for c in str(part))
    return html.escape(text.encode("utf-8", "replace").decode(), quote=True)


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """Return one element; ``class_`` is class, ``_`` in names is ``-``, None attributes fall out.

    Guarantee: no child and no attribute value can open or close an element, unless it is `Markup`.
    """
    written = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        label = key.rstrip("_").replace("_", "-")
        written.append(f" {label}" if value is True else f' {label}="{_escaped(value)}"')
    head = f"<{name}{''.join(written)}"
    if name in _VOID and not children:
        return Markup(f"{head}>" if name in ("meta", "link", "br", "hr", "input") else f"{head}/>")
    return Markup(f"{head}>{join(children)}</{name}>")


def join(parts: Iterable[Any], separator: str = "") -> Markup:
    """Return the parts one after the other, escaped where they are not markup; None falls out."""
    return Markup(separator.join(_escaped(part) for part in parts if part is not None))


def number(value: float, digits: int = 3) -> str:
    """Return ``value`` to that many significant digits, with a real minus sign."""
    value = float(value)
    if math.isnan(value):
        return "not known"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value != 0 and not 1e-3 <= abs(value) < 1e6:
        return tiny(value)
    text = f"{value:.{digits}g}"
    if "e" in text:
        text = f"{value:.0f}"
    return text.replace("-", "−")


def tiny(value: float) -> str:
    """Return a very small or large number as 1.2 × 10⁻⁵."""
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.1e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    lead = "" if mantissa in ("1.0",) else f"{mantissa.removesuffix('.0')} × "
    return f"{lead}10{raised}".replace("-", "−")


def percent(share: float) -> str:
    """Return a share as per cent."""
    return f"{number(100 * share, 2 if abs(share) < 0.1 else 3)}\u00a0%"


def whole(count: int) -> str:
    """Return a whole number with thin spaces between thousands."""
    return f"{count:,}".replace(",", "\u202f")


def plural(count: int, noun: str) -> str:
    """Return ``count noun`` with an s where it belongs."""
    return f"{whole(count)} {noun}{'' if count == 1 else 's'}"


def aligned(values: Iterable[float]) -> Callable[[float], str]:
    """Return a format that lines numbers up: decimals that give the largest three digits."""
    finite = [abs(float(value)) for value in values if math.isfinite(value)]
    largest = max(finite, default=0.0)
    if largest == 0 or not 1e-3 <= largest < 1e6:
        return number
    decimals = max(0, 2 - math.floor(math.log10(largest)))

    def fixed(value: float) -> str:
        return f"{value:.{decimals}f}".replace("-", "−") if math.isfinite(value) else number(value)

    return fixed


def shortened(text: Any, limit: int = 24) -> str:
    """Return ``text`` cut to ``limit`` characters with an ellipsis."""
    full = str(text)
    return full if len(full) <= limit else f"{full[: limit - 1]}…"
