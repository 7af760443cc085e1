"""What users, servers and other sites may do at a site: nothing but run jobs that it agreed to."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import threading
import time
from pathlib import Path

from tests.federation.hostile_site import __path__ as hostile
from tests.federation.live import terms_for, wait_for

from tacit.cli.federate.demo import command
from tacit.federation import kits
from tacit.federation.attempts import LEAD, _session
from tacit.federation.strict import write_policy

ROLES = ("lead", "org_admin", "member")  # all that `cert` signs


def rights(live, say):
    """No role can read files, list, shut down or stream logs at a site."""
    users = {role: _user(live, role) for role in ROLES}
    terms = terms_for(live.names, "mean-regularized", {"epsilon": 50.0, "n_rounds": 200})
    thread = threading.Thread(target=live.run, args=(terms,), daemon=True)
    thread.start()
    wait_for(lambda: list((live.folder(terms) / "own").glob("releases/*")), 60)
    with _session(live.house.lead, time.monotonic() + 60, print) as session:
        jobs = {job["job_name"]: job["job_id"] for job in session.list_jobs()}
    folder = live.folder(terms) / "job"
    tried = {role: _tried(users[role], _asked, jobs[terms.run], folder) for role in ROLES}
    thread.join()
    with _session(live.house.lead, time.monotonic() + 60, print) as session:
        over = "FINISHED"
        wait_for(lambda: (session.get_job_status(jobs[terms.run]) or "").startswith(over), 60)
    for role in ROLES:
        said = tried[role] | _tried(users[role], _ended)
        if role == "lead":
            said.pop("submit")  # the one thing that a lead is for
        allowed = {what: text for what, text in said.items() if not _says_no(text)}
        say(
            f"refused: commands of {role}",
            not allowed,
            f"{len(said) - len(allowed)} of {len(said)} refused, as cat: {said['cat'][:90]!r}; "
            f"allowed: {allowed or 'none'}",
        )
    alive = all(live.pids(who, job=False) for who in ("server", *live.names))
    say("refused: nobody was stopped", alive, f"all processes alive: {alive}")
    loud = [name for name in live.names if "DEBUG" in _log(live, name)]
    say("refused: nobody's logs changed", not loud, f"sites that log more: {loud or 'none'}")


def _log(live, name):
    return (live.place / name / "kit" / "log.txt").read_text()


def _tried(user, commands, *about):
    """Return what the server, or a site, said to every command of a user."""
    found = {}
    name, kit = user
    with _session(kit, time.monotonic() + 60, print, user=name) as session:
        for what, ask in commands(session, *about).items():
            try:
                found[what] = str(ask())[:300]
            except Exception as error:
                found[what] = f"{type(error).__name__}: {error}"[:300]
    return found


def _user(live, role):
    """Return a user of a role with a kit; the lead has one, others are signed as its root can."""
    if role == "lead":
        return LEAD, live.house.lead
    federation, home = live.house.federation, live.place / "users" / role
    user = f"{role}@coordinator.org"
    asked = kits.request(home, federation.name, user, "admin", role)
    signed = kits.approve(live.house.folder, asked, home / f"{role}.signed.zip")
    return user, kits.package(home, signed, federation.name, user, federation.fingerprint)


def _asked(session, job, folder):
    """Return what is tried while a job runs."""
    at = "ash"
    return {
        "ls": lambda: session.ls_target(at),
        "cat": lambda: session.cat_target(at, file="local/tacit.json"),
        "head": lambda: session.head_target(at, file="log.txt"),
        "tail": lambda: session.tail_target(at, file="log.txt"),
        "tail of the log": lambda: session.tail_target_log(at),
        "grep": lambda: session.grep_target(at, pattern="a", file="log.txt"),
        "pwd": lambda: session.get_working_directory(at),
        "environment": lambda: session.get_client_env([at]),
        "resources": lambda: session.report_resources("client", [at]),
        "settings of logs": lambda: _answer(session, f"configure_site_log client {at} DEBUG"),
        "settings of a job's logs": lambda: session.configure_job_log(job, "DEBUG", at),
        "logs of a job": lambda: session.get_job_logs(job, at),
        "statistics": lambda: session.show_stats(job, "client", [at]),
        "errors": lambda: session.show_errors(job, "client", [at]),
        "status": lambda: session.check_status("client", [at]),
        "download": lambda: session.download_job_result(job),
        "clone": lambda: session.clone_job(job),
        "submit": lambda: session.submit_job(str(folder.absolute())),
        "shell": lambda: session.do_command(f"cat {at} local/tacit.json"),
    }


def _ended(session):
    """Return what is tried when no job runs."""
    at = "ash"
    return {
        "disable": lambda: session.disable_client(at),
        "remove": lambda: session.remove_client(at),
        "shutdown": lambda: session.shutdown("client", [at]),
        "restart": lambda: session.restart("client", [at]),
        "shutdown of all": lambda: session.shutdown("all"),
    }


def _answer(session, command):
    """Return all that came back; the session's own function drops it."""
    return session._do_command(command, enforce_meta=False)


