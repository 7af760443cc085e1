"""What crosses the wire: a JSON header and plain arrays, in one uncompressed archive; no code."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np

from tacit._types import AnyArray
from tacit.federation.errors import Refused

__all__ = ["MOST_BYTES", "pack", "unpack"]

MOST_BYTES = 1 << 30
_HEADER = "header"
_KINDS = "biuf"


def pack(header: dict[str, Any], **arrays: AnyArray) -> bytes:
    """Return header and arrays as bytes; the same content gives the same bytes."""
    buffer = io.BytesIO()
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    parts: dict[str, Any] = {_HEADER: np.frombuffer(text, dtype=np.uint8), **arrays}
    np.savez(buffer, **parts)
    return buffer.getvalue()


def unpack(content: Any, *, most: int = MOST_BYTES) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return header and arrays, or raise `Refused` for anything that `pack` would not write."""
    if not isinstance(content, bytes | bytearray | memoryview):
        raise Refused(f"message: {type(content).__name__} came, not bytes")
    if len(content) > most:
        raise Refused(f"message: {len(content)} bytes; at most {most} were agreed on")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            # What is not compressed cannot unpack to more than was sent.
            if any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist()):
                raise Refused("message: is compressed; send plain arrays")
        with np.load(io.BytesIO(content), allow_pickle=False) as parts:
            arrays = {name: parts[name] for name in parts.files}
        header = json.loads(arrays.pop(_HEADER).tobytes().decode())
    except Refused:
        raise
    except Exception as error:  # bytes of others: no reader's list of errors is complete
        raise Refused(f"message: cannot be read ({type(error).__name__})") from None
    if not isinstance(header, dict) or any(a.dtype.kind not in _KINDS for a in arrays.values()):
        raise Refused("message: holds something other than a header and numbers")
    return header, arrays
