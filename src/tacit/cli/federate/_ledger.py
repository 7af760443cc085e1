"""A site's place in the register of ledgers: its rows have one budget, whoever spends it."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from tacit.cli.guard.choice import Asked, Guard, peek
from tacit.cli.join import own_rows
from tacit.cli.table.read import read_table
from tacit.errors import LedgerError
from tacit.privacy.ledger import Ledger

if TYPE_CHECKING:
    from tacit.federation.kits import Settings

__all__ = ["asked_for", "described", "registered"]


def asked_for(settings: Settings, *, named: Path | None, reason: str | None = None) -> Asked:
    """Return the question which ledger guards a site's rows; a new one is made at the site."""
    table, column = read_table(Path(settings.data)), settings.column or None
    own = table if column is None else own_rows(table, column, settings.site)
    pieces = functools.partial(iter, (own.columns,))
    new = Path(settings.ledger)
    return Asked(Path(settings.data), pieces, column, named, reason, new=new)


def described(asked: Asked, totals: tuple[float, float]) -> str:
    """Say which ledger a site would charge, and what is left in it; nothing is written."""
    path = peek(asked)
    if path is None:
        return f"a new ledger counts it: {asked.beside}, total ε = {totals[0]:.4g}"
    with Ledger(path) as ledger:
        spent, total = ledger.spent().epsilon, ledger.epsilon
    return f"it is counted in {path}: ε = {spent:.4g} of {total:.4g} is spent"


def registered(settings: Settings) -> None:
    """Note that the site's ledger guards its rows as they are today; refuse if another does."""
    path = Path(settings.ledger)
    if not path.exists():
        raise LedgerError(f"{path}: the ledger of this site is gone; restore it from a copy")
    asked = asked_for(settings, named=path)
    with Guard(asked, (settings.max_epsilon, settings.max_delta)) as guard:
        guard.stays = True
