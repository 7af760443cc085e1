"""Kill ``tacit fit`` at random instants and go on with ``--resume`` until it is done.

    python tests/cli/resume_stress.py --kills 50

Prints one JSON line and ends with status 1 unless every resumed run has the models of an
undisturbed one (under a seed), no release came out twice with different bytes, and the ledger holds
at least what was released.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np

import tacit
from tacit.cli import main
from tacit.privacy import Billboard, Ledger

FIT = ("fit", "data.csv", "--task", "party", "--target", "y", "--method", "low-rank")
SEEDED = (*FIT, "--rounds", "20", "--seed", "3", "--quiet")
SECRET = (*FIT, "--rounds", "20", "--quiet")


def write_data(path: Path) -> None:
    """Write forty parties of fifteen rows."""
    chance = np.random.default_rng(0)
    lines = ["party,a,b,c,y"]
    for party in range(40):
        for a, b, c in chance.normal(size=(15, 3)).round(3):
            lines.append(f"P{party},{a},{b},{c},{round(a - b + 0.1 * party * c, 3)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def start(arguments: tuple[str, ...]) -> int:
    """Run the command in a forked child, so that a kill comes after milliseconds, not imports."""
    child = os.fork()
    if child:
        return child
    status = 99
    try:
        sys.argv = ["tacit", *arguments]
        sys.stderr = sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        main()
        status = 0
    except SystemExit as done:
        status = int(done.code or 0)
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(status)


def finish(arguments: tuple[str, ...]) -> None:
    """Run the command to its end."""
    _, status = os.waitpid(start(arguments), 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"tacit {' '.join(arguments)} ended with status {status}")


def struck(arguments: tuple[str, ...], seconds: float) -> bool:
    """Run the command and kill it after ``seconds``; return whether it was killed."""
    child = start(arguments)
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"tacit {' '.join(arguments)} ended with status {status}")
    return os.WIFSIGNALED(status)


def seen(run: Path) -> dict[int, str]:
    """Return the releases on disk, by number, as hashes of their bytes."""
    place = run / "unfinished" / "releases"
    boards = [place] if place.exists() else [run / "billboard.npz"]
    return {p.number: p.hash for b in boards if b.exists() for p in Billboard.load(b)}


def ledger_of(run: Path) -> Path:
    """Return the ledger of the run's own copy of the data."""
    return Path(f"{run}.csv.ledger.db")


def own_data(command: tuple[str, ...], run: Path) -> tuple[str, ...]:
    """Return the command on a copy of the data, which no other run's register knows."""
    os.environ["TACIT_STATE"] = str(Path(f"{run}.state").absolute())
    copy = Path(f"{run}.csv")
    copy.write_bytes(Path("data.csv").read_bytes())
    return (command[0], str(copy), *command[2:], "--yes", "--out", str(run))


def under_counted(run: Path, released: dict[int, str]) -> bool:
    """Return whether the ledger holds fewer charges than there are releases."""
    ledger = ledger_of(run)
    if not ledger.exists():
        return bool(released)
    with Ledger(ledger) as ledger:
        ledger.verify()
        return sum(line.n_charges for line in ledger.lines()) < len(released)


def stress(kills: int, seed: int) -> dict[str, object]:
    """Kill runs ``kills`` times in all, each at several instants, and compare what came out."""
    chance = random.Random(seed)
    found = {"kills": 0, "runs": 0, "differing_models": 0, "differing_releases": 0}
    found |= {"under_counts": 0, "double_charges": 0}
    found["kills_after"] = {"none": 0, "some": 0, "all": 0}  # of the releases
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_data(Path("data.csv"))
        finish(own_data(SEEDED, Path("whole")))
        began = time.perf_counter()
        finish(own_data(SEEDED, Path("timed")))
        span = time.perf_counter() - began
        whole = tacit.load("whole")
        while found["kills"] < kills:
            run, base = Path(f"run{found['runs']}"), (SEEDED if found["runs"] % 2 else SECRET)
            known: dict[int, str] = {}
            while True:
                begun = (run / "unfinished").exists()
                command = ("fit", "--resume", str(run), "--quiet") if begun else own_data(base, run)
                if not begun and run.exists():
                    command = (*command, "--force")
                died = found["kills"] < kills and struck(command, chance.uniform(0, span))
                span *= 1.02 if died else 0.95  # keeps the kills inside the run on a busy machine
                if not died and not (run / "manifest.json").exists():
                    finish(command)
                now = seen(run)
                found["differing_releases"] += sum(known.get(n, h) != h for n, h in now.items())
                found["under_counts"] += under_counted(run, now)
                known |= now
                if not died:
                    break
                found["kills"] += 1
                where = (
                    "none" if not now else "all" if len(now) == len(whole.billboard_) else "some"
                )
                found["kills_after"][where] += 1
                if (run / "manifest.json").exists() and not (run / "unfinished").exists():
                    break
            found["runs"] += 1
            model = tacit.load(run)
            if base is SEEDED:
                found["differing_models"] += not np.array_equal(model.coef_, whole.coef_)
            with Ledger(ledger_of(run)) as ledger:
                charges = sum(line.n_charges for line in ledger.lines())
            found["double_charges"] += charges != len(model.billboard_)
        os.chdir("/")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    result = stress(given.kills, given.seed)
    print(json.dumps(result))
    wrong = ("differing_models", "differing_releases", "under_counts", "double_charges")
    sys.exit(any(result[name] for name in wrong))
