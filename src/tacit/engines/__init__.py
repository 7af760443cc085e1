"""Engines: where tasks live. `conduct` is the one loop.

`Local` keeps tasks on this machine; `Clock` asks them in the order of a simulated network;
`Ray` spreads them over the machines of a cluster.
"""

from tacit.engines.batches import Batches
from tacit.engines.checkpoint import Checkpoint, Unkept
from tacit.engines.clock import Away, Clock, Delay, Timeline
from tacit.engines.conduct import Outcome, Parties, conduct, fold
from tacit.engines.local import Engine, Local, engine_from
from tacit.engines.ray import Ray

__all__ = [
    "Away",
    "Batches",
    "Checkpoint",
    "Clock",
    "Delay",
    "Engine",
    "Local",
    "Outcome",
    "Parties",
    "Ray",
    "Timeline",
    "Unkept",
    "conduct",
    "engine_from",
    "fold",
]
