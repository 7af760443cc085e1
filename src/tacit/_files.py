"""Files written whole or not at all: the one place that writes beside a file and renames."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

__all__ = ["whole_file", "write_whole"]


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
        with beside.open("rb+") as stream:
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(beside), beside):
            raise
        # Name the file the user knows, not the one beside it.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def write_whole(path: Path, content: str | bytes | memoryview) -> None:
    """Write a whole file at once."""
    with whole_file(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)
