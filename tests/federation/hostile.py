"""Those who should get nowhere: edited jobs, strangers, and a site that lies over the wire."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from pathlib import Path

from tests.federation.hostile_site.lies import COUNTED, LIES
from tests.federation.live import terms_for, wait_for
from tests.federation.rights import uninvited

from tacit.federation import Coordinator, InProcess, Policy, Refused, Site
from tacit.federation.attempts import _session, job_folder
from tacit.federation.keys import make_identities


def refusals(live, say):
    """Everything that must be refused is, and says why."""

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

    for name, change, reason in (
        ("custom code", custom, "BYOC not permitted"),
        ("unlisted class", unlisted, "np_trainer.NPTrainer"),
    ):
        try:
            status, detail = job(change)
        except Exception as error:
            status, detail = "refused at submission", str(error)[:300]
        detail = detail if reason in detail else _logged(live, reason)
        held = "COMPLETED" not in status and reason in detail
        say(f"refused: {name}", held, f"{status}: {detail[:300]}")

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

    strangers(live, say)


def _logged(live, text):
    """Return the last line with a text of a site's own logs."""
    logs = (live.place / "ash" / "kit").rglob("*log*.txt")
    lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if text in line), "nothing was logged")


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
    uninvited(live, say)


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


def edited(live, say):
    """A job that was changed after the lead signed it, in the store or before it got there."""

    def tampered(change, *, at_server):
        """Submit a job that must wait, change it in the server's store, and let it go."""
        terms = terms_for(live.names, "mean-regularized", {"epsilon": 50.0, "n_rounds": 2})
        folder = job_folder(live.folder(terms) / "edited", terms.run, (*live.names, "nobody"))
        startup = live.house.server / "startup" / "fed_server.json"
        config = startup.read_text()
        with _session(live.house.lead, time.monotonic() + 60, print) as session:
            job = session.submit_job(str(folder.absolute()))
            stored = live.house.server / "jobs" / job
            wait_for(lambda: (stored / "meta").exists(), 20)
            change(stored / "data")
            if at_server:  # a server that does not look, to see what sites do
                startup.write_text(json.dumps({**json.loads(config), "require_signed_jobs": False}))
            meta = json.loads((stored / "meta").read_text())
            wanted = {"min_clients": len(live.names), "mandatory_clients": list(live.names)}
            (stored / "meta").write_text(json.dumps({**meta, **wanted}))
            wait_for(lambda: (session.get_job_status(job) or "").startswith("FINISHED"), 60)
            found = session.get_job_meta(job)
        startup.write_text(config)
        detail = [str(part) for part in found.get("job_deploy_detail") or ()]
        untouched = all(
            not (live.place / name / "state" / "runs" / terms.run).exists() for name in live.names
        )
        return str(found.get("status")), detail, untouched

    def another_task(name, content):
        changed = content.replace(b'"finish"', b'"finish", "shell"')
        return changed if name.endswith("config_fed_client.json") else content

    def unsigned(name, content):
        return None if name.endswith(".__nvfl_sig.json") else another_task(name, content)

    for what, change, at_server, reason in (
        ("edited job", another_task, False, "signature"),
        ("edited job, signatures removed", unsigned, False, "signature|unsigned"),
        ("edited job, by a server that does not look", unsigned, True, "unsigned job rejected"),
    ):
        status, detail, untouched = tampered(
            lambda data, change=change: _rezipped(data, change), at_server=at_server
        )
        refused = [part for part in detail if any(word in part for word in reason.split("|"))]
        held = bool(refused) and untouched and "COMPLETED" not in status
        say(f"refused: {what}", held, f"{status}: {'; '.join(refused)[:300]}")
    _other_terms(live, say)


def _rezipped(data, change):
    """Write a stored job again with every file as ``change`` makes it; None leaves it out."""
    with zipfile.ZipFile(data) as archive:
        parts = {name: change(name, archive.read(name)) for name in archive.namelist()}
    with zipfile.ZipFile(data, "w") as archive:
        for name, content in parts.items():
            if content is not None:
                archive.writestr(name, content)


