"""Homes that always speak: whether rows can be computed with is nobody else's to know."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.privacy.bounds import RowMessages
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.schedule import Call, Round
from tacit.privacy.unit import Unit
from tacit.protocols.protocol import Protocol
from tacit.tasks import TaskSet

__all__ = ["Unfailing"]

_log = logging.getLogger(__name__)


class Unfailing(Protocol[Any, Any]):
    """A protocol at a site, whose public state may be of a coordinator who means ill.

    Guarantee: where the protocol's own ``speak`` raises, every row (or the task) says zero, which
    is bounded, noised and charged as any message. *Why.* A public state can be made such that a
    computation fails for some rows and not for others, say by a matrix that is singular with them
    alone; a failure that others see would be one bit of the rows without noise. The reason stays
    in the site's own log. What lacks files or memory fails as ever: that is not of rows.
    """

    def __init__(self, protocol: Protocol[Any, Any], rows: TaskSet) -> None:
        self._protocol, self._offsets = protocol, rows.offsets

    def rounds(self) -> tuple[Round, ...]:
        """Return the protocol's rounds."""
        return self._protocol.rounds()

    def opening(self) -> Any:
        """Return the protocol's opening."""
        return self._protocol.opening()

    def read(self, public: Any, release: AnyArray, call: Call, noise: Mechanism) -> Any:
        """Read as the protocol does."""
        return self._protocol.read(public, release, call, noise)

    def start(self, rows: TaskSet, positions: IntArray) -> Any:
        """Start as the protocol does: from rows alone."""
        return self._protocol.start(rows, positions)

    def speak(
        self, home: Any, public: Any, call: Call, joined: AnyArray | None
    ) -> tuple[Any, Array | RowMessages]:
        """Return what the protocol says, or zeros."""
        try:
            return self._protocol.speak(home, public, call, joined)
        except (OSError, MemoryError):
            raise
        except Exception:
            _log.exception("call %d: nothing could be computed, and zero is said", call.number)
            return home, self._nothing(self.rounds()[call.round])

    def _nothing(self, round: Round) -> Array | RowMessages:
        if round.unit is Unit.ROW:
            return RowMessages(np.zeros((self._offsets[-1], *round.sent)), self._offsets)
        return np.zeros((len(self._offsets) - 1, *round.sent))

    def finish(self, home: Any, public: Any) -> Array:
        """Finish as the protocol does; `Site` keeps a failure to itself."""
        return self._protocol.finish(home, public)

    def keep(self, home: Any, release: Array, call: Call) -> Any:
        """Keep what the protocol keeps."""
        return self._protocol.keep(home, release, call)

    def memory(self, home: Any) -> dict[str, Array]:
        """Remember what the protocol does."""
        return self._protocol.memory(home)

    def recall(self, memory: dict[str, Any], call: Call) -> Any:
        """Recall what the protocol does."""
        return self._protocol.recall(memory, call)

    def resume(self, rows: TaskSet, positions: IntArray, memory: dict[str, Any]) -> Any:
        """Resume as the protocol does."""
        return self._protocol.resume(rows, positions, memory)
