"""Engines: where tasks live. `conduct` is the one loop; `Local` keeps tasks on this machine."""

from tacit.engines.batches import Batches
from tacit.engines.conduct import Outcome, Parties, conduct, fold
from tacit.engines.local import Engine, Local, engine_from

__all__ = [
    "Batches",
    "Engine",
    "Local",
    "Outcome",
    "Parties",
    "conduct",
    "engine_from",
    "fold",
]
