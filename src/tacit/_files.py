"""Files written whole or not at all: the one place that writes beside a file and renames."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["file_named_by", "whole_file", "whole_folder", "write_whole"]


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a path beside ``path`` to write to; flush it to the disk and rename it at the end.

    A failure leaves what was there before, and nothing new.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield beside
        _flush(beside)
        os.replace(beside, path)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(beside), beside):
            raise
        # Name the file the user knows, not the one beside it.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def file_named_by(folder: Path, write: Callable[[Path], str]) -> str:
    """Let ``write`` write a file and say how it is called, and put it into ``folder`` by that name.

    Returns the name. For files that are named by what they hold.
    """
    beside = folder / f".new.{secrets.token_hex(4)}"
    try:
        name = write(beside)
        _flush(beside)
        os.replace(beside, folder / name)
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
    return name


@contextlib.contextmanager
def whole_folder(path: Path, *, durable: bool = True) -> Iterator[Path]:
    """Yield a folder beside ``path`` to write files to; it takes the place of ``path`` at the end.

    A crash leaves no folder or a whole one. Without ``durable`` files are not flushed to the disk.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    beside.mkdir(mode=0o700)
    try:
        yield beside
        for file in beside.iterdir() if durable else ():
            _flush(file)
        shutil.rmtree(path, ignore_errors=True)
        os.replace(beside, path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _flush(path: Path) -> None:
    with path.open("rb+") as stream:
        os.fsync(stream.fileno())


def write_whole(path: Path, content: str | bytes | memoryview) -> None:
    """Write a whole file at once."""
    with whole_file(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)
