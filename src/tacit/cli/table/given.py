"""What the command line says about columns: which, of what kind, and what is missing."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit.cli.table.features import ISO, MISSING, Feature, days
from tacit.cli.table.read import Table, is_missing, text
from tacit.errors import InvalidInput
from tacit.preprocessing import OUTSIDE

__all__ = [
    "choose_features",
    "given_categories",
    "given_dates",
    "given_missing",
    "given_outside",
    "given_ranges",
]


def given_missing(entries: Sequence[str]) -> tuple[str | float, tuple[str, ...]]:
    """Return the rule for missing values, and the words that mean missing.

    A word of `MISSING` or a number is the rule; anything else, and whatever has a comma, lists
    words.
    """
    rule: str | float | None = None
    marks: list[str] = []
    for entry in entries:
        value = _rule(entry)
        if value is None:
            marks += [part.strip() for part in entry.split(",") if part.strip()]
        elif rule is not None:
            raise InvalidInput(f"--missing {entry!r}: {rule!r} was given already; choose one rule")
        else:
            rule = value
    return "task-mean" if rule is None else rule, tuple(dict.fromkeys(marks))


def _rule(entry: str) -> str | float | None:
    if entry in MISSING:
        return entry
    try:
        value = float(entry)
    except ValueError:
        value = float("nan")
    if np.isfinite(value):
        return value
    close = difflib.get_close_matches(entry.lower(), MISSING, n=1)
    if close or not entry.strip(" ,") or value == value:
        raise InvalidInput(
            f"--missing {entry!r}: must be {', '.join(MISSING)}, a number to put in their place, "
            "or the words that mean missing, such as NA,null"
            + (f"; did you mean {close[0]}?" if close else "")
        )
    return None


def given_outside(given: str) -> str:
    """Return what happens to values beyond their range."""
    if given not in OUTSIDE:
        raise InvalidInput(f"--outside {given!r}: must be one of {', '.join(OUTSIDE)}")
    return given


def given_categories(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parse ``column=a,b,c`` entries."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in given:
        column, equals, listed = entry.partition("=")
        values = tuple(part.strip() for part in listed.split(",") if part.strip())
        if not equals or not column.strip() or len(values) < 2:
            raise InvalidInput(
                f"--categories {entry!r}: write it as column=a,b,c with at least two categories"
            )
        if len(set(values)) < len(values):
            raise InvalidInput(f"--categories {entry!r}: a category is listed twice; remove one")
        found[column.strip()] = values
    return found


def given_dates(given: Sequence[str]) -> dict[str, str]:
    """Parse ``column`` (ISO dates) and ``column=%d/%m/%Y`` entries."""
    found: dict[str, str] = {}
    for entry in given:
        column, equals, layout = entry.partition("=")
        if not column.strip() or (equals and "%" not in layout):
            raise InvalidInput(
                f"--dates {entry!r}: write it as column for dates like 2026-03-31, or as "
                "column=%d/%m/%Y with another format"
            )
        found[column.strip()] = layout if equals else ISO
    return found


def given_ranges(given: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Parse ``column=low:high`` entries; limits are numbers or ISO dates."""
    found: dict[str, tuple[float, float]] = {}
    for entry in given:
        column, _, limits = entry.rpartition("=")
        try:
            low, high = (_limit(part) for part in limits.split(":"))
        except ValueError:
            low = high = 0.0
        if not column.strip() or not low < high or not np.isfinite(high - low):
            raise InvalidInput(
                f"--range {entry!r}: write it as column=low:high, two numbers (or dates like "
                "2026-03-31), the lower one first"
            )
        found[column.strip()] = (low, high)
    return found


def _limit(part: str) -> float:
    day = days(part) if part.count("-") > 1 else None
    return float(part) if day is None else day


def choose_features(
    table: Table,
    *,
    task: str,
    target: str,
    chosen: Sequence[str],
    dropped: Sequence[str],
    categories: dict[str, tuple[str, ...]],
    public: Sequence[str],
    ranges: Mapping[str, tuple[float, float]],
    dates: Mapping[str, str],
    outside: str,
    marks: Sequence[str],
) -> tuple[Feature, ...]:
    """Return the features: the chosen columns, or all that are neither task, target nor dropped."""
    names = _chosen(table, task, target, chosen, dropped)
    public_facts: dict[str, Any] = {
        "--categories": categories,
        "--public-categories": public,
        "--range": ranges,
        "--dates": dates,
    }
    for option, columns in public_facts.items():
        for name in columns:
            if name not in names:
                raise InvalidInput(f"{option} {name!r}: is not a feature; check the column's name")
    found = dict(categories)
    for name in public:
        if name in categories:
            raise InvalidInput(
                f"{name!r}: its categories are given by --categories already; leave out "
                "--public-categories for it"
            )
        cells = {text(cell) for cell in table.columns[name] if not is_missing(cell)}
        found[name] = tuple(sorted(cells - set(marks)))
    for option in ("--range", "--dates"):
        for name in public_facts[option]:
            if name in found:
                raise InvalidInput(f"{option} {name!r}: has categories; give one of the two")
    return tuple(
        Feature(name, found.get(name), ranges.get(name), dates.get(name), outside) for name in names
    )


def _chosen(
    table: Table, task: str, target: str, chosen: Sequence[str], dropped: Sequence[str]
) -> list[str]:
    if task == target:
        raise InvalidInput(f"--task and --target are both {task!r}; name two different columns")
    roles = {task: "--task", target: "--target"}
    for name in dropped:
        table.column(name, "--drop")
        if name in roles:
            raise InvalidInput(f"--drop {name!r}: is the {roles[name]} column; keep it")
        if name in chosen:
            raise InvalidInput(f"--drop {name!r}: is listed in --features; leave out one of them")
    left_out = {task, target, *dropped}
    names = list(chosen) or [name for name in table.columns if name not in left_out]
    if len(set(names)) < len(names):
        raise InvalidInput("--features: a column is listed twice; remove one")
    for name in names:
        table.column(name, "--features")
        if name in roles:
            raise InvalidInput(f"--features {name!r}: is the {roles[name]} column; leave it out")
    if not names:
        raise InvalidInput(f"{table.source}: has no columns besides task and target; add features")
    return names