def _other_terms(live, say):
    """Change the terms of a run, at the coordinator, after all sites agreed to them."""
    terms = terms_for(live.names, "mean-regularized", {"epsilon": 50.0, "n_rounds": 2})
    live.run(terms)
    before = live.charges()
    place = live.folder(terms)
    text = (place / "terms.json").read_text()
    (place / "terms.json").write_text(text.replace('"n_rounds": 2', '"n_rounds": 9'))
    (place / "status.json").unlink()
    try:
        live.run(terms, 60)
        said, held = "it ran", False
    except Refused as refusal:
        said, held = str(refusal)[:200], True
    same = before == live.charges()
    say("refused: terms edited after consent", held and same, said)


class Dropping(InProcess):
    """The same run without whatever cedar said in some rounds."""

    gone = frozenset(number for number, name in enumerate(LIES) if name not in COUNTED)

    def __init__(self, sites, liar):
        super().__init__(sites)
        self.liar, self.number = liar, -1

    def ask(self, task, requests, seconds):
        self.number += task == "speak"
        for name, answer in super().ask(task, requests, seconds):
            if task != "speak" or name != self.liar or self.number not in self.gone:
                yield name, answer


def malformed(live, say):
    """A site that lies in every way, over the wire: as if it had not answered, and no more."""
    liar = "cedar"
    options = {"deadline": 6.0, "late": "go on"}
    settings = {"epsilon": 500.0, "n_rounds": len(LIES)}
    terms = terms_for(live.names, "mean-regularized", settings, **options)
    here = Path(__file__).parent / "hostile_site"
    live.restarted(liar, PYTHONPATH=f"{here}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    before = live.charges()
    everybody = [who for who in ("server", *live.names) if who != liar]
    wait_for(lambda: all(live.pids(who, job=False) for who in everybody), 60)
    parents = {who: live.pids(who, job=False) for who in everybody}
    reasons, over = set(), threading.Event()

    def listen():
        while not over.wait(0.02):
            try:
                found = json.loads((live.folder(terms) / "status.json").read_text())
                reasons.add(found["sites"][liar]["state"])
            except (OSError, ValueError):
                continue

    listening = threading.Thread(target=listen)
    listening.start()
    try:
        said = live.run(terms, 400.0)
    finally:
        over.set()
        listening.join()
        live.restarted(liar)
    with tempfile.TemporaryDirectory() as place:
        policy = Policy(1e6, 0.1, allow_seeded=True)
        sites = {
            name: Site(name, Path(place, name), lambda _, n=name: live.rows[n], policy)
            for name in live.names
        }
        again = terms_for(live.names, "mean-regularized", settings, **options)
        honest = Coordinator(Path(place, "run"), Dropping(sites, liar), terms=again).run()
    board = live.board(terms)
    rosters = sorted((live.folder(terms) / "rosters").glob("*.json"))
    absent = [int(path.stem) for path in rosters if liar not in json.loads(path.read_text())]
    refused = sorted(reason for reason in reasons if reason.startswith(("refused", "failed")))
    say(
        f"malformed: {len(LIES) - len(COUNTED)} kinds over the wire",
        board.head == honest.billboard.head and absent == sorted(honest.absent),
        f"{len(board)} releases, bit for bit those of a run in which {liar} said nothing in "
        f"{len(absent)} rounds: {board.head == honest.billboard.head}; repeated and late ones "
        f"count once: {absent == sorted(honest.absent)}",
    )
    attempts = [line for line in said if line.startswith("attempt")]
    alive = parents == {who: live.pids(who, job=False) for who in everybody}
    others = {name: n for name, n in live.charged(before).items() if name != liar}
    say(
        "malformed: nobody else notices",
        alive and attempts == ["attempt 1"] and set(others.values()) == {len(LIES)},
        f"{len(attempts)} attempt, all processes alive: {alive}, charges of the others {others}",
    )
    # They are shown for as long as the round lasts; some pass between two looks.
    say("malformed: reasons shown", len(refused) >= 3, "; ".join(r[:70] for r in refused))
