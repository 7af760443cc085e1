"""One self-contained HTML page about a finished fit, for its coordinator or for one party."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit._files import write_whole
from tacit.errors import InvalidInput

if TYPE_CHECKING:
    from tacit.privacy.billboard import Billboard

__all__ = ["write_report"]


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    X: Any = None,
    y: Any = None,
    tasks: Any = None,
    baselines: Mapping[str, Any] | None = None,
    fitted_on: tuple[Any, Any, Any] | None = None,
    audit: Any = None,
    ledger: Any = None,
    party: Any = None,
    title: str | None = None,
    billboard: Billboard | None = None,
    seen: bool = False,
) -> Path:
    """Write the report of a fitted model; it opens offline and asks the network for nothing.

    Parameters
    ----------
    model : fitted estimator
    path : where the page is written, in one piece or not at all
    X, y, tasks : rows to evaluate on, kept out of the fit
        Without ``party`` the page then holds every task's private results, and says so.
    baselines : mapping of names to fitted estimators
        They answer the same rows; the first is the one the model is compared with. By default
        single-task and pooled learning; an empty mapping compares with nothing.
    fitted_on : tuple (X, y, tasks) of the rows that the model was fitted on
        The default baselines learn from them. Without it they learn from the rows to evaluate on,
        each answer from the folds that lack its row, and the page says so.
    audit : AuditResult, several of them, or pairs (claimed ε, lower bound)
    ledger : Ledger or path, to show what is left
    party : name of a task: the page is that party's own
    title : heading of the page
    billboard : the run's releases, where ``model`` was loaded from files and has none
    seen : whether the model may have learned from the rows to evaluate on; the page then says that
        its errors are no test

    Guarantee: with ``party=None`` and no rows, nothing on the page goes beyond the releases. With a
    ``party``, personal values are that party's own: its model, errors on its rows; the default
    baseline learns from its rows alone, and given ones that were fitted without protection on
    others' rows are left out. Other parties appear by name and
    by what was released about them; names count as public under replace-one.
    """
    from tacit.report.page import page
    from tacit.report.visible import collect

    facts = collect(
        model,
        X=X,
        y=y,
        tasks=tasks,
        baselines=baselines,
        fitted_on=fitted_on,
        audit=audit,
        ledger=ledger,
        party=party,
        billboard=billboard,
        seen=seen,
    )
    text = page(facts, title=title)
    target = Path(path)
    if target.is_dir():
        raise InvalidInput(
            f"path={os.fspath(path)!r}: is a folder; name a file such as report.html"
        )
    write_whole(target, text)
    return target
