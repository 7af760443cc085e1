"""Files written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

__all__ = ["write_whole"]


def write_whole(path: Path, content: str | bytes) -> None:
    """Write beside the file, flush to the disk, rename over it; a failure leaves nothing new."""
    data = content.encode() if isinstance(content, str) else content
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except OSError as error:
        # Name the file the user knows, not the one beside it.
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
