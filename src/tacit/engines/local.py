"""The local engine: every task in one process, stacked, vectorised.

Per round it does what the protocol declares and nothing else; the numerical work is in
:mod:`tacit.numerics`, whose kernels were chosen by measurement (see its docstrings).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._types import Array
from tacit.numerics.stacks import finite_tasks
from tacit.numerics.threads import quiet_arithmetic
from tacit.privacy.billboard import Billboard
from tacit.privacy.samplers import Entropy
from tacit.protocols.protocol import Protocol
from tacit.tasks import TaskSet

__all__ = ["Outcome", "run"]

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Outcome:
    """What a run leaves: personal models, the protocol's last state, one history row a round."""

    models: Array
    state: Any
    history: tuple[dict[str, Any], ...]


def run(
    protocol: Protocol[Any],
    tasks: TaskSet,
    billboard: Billboard,
    *,
    entropy: Entropy,
    progress: Progress | None = None,
) -> Outcome:
    """Run ``protocol`` on all ``tasks`` at once; every release goes through ``billboard``.

    Guarantee: a value reaches ``listen`` only after ``billboard.post`` has charged the ledger for
    it. ``history`` holds public facts of each release (round, mechanism, scale), never messages.
    One task's numbers, whatever they are, neither stop the run nor make it warn: a message that is
    not finite counts as zero (`tacit.privacy.bounds`), and so does such a model.
    """
    with quiet_arithmetic():
        return _run(protocol, tasks, billboard, entropy, progress)


def _run(
    protocol: Protocol[Any],
    tasks: TaskSet,
    billboard: Billboard,
    entropy: Entropy,
    progress: Progress | None,
) -> Outcome:
    state = protocol.start(tasks)
    history = []
    for t in range(protocol.n_rounds):
        aggregate = protocol.aggregate(protocol.bound(protocol.speak(state, t)))
        mechanism = protocol.mechanism(t)
        release = mechanism.release(aggregate, entropy)
        posting = billboard.post(
            release.value,
            release.event,
            label=f"round {t + 1}: {release.mechanism}",
            sound=release.sound,
            seeded=release.seeded,
        )
        state = protocol.listen(state, posting.value, t)
        history.append(
            {"round": t + 1, "mechanism": release.mechanism, "scale": float(mechanism.scale)}
        )
        if progress is not None:
            progress(t + 1, protocol.n_rounds)
    models = protocol.finish(state)
    models = np.where(finite_tasks(models)[:, None, None], models, 0.0)
    return Outcome(models, state, tuple(history))
