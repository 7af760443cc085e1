"""What ends a conversation: a party says no, or somebody is not there."""

from __future__ import annotations

from tacit.errors import TacitError

__all__ = ["Interrupted", "Refused"]


class Refused(TacitError):
    """A party does not take part, or a message is not what was agreed on; it says why.

    The text crosses between parties: it speaks of terms and rules, never of rows.
    """


class Interrupted(TacitError):
    """An attempt that cannot go on now; the run can, from its files, in a later attempt."""
