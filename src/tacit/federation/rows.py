"""A party's own file, read as the terms say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit._types import AnyArray, Array
from tacit.errors import InvalidInput
from tacit.federation.site import Rows
from tacit.federation.terms import Terms

__all__ = ["rows_of"]


def rows_of(path: Path, name: str) -> Rows:
    """Return the reader of a site's file; with a task column, of its own rows there."""

    def read(terms: Terms) -> tuple[Array, AnyArray]:
        from tacit.cli.join import own_rows
        from tacit.cli.table.features import Intake
        from tacit.cli.table.prepare import prepare
        from tacit.cli.table.read import read_table

        if terms.intake is None:
            raise InvalidInput("intake: the terms do not say how a file is read")
        intake = Intake.from_json(terms.intake)
        if intake.feature_names != terms.features:
            raise InvalidInput("intake: reads other features than the terms name")
        if intake.missing == "task-mean" and terms.estimator._protects_rows:
            raise InvalidInput("intake: a mean of rows costs budget where rows are protected")
        table = own_rows(read_table(path), intake.task, name)
        kind: Any = terms.kind
        if terms.classes is not None:
            kind = "binary" if len(terms.classes) == 2 else "multiclass"
        ready = prepare(table, intake, kind=kind, classes=terms.classes)
        return ready.X, ready.y

    return read
