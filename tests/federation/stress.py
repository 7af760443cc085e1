"""What a federation must show, on real processes on loopback: one function a row, one table.

    python -m tests.federation.stress equal kills refusals timing sums [--kills 40] [--out FILE]

Every row prints what it found and appends it, as a line of JSON, to the file; ``table`` prints the
file as one table.
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
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from tests.federation.live import Live, terms_for, wait_for

from tacit.federation import Refused, kits, sums
from tacit.federation.attempts import LEAD, _session, job_folder
from tacit.federation.keys import make_identities
from tacit.federation.processes import keep_running
from tacit.federation.strict import check_policy, write_policy
from tacit.privacy import SystemEntropy

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


def equal(live, say):
    """Every method gives the models, releases and statement of the local engine."""
    for name, (method, settings) in REGRESSIONS.items():
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
    found = {(table, address) for table, address, _ in live.listeners()}
    say("listeners", found == {("tcp", "0100007F")}, f"all on {sorted(found)}")
    job = sorted(path.name for path in (live.folder(terms) / "job").rglob("*") if path.is_file())
    say("job", not any(name.endswith(".py") for name in job), f"files: {', '.join(job)}")


def kills(live, say, count=40):
    """Kill at random instants; nothing is lost, said twice in two ways, or charged twice."""
    points = random.Random(5)
    victims = [("site", True), ("site", False), ("server", True), ("server", False)]
    made, runs, spread = 0, 0, {}
    while made < count:
        terms = terms_for(
            live.names, "mean-regularized", {"epsilon": 50.0, "n_rounds": 12}, seed=None
        )
        before = {name: live.charges(name) for name in live.names}
        thread = threading.Thread(target=live.run, args=(terms, 900.0), daemon=True)
        thread.start()
        in_this_run = 0
        while thread.is_alive() and in_this_run < 6 and made < count:
            time.sleep(points.uniform(0.0, 15.0))
            who, job = victims[made % len(victims)]
            who = points.choice(live.names) if who == "site" else who
            if thread.is_alive() and live.kill(who, job=job):
                kind = f"{'server' if who == 'server' else 'site'} {'job' if job else 'parent'}"
                spread[kind] = spread.get(kind, 0) + 1
                made += 1
                in_this_run += 1
        thread.join(900.0)
        runs += 1
        _whole(live, terms, before, say, f"kills: run {runs}, {in_this_run} kills")
    say("kills", True, f"{made} kills in {runs} runs: {spread}")


def reboot(live, say):
    """Kill everything at once in the middle of a run, start again, and run it to its end."""
    terms = terms_for(live.names, "mean-regularized", {"epsilon": 50.0, "n_rounds": 30}, seed=None)
    before = {name: live.charges(name) for name in live.names}
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


def _swallowed(live, terms):
    try:
        live.run(terms, 300.0)
    except Exception as error:
        print("supervisor:", error)


def _whole(live, terms, before, say, name):
    """Check that a run ended, and that nobody saw or paid anything twice."""
    board = live.board(terms)
    n_rounds = terms.settings["n_rounds"]
    charged = {site: live.charges(site) - before[site] for site in live.names}
    heads = {model.billboard_.head for model in live.models(terms).values()}
    held = len(board) == n_rounds and set(charged.values()) == {n_rounds} and heads == {board.head}
    say(name, held, f"{len(board)} of {n_rounds} releases, charges {charged}, heads {len(heads)}")


def refusals(live, say):
    """Everything that must be refused is, and says why."""
    rights(live, say)

    def job(change):
        terms = terms_for(live.names, "mean-regularized", {"epsilon": 50.0, "n_rounds": 2})
        place = live.folder(terms)
        folder = job_folder(place / "bad", terms.run, terms.sites)
        change(folder)
        end = time.monotonic() + 60
        with _session(live.house.lead, end, print) as session:
            submitted = session.submit_job(str(folder.absolute()))
            wait_for(lambda: (session.get_job_status(submitted) or "").startswith("FINISHED"), 60)
            meta = session.get_job_meta(submitted)
        detail = [str(part) for part in meta.get("job_deploy_detail") or ()]
        return str(meta.get("status")), "; ".join(d for d in detail if ": OK" not in d)[:300]

    def custom(folder):
        (folder / "app" / "custom").mkdir()
        (folder / "app" / "custom" / "own.py").write_text("print('mine')\n")

    def unlisted(folder):
        path = folder / "app" / "config" / "config_fed_client.json"
        text = path.read_text().replace(
            "tacit.federation.flare.FlareSite",
            "nvflare.app_common.np.np_trainer.NPTrainer",
        )
        path.write_text(text)

    for name, change in (("custom code", custom), ("unlisted class", unlisted)):
        try:
            status, detail = job(change)
        except Exception as error:
            status, detail = "refused at submission", str(error)[:300]
        say(f"refused: {name}", "COMPLETED" not in status, f"{status}: {detail}")

    for name, changes, settings in (
        ("ε above the site's maximum", {"max_epsilon": 1e6}, {"epsilon": 2e6}),
        ("unknown method", {"methods": ("low-rank",)}, {"epsilon": 50.0}),
        ("unknown feature", {"features": ("a", "b")}, {"epsilon": 50.0}),
        ("repeatable noise", {"allow_seeded": False}, {"epsilon": 50.0}),
    ):
        live.settings("birch", **changes)
        terms = terms_for(live.names, "mean-regularized", {"n_rounds": 2, **settings})
        try:
            live.run(terms, 120)
            say(f"refused: {name}", False, "it ran")
        except Refused as refusal:
            say(f"refused: {name}", True, str(refusal)[:300])
    live.settings("birch")

    kit = live.place / "ash" / "kit"
    for file, old, new in (
        ("authorization.json", '"byoc": "none"', '"byoc": "any"'),
        ("resources.json", '"allow_log_streaming": false', '"allow_log_streaming": true'),
        ("privacy.json", "FlareGate", "Filter"),
    ):
        path = kit / "local" / file
        path.write_text(path.read_text().replace(old, new, 1))
        try:
            check_policy(kit)
            say(f"refused: loosened {file}", False, "it passed")
        except Refused as refusal:
            say(f"refused: loosened {file}", True, str(refusal)[:200])
        write_policy(kit)
    try:
        keep_running(kit, server=False, say=print)
        say("refused: second process on one kit", False, "it ran")
    except Refused as refusal:
        say("refused: second process on one kit", True, str(refusal)[:200])
    strangers(live, say)


def rights(live, say):
    """No role can read files, list, shut down or stream logs at a site."""
    tried, allowed = 0, []
    with _session(live.house.lead, time.monotonic() + 60, print) as session:
        wait_for(lambda: len(session.get_system_info().client_info) == len(live.names), 60)
        for what, ask in {
            "ls": lambda: session.ls_target("ash"),
            "cat": lambda: session.cat_target("ash", file="local/tacit.json"),
            "tail": lambda: session.tail_target("ash", file="log.txt"),
            "grep": lambda: session.grep_target("ash", pattern="a", file="log.txt"),
            "shutdown": lambda: session.shutdown("client", ["ash"]),
            "restart": lambda: session.restart("client", ["ash"]),
        }.items():
            tried += 1
            try:
                found = ask()
                if not _says_no(found):
                    allowed.append(f"{what}: {str(found)[:80]}")
            except Exception as error:
                if not _says_no(error):
                    allowed.append(f"{what}: {type(error).__name__} {str(error)[:80]}")
        there = len(session.get_system_info().client_info) == len(live.names)
    say(
        "refused: commands at a site",
        there and not allowed,
        f"{tried} tried by {LEAD}, the only user; allowed: {allowed or 'none'}",
    )


def _says_no(found):
    words = (
        "failed to shut down",
        "not authorized",
        "authorization",
        "no permission",
        "denied",
        "invalid target",
    )
    return any(word in str(found).lower() for word in words)


def strangers(live, say):
    """No, foreign or another's certificate, and plain TCP, get nowhere."""
    import http.client
    import socket
    import ssl

    host, port = live.house.federation.host, live.house.federation.port
    connection = http.client.HTTPConnection(host, port, timeout=5)
    try:
        connection.request("GET", "/")
        answer = str(connection.getresponse().status)
        refused = False
    except (OSError, http.client.HTTPException) as error:
        answer, refused = f"{type(error).__name__}: {error}", True
    say("refused: plain TCP", refused, answer)

    def handshake(context):
        context.check_hostname = False
        try:
            with (
                socket.create_connection((host, port), 5) as plain,
                context.wrap_socket(plain, server_hostname=host) as secure,
            ):
                secure.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                refused = not secure.recv(100)
                return refused, "closed without an answer" if refused else "answered"
        except (OSError, ssl.SSLError) as error:
            return True, f"{type(error).__name__}: {error}"

    trusting = ssl.create_default_context(cafile=live.house.folder / "ca" / "rootCA.pem")
    say("refused: no certificate", *handshake(trusting))
    with tempfile.TemporaryDirectory() as place:
        foreign = make_identities(("ash",))["ash"]
        key, chain = Path(place, "key.pem"), Path(place, "crt.pem")
        key.write_bytes(foreign.key)
        chain.write_bytes(foreign.certificate)
        shown = ssl.create_default_context(cafile=live.house.folder / "ca" / "rootCA.pem")
        shown.load_cert_chain(chain, key)
        say("refused: foreign certificate", *handshake(shown))
    impostor(live, say)
    try:
        live.house.sign(kits.request(live.place / "eve", "live", "eve"))
        say("refused: a site that was not invited", False, "it was signed")
    except ValueError as error:
        say("refused: a site that was not invited", True, str(error)[:200])