def _says_no(said):
    # A reply that the server cannot read, or a shutdown that failed, is a site's "invalid_request".
    words = ("authoriz", "permission", "denied", "not allowed", "invalid_request", "invalid_reply")
    words += ("failed to shut down",)
    nothing = ("'logs': {}", "'status': 'error'")
    return any(word in said.lower() for word in (*words, *nothing))


def prying(live, say):
    """A site asks another's processes through the server, which asks nobody's leave."""
    liar, victim = "cedar", "ash"
    notes = live.place / "notes.json"
    notes.write_text(json.dumps({"victim": victim}))
    here = os.environ.get("PYTHONPATH", "")
    live.restarted(liar, PYTHONPATH=f"{hostile[0]}{os.pathsep}{here}", TACIT_PRYING=str(notes))
    wait_for(lambda: live.pids(victim, job=False), 60)
    parent = live.pids(victim, job=False)
    terms = terms_for(live.names, "mean-regularized", {"epsilon": 50.0, "n_rounds": 2})
    try:
        live.run(terms)
    finally:
        live.restarted(liar)
    found = json.loads(notes.read_text()).get("found", {})
    told = {what: said for what, said in found.items() if "invalid_request" not in said}
    say(
        "refused: questions of another site, or of a server that lies",
        bool(found) and not told and parent == live.pids(victim, job=False),
        f"{len(found)} asked, each answered 'invalid_request' but {told or 'none'}; {victim} is up",
    )


def keys(live, say):
    """Every private key is where it was made, readable by its owner; the root signed all."""
    from cryptography.hazmat.primitives import serialization

    found, loose = {}, []
    for path in live.place.rglob("*.key"):
        key = serialization.load_pem_private_key(path.read_bytes(), None).public_key()
        body = key.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        found.setdefault(body, set()).add(path.relative_to(live.place).parts[0])
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            loose.append(str(path.relative_to(live.place)))
    owners = sorted(owner for homes in found.values() for owner in homes)
    own = all(len(homes) == 1 for homes in found.values())
    say(
        "keys",
        own and not loose and set(live.names) <= set(owners),
        f"{len(found)} private keys, made by cert and package, each in one party's folder only "
        f"({', '.join(sorted(set(owners)))}); readable by others: {loose or 'none'}",
    )


def starts(live, say):
    """`tacit federate site` with a loosened policy, and a second time for one kit."""

    def started():
        done = subprocess.run(
            command("federate", "site", live.place / "ash"),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, " ".join((done.stdout + done.stderr).split())

    kit = live.place / "ash" / "kit"
    for file, old, new in (
        ("authorization.json", '"byoc": "none"', '"byoc": "any"'),
        ("authorization.json", '"shell_commands": "none"', '"shell_commands": "any"'),
        ("resources.json", '"allow_log_streaming": false', '"allow_log_streaming": true'),
        ("resources.json", "FlareDoors", "Nothing"),
        ("privacy.json", "FlareGate", "Filter"),
    ):
        path = kit / "local" / file
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))
        code, said = started()
        shown = said[said.find(file) :][:160]
        held = code != 0 and f"{file}, line" in said
        say(f"refused: loosened {file} ({new})", held, shown)
        write_policy(kit)
    code, said = started()
    held = code != 0 and "another process" in said
    say("refused: second process on one kit", held, said[-160:])
    wait_for(lambda: live.pids("ash", job=False), 30)


def uninvited(live, say):
    """A name that is not in the federation's file gets no certificate."""
    try:
        live.house.sign(kits.request(Path(live.place) / "eve", "live", "eve"))
        say("refused: a site that was not invited", False, "it was signed")
    except ValueError as error:
        say("refused: a site that was not invited", True, str(error)[:200])
