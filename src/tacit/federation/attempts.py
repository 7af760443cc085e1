"""The supervisor: a job is one attempt, the run is ours, and attempts are made until it is over."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
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
def _session(kit: Path, end: float, say: Callable[[str], None]) -> Iterator[Any]:
    """Connect to the server as the lead, as soon as it is there."""
    from nvflare.fuel.flare_api.flare_api import NoConnection, new_secure_session

    told = False
    while True:
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # it talks
                session = new_secure_session(LEAD, str(kit), timeout=10.0)
            break
        except NoConnection:
            if time.monotonic() > end:
                raise Interrupted("no connection to the server; is it running?") from None
            if not told:
                say("waiting for the server; start it with: tacit federate coordinator")
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
            with _session(kit, end, say) as session:
                there = _gathered(session, folder, sites, end, say)
                say(f"attempt {attempt}")
                _attempted(session, folder, run, there, end, attempt)
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


def _gathered(
    session: Any, folder: Path, sites: tuple[str, ...], end: float, say: Callable[[str], None]
) -> tuple[str, ...]:
    """Wait until all sites are connected; where the terms allow it, go on without some."""
    terms = Terms.load(folder / "terms.json")
    may_go_on = terms.late == "go on" and (folder / "own").exists()
    patience = min(end, time.monotonic() + terms.deadline) if may_go_on else end
    told: list[str] = []
    while True:
        there = {client.name for client in session.get_system_info().client_info}
        missing = [name for name in sites if name not in there]
        late = time.monotonic() > patience
        if not missing or (late and may_go_on and len(missing) < len(sites)):
            return tuple(name for name in sites if name in there)
        if time.monotonic() > end:
            raise Interrupted(f"not connected: {', '.join(missing)}")
        if missing != told:
            told = missing
            say(f"waiting for {', '.join(missing)}")
        time.sleep(1.0)


def _attempted(
    session: Any, folder: Path, run: str, sites: tuple[str, ...], end: float, attempt: int
) -> None:
    """Submit one job and wait until the run, or the job, is over."""
    place = folder / "job"
    shutil.rmtree(place, ignore_errors=True)
    began = time.time()
    job = session.submit_job(str(job_folder(place, run, sites).absolute()))
    missed = 0
    while time.monotonic() < end:
        found = run_status(folder)
        if found["phase"] in ("done", "refused") and found.get("time", 0.0) >= began:
            return
        status = session.get_job_status(job) or ""
        if status.startswith("FINISHED"):
            _refusals(session, job, attempt)
            return
        # After a restart of the server a lost job shows as running for ever.
        running = {one.job_id for one in session.get_system_info().job_info}
        missed = missed + 1 if status == "RUNNING" and job not in running else 0
        if missed >= _GONE:
            return
        time.sleep(_POLL)


def _refusals(session: Any, job: str, attempt: int) -> None:
    """Raise if sites did not take the job itself."""
    meta = session.get_job_meta(job)
    said = [str(part) for part in meta.get("job_deploy_detail") or () if ": OK" not in str(part)]
    if said:
        raise Interrupted(f"attempt {attempt}: {'; '.join(said)}")
