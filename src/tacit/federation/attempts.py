"""The supervisor: a job is one attempt, the run is ours, and attempts are made until it is over."""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tacit.federation.coordinator import STATUS
from tacit.federation.errors import Interrupted, Refused
from tacit.federation.site import TASKS
from tacit.federation.strict import CLASSES
from tacit.federation.terms import Terms

__all__ = ["LEAD", "job_folder", "supervise"]

LEAD = "lead@coordinator.org"
_POLL = 0.3
_SILENCE = 45.0  # seconds without an answer after which a session counts as dead
_RETURN = 60.0  # seconds in which a site that left may start and connect, to take its model
_GONE = 3  # looks in a row that do not find the job before it counts as lost


def job_folder(place: Path, run: str, sites: tuple[str, ...]) -> Path:
    """Write a job of configuration only, and return its folder."""
    config = place / "app" / "config"
    config.mkdir(parents=True, exist_ok=True)
    empty: dict[str, Any] = {"components": [], "task_data_filters": [], "task_result_filters": []}
    parts = {
        place / "meta.json": {
            "name": run,
            "resource_spec": {},
            "min_clients": len(sites),
            "mandatory_clients": list(sites),
            "deploy_map": {"app": ["@ALL"]},
        },
        config / "config_fed_server.json": {
            "format_version": 2,
            "server": {"task_request_interval": 0.02},
            "dead_client_grace_period": 5,
            "workflows": [{"id": "run", "path": CLASSES["coordinator"], "args": {"run": run}}],
            **empty,
        },
        config / "config_fed_client.json": {
            "format_version": 2,
            "executors": [
                {
                    "tasks": list(TASKS),
                    "executor": {"path": CLASSES["site"], "args": {}},
                }
            ],
            **empty,
        },
    }
    for path, body in parts.items():
        path.write_text(json.dumps(body, indent=1))
    return place


@contextlib.contextmanager
def _session(
    kit: Path, end: float, say: Callable[[str], None], *, user: str = LEAD
) -> Iterator[Any]:
    """Connect to the server as a user, the lead, as soon as it is there."""
    from nvflare.fuel.flare_api.flare_api import NoConnection, new_secure_session
    from nvflare.tool.cli_output import set_output_format

    set_output_format("json")  # its remarks go to the error stream
    told = False
    while True:
        try:
            session = new_secure_session(
                user, str(kit), timeout=10.0, command_timeout=20.0, auto_login_max_tries=3
            )
            break
        except NoConnection:
            if time.monotonic() > end:
                raise Interrupted("no connection to the server; is it running?") from None
            waiting = "waiting for the server; start it with: tacit federate coordinator"
            say("" if told else waiting)
            told = True
    try:
        yield session
    finally:
        session.close()


def run_status(folder: Path) -> dict[str, Any]:
    """Return what is public about a run."""
    try:
        found: dict[str, Any] = json.loads((folder / STATUS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"phase": "new", "sites": {}}
    return found


def supervise(
    kit: Path,
    folder: Path,
    run: str,
    sites: tuple[str, ...],
    *,
    seconds: float,
    say: Callable[[str], None],
) -> None:
    """Submit attempts at a run until it is done; raise `Refused` if a site says no.

    Parameters
    ----------
    kit
        The lead's startup kit.
    folder
        The run's own folder, where its status is.
    seconds
        How long to go on in all.
    """
    end, attempt = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        if _over(folder) or (attempt and run_status(folder)["phase"] == "done"):
            return
        attempt += 1
        try:
            _Attempt(kit, folder, run, sites, end, attempt, say).watched()
        except (Refused, KeyboardInterrupt):
            raise
        except Exception as error:  # NVFlare's errors have no common base
            say(f"attempt {attempt}: {error}")
            time.sleep(1.0)
        found = run_status(folder)
        if found["phase"] == "refused":
            raise Refused(str(found.get("error")))
        if found["phase"] != "done":
            say(f"attempt {attempt}: {found.get('error') or 'was lost'}")
    if run_status(folder)["phase"] != "done":
        raise Interrupted(f"run {run}: not over after {seconds:g} s; run it again to go on")


def _over(folder: Path) -> bool:
    found = run_status(folder)
    return found["phase"] == "done" and not found.get("left")


class _Attempt:
    """One attempt, in a thread of its own: a session whose server dies may never return."""

    def __init__(
        self,
        kit: Path,
        folder: Path,
        run: str,
        sites: tuple[str, ...],
        end: float,
        number: int,
        say: Callable[[str], None],
    ) -> None:
        self._kit, self._folder, self._run, self._sites = kit, folder, run, sites
        self._end, self._number, self._say = end, number, say
        self._heard = time.monotonic()
        self._failed: Exception | None = None

    def watched(self) -> None:
        """Make the attempt; raise what it raised, or `Interrupted` if NVFlare falls silent."""
        self._heard = time.monotonic()
        thread = threading.Thread(target=self._made, daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(_POLL)
            if time.monotonic() - self._heard > _SILENCE:
                raise Interrupted("the server's session fell silent")
        if self._failed is not None:
            raise self._failed

    def _made(self) -> None:
        try:
            with _session(self._kit, self._end, self._told) as session:
                there = self._gathered(session)
                self._told(f"attempt {self._number}")
                self._submitted(session, there)
        except Exception as error:
            self._failed = error

    def _told(self, text: str) -> None:
        self._heard = time.monotonic()
        if text:
            self._say(text)

    def _gathered(self, session: Any) -> tuple[str, ...]:
        """Wait until all sites are connected; where the terms allow it, go on without some."""
        terms = Terms.load(self._folder / "terms.json")
        may_go_on = terms.late == "go on" and (self._folder / "own").exists()
        over = run_status(self._folder)["phase"] == "done"  # all that is left is to hand models on
        wait = max(terms.deadline, _RETURN) if over else terms.deadline
        patience = min(self._end, time.monotonic() + wait) if may_go_on else self._end
        told: list[str] = []
        while True:
            there = {client.name for client in session.get_system_info().client_info}
            missing = [name for name in self._sites if name not in there]
            late = time.monotonic() > patience
            if not missing or (late and may_go_on and len(missing) < len(self._sites)):
                return tuple(name for name in self._sites if name in there)
            if time.monotonic() > self._end:
                raise Interrupted(f"not connected: {', '.join(missing)}")
            self._told("" if missing == told else f"waiting for {', '.join(missing)}")
            told = missing
            time.sleep(1.0)

    def _submitted(self, session: Any, there: tuple[str, ...]) -> None:
        """Submit one job and wait until the run, or the job, is over."""
        place = self._folder / "job"
        shutil.rmtree(place, ignore_errors=True)
        began, missed = time.time(), 0
        job = session.submit_job(str(job_folder(place, self._run, there).absolute()))
        while time.monotonic() < self._end:
            self._told("")
            found = run_status(self._folder)
            if found["phase"] in ("done", "refused") and found.get("time", 0.0) >= began:
                return
            status = session.get_job_status(job) or ""
            if status.startswith("FINISHED"):
                _refusals(session, job)
                return
            # After a restart of the server a lost job shows as running for ever.
            running = {one.job_id for one in session.get_system_info().job_info}
            missed = missed + 1 if status == "RUNNING" and job not in running else 0
            if missed >= _GONE:
                return
            time.sleep(_POLL)


def _refusals(session: Any, job: str) -> None:
    """Raise if sites did not take the job itself."""
    meta = session.get_job_meta(job)
    said = [str(part) for part in meta.get("job_deploy_detail") or () if ": OK" not in str(part)]
    if said:
        raise Interrupted("; ".join(said))
