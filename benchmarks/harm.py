"""Does learning together harm anybody? Every default private estimator against single-task.

``python benchmarks/harm.py`` fits every default private estimator (the named baselines left out)
on every data set that is found, at every ε, on ``--draws`` splits and noises, and prints what
breaks one of the promises:

- *harm*: the paired difference to single-task learning is above 1 % + 2 standard errors;
- *order*: a larger ε is worse than the one before it, beyond 0.5 % + 2 standard errors;
- *open*: ε = 10⁶ through the private code is more than 2 % (+ 2 standard errors) worse than the
  estimator's own ``epsilon=inf``.

Single-task learning is the better of today's and that of commit 7b0831a, which is unpacked from
the repository's history into a temporary folder and run on the same splits (``--former none``
leaves it out). Errors are MSE over the variance of the test targets, error rate, log loss, and for
rare labels 1 − AUC by task, which is promised for landmine only and marked beside for the others.
Features are divided by public constants; more than 50 are projected to 50 by a public random
matrix; at most 20 000 rows are kept, dealt to train and test half and half.

Every fit is one line of ``benchmarks/results/harm.jsonl``: a run that was cut goes on where it
stopped, and ``--sets`` and ``--methods`` divide the work. ``--workers`` programs of one thread each
share it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import tacit
from tacit import datasets
from tacit.tasks import TaskSet

FORMER = "7b0831a"
OPEN, SILENT = math.inf, 1e6
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, SILENT, OPEN)
METHODS = (
    "SharedPrior",
    "MeanRegularized",
    "LowRank",
    "GroupSparse",
    "LowRankSparse",
    "TaskRelationship",
    "SharedMoments",
)
RANKING, RANKED = "1 - AUC", ("landmine",)  # promised there, reported for other rare labels
MOST_FEATURES, MOST_ROWS = 50, 20_000
MNIST_ROWS = 8_000  # of 836 writers: ten each
RESULTS = Path(__file__).parent / "results/harm.jsonl"
Split = tuple[TaskSet, TaskSet]


@dataclass(frozen=True)
class Setting:
    """A set of tasks, how to split it and what to report."""

    rows: Callable[[], TaskSet]
    kind: str  # "Regressor" or "Classifier"
    test_size: float = 0.5
    bound: float = 1.0  # public bound on |y|, for methods that protect rows
    rare: bool = False  # report AUC

    def split(self, draw: int) -> Split:
        """Return train and test rows of the draw."""
        return _once(self.rows).split(test_size=self.test_size, random_state=draw)


@lru_cache(maxsize=1)
def _once(rows: Callable[[], TaskSet]) -> TaskSet:
    return rows()


def _labels(tasks: TaskSet) -> Any:
    return np.asarray(tasks.names)[tasks.task_of_row]


def _projected(X: Any) -> Any:
    X = np.asarray(X, dtype=np.float64)
    if X.shape[1] <= MOST_FEATURES:
        return X
    rng = np.random.default_rng(0)
    return X @ (rng.normal(size=(X.shape[1], MOST_FEATURES)) / math.sqrt(X.shape[1]))


def _kept(n_rows: int, most: int = MOST_ROWS) -> Any:
    chosen = np.random.default_rng(1).permutation(n_rows)[:most]
    return np.sort(chosen)


def _loaded(
    name: str,
    scale: float = 1.0,
    label: Callable[[Any], Any] | None = None,
    most: int = MOST_ROWS,
) -> TaskSet:
    data = getattr(datasets, f"load_{name}")()
    kept = _kept(len(data.X), most)
    X = np.nan_to_num(np.asarray(data.X[kept], dtype=np.float64))
    y = data.y if label is None else label(data.y)
    return TaskSet.from_arrays(_projected(X) * scale, y[kept], data.tasks[kept])


def _ranged(name: str) -> TaskSet:
    """Return a set whose features are scaled to [0, 1] by their ranges, taken for public."""
    data = getattr(datasets, f"load_{name}")()
    X = np.nan_to_num(np.asarray(data.X, dtype=np.float64))
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1.0)
    kept = _kept(len(X))
    return TaskSet.from_arrays(_projected(X[kept]), data.y[kept], data.tasks[kept])


def _outcomes(name: str, n_outcomes: int) -> TaskSet:
    """Return outcomes of the same rows as tasks, each on rows of its own."""
    data = getattr(datasets, f"load_{name}")()
    X = _projected(data.X)
    dealt = np.random.default_rng(2).integers(n_outcomes, size=len(X))
    y = np.asarray(data.y)[np.arange(len(X)), dealt]
    return TaskSet.from_arrays(X, y, np.asarray(data.task_names)[dealt])


def _tiny(labels: bool) -> TaskSet:
    """Return 300 tasks of 2 to 10 rows, half of which are for training, around one model."""
    rng = np.random.default_rng(3)
    counts = 2 * rng.integers(1, 6, size=300)
    task = np.repeat(np.arange(300), counts)
    X = rng.normal(size=(len(task), 5))
    models = rng.normal(size=5) + 0.3 * rng.normal(size=(300, 5))
    z = np.einsum("nd,nd->n", X, models[task]) + rng.normal(size=300)[task]
    y = rng.uniform(size=len(z)) < 1 / (1 + np.exp(-z)) if labels else z + rng.normal(size=len(z))
    return TaskSet.from_arrays(X, y.astype(np.float64), task)


SETTINGS: dict[str, Setting] = {
    "tiny": Setting(lambda: _tiny(False), "Regressor", bound=10.0),
    "tiny-labels": Setting(lambda: _tiny(True), "Classifier"),
    "school": Setting(lambda: _ranged("school"), "Regressor", 0.7, bound=70.0),
    "chem97": Setting(lambda: _ranged("chem97"), "Regressor", 0.9, bound=10.0),
    "parkinsons": Setting(lambda: _ranged("parkinsons"), "Regressor", 0.7, bound=60.0),
    "landmine": Setting(lambda: _loaded("landmine"), "Classifier", 0.7, rare=True),
    "diabetes130": Setting(lambda: _ranged("diabetes130"), "Classifier", 0.7, rare=True),
    "vehicle": Setting(lambda: _loaded("vehicle"), "Classifier"),
    "heart_disease": Setting(lambda: _ranged("heart_disease"), "Classifier", 0.7),
    "newsgroup": Setting(lambda: _loaded("newsgroup"), "Classifier", 0.7),
    "yeast": Setting(lambda: _outcomes("yeast", 14), "Classifier", rare=True),
    "stackex_cs": Setting(lambda: _outcomes("stackex_cs", 60), "Classifier", rare=True),
    "har": Setting(lambda: _loaded("har"), "Classifier", 0.7),
    "office_caltech": Setting(lambda: _loaded("office_caltech"), "Classifier"),
    "femnist": Setting(
        lambda: _loaded("femnist", 1 / 255, lambda y: np.digitize(y, (10, 36))), "Classifier"
    ),
    "mnist": Setting(
        lambda: _loaded("mnist", 1 / 255, lambda y: (y < 5).astype(np.float64), MNIST_ROWS),
        "Classifier",
    ),
}


def errors(setting: Setting, model: Any, test: TaskSet) -> dict[str, float]:
    """Return every error of the setting on the test rows."""
    y, of = np.asarray(test.y), {"tasks": _labels(test)}
    if setting.kind == "Regressor":
        return {"nMSE": float(np.mean((y - model.predict(test.X, **of)) ** 2) / np.var(y))}
    chances = np.clip(model.predict_proba(test.X, **of), 1e-6, 1.0)
    column = np.searchsorted(model.classes_, y)
    known = model.classes_[np.minimum(column, len(model.classes_) - 1)] == y
    own = np.where(known, chances[np.arange(len(y)), np.minimum(column, chances.shape[1] - 1)], 0)
    found = {
        "error": float(np.mean(model.classes_[chances.argmax(axis=1)] != y)),
        "log loss": float(np.mean(-np.log(np.maximum(own, 1e-6)))),
    }
    if setting.rare:
        parts = [slice(*test.offsets[i : i + 2]) for i in range(test.n_tasks)]
        mixed = [p for p in parts if 0 < y[p].sum() < len(y[p])]
        scores = chances[:, 1]
        found[RANKING] = float(np.mean([1 - roc_auc_score(y[p], scores[p]) for p in mixed]))
    return found


def fitted(method: str, setting: Setting, epsilon: float, train: TaskSet, draw: int) -> Any:
    """Return the estimator with its defaults, fitted."""
    make = getattr(tacit, method + setting.kind)
    if method == "SingleTask":
        model = make()
    else:
        more = {"target_bound": setting.bound} if _wants_bound(method, setting) else {}
        model = make(epsilon, random_state=draw, **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(train.X, train.y, tasks=_labels(train))


def _wants_bound(method: str, setting: Setting) -> bool:
    return method == "SharedMoments" and setting.kind == "Regressor"


Key = tuple[str, int, str, float]


def key(record: dict[str, Any]) -> Key:
    """Return what a record is about."""
    return record["set"], record["draw"], record["method"], float(record["epsilon"])


def records(path: Path) -> dict[Key, dict[str, Any]]:
    """Return all fits that were made so far."""
    if not path.exists():
        return {}
    return {key(found): found for found in map(json.loads, path.read_text().splitlines())}


def wanted(sets: list[str], methods: list[str], n_draws: int) -> Iterator[Key]:
    """Yield all fits to make, set by set."""
    for name in sets:
        for draw in range(n_draws):
            yield name, draw, "SingleTask", OPEN
            for method in methods:
                for epsilon in EPSILONS:
                    yield name, draw, method, epsilon


def run(path: Path, keys: list[Key], seconds: float) -> None:
    """Make the fits that are missing, one line each, until time is up."""
    done, begin, split, at = records(path), time.monotonic(), None, None
    path.parent.mkdir(parents=True, exist_ok=True)
    for name, draw, method, epsilon in keys:
        if (name, draw, method, epsilon) in done:
            continue
        if time.monotonic() - begin > seconds:
            print("time is up; run again to go on", flush=True)
            return
        setting = SETTINGS[name]
        if split is None or at != (name, draw):
            split, at = setting.split(draw), (name, draw)
        start = time.perf_counter()
        model = fitted(method, setting, epsilon, split[0], draw)
        took = time.perf_counter() - start
        add(path, name, draw, method, epsilon, errors(setting, model, split[1]), took)


def share_out(workers: int) -> None:
    """Start as many programs as there are workers, each with a part of the fits."""
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, *sys.argv, "--part", f"{n + 1}/{workers}"], env=one_thread
        )
        for n in range(workers)
    ]
    if sum([program.wait() != 0 for program in started]):
        raise SystemExit("a part of the work failed; see above")


def add(
    path: Path,
    name: str,
    draw: int,
    method: str,
    epsilon: float,
    found: dict[str, float],
    seconds: float,
) -> None:
    """Append one line."""
    record = {"set": name, "draw": draw, "method": method, "epsilon": epsilon}
    line = json.dumps({**record, "errors": found, "seconds": round(seconds, 3)})
    with path.open("a") as file:
        file.write(line + "\n")


def run_former(path: Path, sets: list[str], n_draws: int, revision: str) -> None:
    """Fit single-task learning of an earlier commit on the same splits."""
    done = records(path)
    missing = [
        (name, draw)
        for name in sets
        for draw in range(n_draws)
        if (name, draw, "former", OPEN) not in done
    ]
    if not missing:
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(
            ["git", "archive", revision, "src"],
            cwd=Path(__file__).parent.parent,
            check=True,
            capture_output=True,
        ).stdout
        with tarfile.open(fileobj=BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        for name, draw in missing:
            np.savez(Path(folder) / "rows.npz", **_arrays(SETTINGS[name].split(draw)))
            environment = {**os.environ, "PYTHONPATH": str(Path(folder) / "src")}
            out = subprocess.run(
                [sys.executable, __file__, "--child", str(Path(folder) / "rows.npz"), name],
                env=environment,
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            add(path, name, draw, "former", OPEN, json.loads(out.splitlines()[-1]), 0.0)


def _arrays(split: Split) -> dict[str, Any]:
    train, test = split
    return {
        "X": train.X, "y": train.y, "tasks": _labels(train).astype(str),
        "X_test": test.X, "y_test": test.y, "tasks_test": _labels(test).astype(str),
    }  # fmt: skip


def child(path: str, name: str) -> None:
    """Print the single-task errors of whichever version is imported, as JSON."""
    rows = np.load(path)
    train = TaskSet.from_arrays(rows["X"], rows["y"], rows["tasks"])
    test = TaskSet.from_arrays(rows["X_test"], rows["y_test"], rows["tasks_test"])
    model = fitted("SingleTask", SETTINGS[name], OPEN, train, 0)
    print(json.dumps(errors(SETTINGS[name], model, test)))


def paired(first: dict[int, float], second: dict[int, float], over: dict[int, float]) -> Any:
    """Return mean and standard error of (first − second)/over, draw by draw."""
    draws = sorted(set(first) & set(second) & set(over))
    apart = np.array([(first[draw] - second[draw]) / max(over[draw], 1e-9) for draw in draws])
    if len(apart) < 2:
        return float(apart.mean()) if len(apart) else math.nan, math.inf
    return float(apart.mean()), float(apart.std(ddof=1) / math.sqrt(len(apart)))


def judge(found: dict[Key, dict[str, Any]]) -> int:
    """Print all ratios to single-task, and what breaks a promise; return how many do."""
    table: dict[tuple[str, str], dict[tuple[str, float], dict[int, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for (name, draw, method, epsilon), record in found.items():
        for metric, value in record["errors"].items():
            table[name, metric][method, epsilon][draw] = value
    broken, beside = 0, 0
    head = " ".join(f"{'open' if e == OPEN else f'{e:g}':>14}" for e in EPSILONS)
    print(f"{'':34}{head}   (% above single-task ± standard error)")
    for (name, metric), cells in table.items():
        now, former = cells[("SingleTask", OPEN)], cells.get(("former", OPEN), {})
        single = {draw: min(now[draw], former.get(draw, math.inf)) for draw in now}
        mean = np.mean(list(single.values()))
        print(f"{name}, {metric}: single-task {mean:.4f}")
        for method in METHODS:
            row = {e: cells[(method, e)] for e in EPSILONS if cells.get((method, e))}
            if row:
                count = _judge_row(method, row, single)
                promised = metric != RANKING or name in RANKED
                broken, beside = broken + promised * count, beside + (not promised) * count
    print(f"{broken} promises broken, {len(found)} fits; {beside} marks beside them ({RANKING})")
    return broken


def _judge_row(method: str, row: dict[float, dict[int, float]], single: dict[int, float]) -> int:
    broken, words = 0, []
    for number, (epsilon, errors_) in enumerate(row.items()):
        mean, deviation = paired(errors_, single, single)
        mark = ""
        if epsilon < SILENT and mean > 0.01 + 2 * deviation:
            mark += "H"
        before = list(row.values())[number - 1] if number else None
        if before is not None and epsilon < SILENT:
            step, doubt = paired(errors_, before, single)
            mark += "O" if step > 0.005 + 2 * doubt else ""
        if epsilon == SILENT and OPEN in row:
            apart, doubt = paired(errors_, row[OPEN], row[OPEN])
            mark += "=" if apart > 0.02 + 2 * doubt else ""
        broken += len(mark)
        words.append(f"{100 * mean:7.2f}±{100 * deviation:<4.2f}{mark:<2}")
    print(f"  {method:32}" + " ".join(words))
    return broken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2, help="programs that divide the draws")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so long")
    parser.add_argument("--former", default=FORMER, help='commit of the other baseline, or "none"')
    parser.add_argument("--judge", action="store_true", help="only print what is there")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        child(*chosen.child)
        return
    keys = list(wanted(chosen.sets, chosen.methods, chosen.draws))
    if chosen.part:
        number, parts = map(int, chosen.part.split("/"))
        run(chosen.out, keys[number - 1 :: parts], chosen.seconds)
        return
    if not chosen.judge:
        if chosen.workers == 1:
            run(chosen.out, keys, chosen.seconds)
        else:
            share_out(chosen.workers)
        if chosen.former != "none":
            run_former(chosen.out, chosen.sets, chosen.draws, chosen.former)
    broken = judge({k: r for k, r in records(chosen.out).items() if k[0] in chosen.sets})
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
