"""Engines: where tasks live. `conduct` is the one loop; `Batches` keeps tasks on this machine."""

from tacit.engines.batches import Batches
from tacit.engines.conduct import Outcome, Parties, conduct, fold

__all__ = ["Batches", "Outcome", "Parties", "conduct", "fold"]
