"""Clients per second and peak memory of cohort training, against other frameworks in one run.

``python benchmarks/neural.py`` makes an environment for every side (with uv if it is there, else
venv and pip; under ``--cache``), starts all of them, and asks each in turns for rounds one after
another until half a second has passed (one round at least), so that all see the same load; it
prints a table a model and writes ``benchmarks/results/neural.json``.
A side that cannot be installed or started is left out, and the table says so.

A round is a cohort of 50 clients of 40 images each, one local epoch in batches of 10, updates
clipped, summed and noised. Models: the two-convolution network (5×5, 32 and 64, dense 512) and
multinomial logistic regression (784 × 62). The first round, from the start of the process, is
stated apart. Beside clients per second of the clock stand clients per second of processor time,
over all rounds: on a machine that others use too, the latter say more. The share of peak counts
the operations of plain convolutions, whoever needs fewer, against numpy's product on one core.
Memory is the proportional set size of the side's processes, at its largest in the first round and
in two that are not timed, as asking for it keeps a processor busy.
PyTorch sides run once with one thread and once with all; the better one counts for the ratios.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
TORCH = "torch>=2.6"
SIDES = {
    "tacit": ["-e", f"{HERE.parent}[neural]"],  # this code, however old the environment is
    "pfl": ["pfl[pytorch]>=0.5", TORCH],
    "fedjax": ["fedjax>=0.0.17"],
    "flower": ["flwr[simulation]>=1.20", TORCH],
    "torch": [TORCH, "numpy"],
}
ONE_THREAD_TOO = ("pfl", "torch")
COHORT, IMAGES = 50, 40
SPELL = 0.5  # seconds of rounds one after another, as a training has them
WATCHED = 2  # rounds whose memory is looked at
BY = ("clients/s", "a core-second")
# Multiply-adds of one image, forward; a step takes about three times as many.
PRODUCTS = {"cnn": 784 * 25 * 32 + 196 * 800 * 64 + 3136 * 512 + 512 * 62, "logistic": 784 * 62}


def environment(name: str, cache: Path) -> Path | None:
    """Return the interpreter of the side's environment, made if need be; None if it failed."""
    home = cache / name
    python = home / "bin" / "python"
    done = home / "installed.json"
    wanted = json.dumps(SIDES[name])
    if done.exists() and done.read_text() == wanted:
        return python
    home.parent.mkdir(parents=True, exist_ok=True)
    uv = shutil.which("uv")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if uv:
        steps = [
            [uv, "venv", "-q", "--clear", "--python", version, str(home)],
            [uv, "pip", "install", "-q", "--torch-backend", "cpu", "--python", str(python)],
        ]
    else:
        steps = [[sys.executable, "-m", "venv", "--clear", str(home)]]
        steps += [[str(python), "-m", "pip", "install", "-q"]]
    steps[-1] += SIDES[name]
    for step in steps:
        made = subprocess.run(step, capture_output=True, text=True)
        if made.returncode:
            print(f"{name}: left out, cannot be installed: {made.stderr.strip()[-300:]}")
            return None
    done.write_text(wanted)
    return python


def family(root: int) -> list[int]:
    """Return a process and its descendants."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(status.parent.name))
    members = [root]
    for process in members:
        members += children.get(process, [])
    return members


def proportional_memory(root: int) -> int:
    """Return the bytes of a process and its descendants, shared pages split among their users."""
    total = 0
    for process in family(root):
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return total


def processor_seconds(root: int) -> float:
    """Return the processor time of a process and its descendants, those that ended included."""
    ticks = 0
    for process in family(root):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def end_with_starter() -> None:
    """Ask Linux to end this process when the one that started it ends, however that comes."""
    set_signal = 1  # PR_SET_PDEATHSIG
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).prctl(set_signal, signal.SIGTERM)


class Side:
    """One framework in its own process, one round at a time."""

    def __init__(self, name: str, python: Path, model: str, threads: int) -> None:
        self.name, self.seconds, self.worked, self.peak = name, [], 0.0, 0
        several = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(
            [str(python), str(HERE / "neural_sides" / f"{name.split()[0]}_side.py"), model],
            env=os.environ | several,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=end_with_starter,
        )
        self.cold: float | None = None

    def start(self) -> bool:
        """Wait for the first round; return whether it was finished."""
        self.cold = self._watched()
        return self.cold is not None

    def _answer(self) -> float | None:
        """Return the seconds the side reports; None at its end."""
        for line in self.process.stdout:
            if line.startswith("@@"):
                return float(line[2:])
        return None

    def _watched(self) -> float | None:
        """Return the answer, watching the side's memory meanwhile."""
        over = threading.Event()

        def watch() -> None:
            while True:
                self.peak = max(self.peak, proportional_memory(self.process.pid))
                if over.wait(0.5):
                    break

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            return self._answer()
        finally:
            over.set()
            watcher.join()

    def _ask(self) -> None:
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def rounds(self) -> None:
        """Ask for rounds until their time has passed."""
        before, spell = processor_seconds(self.process.pid), 0.0
        while spell < SPELL:
            self._ask()
            seconds = self._answer()
            if seconds is None:
                return
            self.seconds.append(seconds)
            spell += seconds
        self.worked += processor_seconds(self.process.pid) - before

    def watch(self) -> None:
        """Ask for rounds that are not timed, for their memory."""
        for _ in range(WATCHED):
            self._ask()
            self._watched()

    def close(self, patience: float = 30.0) -> None:
        """End the process, and those it started and left behind (Ray's)."""
        members = family(self.process.pid) if self.process.poll() is None else []
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        for member in members:
            with contextlib.suppress(OSError):
                os.kill(member, signal.SIGKILL)
        self.process.wait()


