"""Fits from a parquet file larger than memory, against fits of a smaller one in memory.

Every fit runs in a process of its own and reports its seconds and its peak of resident memory:

    python benchmarks/out_of_core.py                      # 1 000 000 tasks of 20 rows, 30 features
    python benchmarks/out_of_core.py --tasks 100000       # quicker

The in-memory run has at most 100 000 of the tasks; time is compared by row. Disk: about 250 bytes
a row, in the folder that TMPDIR names.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ESTIMATORS = ("SharedPriorRegressor", "LowRankRegressor")
N_ROWS, N_FEATURES, IN_MEMORY = 20, 30, 100_000
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


def fit(name: str, path: Path, *, streamed: bool, n_tasks: int) -> dict[str, float]:
    """Fit once and return times and the peak of memory in GB; reading the file counts.

    Processor seconds are compared, which a busy machine changes less than those of the clock.
    """
    import tacit

    model = getattr(tacit, name)(epsilon=1.0, random_state=0)
    warm = np.random.default_rng(0).standard_normal((2000, N_FEATURES))  # loads what is compiled
    getattr(tacit, name)(random_state=0).fit(warm, warm[:, 0], tasks=np.arange(2000) // 2)
    start, start_clock = time.process_time(), time.perf_counter()
    if streamed:
        model.fit_parquet(path, tasks="task", target="y")
    else:
        from tacit.tasks import TaskSet

        rows = TaskSet.from_parquet(path, tasks="task", target="y")
        model.fit(rows.X, rows.y, tasks=rows.task_of_row)
    seconds, clock = time.process_time() - start, time.perf_counter() - start_clock
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "clock": clock,
        "seconds": seconds,
        "microseconds_a_row": 1e6 * seconds / (n_tasks * N_ROWS),
        "gb": peak,
    }


def apart(name: str, path: Path, *, streamed: bool, n_tasks: int) -> dict[str, float]:
    """Run `fit` in a process of its own."""
    command = [sys.executable, __file__, "--fit", name, str(path), str(int(streamed)), str(n_tasks)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Write the files, run the fits, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--fit", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit:
        name, path, streamed, n_tasks = arguments.fit
        done = fit(name, Path(path), streamed=streamed == "1", n_tasks=int(n_tasks))
        print(json.dumps(done))
        return
    with tempfile.TemporaryDirectory() as folder:
        large, small = Path(folder) / "large.parquet", Path(folder) / "small.parquet"
        n_small = min(arguments.tasks, IN_MEMORY)
        write(large, arguments.tasks)
        write(small, n_small)
        heads = ("tasks", "clock s", "CPU s", "µs a row", "peak GB", "ratio")
        print(f"{'':22}", *(f"{head:>9}" for head in heads), flush=True)
        for name in ESTIMATORS:
            memory = apart(name, small, streamed=False, n_tasks=n_small)
            _show(name, "memory", n_small, memory, 1.0)
            file = apart(name, large, streamed=True, n_tasks=arguments.tasks)
            ratio = file["microseconds_a_row"] / memory["microseconds_a_row"]
            _show(name, "file", arguments.tasks, file, ratio)


def _show(name: str, where: str, n_tasks: int, found: dict[str, float], ratio: float) -> None:
    print(
        f"{name:22} {n_tasks:9} {found['clock']:9.1f} {found['seconds']:9.1f} "
        f"{found['microseconds_a_row']:9.2f} {found['gb']:9.2f} {ratio:9.2f}  ({where})",
        flush=True,
    )


if __name__ == "__main__":
    main()
