"""Kill posting processes and race reserving ones on one ledger file.

    python tests/privacy/ledger_stress.py crash --kills 200
    python tests/privacy/ledger_stress.py race --processes 16

Each prints one JSON line and ends with status 1 if anything was under-counted or overspent.
Children are forked from one warm process, so that a kill comes after milliseconds, not imports.
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
from collections.abc import Callable
from pathlib import Path

import numpy as np
from dp_accounting import dp_event

from tacit.errors import BudgetExceeded, LedgerError
from tacit.privacy.accounting import calibrate, compose, gaussian_mu
from tacit.privacy.billboard import Billboard
from tacit.privacy.ledger import Ledger, Reservation

EPSILON, DELTA = 1000.0, 1e-6
EVENT = dp_event.GaussianDpEvent(5.0)
RELEASES = 12
LINE = {"unit": "task", "adjacency": "replace-one"}


def fork(work: Callable[[], int]) -> int:
    """Run ``work`` in a forked child; its result is the exit status."""
    child = os.fork()
    if child:
        return child
    status = 99
    try:
        status = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


def begun(ledger: Ledger, noted: Path) -> Reservation:
    """Take over the run whose identity was noted, if it is still open, or reserve a new one."""
    with contextlib.suppress(FileNotFoundError, LedgerError):
        return ledger.resume(noted.read_text())
    reservation = ledger.reserve([EVENT] * RELEASES, **LINE)
    noted.write_text(reservation.run)
    return reservation


def post_all(path: Path, published: Path, started: int) -> int:
    """Reserve or go on, and post; every value that became public leaves a byte in ``published``."""
    os.close(started)
    with Ledger(path, EPSILON, DELTA) as ledger:
        reservation = begun(ledger, published.with_suffix(".run"))
        billboard = Billboard(reservation)
        out = os.open(published, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        for number in range(sum(reservation.left[reservation.unit].values())):
            billboard.post(np.full(4, number), EVENT)
            os.write(out, b"x")
        if os.getpid() % 2:  # half of the runs die unclosed even if they reach the end
            reservation.close()
    return 0


def run_until(path: Path, published: Path, seconds: float) -> bool:
    """Start a posting child and kill it after ``seconds``; return whether it was killed."""
    read, write = os.pipe()
    child = fork(lambda: post_all(path, published, write))
    os.close(write)
    os.read(read, 1)  # ends when the child has begun and closed its end
    os.close(read)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) and os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"a posting process failed with status {status}")
    return os.WIFSIGNALED(status)


def under_counts(path: Path, published: Path, *, recover: bool) -> int:
    """Return how many checks found less counted than published, also after recovery if asked."""
    seen = published.stat().st_size if published.exists() else 0
    if not path.exists():
        return int(seen > 0)
    truth = compose([EVENT] * seen, delta=DELTA).epsilon
    wrong = 0
    with Ledger(path) as ledger:
        ledger.verify()
        for recovered in (False, True) if recover else (False,):
            if recovered:
                ledger.recover()
                ledger.verify()
            charges = sum(line.n_charges for line in ledger.lines())
            wrong += charges < seen
            wrong += ledger.spent().epsilon < truth
    return wrong


def full_run(folder: Path) -> float:
    """Return how long one undisturbed run takes, which bounds the instants of the kills."""
    began = time.perf_counter()
    child = fork(lambda: post_all(folder / "whole.db", folder / "whole.log", os.dup(1)))
    os.waitpid(child, 0)
    return time.perf_counter() - began


def crash(kills: int, seed: int) -> dict[str, object]:
    """Kill ``kills`` posting processes at random instants of their run."""
    chance = random.Random(seed)
    killed = wrong = runs = published_total = 0
    with tempfile.TemporaryDirectory() as folder:
        whole = full_run(Path(folder))
        while killed < kills:
            path, published = Path(folder, f"{killed // 10}.db"), Path(folder, f"{killed // 10}")
            died = run_until(path, published, chance.uniform(0.0, whole))
            # Two of three killed runs are taken over by the next process, one is settled.
            wrong += under_counts(path, published, recover=chance.random() < 1 / 3)
            killed += died
            runs += 1
            whole *= 1.02 if died else 0.9  # keeps the kills inside the run on a busy machine
        published_total = sum(f.stat().st_size for f in Path(folder).iterdir() if not f.suffix)
    return {"kills": killed, "runs": runs, "published": published_total, "under_counts": wrong}


def reserve_all(path: Path, gate: int, noise: float) -> int:
    """Wait at the gate, then reserve until refused; return how often it was accepted."""
    os.read(gate, 1)
    accepted = 0
    with Ledger(path, 1.0, DELTA) as ledger:
        try:
            while True:
                ledger.reserve(dp_event.GaussianDpEvent(noise), **LINE)
                accepted += 1
        except BudgetExceeded:
            return accepted


def one_race(processes: int, share: int) -> tuple[list[int], float]:
    """Race for a budget that holds ``share`` reservations; return winners and the spend."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "race.db")
        noise = calibrate(1.0, DELTA, n_releases=share)
        gates = [os.pipe() for _ in range(processes)]
        children = [fork(lambda r=r: reserve_all(path, r, noise)) for r, _ in gates]
        for _, write in gates:
            os.write(write, b"x")
        results = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        for pair in gates:
            for end in pair:
                os.close(end)
        with Ledger(path) as ledger:
            ledger.verify()
            return results, ledger.spent().epsilon


def race(processes: int) -> dict[str, object]:
    """Race once for the last budget and once for many small pieces."""
    last, spent_last = one_race(processes, 1)
    many, spent_many = one_race(processes, 40)
    failed = sum(result == 99 for result in last + many)
    return {
        "processes": processes,
        "winners_of_last_budget": sum(last),
        "small_reservations": sum(many),
        "spent": [spent_last, spent_many],
        "overspend": int(spent_last > 1.0) + int(spent_many > 1.0) + failed,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["crash", "race"])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    gaussian_mu(1.0, DELTA)
    if options.what == "crash":
        result = crash(options.kills, options.seed)
        bad = result["under_counts"] != 0
    else:
        result = race(options.processes)
        bad = result["overspend"] != 0 or result["winners_of_last_budget"] != 1
    print(json.dumps(result))
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
