"""The benchmarks that one command runs, and the table that the pages show of them.

    python benchmarks/suite.py [SECTION …]        # make bench, under ten minutes on two cores
    python benchmarks/suite.py --full             # make bench-full: larger sizes, and the rest
    python benchmarks/suite.py --table            # the pages from what is recorded; nothing is run

Every figure is a ratio of two times (or sizes) of the same run, so that it says something about
another machine, too. Results go to benchmarks/recorded.json, section by section, with the machine
they were measured on, and from there as one table into README.md and docs/benchmarks.md, between
``<!-- benchmarks -->`` and ``<!-- end of benchmarks -->``; a test compares.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RECORDED = HERE / "recorded.json"
PAGES = (HERE.parent / "README.md", HERE.parent / "docs" / "benchmarks.md")
_MARKED = re.compile(r"(<!-- benchmarks -->\n).*?(<!-- end of benchmarks -->)", re.DOTALL)
Rows = list[dict[str, Any]]
# Scripts of their own that take longer than a minute or need other packages.
FULL = (
    ("out_of_core.py",),
    ("private_rounds.py",),
    ("linear.py",),
    ("noise.py",),
    ("accounting.py",),
    ("asynchronous.py",),
    ("peers.py",),
    ("neural.py",),
    ("accuracy.py",),
)


def _row(what: str, figure: float, against: str) -> dict[str, Any]:
    return {"what": what, "figure": round(float(figure), 4), "against": against}


def _seconds(action: Callable[[], Any], repeats: int = 3) -> float:
    """Return the shortest processor time of some runs."""
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        action()
        best = min(best, time.process_time() - began)
    return best


def rounds(full: bool) -> Rows:
    """One round over all tasks against one pass over X, and against loops over tasks."""
    import linear

    found = []
    m = 100_000 if full else 20_000
    for row in linear.measure_rounds(m, "float64", 1.0):
        name = f"{row['loss']} loss, {m:,} tasks"
        found += [
            _row(f"gradient step, {name}", row["step / memory pass"], "one pass over X"),
            _row(f"private round, {name}", row["round / memory pass"], "one pass over X"),
            _row(f"numpy loop over tasks, {name}", row["task loop / step"], "gradient step"),
        ]
    for row in linear.measure_fits(1.0):
        ratio = row["scikit-learn task by task / tacit"]
        found.append(_row(f"scikit-learn task by task, {row['fit']}", ratio, "tacit, all tasks"))
    return found


def _tasks(m: int, d: int = 50) -> tuple[Any, Any, Any, Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    counts = rng.integers(10, 61, m)
    task = np.repeat(np.arange(m), counts)
    X = rng.uniform(-1, 1, (len(task), d))
    W = rng.standard_normal((m, 3)) @ rng.standard_normal((3, d))
    y = np.einsum("nd,nd->n", X, W[task]) + rng.standard_normal(len(task))
    return X, y, (y > 0).astype(int), task


def fits(full: bool) -> Rows:
    """Whole fits: labels against numbers; and predictions against one pass over X."""
    import tacit

    X, y, labels, task = _tasks(5000 if full else 600)
    found, size = [], f"{task[-1] + 1:,} tasks of 10–60 rows, d = 50"
    for name in ("SingleTask", "MeanRegularized", "SharedPrior", "LowRank"):
        times = {}
        for kind, target in (("Regressor", y), ("Classifier", labels)):
            options = {} if name == "SingleTask" else {"epsilon": 1.0, "random_state": 0}
            make = getattr(tacit, name + kind)
            some = task < 40
            make(**options).fit(X[some], target[some], tasks=task[some])  # compiles, or loads
            times[kind] = _seconds(
                lambda m=make, o=options, t=target: m(**o).fit(X, t, tasks=task), 2
            )
        against = f"{name}Regressor, {size}"
        found.append(
            _row(f"{name}Classifier, whole fit", times["Classifier"] / times["Regressor"], against)
        )
    for name in ("SingleTask", "SharedPrior"):
        found.append(_of_six_classes(name, X, task))
    return [*found, *_predictions()]


def _of_six_classes(name: str, X: Any, task: Any) -> dict[str, Any]:
    """Return what six classes cost beside two: they are learned one against the rest."""
    import numpy as np

    import tacit

    options = {} if name == "SingleTask" else {"epsilon": 1.0, "random_state": 0}
    scores = np.random.default_rng(1).standard_normal((len(X), 6))
    scores[:, :5] += 2 * X[:, :5]
    make, times = getattr(tacit, f"{name}Classifier"), {}
    for k in (2, 6):
        codes = scores[:, :k].argmax(axis=1)
        times[k] = _seconds(lambda y=codes: make(**options).fit(X, y, tasks=task), 2)
    return _row(f"{name}Classifier of six classes, whole fit", times[6] / times[2], "of two")


def _predictions() -> Rows:
    """Predictions against one pass over X."""
    import numpy as np

    import tacit

    X, y, labels, task = _tasks(5000)
    model = tacit.SingleTaskRegressor(alpha=1.0).fit(X, y, tasks=task)
    mixed = np.random.default_rng(2).permutation(len(X))
    several = tacit.SingleTaskClassifier(alpha=1.0).fit(X, labels + (y > 1), tasks=task)
    asked = {
        "prediction of all rows": lambda: model.predict(X, tasks=task),
        "prediction of all rows in any order": lambda: model.predict(X, tasks=task[mixed]),
        "prediction of three classes": lambda: several.predict(X, tasks=task),
    }
    passing = _seconds(X.sum, 7)
    return [
        _row(f"{what}, 5,000 tasks", _seconds(action, 7) / passing, "one pass over X")
        for what, action in asked.items()
    ]


def accounting(full: bool) -> Rows:  # noqa: ARG001
    """Accounting against dp-accounting called directly."""
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    import accounting as script

    found = []
    for name, accountant in (("rdp", RdpAccountant), ("pld", PLDAccountant)):
        row = script.against_direct(
            name,
            lambda a=accountant: a().compose(script.EVENT, script.ROUNDS).get_epsilon(script.DELTA),
        )
        what = f"1,000 sampled Gaussian releases by {name.upper()}"
        found += [
            _row(f"{what}: time", row["time_ratio"], "dp-accounting called directly"),
            _row(f"{what}: ε", row["value_ratio"], "dp-accounting called directly"),
        ]
    return found


def noise(full: bool) -> Rows:
    """Exact noise against OpenDP's and numpy's, and its share of a private round."""
    import numpy as np

    import noise as script
    import private_rounds
    from tacit.privacy import SystemEntropy
    from tacit.privacy.mechanisms import SymmetricGaussian
    from tacit.privacy.noise import perturb

    n, entropy = 1 << 19, SystemEntropy()
    own = script.rate(lambda: perturb.gaussian(1.0, n, entropy), n)
    unsafe = script.rate(lambda: np.random.default_rng().normal(size=n), n)
    found = [
        _row("exact Gaussian draws a second", own / script.opendp_rate("gaussian"), "OpenDP"),
        _row("exact Gaussian draws a second", own / unsafe, "numpy (unsafe)"),
    ]
    m = 100_000 if full else 20_000
    tasks = private_rounds._tasks(m, 50)
    private, open_ = private_rounds._private_round(tasks, 5), private_rounds._open_round(tasks, 5)
    mechanism = SymmetricGaussian(sensitivity=1.0, noise_multiplier=1.0)
    matrix = np.zeros((50, 50))
    drawn = 1 / script.rate(lambda: mechanism.release(matrix, entropy), 1)
    size = f"{m:,} tasks, d = 50"
    found.append(_row(f"private round, {size}", private / open_, "non-private round"))
    found.append(_row(f"secure noise of a round, {size}", drawn / private, "the whole round"))
    return found


def scale(full: bool) -> Rows:
    """Time and memory from a file as tasks grow, and what `tacit plan` takes for granted."""
    import numpy as np

    import out_of_core
    from tacit.privacy import SecondMoment, SystemEntropy, VectorClip
    from tacit.privacy.noise import perturb
    from tacit.privacy.plan import SECONDS_PER_ADDED, SECONDS_PER_NOISE, SECONDS_PER_SENT

    sizes = (1000, 10_000, 100_000) if full else (500, 2000, 8000)
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in out_of_core.ESTIMATORS:
            times, peaks = [], []
            for m in sizes:
                path = Path(folder) / f"{m}.parquet"
                if not path.exists():
                    out_of_core.write(path, m)
                told = out_of_core.apart(name, path, place="file", n_tasks=m)
                times.append(told["seconds"])
                peaks.append(told["gb"])
            slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
            span = f"{sizes[0]:,} to {sizes[-1]:,} tasks from a file"
            found.append(_row(f"{name}, time as a power of rows", slope, span))
            against = f"{sizes[0]:,} tasks from a file"
            found.append(
                _row(f"{name}, peak memory at {sizes[-1]:,}", peaks[-1] / peaks[0], against)
            )
    n, d = 20_000, 50
    messages = np.random.default_rng(0).standard_normal((n, d))
    for bound, size in ((VectorClip(1.0), d), (SecondMoment(1.0), d * d)):
        counted = n * (d * SECONDS_PER_SENT + size * SECONDS_PER_ADDED)
        took = _seconds(lambda b=bound: b.total(messages), 5)
        what = f"curator's sum of {n:,} messages to {size:,} numbers"
        found.append(_row(what, took / counted, "what a plan counts"))
    n, entropy = 1 << 16, SystemEntropy()
    drawn = _seconds(lambda: perturb.gaussian(1.0, n, entropy), 3) / n
    found.append(_row("noise on a number", drawn / SECONDS_PER_NOISE, "what a plan counts"))
    return found


SECTIONS: dict[str, Callable[[bool], Rows]] = {
    "rounds": rounds,
    "fits": fits,
    "accounting": accounting,
    "noise": noise,
    "scale": scale,
}


def machine() -> dict[str, Any]:
    """Describe where this runs."""
    import numpy as np

    info = Path("/proc/cpuinfo")
    named = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    return {
        "processor": named[1] if named else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def table(record: dict[str, Any]) -> str:
    """Return the recorded figures as Markdown."""
    lines = ["| Section | Measured | Ratio | To |", "|---|---|---|---|"]
    for name, section in record["sections"].items():
        lines += [
            f"| {name} | {row['what']} | {row['figure']:.3g} | {row['against']} |"
            for row in section["rows"]
        ]
    known = {json.dumps(part["machine"], sort_keys=True) for part in record["sections"].values()}
    for one in sorted(known):
        told = json.loads(one)
        lines += [
            "",
            f"{told['processor']}, {told['cores']} cores, {told['threads']} BLAS threads, "
            f"Python {told['python']}, numpy {told['numpy']}; `make bench`.",
        ]
    return "\n".join(lines) + "\n"


def filled(text: str, record: dict[str, Any]) -> str:
    """Return a page with the table of the record between its marks."""
    return _MARKED.sub(lambda mark: f"{mark[1]}\n{table(record)}\n{mark[2]}", text)


def _record() -> dict[str, Any]:
    if RECORDED.exists():
        found: dict[str, Any] = json.loads(RECORDED.read_text(encoding="utf-8"))
        return found
    return {"sections": {}}


def main() -> None:
    """Run sections, record them and write the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sections", nargs="*", choices=[*SECTIONS, []], metavar="SECTION")
    parser.add_argument("--full", action="store_true", help="larger sizes, then every script")
    parser.add_argument("--table", action="store_true", help="write the pages, run nothing")
    chosen = parser.parse_args()
    sys.path.insert(0, str(HERE))
    record = _record()
    for name in () if chosen.table else chosen.sections or SECTIONS:
        began = time.perf_counter()
        rows = SECTIONS[name](chosen.full)
        seconds, day = round(time.perf_counter() - began, 1), f"{datetime.now(UTC):%Y-%m-%d}"
        part = {"machine": machine(), "day": day, "seconds": seconds, "rows": rows}
        record["sections"] = {
            known: part if known == name else record["sections"][known]
            for known in SECTIONS
            if known == name or known in record["sections"]
        }
        RECORDED.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
        print(table({"sections": {name: part}}), f"{seconds} s", sep="\n", flush=True)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        page.write_text(filled(text, record), encoding="utf-8")
    for script in FULL if chosen.full and not chosen.sections else ():
        print("\n" + " ".join(script), flush=True)
        subprocess.run([sys.executable, str(HERE / script[0]), *script[1:]], check=False)


if __name__ == "__main__":
    main()