def impostor(live, say):
    """A kit of ash that says it is birch."""
    kit = live.place / "impostor" / "kit"
    shutil.copytree(live.place / "ash" / "kit", kit)
    for file in ("sub_start.sh", "fed_client.json"):
        path = kit / "startup" / file
        text = path.read_text().replace("uid=ash", "uid=birch")
        path.write_text(text.replace('"fqsn": "ash"', '"fqsn": "birch"'))
    here = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    process = subprocess.Popen(
        [kit / "startup" / "sub_start.sh", "--once"],
        cwd=kit,
        env={**os.environ, "PATH": here, "HOME": str(kit)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    time.sleep(25)
    os.killpg(process.pid, signal.SIGKILL)
    log = (live.house.server / "log.txt").read_text()
    lines = [line for line in log.splitlines() if "authenticated as 'ash'" in line]
    say("refused: another site's name", bool(lines), (lines or ["nothing said"])[-1][-120:])


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

    settings = {"epsilon": 500.0, "n_rounds": turns, "target_bound": 4.0, "row_norm": 3.0}
    try:
        terms = terms_for(names, "asynchronous", {**settings, "gate": False})
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


def cost(live, say):
    """What a secure sum costs a site, by the number of sites."""
    for count in (4, 50):
        names = tuple(f"s{number:02d}" for number in range(count))
        identities = make_identities(names)
        secrets = {name: sums.new_key(SystemEntropy()) for name in names}
        pages = {
            name: identities[name].signed(b"a", secrets[name].public_key().public_bytes_raw())
            for name in names
        }
        steps = {name: np.arange(100_000) for name in names}
        spent, parts = [], []
        for name in names:
            began = time.perf_counter()
            parts.append(sums.masked(steps[name], secrets[name], identities[name], pages, b"a"))
            spent.append(time.perf_counter() - began)
        began = time.perf_counter()
        total = sums.total(parts, 1.0)
        adding = time.perf_counter() - began
        exact = np.array_equal(total, count * np.arange(100_000.0))
        say(
            f"secure sum: {count} sites, 100 000 numbers",
            exact,
            f"exact: {exact}; {statistics.median(spent):.3f} s a site, {adding:.3f} s to add up",
        )


ROWS = {
    "equal": equal,
    "kills": kills,
    "reboot": reboot,
    "refusals": refusals,
    "timing": timing,
    "asynchronous": asynchronous,
    "sums": cost,
}


def table(path):
    for line in path.read_text().splitlines():
        row = json.loads(line)
        print(f"{'held' if row['held'] else 'NOT HELD':8}  {row['name']:45}  {row['found']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", choices=[*ROWS, "table"], default=[])
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("federation-stress.jsonl"))
    asked = parser.parse_args()
    if asked.rows == ["table"]:
        table(asked.out)
        return

    def say(name, held, found):
        print(f"{'held' if held else 'NOT HELD'}: {name}: {found}", flush=True)
        with asked.out.open("a") as file:
            row = {"name": name, "held": bool(held), "found": str(found)}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")

    place = Path(tempfile.mkdtemp(prefix="tacit-stress-"))
    needed = [row for row in asked.rows or ROWS if row not in ("sums", "asynchronous")]
    live = Live(place, FOUR) if needed else None
    try:
        if live is not None:
            live.start()
        for row in asked.rows or ROWS:
            more = {"count": asked.kills} if row == "kills" else {}
            ROWS[row](live, say, **more)
    finally:
        if live is not None:
            live.stop()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
