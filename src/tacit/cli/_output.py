"""What a command prints: for people, for scripts (``--json``), or nothing (``--quiet``)."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

__all__ = ["Json", "Output", "Quiet", "begin", "current"]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]

Advance = Callable[[int, int], None]
_LONG = 5.0  # seconds after which a step says that it is there


class Output:
    """Results go to standard output; notes, progress and errors to standard error."""

    def __init__(self, *, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet = quiet
        self.as_json = as_json
        self._stepping = False
        self._out = Console(highlight=False, soft_wrap=not sys.stdout.isatty())
        self._err = Console(stderr=True, highlight=False, soft_wrap=True)

    def show(self, *renderables: Any) -> None:
        """Print for people; text is taken literally, without markup."""
        if not (self.quiet or self.as_json):
            for item in renderables:
                self._out.print(escape(item) if isinstance(item, str) else item)

    def result(self, body: dict[str, Any]) -> None:
        """Print the machine's version of the result, with ``--json`` only."""
        if self.as_json:
            text = json.dumps(_plain(body), ensure_ascii=False, indent=2, allow_nan=False)
            sys.stdout.write(text + "\n")

    def note(self, text: str) -> None:
        """Say something worth knowing that is not the result."""
        if not (self.quiet or self.as_json):
            self._err.print(f"note: {escape(text)}", style="dim")

    def warn(self, text: str) -> None:
        """Say something that should not be overlooked; ``--quiet`` does not hide it."""
        self._err.print(f"warning: {escape(text)}", style="yellow")

    def error(self, text: str, code: int) -> None:
        """Say why the command ends."""
        if self.as_json:
            sys.stderr.write(json.dumps({"error": text, "exit_code": code}) + "\n")
        else:
            self._err.print(f"[red]error:[/red] {escape(text)}")

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[Advance]:
        """Show a bar while a step runs; yields ``advance(done, total)``. Gone when it ends.

        A step within a step shows nothing of its own. Where there is no terminal to draw on, a
        step that takes long says so in lines, every few seconds at most.
        """
        if self._stepping:
            yield lambda *_: None
            return
        if not (self.quiet or self.as_json or self._err.is_terminal):
            with self._in_lines(what) as advance:
                yield advance
            return
        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=self._err,
            transient=True,
            disable=self.quiet or self.as_json or not self._err.is_terminal,
        )
        self._stepping = True
        try:
            with progress:
                task = progress.add_task(escape(what), total=None)
                yield lambda done, total: progress.update(task, completed=done, total=total)
        finally:
            self._stepping = False

    @contextlib.contextmanager
    def _in_lines(self, what: str) -> Iterator[Advance]:
        began = said = time.monotonic()

        def advance(done: int, total: int) -> None:
            nonlocal said
            now = time.monotonic()
            if now - said >= _LONG:
                said = now
                self.note(f"{what}: {done} of {total} after {now - began:.0f} s")

        first = threading.Timer(_LONG, lambda: self.note(f"{what} …"))
        first.daemon = True
        first.start()
        self._stepping = True
        try:
            yield advance
        finally:
            self._stepping = False
            first.cancel()

    @contextlib.contextmanager
    def warnings_as_lines(self) -> Iterator[None]:
        """Print each Python warning raised inside once, as a line of ours."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for text in dict.fromkeys(str(warning.message) for warning in caught):
            self.warn(text)


def _plain(value: Any) -> Any:
    """JSON has no infinity and no NaN: they become text."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


_CURRENT: ContextVar[Output | None] = ContextVar("output", default=None)


def begin(*, quiet: bool = False, as_json: bool = False) -> Output:
    """Start the output of one command."""
    output = Output(quiet=quiet, as_json=as_json)
    _CURRENT.set(output)
    return output


def current() -> Output:
    """Return the output of the command that runs."""
    return _CURRENT.get() or begin()
