"""Fits from a parquet file larger than memory, against fits of a smaller one in memory.

Every fit runs in a process of its own and reports its seconds and its peak of resident memory:

    python benchmarks/out_of_core.py                      # 1 000 000 tasks of 20 rows, 30 features
    python benchmarks/out_of_core.py --tasks 100000       # quicker
    python benchmarks/out_of_core.py --places file ray    # through two worker processes as well

The in-memory run has at most 100 000 of the tasks; processor time, of all processes together, is
compared by row with that of the first place. Disk: about 600 bytes a row, in the folder that TMPDIR
names.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ESTIMATORS = ("SharedPriorRegressor", "LowRankRegressor")
PLACES = ("memory", "file", "ray")
N_ROWS, N_FEATURES, IN_MEMORY = 20, 30, 100_000
WORKERS = 2
_PART = 20_000  # tasks written at a time


def write(path: Path, n_tasks: int) -> None:
    """Write tasks whose models lie near a plane, a part at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    basis = rng.standard_normal((3, N_FEATURES))
    writer = None
    for first in range(0, n_tasks, _PART):
        count = min(_PART, n_tasks - first)
        models = rng.standard_normal((count, 3)) @ basis + 1.0
        task = np.repeat(np.arange(count), N_ROWS)
        X = rng.standard_normal((len(task), N_FEATURES))
        y = np.einsum("nd,nd->n", X, models[task]) + 3 * rng.standard_normal(len(task))
        columns = {"task": first + task, "y": y, **{f"x{j}": X[:, j] for j in range(N_FEATURES)}}
        table = pa.table(columns)
        if writer is None:
            writer = pq.ParquetWriter(path, table.schema, compression="none", use_dictionary=False)
        writer.write_table(table, row_group_size=100_000)
    if writer is not None:
        writer.close()


def fit(name: str, path: Path, *, place: str, n_tasks: int) -> dict[str, float]:
    """Fit once and return times and the peak of memory in GB; reading the file counts.

    Processor seconds are compared, which a busy machine changes less than those of the clock. The
    peak is this process's, the curator's.
    """
    import tacit
    from tacit.engines import Ray

    engine = Ray(workers=WORKERS) if place == "ray" else "local"
    model = getattr(tacit, name)(epsilon=1.0, random_state=0, engine=engine)
    warm = np.random.default_rng(0).standard_normal((2000, N_FEATURES))  # loads what is compiled
    getattr(tacit, name)(random_state=0).fit(warm, warm[:, 0], tasks=np.arange(2000) // 2)
    start, start_clock = time.process_time(), time.perf_counter()
    if place != "memory":
        model.fit_parquet(path, tasks="task", target="y")
    else:
        from tacit.tasks import TaskSet

        rows = TaskSet.from_parquet(path, tasks="task", target="y")
        model.fit(rows.X, rows.y, tasks=rows.task_of_row)
    clock = time.perf_counter() - start_clock
    seconds = time.process_time() - start + _seconds_below(os.getpid())
    peak = _peak_kilobytes() / 2**20
    return {
        "clock": clock,
        "seconds": seconds,
        "microseconds_a_row": 1e6 * seconds / (n_tasks * N_ROWS),
        "gb": peak,
    }


def _peak_kilobytes() -> int:
    """Return the peak of this program alone; `getrusage` hands on that of whoever started it."""
    words = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()
    return int(words[0])


def _seconds_below(parent: int) -> float:
    """Return the processor seconds of all processes that a process started, and they, and so on."""
    found = 0.0
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = status.read_text().rpartition(")")[2].split()
            if int(words[1]) == parent:
                ticks = sum(int(word) for word in words[11:15])  # its own, and of those it awaited
                found += ticks / os.sysconf("SC_CLK_TCK") + _seconds_below(int(status.parent.name))
    return found


def apart(name: str, path: Path, *, place: str, n_tasks: int) -> dict[str, float]:
    """Run `fit` in a process of its own."""
    command = [sys.executable, __file__, "--fit", name, str(path), place, str(n_tasks)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Write the files, run the fits, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--places", nargs="*", choices=PLACES, default=PLACES[:2])
    parser.add_argument("--only", nargs="*", choices=ESTIMATORS, default=ESTIMATORS)
    parser.add_argument("--fit", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.fit:
        name, path, place, n_tasks = asked.fit
        print(json.dumps(fit(name, Path(path), place=place, n_tasks=int(n_tasks))))
        return
    with tempfile.TemporaryDirectory() as folder:
        sizes = dict.fromkeys(asked.places, asked.tasks)
        if "memory" in sizes:
            sizes["memory"] = min(asked.tasks, IN_MEMORY)
        files = {size: Path(folder) / f"{size}.parquet" for size in sizes.values()}
        for size, path in files.items():
            write(path, size)
        heads = ("tasks", "clock s", "CPU s", "µs a row", "peak GB", "ratio")
        print(f"{'':22}", *(f"{head:>9}" for head in heads), flush=True)
        for name in asked.only:
            first = None
            for place, size in sizes.items():
                found = apart(name, files[size], place=place, n_tasks=size)
                first = first or found["microseconds_a_row"]
                _show(name, place, size, found, found["microseconds_a_row"] / first)


def _show(name: str, where: str, n_tasks: int, found: dict[str, float], ratio: float) -> None:
    print(
        f"{name:22} {n_tasks:9} {found['clock']:9.1f} {found['seconds']:9.1f} "
        f"{found['microseconds_a_row']:9.2f} {found['gb']:9.2f} {ratio:9.2f}  ({where})",
        flush=True,
    )


if __name__ == "__main__":
    main()
