"""Which ledger a run charges: the one that guards its data, whatever the file is called today.

One ledger for one data set. It is the one named (``--ledger``, ``TACIT_LEDGER``), else the one that
guarded these rows before, else the one beside the data, ``DATA.ledger.db``, made with the total of
the first run. A ledger other than the one that guards the rows needs ``--new-ledger`` and a reason,
and both are written into it. The reasons are in docs/ledger.md.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tacit.cli._output import current
from tacit.cli.guard.fingerprint import Fingerprint, Pieces, fingerprint
from tacit.cli.guard.register import Guarding, Register, state_folder
from tacit.errors import InvalidInput, LedgerError
from tacit.privacy.ledger import Ledger

__all__ = ["BESIDE", "Asked", "Guard", "guarded_by", "named_ledger", "peek"]

BESIDE = ".ledger.db"
VARIABLE = "TACIT_LEDGER"


@dataclass(frozen=True)
class Asked:
    """What the command line says about ledgers, and the rows it is about."""

    data: Path
    pieces: Pieces
    task: str | None  # column of parties; None where all rows are one party's
    named: Path | None = None
    reason: str | None = None  # for a new ledger though another guards the data
    called: str | None = None  # the data's name in the ledger, a line of its own
    new: Path | None = None  # where a ledger is made; None: beside the data

    @property
    def given(self) -> Path | None:
        """The ledger named on the command line, or by the environment."""
        variable = os.environ.get(VARIABLE)
        return self.named or (Path(variable).expanduser() if variable else None)

    @property
    def beside(self) -> Path:
        """The ledger's own place, by default beside the data."""
        return self.new or self.data.with_name(self.data.name + BESIDE)


def named_ledger(path: Path) -> Path:
    """Return a ledger that somebody named; one that is not there is no reason to make it."""
    if not path.exists():
        raise InvalidInput(
            f"--ledger {path}: no such ledger; make one with a total budget: "
            f"tacit ledger create {path} --epsilon 3 --delta 1e-5"
        )
    return path


@dataclass
class Guard:
    """The ledger of a run, open while the run lasts; use it as a context manager.

    Guarantee: the choice, a new file and its place in the register happen in one transaction of
    the register, before anything is spent. Only a ledger made here, to which nothing was reserved,
    is removed again, and only while no other run is under way; the same holds for the note that
    it guards these data. A party that is going to spend elsewhere says that it `stays`.
    """

    asked: Asked
    totals: tuple[float, float]
    others: list[Guarding] = field(default_factory=list)
    made: bool = False
    stays: bool = False  # whether it guards the data from now on, though nothing was spent yet

    def __enter__(self) -> Self:
        self._shared: int | None = None
        try:
            with Register() as register:
                self._shared = _lock(register.path.parent)
                data = fingerprint(self.asked.pieces(), self.asked.task, register.key)
                with register.writing():
                    self._take(register, data)
        except BaseException:
            self._release()
            raise
        return self

    def _take(self, register: Register, data: Fingerprint) -> None:
        self.data = data.name
        known = register.guarding(data)
        place = _place(self.asked, known)
        self.path = place if place is not None else self._make(known)
        self.ledger = Ledger(self.path)
        try:
            self._refuse_older_copy(register.noted(self.ledger.identity))
            self._refuse_another_name(known)
            self.others = [g for g in known if g.identity != self.ledger.identity and g.rows]
            register.note(self.ledger.identity, self.path, self.ledger.head)
            self._guarding = register.guard(self.ledger.identity, data, self.asked.called)
            if self._guarding:
                self._write_down(data, known)
            self._before = self.ledger.head
        except BaseException:
            self.ledger.close()
            if self.made:
                self.path.unlink()
            raise

    def _make(self, known: list[Guarding]) -> Path:
        """Make the ledger beside the data, or beside the one that is there."""
        path, number = self.asked.beside, 1
        while path.exists():
            number += 1
            path = path.with_name(f"{self.asked.beside.name.removesuffix(BESIDE)}-{number}{BESIDE}")
        try:
            Ledger(path, *self.totals).close()
        except (OSError, LedgerError) as error:
            raise LedgerError(
                f"{path}: the ledger of these data belongs there and cannot be made ({error}); "
                f"make one elsewhere (tacit ledger create) and name it with --ledger or {VARIABLE}"
            ) from error
        self.made = True
        self._besides = f", besides {known[0].path}" if known else ""
        return path

    def _refuse_older_copy(self, head: str | None) -> None:
        if head is not None and not self.ledger.holds(head):
            raise LedgerError(
                f"{self.path}: does not hold what this ledger held when it was last used here "
                f"(head {head[:12]}…); it is an older copy, or was cut off: restore the file"
            )

    def _refuse_another_name(self, known: list[Guarding]) -> None:
        """Refuse a second name for rows that have one: every name has a whole budget."""
        own = (guard for guard in known if guard.identity == self.ledger.identity)
        others = sorted({name for guard in own for name in guard.named} - {self.asked.called})
        if self.asked.called is not None and others:
            raise InvalidInput(
                f"--data-name {self.asked.called}: these rows are charged as {others[0]!r} in "
                f"{self.path}, and budgets of the same rows add up; say --data-name {others[0]}, "
                "or none, which counts for every name"
            )

    def _write_down(self, data: Fingerprint, known: list[Guarding]) -> None:
        """Note in the ledger why the one that guards these data did not do."""
        others = [guard for guard in known if guard.identity != self.ledger.identity]
        if others and self.asked.reason is not None:
            besides = [{"ledger": g.identity, "head": g.head} for g in others]
            self.ledger.note({"guards": data.name, "reason": self.asked.reason, "besides": besides})

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(Exception):  # the first error is the one to tell
            self._leave(failed=error is not None)
        self._release()

    def _leave(self, *, failed: bool) -> None:
        used, identity, head = bool(self.ledger.runs()), self.ledger.identity, self.ledger.head
        self.ledger.close()
        with Register() as register, register.writing():
            if self.made and not used and not self.stays and _alone(self._shared):
                self.path.unlink()
                register.forget(identity)
                return
            register.note(identity, self.path, head)
            unchanged = head == self._before and not self.stays
            if self._guarding and unchanged and _alone(self._shared):
                # A run that was refused changed nothing.
                register.unguard(identity, self.data, self.asked.called)
        if self.made:
            current().note(
                f"new ledger for these data: {self.path}, total ε = {self.totals[0]:g}"
                f"{self._besides}; runs on these rows add up in it from now on"
            )
        if failed and head != self._before:
            with Ledger(self.path) as ledger:
                spent = ledger.spent().epsilon
            current().warn(f"what was spent stays recorded in {self.path}: ε = {spent:.4g}")

    def _release(self) -> None:
        if self._shared is not None:
            os.close(self._shared)


