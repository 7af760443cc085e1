"""The HTML page of a run, written from what a run folder holds."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from tacit.cli._output import current

__all__ = ["write_page"]


def write_page(model: Any, path: Path, *, ledger: Path | None = None, **shown: Any) -> None:
    """Write the report of ``model`` and of its ledger.

    Guarantee: the page's own (see `tacit.report.write_report`): a coordinator's page without rows
    and a party's page hold releases and, for a party, its own values.
    """
    from tacit.report import write_report

    if ledger is not None and ledger.exists():
        shown["ledger"] = ledger
    with current().step("writing the report"), warnings.catch_warnings():
        # Rows come as plain arrays whose columns were matched by name before.
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        write_report(model, path, **shown)
