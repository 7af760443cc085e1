"""How the command ends: exit codes, and the one place where errors become sentences.

====  ==========================================================================================
code  meaning
====  ==========================================================================================
0     done
1     a defect in tacit (a traceback is printed; please report it)
2     wrong usage, or data that cannot be used: nothing was spent, nothing was written
3     the privacy budget refused the run: nothing was computed from data
4     a file or folder cannot be read or written, or a model or ledger was damaged or edited
5     a check failed: an audit refuted the claim, or a reproduced figure is out of tolerance
130   interrupted; what had been released by then stays recorded in the ledger
====  ==========================================================================================
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from tacit.cli._output import begin, current
from tacit.errors import (
    BudgetExceeded,
    DataNotFound,
    InvalidInput,
    LedgerError,
    ModelFileError,
    PrivacyLeak,
    TacitError,
)

__all__ = [
    "CHECK_FAILED",
    "EPILOG",
    "INTERRUPTED",
    "REFUSED_BUDGET",
    "REFUSED_FILE",
    "REFUSED_INPUT",
    "GuardedGroup",
]

REFUSED_INPUT = 2
REFUSED_BUDGET = 3
REFUSED_FILE = 4
CHECK_FAILED = 5
INTERRUPTED = 130

EPILOG = (
    "Exit codes: 0 done, 2 wrong usage or unusable data, 3 privacy budget refused, 4 file or "
    "folder problem, 5 a check failed (audit, reproduction), 130 interrupted, 1 a defect in tacit."
)

# First match wins: a refused budget is a LedgerError too, data not found a file error.
_CODES: tuple[tuple[type[BaseException], int], ...] = (
    (BudgetExceeded, REFUSED_BUDGET),
    (DataNotFound, REFUSED_FILE),
    (LedgerError, REFUSED_FILE),
    (ModelFileError, REFUSED_FILE),
    (PrivacyLeak, REFUSED_FILE),
    (InvalidInput, REFUSED_INPUT),
    (TacitError, REFUSED_INPUT),
    (OSError, REFUSED_FILE),
    (MemoryError, REFUSED_FILE),
    (KeyboardInterrupt, INTERRUPTED),
)

_REMEDIES = {
    errno.ENOSPC: "the disk is full; free some space and run the command again",
    errno.EDQUOT: "your disk quota is used up; free some space and run the command again",
    errno.EACCES: "permission denied; choose a place you may use, or change its permissions",
    errno.EPERM: "not permitted; choose a place you may use, or change its permissions",
    errno.EROFS: "that place is read-only; choose another one",
    errno.ENOENT: "no such file or folder; check the path",
    errno.EISDIR: "is a folder; name a file",
    errno.ENOTDIR: "a file stands where a folder is needed; choose another path",
    errno.EEXIST: "exists already; choose another path",
    errno.EMFILE: "too many files are open; close some programs and try again",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
}


def message_of(error: BaseException) -> str:
    """Return one or two sentences for ``error``: what is wrong, and what to do."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; no model was written, and what had been released stays in the ledger"
    if isinstance(error, MemoryError):
        return "not enough memory for this data; use fewer rows or a larger machine"
    if isinstance(error, OSError) and not isinstance(error, TacitError):
        remedy = _REMEDIES.get(error.errno or 0, error.strerror or str(error))
        place = error.filename2 or error.filename
        return f"{place}: {remedy}" if place else remedy
    return str(error)


class GuardedGroup(TyperGroup):
    """The command group that turns errors of users and of the machine into a line and a code."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command; every foreseen error ends here."""
        call: Callable[[Any], Any] = super().invoke
        begin()
        try:
            return call(ctx)
        except tuple(kind for kind, _ in _CODES) as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                sys.stderr.close()  # the reader of a pipe went away: there is nobody to tell
                raise typer.Exit(0) from None
            code = next(code for kind, code in _CODES if isinstance(error, kind))
            current().error(message_of(error), code)
            raise typer.Exit(code) from None
