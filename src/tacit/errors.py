"""Every error and warning tacit raises on purpose.

An error names the parameter, the value and the remedy, and is raised before any state changes.
A leak raises; it never warns.
"""

from __future__ import annotations

__all__ = [
    "BudgetExceeded",
    "DataNotFound",
    "InvalidInput",
    "LedgerError",
    "ModelFileError",
    "PrivacyLeak",
    "PrivacyWarning",
    "TacitError",
    "UnknownTask",
]


class TacitError(Exception):
    """Base of every error raised by tacit."""


class InvalidInput(TacitError, ValueError):
    """Data or a parameter that cannot be used; the message says how to mend it."""


class UnknownTask(InvalidInput):
    """A task at predict time that was not there at fit time."""


class PrivacyLeak(TacitError):
    """Something was about to cross between tasks without being paid for."""


class LedgerError(TacitError):
    """A ledger file that is closed, foreign, truncated or edited."""


class BudgetExceeded(LedgerError):
    """A spend larger than what is left; nothing was computed from data."""

    def __init__(self, message: str, *, asked: float, left: float) -> None:
        super().__init__(message)
        self.asked = asked
        self.left = left


class ModelFileError(TacitError):
    """A model folder that is corrupted, foreign or of an unknown version."""


class DataNotFound(TacitError, FileNotFoundError):
    """A data set that is neither in ``TACIT_DATA`` nor in the cache, and cannot be fetched."""


class PrivacyWarning(UserWarning):
    """Emitted when a published mechanism that leaks is asked for by its full name."""
