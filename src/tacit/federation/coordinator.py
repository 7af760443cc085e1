"""The coordinator: it asks, adds noise where it is trusted to, and keeps the public record."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tacit._files import write_whole
from tacit.engines import Checkpoint, conduct
from tacit.engines.conduct import history_of
from tacit.errors import InvalidInput
from tacit.federation.errors import Interrupted, Refused
from tacit.federation.sites import Post, Sites, opened
from tacit.federation.terms import Staged, Terms
from tacit.federation.wire import pack
from tacit.privacy.billboard import Billboard
from tacit.privacy.ledger import Ledger
from tacit.privacy.schedule import in_turn
from tacit.privacy.statement import Statement

__all__ = ["Coordinator", "Outcome"]

TERMS, STATUS, STATEMENT, BILLBOARD = "terms.json", "status.json", "statement.json", "billboard.npz"
_MOST_ROWS = 1 << 40  # more than anybody has, and few enough to compute with


@dataclass(frozen=True)
class Outcome:
    """The public record of a finished run."""

    statement: Statement
    history: tuple[dict[str, Any], ...]
    billboard: Billboard
    absent: dict[int, list[str]]


class Coordinator:
    """One run, from its folder: new, or taken up again after any crash.

    Parameters
    ----------
    folder
        The run's files: terms, ledger, key and releases, who answered what.
    post
        How sites are reached.
    terms
        Of a new run; of a known one they are in the folder.

    Guarantee: every release is charged to the run's ledger and written down before a site hears of
    it (`Billboard`), its noise comes from a secret key in the folder, and who counts in it is
    settled first: a run taken up again releases nothing twice with different bytes. The key is
    forgotten when the run is over.
    """

    def __init__(
        self, folder: str | os.PathLike[str], post: Post, *, terms: Terms | None = None
    ) -> None:
        self.folder, self._post = Path(folder), post
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (self.folder / TERMS).exists():
            if terms is None:
                raise Refused(f"{self.folder}: holds no run; give the terms of a new one")
            terms.save(self.folder / TERMS)
        self.terms = Terms.load(self.folder / TERMS)
        if terms is not None and terms.run != self.terms.run:
            raise Refused(f"{self.folder}: holds another run; take another folder")
        self._status = Status(self.folder / STATUS, self.terms)

    def run(self, progress: Callable[[int, int], None] | None = None) -> Outcome:
        """Hold the conversation to its end; raise `Interrupted` where a later attempt may go on."""
        try:
            outcome = self._run(progress)
        except BaseException as error:
            phase = "refused" if isinstance(error, Refused) else "interrupted"
            self._status.note(phase=phase, error=str(error))
            raise
        self._status.note(phase="done", error=None)
        return outcome

    def _run(self, progress: Callable[[int, int], None] | None) -> Outcome:
        self._status.note(phase="joining", error=None)
        if self.terms.counted and self.terms.counts is None:
            self.terms = self._counted()
            self.terms.save(self.folder / TERMS)
        known = self._agreed()
        staged = self.terms.staged()
        total = len(in_turn(staged.schedule.rounds, len(self.terms.sites)))
        self._status.note(phase="running", round=0, rounds=total)
        if not staged.schedule.rounds:
            board = Billboard()
            return self._ended(staged, board, self._sites(board))
        kept = self._kept()
        ledger = Ledger(self.folder / "ledger.db", *staged.estimator._total(staged.sizes))
        try:
            billboard = self._board(staged, kept, ledger)
            outcome = self._conducted(staged, kept, billboard, known, progress)
            if billboard.reservation is not None:
                billboard.reservation.close()
            kept.forget()
            return outcome
        finally:
            ledger.close()

    def _board(self, staged: Staged, kept: Checkpoint, ledger: Ledger) -> Billboard:
        """Set the run's budget aside, or take it up again; it stays set aside until the end."""
        reservation = (
            ledger.resume(kept.run, settled=True)
            if ledger.knows(kept.run)
            else staged.estimator._reserved(ledger, staged.schedule, staged.sizes, kept.run)
        )
        return Billboard.load(kept.folder / "releases", reservation)

    def _sites(self, billboard: Billboard) -> Sites:
        place = self.folder / "rosters"
        return Sites(self.terms, self._post, billboard, place, watch=self._status.site)

    def _conducted(
        self,
        staged: Staged,
        kept: Checkpoint,
        billboard: Billboard,
        known: dict[str, int],
        progress: Callable[[int, int], None] | None,
    ) -> Outcome:
        parties = self._sites(billboard)
        for name, count in known.items():
            parties.knows(name, min(count, len(billboard)))

        def advance(made: int, total: int) -> None:
            self._status.note(round=made, rounds=total, spent=len(billboard))
            if progress is not None:
                progress(made, total)

        conduct(
            staged.protocol,
            staged.schedule,
            parties,
            billboard,
            entropy=kept.entropy(self.terms.settings.get("random_state")).child("curator"),
            progress=advance,
        )
        return self._ended(staged, billboard, parties)

    def _ended(self, staged: Staged, billboard: Billboard, parties: Sites) -> Outcome:
        self._status.note(phase="finishing", round=len(billboard))
        estimator = staged.estimator
        found = estimator._statements(staged.schedule, billboard, staged.sizes)["privacy_"]
        absent = parties.absent()
        statement = _with_absent(estimator._stated(found), self.terms, absent, parties.left())
        billboard.save(self.folder / BILLBOARD)
        write_whole(self.folder / STATEMENT, statement.to_json() + "\n")
        left = parties.told_the_end()
        self._status.note(left=left)
        if left and self.terms.late != "go on":
            raise Interrupted(f"{', '.join(left)}: not there to take the last releases")
        return Outcome(statement, history_of(staged.schedule, billboard), billboard, absent)

    def _kept(self) -> Checkpoint:
        place = self.folder / "own"
        # The terms on disk come first and nothing is charged before the key is: half of a folder
        # can only be a begin that was killed.
        if place.exists() and not (place / "run.json").exists():
            shutil.rmtree(place)
        return Checkpoint(place) if place.exists() else Checkpoint.begin(place)

    def _everybody(self, task: str) -> dict[str, dict[str, Any]]:
        """Ask all sites about the terms; all must agree."""
        request = pack({"terms": self.terms.to_json()})
        found: dict[str, dict[str, Any]] = {}
        refusals: dict[str, str] = {}
        requests = dict.fromkeys(self.terms.sites, request)
        for name, answer in self._post.ask(task, requests, self.terms.deadline):
            try:
                found[name] = opened(answer, 1 << 16)[0]
                self._status.site(name, "agreed" if task == "agree" else "joined")
            except Refused as refusal:
                refusals[name] = str(refusal)
                self._status.site(name, f"refused: {refusal}")
            except Interrupted as error:
                self._status.site(name, f"failed: {error}")
        if refusals:
            raise Refused("; ".join(refusals.values()))
        missing = [name for name in self.terms.sites if name not in found]
        if missing and not (found and self._begun and self.terms.late == "go on"):
            raise Interrupted(f"no answer from {', '.join(missing)}")
        return found

    @property
    def _begun(self) -> bool:
        """Whether everybody has agreed already; from then on a run may go on without some."""
        return (self.folder / "own").exists()

    def _counted(self) -> Terms:
        """Return the terms with everybody's number of rows; refuse numbers that lead nowhere."""
        terms = replace(self.terms, counts=self._counts())
        try:
            terms.staged()
        except InvalidInput as error:
            raise Refused(f"with {terms.counts} rows at the sites: {error}") from None
        return terms

    def _counts(self) -> tuple[int, ...]:
        found = self._everybody("join")
        counts = []
        for name in self.terms.speakers:
            rows = found[name].get("rows")
            if type(rows) is not int or not 1 <= rows <= _MOST_ROWS:
                raise Refused(f"{name}: did not say how many rows it has")
            counts.append(rows)
        return tuple(counts)

    def _agreed(self) -> dict[str, int]:
        found = self._everybody("agree")
        for name, header in found.items():
            if header.get("agreed") != self.terms.digest or type(header.get("known")) is not int:
                raise Refused(f"{name}: agreed to other terms")
        return {name: max(0, header["known"]) for name, header in found.items()}