def peak_flops(seconds: float = 1.0) -> float:
    """Return the most float32 operations that numpy's matrix product does in a core-second."""
    a = np.random.default_rng(0).random((2048, 2048), dtype=np.float32)
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.process_time()
        a @ a
        best = min(best, time.process_time() - begin)
    return 2 * 2048**3 / best


def measure(model: str, pythons: dict[str, Path], turns: int, peak: float) -> list[dict[str, Any]]:
    """Return a row for every side."""
    threads = len(os.sched_getaffinity(0))
    starts = [(name, name, threads) for name in pythons]
    if threads > 1:
        starts += [(f"{name} (1 thread)", name, 1) for name in ONE_THREAD_TOO if name in pythons]
    sides: list[Side] = []
    patience = 0.0
    try:
        for label, name, count in starts:
            sides.append(Side(label, pythons[name], model, count))
            if not sides[-1].start():
                print(f"{label}: left out, did not finish its first round")
                sides.pop().close()
        for _ in range(turns):
            for side in sides:
                side.rounds()
        for side in sides:
            side.watch()
        patience = 30.0
    finally:
        for side in sides:
            side.close(patience)
    operations = 6 * PRODUCTS[model] * IMAGES
    rows = []
    for side in sides:
        rate = COHORT / statistics.median(side.seconds) if side.seconds else float("nan")
        worked = COHORT * len(side.seconds) / side.worked if side.worked else float("nan")
        rows.append(
            {
                "model": model,
                "side": side.name,
                "clients/s": rate,
                "best clients/s": COHORT / min(side.seconds, default=float("nan")),
                "a core-second": worked,
                "first round s": side.cold,
                "peak MB": side.peak / 1e6,
                "share of peak FLOP/s": worked * operations / peak,
            }
        )
    return rows


def ratios(rows: list[dict[str, Any]], by: str) -> dict[str, float]:
    """Return tacit's clients over each peer's better run, and memory over pfl's."""
    own = next(row for row in rows if row["side"] == "tacit")
    found: dict[str, float] = {}
    for row in rows:
        peer = row["side"].split()[0]
        if peer != "tacit":
            ratio = own[by] / row[by]
            found[peer] = min(ratio, found.get(peer, float("inf")))
            if peer == "pfl":
                memory = own["peak MB"] / row["peak MB"]
                found["memory / pfl"] = max(memory, found.get("memory / pfl", 0.0))
    return found


def show(rows: list[dict[str, Any]]) -> None:
    """Print the rows and the ratios."""
    names = list(rows[0])
    print("  ".join(f"{name:>16}" for name in names))
    for row in rows:
        cells = (f"{v:.3g}" if isinstance(v, float) and v < 1 else v for v in row.values())
        cells = (f"{v:.1f}" if isinstance(v, float) else str(v) for v in cells)
        print("  ".join(f"{cell:>16}" for cell in cells))
    for by in BY:
        said = ", ".join(f"{name} {value:.2f}" for name, value in ratios(rows, by).items())
        print(f"tacit over, {by}: {said}")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["cnn", "logistic"], choices=PRODUCTS)
    parser.add_argument("--sides", nargs="+", default=list(SIDES), choices=SIDES)
    parser.add_argument("--turns", type=int, default=9, help="how often each side is asked")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "tacit" / "peers")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "neural.json")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # through the finally of `measure`
    made = {name: environment(name, chosen.cache) for name in chosen.sides}
    pythons = {name: python for name, python in made.items() if python is not None}
    peak, load = peak_flops(), os.getloadavg()[0]
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, load {load:.1f} before, {peak / 1e9:.0f} GFLOP/s peak; medians\n")
    report: dict[str, Any] = {
        "machine": {"cores": cores, "load": load, "peak FLOP/s": peak},
        "python": platform.python_version(),
    }
    for model in chosen.models:
        rows = measure(model, pythons, chosen.turns, peak)
        show(rows)
        report[model] = {"rows": rows, "ratios": {by: ratios(rows, by) for by in BY}}
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
