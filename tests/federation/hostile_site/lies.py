"""What a lying site sends, one lie a round; its own gate and executor are replaced."""

from __future__ import annotations

import io
import time

import numpy as np
from nvflare.apis.fl_constant import ReturnCode
from nvflare.private.fed.client.communicator import Communicator

from tacit.federation import flare
from tacit.federation.wire import pack, unpack

PATIENCE = 6.0  # seconds that a round waits


def _said(change):
    """Return a lie that changes header and arrays of a message."""

    def lie(reply, header, arrays):
        header, arrays = change(header, arrays)
        reply["answer"] = pack(header, **arrays)

    return lie


def _bytes(change):
    """Return a lie that changes the bytes of a message."""

    def lie(reply, *_):
        reply["answer"] = change(reply["answer"])

    return lie


def _squeezed(_):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, header=np.zeros(50_000_000, dtype=np.uint8))
    return buffer.getvalue()


def _nested(_):
    buffer = io.BytesIO()
    np.savez(buffer, header=np.frombuffer(b'{"run":' + b"[" * 100_000, dtype=np.uint8))
    return buffer.getvalue()


def _rows_too(reply, *_):
    reply["rows"] = np.ones((9, 3))


def _failed(reply, *_):
    reply.set_return_code(ReturnCode.EXECUTION_EXCEPTION)


def _late(*_):
    time.sleep(PATIENCE + 2)


LIES = {
    "the truth": None,
    "not a number": _said(lambda h, a: (h, {"message": a["message"] * np.nan})),
    "infinite": _said(lambda h, a: (h, {"message": a["message"] + np.inf})),
    "shape": _said(lambda h, a: (h, {"message": np.tile(a["message"], 2)})),
    "round": _said(lambda h, a: ({**h, "call": {**h["call"], "turn": h["call"]["turn"] + 1}}, a)),
    "run": _said(lambda h, a: ({**h, "run": "0" * 32}, a)),
    "extra array": _said(lambda h, a: (h, {**a, "rows": np.ones((9, 3))})),
    "extra word": _said(lambda h, a: ({**h, "note": "my rows"}, a)),
    "extra part": _rows_too,
    "too long": _said(lambda h, a: (h, {"message": a["message"] * 1e6})),
    "80 MB": _said(lambda h, a: (h, {"message": np.zeros(10_000_000)})),
    "single precision": _said(lambda h, a: (h, {"message": a["message"].astype(np.float32)})),
    "no array": _said(lambda h, a: (h, {})),
    "for ever behind": _said(lambda h, a: ({"known": 0}, {})),
    "cut short": _bytes(lambda content: content[:-40]),
    "squeezed": _bytes(_squeezed),
    "nested": _bytes(_nested),
    "no bytes": _bytes(lambda content: np.ones(3)),
    "an earlier message": _bytes(lambda content: _kept["answer"]),
    "a failure": _failed,
    "late": _late,
    "twice": None,
    "an earlier submission again": None,
    "another after the first": None,
    "the truth at last": None,
}
COUNTED = [name for name, lie in LIES.items() if lie is None]
_kept = {}


def install():
    """Put the liar in the place of site and gate."""
    honest, submit = flare.FlareSite.execute, Communicator.submit_update

    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        reply = honest(self, task_name, shareable, fl_ctx, abort_signal)
        _kept["name"] = ""
        if task_name == "speak" and isinstance(reply.get("answer"), bytes):
            header, arrays = unpack(reply["answer"])
            if set(header) == {"run", "call"}:
                _kept["name"] = list(LIES)[header["call"]["number"]]
                _kept.setdefault("answer", reply["answer"])
                lie = LIES[_kept["name"]]
                if lie is not None:
                    lie(reply, header, arrays)
        return reply

    def submitted(self, project, token, ssid, fl_ctx, client, shareable, *more, **options):
        def send(what):
            return submit(self, project, token, ssid, fl_ctx, client, what, *more, **options)

        name = _kept.get("name")
        if name == "the truth":
            _kept["submission"] = shareable
        if name == "an earlier submission again":
            send(_kept["submission"])
        sent = send(shareable)
        if name == "twice":
            send(shareable)
        if name == "another after the first":
            header, arrays = unpack(shareable["answer"])
            shareable["answer"] = pack(header, message=0 * arrays["message"])
            send(shareable)
        return sent

    flare.FlareSite.execute = execute
    flare.FlareGate.process = lambda self, shareable, fl_ctx: shareable
    Communicator.submit_update = submitted
