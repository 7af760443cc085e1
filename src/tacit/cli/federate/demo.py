"""``tacit federate demo``: four hospitals, real processes, and nothing left behind."""

from __future__ import annotations

import contextlib
import csv
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from tacit._types import AnyArray, Array
from tacit.cli._output import begin, current
from tacit.cli.federate import _terms

__all__ = ["command", "demo", "free_port", "joined", "started", "written"]

NAMES = ("alder", "brook", "cedar", "dale")
TARGET = "readmitted"
RANGES = (
    "age=20:110",
    "emergency=0:1",
    "comorbidities=0:8",
    "systolic_bp=70:210",
    "creatinine=20:180",
    "haemoglobin=70:190",
    "albumin=20:55",
    "prior_admissions=0:6",
)


def free_port() -> int:
    """Return a port of this machine that nobody uses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def demo(
    out: Annotated[
        Path | None, typer.Option(help="Keep everybody's files here; default: remove them.")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="Privacy budget of a row.")] = 2.0,
    aggregation: Annotated[
        str, typer.Option(help="untrusted, trusted or secure: where the noise is added.")
    ] = "untrusted",
) -> None:
    """Four made-up hospitals on this machine: keys, consent, mTLS, a run, four models."""
    output = begin()
    _terms.need_extra()
    place = Path(tempfile.mkdtemp(prefix="tacit-demo-")) if out is None else out
    began = time.monotonic()
    try:
        with _register_in(place):
            _demonstrated(place, epsilon, aggregation)
        output.show(f"{time.monotonic() - began:.0f} s from nothing to four models")
    finally:
        if out is None:
            shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def _register_in(place: Path) -> Iterator[None]:
    """Keep made-up rows out of the user's own register of ledgers."""
    before = os.environ.get("TACIT_STATE")
    os.environ["TACIT_STATE"] = str(place / "register")
    try:
        yield
    finally:
        os.environ.pop("TACIT_STATE")
        os.environ.update({} if before is None else {"TACIT_STATE": before})


def tacit(*arguments: object) -> None:
    """Run a command as a user would, without starting Python again."""
    from tacit.cli._app import app

    current().note("$ tacit " + " ".join(map(str, arguments)))
    try:
        app(list(map(str, arguments)), standalone_mode=False)
    except typer.Exit as ended:
        if ended.exit_code:
            raise


def command(*arguments: object) -> list[str]:
    """Return the command line of this program."""
    program = "from tacit.cli import main; main()"
    return [sys.executable, "-c", program, *map(str, arguments)]


def _demonstrated(place: Path, epsilon: float, aggregation: str) -> None:
    files = written(place / "rows")
    study = place / "coordinator"
    ranges = [part for limit in RANGES for part in ("--range", limit)]
    tacit(
        *("federate", "init", study, "--sites", ",".join(NAMES), "--target", TARGET),
        *("--classes", "0,1", "--features", ",".join(limit.split("=")[0] for limit in RANGES)),
        *(
            "--epsilon",
            epsilon,
            "--set",
            f"aggregation={aggregation}",
            "--set",
            "n_moments=2",
            "--port",
            free_port(),
        ),
        *ranges,
    )
    joined(study, {name: (place / name, path) for name, path in files.items()})
    running = [
        started("federate", "coordinator", study),
        *(started("federate", "site", place / name) for name in files),
    ]
    try:
        tacit("federate", "run", study, "--seconds", 300)
        tacit("federate", "status", study)
        shown(place)
    finally:
        for one in running:
            one.send_signal(signal.SIGTERM)
        for one in running:
            one.wait(30)


def started(*arguments: object) -> subprocess.Popen[bytes]:
    """Start a long-lived process of this program."""
    return subprocess.Popen(  # noqa: S603 - our own program
        command(*arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
    )


def joined(study: Path, homes: dict[str, tuple[Path, Path]], *more: object) -> None:
    """Let every site join: consent and key at the site, a signature at the coordinator."""
    from tacit.federation.house import FILE, House

    root = House(study).federation.fingerprint
    for name, (home, path) in homes.items():
        at_home = ("federate", "join", study / FILE, "--site", name, "--home", home)
        tacit(*at_home, "--data", path, "--yes", *more)
        tacit("federate", "invite", study, home / "request" / f"{name}.request.zip")
        signed = study / "signed" / f"{name}.signed.zip"
        tacit(*at_home, "--signed", signed, "--fingerprint", root)


def written(folder: Path) -> dict[str, Path]:
    """Write every hospital group's rows to a file of its own; every fourth row is kept for a test.

    The twenty invented hospitals make four groups, as they would share one record system.
    """
    from tacit.datasets import load_hospitals

    data = load_hospitals()
    group = {task: NAMES[place % len(NAMES)] for place, task in enumerate(data.task_names)}
    folder.mkdir(parents=True)
    rows: dict[str, list[list[object]]] = {name: [] for name in NAMES}
    for x, task, answer in zip(data.X, np.asarray(data.tasks), data.extras[TARGET], strict=True):
        rows[group[str(task)]].append([*x.tolist(), int(answer)])
    for name, own in rows.items():
        for part, chosen in (("rows", lambda i: i % 4), ("test", lambda i: not i % 4)):
            with (folder / f"{name}-{part}.csv").open("w", newline="") as file:
                csv.writer(file).writerows(
                    [
                        (*data.feature_names, TARGET),
                        *(row for number, row in enumerate(own) if chosen(number)),
                    ]
                )
    return {name: folder / f"{name}-rows.csv" for name in NAMES}


def shown(place: Path) -> None:
    """Say how well each group's own model does on rows that it kept back."""
    from tacit import SingleTaskClassifier
    from tacit.estimators import load
    from tacit.federation import Terms
    from tacit.federation.house import House
    from tacit.federation.rows import rows_of

    run = House(place / "coordinator").latest()
    if run is None:
        return
    terms = Terms.load(run / "terms.json")
    together, apart = [], []
    for name in NAMES:
        model = load(place / name / "state" / "runs" / terms.run / "model")
        vars(model).pop("feature_names_in_")  # columns were matched by name already
        X, y = rows_of(place / "rows" / f"{name}-rows.csv", name)(terms)
        alone = SingleTaskClassifier(classes=terms.classes).fit(X, y)
        tests = rows_of(place / "rows" / f"{name}-test.csv", name)(terms)
        current().show(
            f"{name}: {100 * model.score(*tests):.0f} % right on its own held-out rows, "
            f"{100 * alone.score(*tests):.0f} % if it had learned alone"
        )
        together.append(_surprise(model, *tests))
        apart.append(_surprise(alone, *tests))
    current().show(
        f"log loss on all {sum(map(len, apart))} held-out rows: "
        f"{np.concatenate(together).mean():.3f}, alone {np.concatenate(apart).mean():.3f}"
    )


def _surprise(model: Any, X: Array, y: AnyArray) -> Array:
    """Return the log loss of every row; few rows tell models apart by it sooner than by errors."""
    chances = model.predict_proba(X)
    at = np.searchsorted(model.classes_, y)
    return np.asarray(-np.log(chances[np.arange(len(at)), at]))
