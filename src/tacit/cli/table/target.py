"""The target column: which kind of learning it asks for, and its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit._types import AnyArray
from tacit.cli._output import current
from tacit.cli.table.columns import check_sizes, numbers, text, whole_numbers
from tacit.cli.table.read import Table, is_missing
from tacit.errors import InvalidInput

__all__ = ["KINDS", "MOST_CLASSES", "check_kind", "declared_labels", "given_classes", "kind_of"]
__all__ += ["known_classes", "labels_of", "read_target"]

KINDS = ("auto", "regression", "binary", "multiclass")
MOST_CLASSES = 100
_FEW = 10


def kind_of(cells: list[Any], values: AnyArray, strange: list[int]) -> str:
    """Text, or two different values, is a class; any other number is a quantity.

    A few words among numbers are mistakes in the numbers, not classes.
    """
    distinct = {text(cell) for cell in cells}
    if 2 * len(strange) >= len(cells):
        return "binary" if len(distinct) == 2 else "multiclass"
    if len(distinct) == 2:
        return "binary"
    if len(distinct) <= _FEW and bool(np.all(values == np.round(values))):
        current().note(
            f"the target has {len(distinct)} whole values and is learned as a number; say --kind "
            "multiclass if they are classes"
        )
    return "regression"


def check_kind(kind: str) -> None:
    """Refuse an unknown kind of target."""
    if kind not in KINDS:
        raise InvalidInput(f"--kind {kind!r}: must be one of {', '.join(KINDS)}")


def given_classes(given: str | None, kind: str) -> tuple[Any, ...] | None:
    """Parse ``a,b,c``, the public classes in the order declared; None if none were given."""
    if given is None:
        return None
    listed = [part.strip() for part in given.split(",") if part.strip()]
    if len(set(listed)) < len(listed) or len(listed) < 2:
        raise InvalidInput(
            f"--classes {given!r}: write it as a,b,c with two different classes or more, the one "
            "that any other label counts as last"
        )
    if kind == "regression" or (kind == "binary" and len(listed) != 2):
        raise InvalidInput(
            f"--classes {given!r}: --kind {kind} does not fit {len(listed)} classes; leave out "
            "--kind"
        )
    return tuple(int(part) for part in listed) if whole_numbers(listed) else tuple(listed)


def read_target(
    table: Table, name: str, asked: str, classes: Sequence[Any] | None = None
) -> tuple[AnyArray, str]:
    """Return the target values and the kind: regression, binary or multiclass.

    Guarantee: with declared ``classes`` the kind is theirs, and a label that is none of them counts
    as the last; otherwise kind and classes are read off the file, and the statement says so.
    """
    check_kind(asked)
    cells = _cells(table, name)
    if classes is not None:
        known = set(map(text, classes))
        n_strange = sum(text(cell) not in known for cell in cells)
        labels = declared_labels(cells, classes, n_strange=n_strange, n_rows=len(cells))
        return labels, "binary" if len(classes) == 2 else "multiclass"
    values, strange = numbers(cells)
    kind = kind_of(cells, values, strange) if asked == "auto" else asked
    if kind == "regression":
        if strange:
            row = strange[0]
            raise InvalidInput(
                f"{table.source}, {table.where(row)}: the target {name!r} is {cells[row]!r}, not a "
                "number; correct it, say --missing with it if it means missing, or --kind "
                "multiclass for classes"
            )
        check_sizes(table, name, values)
        return values, kind
    return labels_of(table.source, name, cells, kind, asked), kind


def _cells(table: Table, name: str) -> list[Any]:
    """Return the target's cells; a missing one is an error."""
    cells = table.column(name, "--target")
    for row, cell in enumerate(cells):
        if is_missing(cell):
            raise InvalidInput(
                f"{table.source}, {table.where(row)}: the target {name!r} is missing; fill it in, "
                "or leave such rows out with --missing drop"
            )
    return cells


def known_classes(table: Table, name: str, classes: Sequence[Any]) -> AnyArray:
    """Return the class of each row to be scored; one that is none of ``classes`` stays text."""
    labels = [text(cell) for cell in _cells(table, name)]
    position = {text(known): known for known in classes}
    return np.array([position.get(label, label) for label in labels], dtype=object)


def declared_labels(
    cells: list[Any], classes: Sequence[Any], *, n_strange: int, n_rows: int
) -> AnyArray:
    """Return the declared class of every cell; a stranger's is the last."""
    position = {text(known): code for code, known in enumerate(classes)}
    codes = np.array([position.get(text(cell), -1) for cell in cells])
    if n_strange:
        current().note(
            f"{n_strange} of {n_rows} rows have a target that is none of --classes; they count "
            f"as {classes[-1]!r}"
        )
    return np.array(classes)[codes]


def labels_of(source: str, name: str, cells: list[Any], kind: str, asked: str) -> AnyArray:
    """Return the class of every cell: a whole number where all are, else text."""
    labels = [text(cell) for cell in cells]
    distinct = sorted(set(labels))
    if len(distinct) == 1:
        raise InvalidInput(
            f"{source}: the target {name!r} is {distinct[0]!r} in every row; there is "
            "nothing to learn"
        )
    if kind == "binary" and len(distinct) != 2:
        raise InvalidInput(
            f"--kind binary: the target {name!r} has {len(distinct)} different values; say --kind "
            "multiclass or --kind regression"
        )
    if len(distinct) > MOST_CLASSES:
        wrong = f" such as {distinct[0]!r}" if asked == "auto" else ""
        raise InvalidInput(
            f"{source}: the target {name!r} has {len(distinct)} different values{wrong}, too "
            f"many for classes (at most {MOST_CLASSES}); correct cells that are no numbers, or "
            "choose another --target"
        )
    return np.array([int(part) for part in labels] if whole_numbers(distinct) else labels)