def _place(asked: Asked, known: list[Guarding]) -> Path | None:
    """Return the ledger to open; None asks for a new one.

    Guarantee: rows that several ledgers guard are charged to one of them alone only where the
    reason was given once, and stands in one of them.
    """
    given = asked.given
    with_rows = [guard for guard in known if guard.rows]
    if given is not None:
        identity = _identity(named_ledger(given))
        # Where the rows themselves are known, a ledger of parties of these names is another.
        guards = with_rows or known
        if asked.reason is None and guards and identity not in {g.identity for g in guards}:
            raise InvalidInput(_guarded(asked, guards[0], given))
        if asked.reason is None:
            _refuse_others(asked, given, identity, with_rows)
        return given
    beside = _identity(asked.beside) if asked.beside.exists() else None
    if asked.reason is not None:
        if not known and beside is None:
            raise InvalidInput(
                "--new-ledger: no ledger guards these data yet; leave it out, one is made"
            )
        return None
    for guard in with_rows:
        if guard.identity == beside:
            _refuse_others(asked, asked.beside, guard.identity, with_rows)
            return asked.beside
    if with_rows:
        place = _found(with_rows[0])
        _refuse_others(asked, place, with_rows[0].identity, with_rows)
        return place
    if beside is not None:
        return asked.beside
    if known:
        raise InvalidInput(_guarded(asked, known[0], None))
    return None


def _refuse_others(asked: Asked, path: Path, identity: str, with_rows: list[Guarding]) -> None:
    """Refuse rows of which some are guarded by another ledger that would not be charged."""
    explained = _explained(path)
    for guard in with_rows:
        if guard.identity == identity or guard.identity in explained:
            continue
        there = guard.path.exists() and _identity(guard.path) == guard.identity
        if not there or identity not in _explained(guard.path):
            raise InvalidInput(
                f"{asked.data}: some of its rows are guarded by {path} and some by {guard.path}; a "
                "run charges one ledger, and the other would not count it. Fit the files apart, "
                f"or say --ledger {path} and --new-ledger with the reason, which is recorded"
            )


def _explained(path: Path) -> set[str]:
    """Return the ledgers beside which this one guards rows, for a reason that stands in it."""
    with Ledger(path) as ledger:
        return {part["ledger"] for note in ledger.notes() for part in note.get("besides", ())}


def _found(guard: Guarding) -> Path:
    """Return the path of a ledger that guards the rows, if it is still there."""
    if not guard.path.exists() or _identity(guard.path) != guard.identity:
        raise LedgerError(
            f"{guard.path}: the ledger that guards these rows is not there any more; say where it "
            "is with --ledger, restore it from a copy, or say --new-ledger and the reason"
        )
    current().note(f"these rows are guarded by {guard.path}, which is charged")
    return guard.path


def _guarded(asked: Asked, guard: Guarding, given: Path | None) -> str:
    if guard.rows:
        return (
            f"--ledger {given}: rows of {asked.data} are guarded by {guard.path}, and budgets of "
            f"the same rows add up; charge that one (--ledger {guard.path}), or say --new-ledger "
            "with the reason, which is recorded"
        )
    return (
        f"{asked.data}: its parties have the names of those guarded by {guard.path}. If they are "
        f"the same parties, their budgets add up: say --ledger {guard.path}. If they are others, "
        "say --new-ledger with the reason, which is recorded"
    )


def _identity(path: Path) -> str:
    with Ledger(path) as ledger:
        return ledger.identity


def peek(asked: Asked) -> Path | None:
    """Return the ledger that a run would charge, None for a new one; nothing is written."""
    return _place(asked, _known(asked))


def guarded_by(asked: Asked) -> list[Path]:
    """Return the ledgers that guard these very rows; nothing is written."""
    with_rows = [guard.path for guard in _known(asked) if guard.rows]
    return with_rows or ([asked.beside] if asked.beside.exists() else [])


def _known(asked: Asked) -> list[Guarding]:
    if not (state_folder() / "ledgers.db").exists():
        return []
    with Register() as register:
        return register.guarding(fingerprint(asked.pieces(), asked.task, register.key))


def _lock(folder: Path) -> int | None:
    """Hold the register's folder, together with other runs, while a ledger is in use."""
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except (ImportError, OSError):  # no such locks here: then nothing is ever removed
        return None
    return descriptor


def _alone(descriptor: int | None) -> bool:
    """Whether no other run holds the folder; None cannot tell."""
    if descriptor is None:
        return False
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
