"""Engines: where tasks live. `conduct` is the one loop; `Batches` keeps tasks on this machine."""

from tacit.engines.batches import Batches
from tacit.engines.checkpoint import Checkpoint, Unkept
from tacit.engines.conduct import Outcome, Parties, conduct, fold

__all__ = ["Batches", "Checkpoint", "Outcome", "Parties", "Unkept", "conduct", "fold"]
