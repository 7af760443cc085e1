"""The engine of this machine: what ``engine="local"`` stands for, with its one knob."""

from __future__ import annotations

import typing
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from tacit import _check
from tacit.engines.batches import Batches
from tacit.engines.conduct import Parties
from tacit.engines.ray import Ray
from tacit.errors import InvalidInput
from tacit.privacy.noise.entropy import Entropy
from tacit.protocols.protocol import Protocol
from tacit.tasks import ParquetTasks, TaskSet

__all__ = ["Engine", "Local", "engine_from"]


@typing.runtime_checkable
class Engine(typing.Protocol):
    """What ``engine=`` takes: something that finds homes for the tasks of a protocol."""

    def parties(
        self, protocol: Protocol[Any, Any], tasks: TaskSet | ParquetTasks, *, entropy: Entropy
    ) -> Parties:
        """Return the homes of ``tasks``."""
        ...


@dataclass(frozen=True)
class Local:
    """Tasks on this machine: a task set as one stack, a parquet file a batch at a time.

    Parameters
    ----------
    max_rows : int, optional
        Largest batch. By default a task set is one batch, and the batches of a file hold about
        64 MB of rows.
    homes : path, optional
        Folder of local checkpoints: what homes remember between calls, so that a run that is taken
        up again goes on with it. It holds personal models; only this user may read it.
    """

    max_rows: int | None = None
    homes: str | PathLike[str] | None = None

    def __post_init__(self) -> None:
        if self.max_rows is not None:
            _check.positive_integer("max_rows", self.max_rows, remedy="use None, or 1_000_000, say")

    def parties(
        self, protocol: Protocol[Any, Any], tasks: TaskSet | ParquetTasks, *, entropy: Entropy
    ) -> Batches:
        """Return the homes of ``tasks``, in this process."""
        return Batches(protocol, tasks, entropy=entropy, max_rows=self.max_rows, homes=self.homes)


def engine_from(engine: Any, *, homes: Path | None = None) -> Engine:
    """Return the engine that a parameter ``engine`` names or is, with the run's ``homes``."""
    if isinstance(engine, str):
        engine = _named(engine)
    if isinstance(engine, Local | Ray) and engine.homes is None and homes is not None:
        return replace(engine, homes=homes)
    if isinstance(engine, Engine) and not isinstance(engine, type):
        return engine
    raise InvalidInput(
        f'engine={engine!r}: must be "local", "ray", "ray://host:port" or an engine, such as '
        "tacit.engines.Local(max_rows=…)"
    )


def _named(name: str) -> Engine:
    if name.startswith("ray://"):
        return Ray(address=name.removeprefix("ray://"))
    _check.one_of("engine", name, ("local", "ray"))
    return Ray() if name == "ray" else Local()
