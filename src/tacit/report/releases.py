"""What a run's releases say, as the method that made them reads them.

The page asks the protocol: the releases are folded into its public state again, and the protocol
says what of that state means something to a reader (`tacit.protocols.shown`). A personal model is
never an argument, which keeps the coordinator's page free of anybody's own numbers.
"""

from __future__ import annotations

from typing import Any

from tacit.privacy.billboard import Billboard
from tacit.protocols.shown import Shared, Spectrum, TaskMap

__all__ = ["Shared", "Spectrum", "TaskMap", "read_shared"]


def read_shared(model: Any, billboard: Billboard | None) -> Shared:
    """Return what the releases of ``model`` tell everybody.

    Guarantee: post-processing of releases with public constants, so it costs nothing.
    """
    if billboard is None or not len(billboard) or getattr(model, "_sizes", None) is None:
        return Shared()
    protocol, public = model._public_state(billboard)
    return protocol.shown(public)
