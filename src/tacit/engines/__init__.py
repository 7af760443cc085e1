"""Engines: where tasks live. `conduct` is the one loop; `Local` keeps tasks on this machine."""

from tacit.engines.batches import Batches
from tacit.engines.checkpoint import Checkpoint, Unkept
from tacit.engines.conduct import Outcome, Parties, conduct, fold
from tacit.engines.local import Engine, Local, engine_from

__all__ = [
    "Batches",
    "Checkpoint",
    "Engine",
    "Local",
    "Outcome",
    "Parties",
    "Unkept",
    "conduct",
    "engine_from",
    "fold",
]
