"""Options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.errors import InvalidInput

__all__ = [
    "Delta",
    "Encoding",
    "Format",
    "Party",
    "RunPath",
    "Separator",
    "candidates_of",
    "number_or_auto",
    "settings_of",
]

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder written by tacit fit.")]
Party = Annotated[str | None, typer.Option(help="One party (task): only what that party may have.")]
Format = Annotated[
    str | None,
    typer.Option(help="csv, tsv, jsonl or parquet; by default from the file's name."),
]
Separator = Annotated[
    str | None, typer.Option(help="Character between cells of a CSV file, or the word tab.")
]
Encoding = Annotated[str, typer.Option(help="Encoding of a text file.")]
Delta = Annotated[
    str | None, typer.Option(help="A number, 0 for pure ε, or auto: min(1e-5, 1/tasks²).")
]


def number_or_auto(option: str, given: str | None, kind: type = float) -> Any:
    """Return "auto", a number of ``kind``, or None if the option was not given."""
    if given is None or given == "auto":
        return given
    try:
        return kind(given)
    except ValueError:
        word = "a whole number" if kind is int else "a number"
        raise InvalidInput(f"{option} {given!r}: must be {word} or auto") from None


def _parsed(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def candidates_of(entries: Sequence[str]) -> dict[str, list[Any]]:
    """Parse ``name=a,b,c`` entries: a parameter and the values to choose from."""
    found: dict[str, list[Any]] = {}
    for entry in entries:
        name, _, values = entry.partition("=")
        listed = [_parsed(part.strip()) for part in values.split(",") if part.strip()]
        if not name.strip() or len(listed) < 2:
            raise InvalidInput(f"--tune {entry!r}: write it as name=a,b,c with two values or more")
        found[{"rounds": "n_rounds"}.get(name.strip(), name.strip())] = listed
    return found


def settings_of(entries: Sequence[str]) -> dict[str, Any]:
    """Parse ``name=value`` entries; numbers, true, false and null are read as such."""
    found: dict[str, Any] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            raise InvalidInput(f"--set {entry!r}: write it as name=value")
        found[name.strip()] = _parsed(value)
    return found
