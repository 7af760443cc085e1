"""What a user sees of a running fit: a bar, or lines, with releases and ε, all of it public."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from tacit.errors import InvalidInput
from tacit.privacy.accounting.gaussian import gaussian_epsilon
from tacit.privacy.schedule import Schedule
from tacit.privacy.unit import Unit

__all__ = ["Advance", "check_progress", "check_verbose", "watching"]

Advance = Callable[[int, int], None]


def check_progress(name: str, value: Any) -> None:
    """Refuse what is neither a bar, nor a function, nor nothing."""
    if not (isinstance(value, bool) or callable(value)):
        raise InvalidInput(
            f"{name}={value!r}: must be None, True for a bar, or a function of "
            "(release, n_releases)"
        )


def check_verbose(name: str, value: Any) -> None:
    """Refuse what says neither yes nor no."""
    if not isinstance(value, bool | int):
        raise InvalidInput(f"{name}={value!r}: must be True or False")


def _spent(schedule: Schedule, unit: Unit, delta: float) -> Callable[[int], str]:
    """Return how to say the ε of the first releases; empty where noise is not all Gaussian."""
    if not 0 < delta < 1:
        return lambda _: ""
    # An event of this many standard deviations' noise adds 1/σ² to μ².
    squares = [
        1 / noise**2
        for noise in (getattr(e, "noise_multiplier", None) for e in schedule.events(unit))
        if noise
    ]
    if len(squares) < len(schedule.events(unit)):
        return lambda _: ""
    return lambda done: f"ε = {gaussian_epsilon(sum(squares[:done]) ** 0.5, delta):.3g}"


@contextlib.contextmanager
def watching(
    progress: Any, verbose: Any, schedule: Schedule, unit: Unit, delta: float, name: str
) -> Iterator[Advance | None]:
    """Yield what the conversation calls after every release; None if nobody watches."""
    labels = [round.name for round in schedule.rounds for _ in range(round.turns)]
    spent = _spent(schedule, unit, delta) if progress is True or verbose else None
    with contextlib.ExitStack() as stack:
        told: list[Advance] = []
        if callable(progress):
            told.append(progress)
        elif progress is True and spent is not None:
            told.append(stack.enter_context(_bar(name, spent)))
        if verbose and spent is not None:
            said = spent

            def line(done: int, total: int) -> None:
                cost = said(done)
                text = f"{name}: release {done} of {total}, {labels[done - 1]}"
                sys.stderr.write(f"{text}{f', {cost} so far' if cost else ''}\n")

            told.append(line)

        def advance(done: int, total: int) -> None:
            for tell in told:
                tell(done, total)

        yield advance if told else None


@contextlib.contextmanager
def _bar(name: str, spent: Callable[[int], str]) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("releases {task.fields[spent]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=None, spent="")
        yield lambda done, total: bar.update(task, completed=done, total=total, spent=spent(done))
