"""Engines decide where a protocol runs; protocols know none of them."""

from tacit.engines.local import Outcome, run

__all__ = ["Outcome", "run"]