def _with_absent(
    statement: Statement, terms: Terms, absent: dict[int, list[str]], left: list[str]
) -> Statement:
    """Say who counts as protected where somebody was missing: all sites, at the full price."""
    if not absent and not left:
        return statement
    gone = left or sorted({name for names in absent.values() for name in names})
    rounds = ", ".join(str(number + 1) for number in absent)
    text = (
        f"all {len(terms.speakers)} sites count as protected and in every public divisor, also "
        f"{', '.join(gone)}, who "
        + ("left before the last turn" if left else f"were missing in release {rounds}")
    )
    return replace(statement, assumptions=(*statement.assumptions, text))


class Status:
    """What is public about a run that is under way, in a file that others may read at any time."""

    def __init__(self, path: Path, terms: Terms) -> None:
        self._path = path
        sites: dict[str, dict[str, Any]] = {name: {"state": "not heard"} for name in terms.sites}
        self._facts: dict[str, Any] = {
            "run": terms.run,
            "method": terms.method,
            "epsilon": terms.settings.get("epsilon", 1.0),
            "phase": "new",
            "sites": sites,
        }
        if path.exists():
            self._facts.update(json.loads(path.read_text()))

    def note(self, **facts: Any) -> None:
        """Write facts down."""
        self._facts.update(facts, time=time.time())
        write_whole(self._path, json.dumps(self._facts, indent=1))

    def site(self, name: str, state: str) -> None:
        """Write down what became of a site."""
        self._facts["sites"][name] = {"state": state, "time": time.time()}
        self.note()
