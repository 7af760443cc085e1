"""Coordinator, site and gate as NVFlare runs them; everything they decide is decided elsewhere.

A job is one attempt at a run. It carries no code and no settings but the run's name: where data,
ledgers and rules are is in each party's own ``local/tacit.json``, which no job can change.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from nvflare.apis.controller_spec import Task
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.filter import Filter
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply

from tacit.federation.coordinator import Coordinator
from tacit.federation.doors import close_commands
from tacit.federation.errors import Interrupted, Refused
from tacit.federation.gate import check_message, most_bytes
from tacit.federation.kits import SETTINGS, Settings
from tacit.federation.rows import rows_of
from tacit.federation.site import Site
from tacit.federation.sites import Answer
from tacit.federation.strict import check_policy
from tacit.federation.sums import Identity
from tacit.federation.terms import Staged, Terms
from tacit.federation.wire import unpack
from tacit.privacy.schedule import Call

__all__ = ["FlareCoordinator", "FlareGate", "FlareSite"]

_log = logging.getLogger(__name__)
_SLICE = 0.05  # seconds between looks at the abort signal
_LONGEST_REASON = 2000
_PATIENCE = 30.0  # seconds that a new attempt waits for the process of the last one to end


def _settings(fl_ctx: Any) -> Settings:
    place = Path(fl_ctx.get_engine().get_workspace().get_site_config_dir())
    return Settings.load(place / SETTINGS)


class FlarePost:
    """A post over an NVFlare job: one task a site, answered through a callback."""

    def __init__(self, controller: Controller, fl_ctx: Any, abort_signal: Any) -> None:
        self._controller, self._fl_ctx, self._abort = controller, fl_ctx, abort_signal
        self._arrived: queue.Queue[tuple[Task, str, Answer]] = queue.Queue()
        self._asked: dict[str, Task] = {}  # the one request outstanding at each site

    def ask(
        self, task: str, requests: dict[str, bytes], seconds: float
    ) -> Iterator[tuple[str, Answer]]:
        """Yield answers as they arrive."""
        for name, request in requests.items():
            self.send(task, name, request)
        waiting, end = set(requests), time.monotonic() + seconds
        try:
            while waiting:
                found = self.receive(end - time.monotonic())
                if found is None:
                    return
                waiting.discard(found[0])
                yield found
        finally:
            for name in waiting:
                self._give_up(name)

    def send(self, task: str, site: str, request: bytes) -> None:
        """Send one request; an earlier one that is still out is given up."""
        self._give_up(site)

        def received(client_task: Any, fl_ctx: Any) -> None:  # noqa: ARG001 - called by keyword
            self._arrived.put((one, site, _answer(site, client_task.result)))
            client_task.result = None

        data = Shareable()
        data["request"] = request
        one = Task(name=task, data=data, result_received_cb=received)
        self._asked[site] = one
        if site in {client.name for client in self._fl_ctx.get_engine().get_clients()}:
            self._controller.send(task=one, fl_ctx=self._fl_ctx, targets=[site])
        else:
            gone = Interrupted(f"{site}: is not part of this attempt")
            self._arrived.put((one, site, gone))

    def receive(self, seconds: float) -> tuple[str, Answer] | None:
        """Return the next answer; those to requests that were given up are dropped."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._abort.triggered:
                raise Interrupted("the attempt was aborted")
            with contextlib.suppress(queue.Empty):
                one, site, answer = self._arrived.get(timeout=_SLICE)
                if self._asked.get(site) is one:
                    del self._asked[site]
                    return site, answer
        return None

    def _give_up(self, site: str) -> None:
        one = self._asked.pop(site, None)
        if one is not None and one.completion_status is None:
            self._controller.cancel_task(one, fl_ctx=self._fl_ctx)


def _shown(text: str) -> str:
    """Return another party's words without anything that would steer a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _answer(name: str, result: Any) -> Answer:
    if result is None or result.get_return_code() != ReturnCode.OK:
        code = None if result is None else result.get_return_code()
        return Interrupted(f"{name}: gave no answer ({code}); its own log says why")
    body = {key: value for key, value in result.items() if not key.startswith("__")}
    if set(body) == {"refused"} and isinstance(body["refused"], str):
        return Refused(_shown(body["refused"][:_LONGEST_REASON]))
    if set(body) == {"answer"} and isinstance(body["answer"], bytes):
        return body["answer"]
    return Refused(f"{name}: answered with something other than bytes")


class FlareCoordinator(Controller):
    """One attempt at a run."""

    def __init__(self, run: str) -> None:
        super().__init__()
        self._run = run

    def start_controller(self, fl_ctx: Any) -> None:
        """Do nothing: the run is in its folder."""

    def stop_controller(self, fl_ctx: Any) -> None:
        """Do nothing: the run is in its folder."""

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        """Go on with the run; how it ended is in the run's own files."""
        folder = Path(_settings(fl_ctx).folder) / "runs" / self._run
        try:
            Coordinator(folder, FlarePost(self, fl_ctx, abort_signal)).run()
        except (Interrupted, Refused) as error:
            _log.warning("run %s: %s", self._run, error)


