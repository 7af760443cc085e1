"""The options that say how a file becomes rows: those of ``tacit fit``, for other commands."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_type_hints

from tacit.cli.fit import DATA_PANEL, fit, read_rows

if TYPE_CHECKING:
    from tacit.cli.table.prepare import Prepared
    from tacit.cli.table.read import Table

__all__ = ["prepared_rows", "takes_data_options"]

_FILE = ("data", "format", "separator", "encoding")


def _shared() -> list[inspect.Parameter]:
    hints = get_type_hints(fit, include_extras=True)
    found = []
    for name, parameter in inspect.signature(fit).parameters.items():
        options = getattr(hints[name], "__metadata__", (None,))[0]
        if name in _FILE or getattr(options, "rich_help_panel", None) == DATA_PANEL:
            found.append(parameter.replace(annotation=hints[name]))
    return found


def takes_data_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give ``command``, which takes ``**rows``, the data options of ``tacit fit``."""
    hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(command).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    every = sorted([*_shared(), *own], key=lambda one: one.default is not inspect.Parameter.empty)
    every = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in every]

    @functools.wraps(command)
    def taking(**given: Any) -> None:
        command(**given)

    del taking.__wrapped__
    taking.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    taking.__annotations__ = {one.name: one.annotation for one in every}
    return taking


def prepared_rows(rows: dict[str, Any], method: str) -> tuple[Prepared, Table]:
    """Read the rows that data options describe, as ``tacit fit`` would, and the file's cells."""
    defaults = {
        name: parameter.default for name, parameter in inspect.signature(fit).parameters.items()
    }
    return read_rows({**defaults, **rows, "method": method, "epsilon": None})
