"""What a federation must show, on real processes on loopback: one function a row, one table.

    python -m tests.federation.stress equal kills refusals malformed [--kills 40] [--out FILE]

Without names all rows are shown. Every row prints what it found and appends it, as a line of JSON,
to the file; ``table`` prints the file as one table. The exit code is 1 if a row was not held.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import statistics
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from tests.federation.hostile import edited, malformed, refusals
from tests.federation.live import Live, terms_for, wait_for
from tests.federation.rights import keys, prying, rights, starts
from tests.federation.secure import secure_sums

from tacit.estimators import SourcePackage, load
from tacit.federation.terms import TRANSFERS, Terms
from tacit.privacy import Ledger

FOUR = ("ash", "birch", "cedar", "dogwood")
REGRESSIONS = {
    "shared prior": ("shared-prior", {"epsilon": 50.0, "clip": 3.0}),
    "shared prior, hierarchical": ("shared-prior", {"epsilon": 500.0}),
    "low rank": ("low-rank", {"epsilon": 50.0}),
    "mean regularised": ("mean-regularized", {"epsilon": 50.0, "n_rounds": 5}),
    "group sparse": ("group-sparse", {"epsilon": 50.0}),
    "moments, untrusted": ("shared-moments", {"epsilon": 5.0}),
    "moments, trusted": ("shared-moments", {"epsilon": 5.0, "aggregation": "trusted"}),
    "moments, secure": ("shared-moments", {"epsilon": 5.0, "aggregation": "secure"}),
}
TURNS = {"epsilon": 500.0, "n_rounds": 40, "target_bound": 4.0, "row_norm": 3.0, "gate": False}


def equal(live, say, only=""):
    """Every method gives the models, releases and statement of the local engine."""
    for name, (method, settings) in REGRESSIONS.items():
        if only not in name:
            continue
        terms = terms_for(live.names, method, settings)
        began = time.monotonic()
        live.run(terms)
        gap, same = live.gap(terms)
        say(
            f"equal: {name}",
            gap <= 1e-9 and same,
            f"largest difference {gap:.1e}, same releases and statement: {same}, "
            f"{time.monotonic() - began:.0f} s",
        )
    terms = terms_for(live.names, "asynchronous", TURNS)
    live.run(terms)
    gap, expected = _apart(live, terms), live.local(terms).privacy_
    same = live.statement(terms) == expected
    same = same and all(model.privacy_ == expected for model in live.models(terms).values())
    found = f"{100 * gap:.2f} % from the local run, same statement: {same}"
    say("equal: asynchronous", gap <= 0.02 and same, found)
    found = {(table, address) for table, address, _ in live.listeners()}
    say("listeners", found == {("tcp", "0100007F")}, f"all on {sorted(found)}")
    job = sorted(path.name for path in (live.folder(terms) / "job").rglob("*") if path.is_file())
    say("job", not any(name.endswith(".py") for name in job), f"files: {', '.join(job)}")


KILLED = {
    "mean regularised": ("mean-regularized", {"epsilon": 50.0, "n_rounds": 12}),
    "moments, secure": ("shared-moments", {"epsilon": 5.0, "aggregation": "secure"}),
    "asynchronous": ("asynchronous", {**TURNS, "epsilon": 50.0, "n_rounds": 12}),
}
VICTIMS = (("site", True), ("site", False), ("server", True), ("server", False))


def kills(live, say, count=40, seed=5):
    """Kill at random instants; nothing is lost, said twice in two ways, or charged twice."""
    points, made, runs = random.Random(seed), 0, 0
    spread = dict.fromkeys(VICTIMS, 0)
    methods = itertools.islice(itertools.cycle(KILLED.items()), seed % len(KILLED), None)
    while made < count:
        name, (method, settings) = next(methods)
        terms = terms_for(live.names, method, settings, seed=None)
        before = live.charges()
        thread = threading.Thread(target=live.run, args=(terms, 900.0), daemon=True)
        thread.start()
        in_this_run = 0
        while thread.is_alive() and in_this_run < 6 and made < count:
            time.sleep(points.uniform(0.0, 15.0))
            kind = VICTIMS[made % len(VICTIMS)]
            who = points.choice(live.names) if kind[0] == "site" else "server"
            if thread.is_alive() and live.kill(who, job=kind[1]):
                spread[kind] += 1
                made += 1
                in_this_run += 1
        thread.join(900.0)
        runs += 1
        _whole(live, terms, before, say, f"kills: {name}, {in_this_run} kills")
    shown = {f"{who} {'job' if job else 'parent'}": n for (who, job), n in spread.items()}
    say("kills", True, f"{made} kills in {runs} runs (seed {seed}): {shown}")


def reboot(live, say):
    """Kill everything at once in the middle of a run, start again, and run it to its end."""
    terms = terms_for(live.names, "mean-regularized", {"epsilon": 50.0, "n_rounds": 30}, seed=None)
    before = live.charges()
    thread = threading.Thread(target=_swallowed, args=(live, terms), daemon=True)
    thread.start()
    wait_for(lambda: len(list((live.folder(terms) / "own" / "releases").glob("*"))) > 2, 120)
    for process in live.processes.values():
        process.send_signal(signal.SIGKILL)
    for who in ("server", *live.names):
        for job in (False, True):
            live.kill(who, job=job)
    for process in live.processes.values():
        process.wait()
    live.start()
    thread.join(400)
    live.run(terms, 300)
    _whole(live, terms, before, say, "reboot: all killed at once")


def leaver(live, say):
    """A site leaves in the middle: the run goes on, says so, and gives it its model later."""
    gone, settings = live.names[-1], {"epsilon": 50.0, "n_rounds": 12}
    options = {"seed": None, "deadline": 6.0, "late": "go on"}
    terms = terms_for(live.names, "mean-regularized", settings, **options)
    thread = threading.Thread(target=live.run, args=(terms, 300.0), daemon=True)
    thread.start()
    wait_for(lambda: len(list((live.folder(terms) / "own" / "releases").glob("*"))) > 2, 120)
    live.leaves(gone)
    thread.join(300)
    board = live.board(terms)
    stated = [part for part in live.statement(terms).assumptions if gone in part]
    say("leaver: the others end", len(board) == 12, f"{len(board)} of 12 releases; {stated}")
    live.comes(gone)
    live.run(terms, 120.0)
    heads = {model.billboard_.head for model in live.models(terms).values()}
    say("leaver: it gets its model", heads == {board.head} and bool(stated), f"heads {len(heads)}")


def _swallowed(live, terms):
    try:
        live.run(terms, 300.0)
    except Exception as error:
        print("supervisor:", error)


def _whole(live, terms, before, say, name):
    """Check that a run ended, and that nobody saw or paid anything twice."""
    board = live.board(terms)
    rounds = Terms.load(live.folder(terms) / "terms.json").staged().schedule.rounds
    turns = sum(round.turns for round in rounds)
    releases = turns * (len(terms.sites) if rounds[0].apart else 1)
    charged = live.charged(before)
    heads = {model.billboard_.head for model in live.models(terms).values()}
    held = len(board) == releases and set(charged.values()) == {turns} and heads == {board.head}
    say(name, held, f"{len(board)} of {releases} releases, charges {charged}, heads {len(heads)}")


def timing(live, say):
    """How long a synchronous round takes over the computing in it."""
    terms = terms_for(live.names, "mean-regularized", {"epsilon": 50.0, "n_rounds": 40})
    live.run(terms)
    files = sorted((live.folder(terms) / "own" / "releases").glob("*.npz"))
    times = [path.stat().st_mtime for path in files]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    began = time.perf_counter()
    live.local(terms)
    alone = (time.perf_counter() - began) / 40
    median = statistics.median(gaps)
    say("timing: a round", median - alone <= 0.3, f"median {median:.3f} s, alone {alone:.3f} s")


def asynchronous(_, say, turns=40):
    """Six sites, one of them stopped nine tenths of the time: nobody waits for it."""
    names = (*FOUR, "elm", "fir")
    place = Path(tempfile.mkdtemp(prefix="tacit-stress-"))
    live = Live(place, names)
    live.start()
    slow, over = "elm", threading.Event()

    def hold_back():
        while not over.is_set():
            for number, seconds in ((signal.SIGSTOP, 0.9), (signal.SIGCONT, 0.1)):
                for pid in live.pids(slow, job=True):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
                over.wait(seconds)

    try:
        terms = terms_for(names, "asynchronous", {**TURNS, "n_rounds": turns})
        place_of = live.folder(terms)
        thread = threading.Thread(target=live.run, args=(terms, 600.0), daemon=True)
        thread.start()
        wait_for(lambda: (place_of / "own" / "releases").exists(), 120)
        held = threading.Thread(target=hold_back)
        held.start()
        thread.join(600)
        over.set()
        held.join()
        board = list(live.board(terms))
        took = dict.fromkeys(names, 0)
        for posting in board:
            name = names[posting.call["task"]]
            took[name] += 1
            if took[name] == turns:
                break
        others = min(count for name, count in took.items() if name != slow)
        files = sorted((place_of / "own" / "releases").glob("*.npz"))
        trips, last = [], {}
        for posting, path in zip(board, files, strict=True):
            name, now = names[posting.call["task"]], path.stat().st_mtime
            if name in last and name != slow:
                trips.append(now - last[name])
            last[name] = now
        gap = _apart(live, terms)
        say(
            "asynchronous: fast sites",
            others >= 5 * took[slow],
            f"turns when the first had {turns}: {took}",
        )
        trip = statistics.median(trips)
        say("asynchronous: round trip", trip <= 0.3, f"median {trip:.3f} s")
        say("asynchronous: fixed point", gap <= 0.02, f"{100 * gap:.2f} % from the local run")
    finally:
        live.stop()
        shutil.rmtree(place, ignore_errors=True)


def _apart(live, terms):
    """Return the largest relative distance of a site's model from the local run's."""
    expected, models = live.local(terms), live.models(terms)
    return max(
        float(
            np.linalg.norm(models[name].coef_[0] - expected.coef_[at])
            / np.linalg.norm(expected.coef_[at])
        )
        for at, name in enumerate(terms.sites)
    )


def transfer(_, say):
    """From a source to two targets: the exchange of a package, and what kills do to it."""
    source, *targets = names = ("ash", "birch", "cedar")
    place = Path(tempfile.mkdtemp(prefix="tacit-stress-"))
    live = Live(place, names, kind="classification")
    live.start()
    try:
        for method, kind in TRANSFERS.items():
            options = {"kind": "classification", "sources": (source,)}
            terms = terms_for(names, method, {"epsilon": 2.0}, **options)
            live.run(terms)

            def alone(kind=kind, terms=terms):
                ledger = Ledger(":memory:", epsilon=2.0, delta=0.1)
                return kind(**terms.settings, classes=terms.classes, ledger=ledger)

            package = alone().fit_source(*live.rows[source])
            gaps = [_gap(package.models, _package(live, terms, source).models)]
            same = package.statement == live.statement(terms)
            for name in targets:
                own = load(live.place / name / "state" / "runs" / terms.run / "model")
                expected = alone().fit(*live.rows[name], source=package)
                gaps.append(_gap([expected.coef_], [own.coef_]))
                same = same and own.privacy_ == expected.privacy_
            held = max(gaps) <= 1e-9 and same
            found = f"largest difference {max(gaps):.1e}, same statements: {same}"
            say(f"transfer: {method}", held, found)
        _transfer_killed(live, say, source, targets)
    finally:
        live.stop()
        shutil.rmtree(place, ignore_errors=True)


def _transfer_killed(live, say, source, targets):
    """Kill source and targets in turn while a run goes; all is charged once, and is the same."""
    points, made = random.Random(8), 0
    for number in range(4):
        terms = terms_for(
            live.names,
            "transfer",
            {"epsilon": 2.0},
            seed=None,
            kind="classification",
            sources=(source,),
        )
        before = live.charges()
        thread = threading.Thread(target=live.run, args=(terms, 300.0), daemon=True)
        thread.start()
        victim = live.names[number % 3]
        wait_for(lambda victim=victim: live.pids(victim, job=True), 60)
        time.sleep(points.uniform(0.0, 3.0))
        made += bool(live.kill(victim, job=True))
        thread.join(300)
        charged = live.charged(before)
        digest = _package(live, terms, source).digest
        there = {_package(live, terms, source, name).digest for name in targets}
        held = set(charged.values()) == {1} and there == {digest}
        say(
            f"transfer: killed, run {number + 1}",
            held,
            f"charges {charged}, one package at both ends: {there == {digest}}",
        )
    say("transfer: kills", made >= 3, f"{made} kills in 4 runs")


def _package(live, terms, source, name=None):
    run = live.place / (name or source) / "state" / "runs" / terms.run
    return SourcePackage.load(run / "model" if name is None else run / "sources" / source)


def _gap(ones, others):
    return max(float(np.abs(a - b).max()) for a, b in zip(ones, others, strict=True))


ROWS = {
    "equal": equal,
    "kills": kills,
    "reboot": reboot,
    "leaver": leaver,
    "keys": keys,
    "rights": rights,
    "prying": prying,
    "starts": starts,
    "refusals": refusals,
    "edited": edited,
    "malformed": malformed,
    "transfer": transfer,
    "timing": timing,
    "asynchronous": asynchronous,
    "sums": secure_sums,
}


def table(path):
    for line in path.read_text().splitlines():
        row = json.loads(line)
        print(f"{'held' if row['held'] else 'NOT HELD':8}  {row['name']:45}  {row['found']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", choices=[*ROWS, "table"], default=[])
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=5, help="of the instants of kills")
    parser.add_argument("--only", default="", help="methods of equal with this in their names")
    parser.add_argument("--out", type=Path, default=Path("federation-stress.jsonl"))
    asked = parser.parse_args()
    if asked.rows == ["table"]:
        table(asked.out)
        return

    missed = []

    def say(name, held, found):
        if not held:
            missed.append(name)
        print(f"{'held' if held else 'NOT HELD'}: {name}: {found}", flush=True)
        with asked.out.open("a") as file:
            row = {"name": name, "held": bool(held), "found": str(found)}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")

    place = Path(tempfile.mkdtemp(prefix="tacit-stress-"))
    needed = [row for row in asked.rows or ROWS if row not in ("sums", "asynchronous", "transfer")]
    live = Live(place, FOUR) if needed else None
    try:
        if live is not None:
            live.start()
        for row in asked.rows or ROWS:
            more = {
                "kills": {"count": asked.kills, "seed": asked.seed},
                "equal": {"only": asked.only},
            }
            ROWS[row](live, say, **more.get(row, {}))
    finally:
        if live is not None:
            live.stop()
        shutil.rmtree(place, ignore_errors=True)
    if missed:
        raise SystemExit("not held: " + ", ".join(missed))


if __name__ == "__main__":
    main()
