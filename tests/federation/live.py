"""A federation of real processes on this machine, for tests, the stress run and figures."""

from __future__ import annotations

import csv
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np

from tacit.cli.federate.demo import free_port, started
from tacit.cli.table.features import Feature, Intake
from tacit.estimators import load
from tacit.federation import Terms, kits
from tacit.federation.attempts import supervise
from tacit.federation.coordinator import STATEMENT
from tacit.federation.house import House
from tacit.federation.strict import write_policy
from tacit.methods import estimator_class
from tacit.privacy import Billboard, Ledger, Statement

FEATURES = ("a", "b", "c")
CLASSES = ("no", "yes")
INTAKE = Intake("site", "y", tuple(Feature(name) for name in FEATURES), "error").to_json()


def make_rows(folder, names, kind, n_rows=80, seed=4):
    """Write a file for every site; return what each holds."""
    rng = np.random.default_rng(seed)
    common, found = rng.normal(size=len(FEATURES)), {}
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        X = rng.normal(size=(n_rows, len(FEATURES)))
        y = X @ (common + 0.1 * rng.normal(size=len(FEATURES))) + 0.3 * rng.normal(size=n_rows)
        with (folder / f"{name}-{kind}.csv").open("w", newline="") as file:
            answers = y if kind == "regression" else np.where(y > 0, "yes", "no")
            csv.writer(file).writerows(
                [
                    (*FEATURES, "y"),
                    *([*map(repr, map(float, x)), v] for x, v in zip(X, answers, strict=True)),
                ]
            )
        found[name] = (X, y if kind == "regression" else np.where(y > 0, "yes", "no"))
    return found


def terms_for(names, method, settings, *, seed=7, **options):
    kind = options.pop("kind", "regression")
    seeded = {} if seed is None else {"random_state": seed}
    return Terms(
        method,
        kind,
        FEATURES,
        names,
        {"delta": 1e-5, **settings, **seeded},
        classes=CLASSES if kind == "classification" else None,
        intake=INTAKE,
        **{"deadline": 20.0, **options},
    )