def _check_kit(kit: Path) -> None:
    """Refuse if the kit was loosened since its parent process was started; say where at home."""
    try:
        check_policy(kit)
    except Refused as refusal:
        _log.warning("%s", refusal)
        raise Refused("the site's kit is not the strict one; its own log says where") from None


class FlareSite(Executor):
    """A site within one attempt; its state is in its folder."""

    def __init__(self) -> None:
        super().__init__()
        close_commands()
        self._site: Site | None = None

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:  # noqa: ARG002
        """Let go of the site's files when the attempt ends."""
        if event_type == EventType.END_RUN and self._site is not None:
            self._site.close()
            self._site = None

    def execute(self, task_name: str, shareable: Any, fl_ctx: Any, abort_signal: Any) -> Any:  # noqa: ARG002
        """Answer one request."""
        reply = make_reply(ReturnCode.OK)
        try:
            site = self._opened(fl_ctx)
            reply["answer"] = site.answer(task_name, shareable.get("request"))
        except Refused as refusal:
            _log.warning("refused %s: %s", task_name, refusal)
            reply["refused"] = str(refusal)[:_LONGEST_REASON]
        except Exception:
            # The reason stays here: it may speak of rows.
            _log.exception("%s failed", task_name)
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        return reply

    def _opened(self, fl_ctx: Any) -> Site:
        if self._site is None:
            settings = _settings(fl_ctx)
            kit = Path(fl_ctx.get_engine().get_workspace().get_startup_kit_dir())
            _check_kit(kit.parent)
            name = fl_ctx.get_identity_name()
            end = time.monotonic() + _PATIENCE
            while True:
                try:
                    self._site = Site(
                        name,
                        settings.folder,
                        rows_of(Path(settings.data), name),
                        settings.policy(),
                        identity=Identity.of_kit(name, kit),
                        ledger=settings.ledger,
                    )
                    break
                except Refused:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.2)
        return self._site


_HEX = re.compile(r"[0-9a-f]{32,64}")


def _whole(value: Any) -> bool:
    return type(value) is int and value >= 0


def _hex(value: Any) -> bool:
    return isinstance(value, str) and _HEX.fullmatch(value) is not None


def _page(value: Any) -> bool:
    names = {"key", "signature", "certificate"}
    return isinstance(value, dict) and set(value) == names and all(map(_is_text, value.values()))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) < 1 << 13


# What a site may say beside messages, and of which form each word is.
_WORDS: tuple[dict[str, Callable[[Any], bool]], ...] = (
    {"rows": lambda value: value is None or _whole(value)},
    {"agreed": _hex, "known": _whole},
    {"known": _whole},
    {"page": _page},
    {"finished": _hex},
)


class FlareGate(Filter):
    """The site's own filter: whatever the executor is, nothing else leaves.

    Guarantee: a result passes only if it is one refusal in words or one answer whose fields are
    declared; a message must have the shape, type, size, bound, call and run of terms that this
    site agreed to, read from its own files. Anything else is refused, and the reason stays here.
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[str, tuple[Terms, Staged]] = {}

    def process(self, shareable: Any, fl_ctx: Any) -> Any:
        """Return the result, or raise: NVFlare then sends an empty failure in its place."""
        body = {key: value for key, value in shareable.items() if not key.startswith("__")}
        if body:
            self._check(body, _settings(fl_ctx), fl_ctx.get_identity_name())
        return shareable

    def _check(self, body: dict[str, Any], settings: Settings, name: str) -> None:
        if set(body) == {"refused"} and isinstance(body["refused"], str):
            if len(body["refused"]) > _LONGEST_REASON:
                raise Refused("gate: the reason is too long")
            return
        if set(body) != {"answer"}:
            raise Refused(f"gate: fields {sorted(body)} were not agreed on")
        header, arrays = unpack(body["answer"])
        for words in _WORDS:
            if set(header) == set(words):
                known = all(is_such(header[name]) for name, is_such in words.items())
                if arrays or not known:
                    raise Refused("gate: an answer in words is not of the form agreed on")
                return
        terms, staged = self._agreed(settings, str(header.get("run")))
        try:
            call = Call.from_json(header["call"])
            round = staged.schedule.rounds[call.round]
        except (KeyError, TypeError, IndexError):
            raise Refused("gate: the message answers no call") from None
        if len(body["answer"]) > most_bytes(round):
            raise Refused("gate: the message is too long")
        if name not in terms.speakers:
            raise Refused("gate: this site only listens in this run")
        counts = terms.counts
        n_rows = None if counts is None else counts[terms.speakers.index(name)]
        mechanism = staged.schedule.mechanisms[call.round]
        check_message(
            header,
            arrays,
            run=terms.run,
            call=call,
            round=round,
            mechanism=mechanism,
            n_rows=n_rows,
        )

    def _agreed(self, settings: Settings, run: str) -> tuple[Terms, Staged]:
        if run not in self._known:
            path = Path(settings.folder) / "runs" / run / "terms.json"
            if not run.isalnum() or not path.exists():
                raise Refused("gate: this site has not agreed to such a run")
            terms = Terms.load(path)
            self._known[run] = terms, terms.staged()
        return self._known[run]
