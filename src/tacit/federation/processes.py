"""Long-lived processes: a party's NVFlare parent, started again whenever it dies."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tacit.federation.site import locked
from tacit.federation.strict import check_policy

__all__ = ["keep_running", "stop"]

_PAUSE = 1.0
_SHUTDOWN = "shutdown.fl"


def keep_running(
    kit: Path, *, server: bool, say: Callable[[str], None], pause: float = _PAUSE
) -> None:
    """Run a kit until it is stopped; whenever its process dies, check the policy and start again.

    One process at a time may do so for a kit.
    """
    kit = kit.absolute()
    check_policy(kit, server=server)
    held = locked(kit.parent / "running.lock")
    (kit / _SHUTDOWN).unlink(missing_ok=True)
    ended = False

    def end(number: int, frame: object) -> None:  # noqa: ARG001
        nonlocal ended
        ended = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    try:
        while not ended:
            check_policy(kit, server=server)
            child = _started(kit)
            say(f"started {kit.name}, process {child.pid}")
            while child.poll() is None and not ended and not (kit / _SHUTDOWN).exists():
                time.sleep(0.2)
            ended = ended or (kit / _SHUTDOWN).exists()
            _ended(child)
            if not ended:
                say(f"process {child.pid} ended ({child.returncode}); starting again")
                time.sleep(pause)
    finally:
        (kit / _SHUTDOWN).unlink(missing_ok=True)
        os.close(held)


def _started(kit: Path) -> subprocess.Popen[bytes]:
    """Start the parent in a session of its own, so that it ends with all its children."""
    here = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": f"{here}{os.pathsep}{os.environ.get('PATH', '')}",
        "HOME": str(kit.parent),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
    }
    with (kit / "console.txt").open("ab") as out:
        return subprocess.Popen(  # noqa: S603 - the kit's own script
            [str(kit / "startup" / "sub_start.sh"), "--once"],
            cwd=kit,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _ended(child: subprocess.Popen[bytes]) -> None:
    """End a parent and whatever it started: what was charged is on disk, nothing else matters."""
    jobs = _descendants(child.pid)  # of sessions of their own
    for number, patience in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(patience)
    for pid, send in ((child.pid, os.killpg), *((pid, os.kill) for pid in jobs)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """Return the processes that a process and its children started; none where /proc is not."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found, waiting = list[int](), [pid]
    while waiting:
        own = children.get(waiting.pop(), [])
        found += own
        waiting += own
    return found


def stop(kit: Path) -> None:
    """Ask whoever keeps a kit running to stop."""
    (kit / _SHUTDOWN).touch()