class Live:
    """Server and sites; each is `tacit federate coordinator` or `tacit federate site`."""

    def __init__(self, place: Path, names=("ash", "birch", "cedar"), kind="regression"):
        self.place, self.names, self.kind = place, tuple(names), kind
        self.rows = make_rows(place / "rows", names, kind)
        base = terms_for(self.names, "mean-regularized", {"epsilon": 50.0, "n_rounds": 3})
        self.house = House.begin(place / "coordinator", "live", "localhost", free_port(), base)
        for name in names:
            self._joined(name)
        self.processes, self.making = {}, threading.Lock()

    def _joined(self, name):
        home, federation = self.place / name, self.house.federation
        signed = self.house.sign(kits.request(home, federation.name, name))
        kit = kits.package(home, signed, federation.name, name, federation.fingerprint)
        write_policy(kit)
        (home / "state").mkdir()
        Ledger(home / "state" / "ledger.db", epsilon=1e6, delta=0.1).close()
        self.settings(name)

    def settings(self, name, **changes):
        home = self.place / name
        known = {
            "folder": str(home / "state"),
            "data": str(self.place / "rows" / f"{name}-{self.kind}.csv"),
            "site": name,
            "ledger": str(home / "state" / "ledger.db"),
            "max_epsilon": 1e6,
            "max_delta": 0.1,
            "allow_seeded": True,
        }
        kits.Settings(**{**known, **changes}).save(home / "kit" / "local" / kits.SETTINGS)

    def start(self):
        os.environ["TACIT_STATE"] = str(self.place / "register")
        self.processes["server"] = started("federate", "coordinator", self.house.folder)
        for name in self.names:
            self.comes(name)

    def leaves(self, name):
        """Stop a site."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        process.wait(30)

    def comes(self, name):
        """Start a site."""
        self.processes[name] = started("federate", "site", self.place / name)

    def restarted(self, name, **environment):
        """Stop a site and start it again, with other variables in its environment."""
        self.leaves(name)
        before = dict(os.environ)
        os.environ.update(environment)
        try:
            self.comes(name)
        finally:
            os.environ.clear()
            os.environ.update(before)

    def stop(self):
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            process.wait(30)
        self.processes.clear()

    def folder(self, terms):
        place = self.house.folder / "runs" / terms.run
        with self.making:  # asked for by the thread that runs it and by the one that looks
            if not place.exists():
                place.mkdir(parents=True)
                terms.save(place / "terms.json")
        return place

    def run(self, terms, seconds=180.0):
        said = []
        place = self.folder(terms)
        supervise(self.house.lead, place, terms.run, terms.sites, seconds=seconds, say=said.append)
        return said

    def models(self, terms):
        return {
            name: load(self.place / name / "state" / "runs" / terms.run / "model")
            for name in terms.sites
        }

    def statement(self, terms):
        return Statement.from_json((self.folder(terms) / STATEMENT).read_text())

    def board(self, terms):
        return Billboard.load(self.folder(terms) / "own" / "releases")

    def charges(self):
        """Return the number of charges on every line of every site's ledger."""
        return {name: self._lines(name) for name in self.names}

    def _lines(self, name):
        path = self.place / name / "state" / "ledger.db"
        if not path.exists():
            return {}
        with Ledger(path) as ledger:
            return {(line.data, line.unit): line.n_charges for line in ledger.lines()}

    def charged(self, before):
        """Return how often every site was charged since; a tuple if its lines disagree.

        A run that hides a whole site counts for its rows, too: a line of rows, where there is one,
        is charged alike, and begins with what was charged before.
        """
        found = {}
        for name, lines in self.charges().items():
            so_far = max(before[name].values(), default=0)
            more = {count - before[name].get(line, so_far) for line, count in lines.items()} - {0}
            found[name] = more.pop() if len(more) == 1 else tuple(sorted(more)) or 0
        return found

    def local(self, terms):
        settings = {**terms.settings, **({"classes": terms.classes} if terms.classes else {})}
        ledger = Ledger(":memory:", epsilon=terms.settings["epsilon"], delta=0.1)
        estimator = estimator_class(terms.method, terms.kind)(**settings, ledger=ledger)
        X, y = (np.concatenate([self.rows[n][part] for n in terms.sites]) for part in (0, 1))
        return estimator.fit(
            X, y, tasks=np.repeat(terms.sites, [len(self.rows[n][1]) for n in terms.sites])
        )

    def gap(self, terms):
        """Return the largest difference to the local engine, and whether statements agree."""
        expected, models = self.local(terms), self.models(terms)
        gaps = [
            max(
                np.abs(models[name].coef_[0] - expected.coef_[place]).max(),
                np.abs(models[name].intercept_[0] - expected.intercept_[place]).max(),
            )
            for place, name in enumerate(terms.sites)
        ]
        same = all(
            found == expected.privacy_
            for found in (self.statement(terms), *(m.privacy_ for m in models.values()))
        )
        return max(gaps), same and self.board(terms).head == expected.billboard_.head

    # -- processes by what they do ---------------------------------------------------------------

    def pids(self, who, *, job):
        """Return processes of a party: its parent, or the process of the job."""
        kit = str((self.house.server if who == "server" else self.place / who / "kit").absolute())
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    line = (entry / "cmdline").read_bytes().decode().split("\0")
                except OSError:
                    continue
                if kit in line and any("nvflare.private" in part for part in line):
                    is_job = any(
                        "runner_process" in part or "worker_process" in part for part in line
                    )
                    if is_job == job:
                        found.append(int(entry.name))
        return found

    def kill(self, who, *, job):
        """Kill by SIGKILL; return how many processes that were."""
        pids = self.pids(who, job=job)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return len(pids)

    def listeners(self):
        """Return the local addresses on which any of our processes listens."""
        inodes = set()
        for who in ("server", *self.names):
            for job in (False, True):
                for pid in self.pids(who, job=job):
                    for link in Path(f"/proc/{pid}/fd").glob("*"):
                        try:
                            inodes.add(os.readlink(link))
                        except OSError:
                            continue
        found = set()
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                parts = line.split()
                if parts[3] == "0A" and f"socket:[{parts[9]}]" in inodes:
                    address, port = parts[1].split(":")
                    found.add((table, address, int(port, 16)))
        return found


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False
