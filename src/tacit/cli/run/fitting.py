"""What ``tacit fit`` does once the command line is understood."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.cli._output import current
from tacit.cli.guard.choice import Asked, Guard, peek
from tacit.cli.guard.fingerprint import Pieces
from tacit.cli.run.build import build, refuse_means_of_rows, total_delta
from tacit.cli.run.config import to_toml
from tacit.cli.run.evaluate import Evaluation, evaluate, hold_out
from tacit.cli.run.folder import CONFIG, EVALUATION, LEDGER, RunFolder, table_csv, write_intake
from tacit.cli.run.methods import parameters_of
from tacit.cli.run.outlook import agree, outlook
from tacit.cli.run.report_page import write_page
from tacit.cli.run.seal import write_seal
from tacit.cli.table.prepare import Prepared
from tacit.cli.table.stream import Streamed
from tacit.errors import BudgetExceeded, InvalidInput
from tacit.estimators._private import Sizes
from tacit.privacy.plan import Plan
from tacit.privacy.rehearsal import ledger_copy
from tacit.privacy.statement import ROWS_LEFT_OUT, Statement

__all__ = ["Request", "Run", "dry_run", "run"]

Rows = Prepared | Streamed
_KIND_READ = (
    "whether the target is a number or a class, which was read off the file; say --kind or "
    "--classes to settle it beforehand"
)


@dataclass(frozen=True)
class Request:
    """A fit as it was asked for."""

    method: str
    given: dict[str, Any]
    extra: dict[str, Any]
    out: Path
    force: bool = False
    ledger: Path | None = None
    test_size: float | None = None
    public: tuple[str, ...] = ()
    kind_read: bool = False  # the kind of the target was read off the file
    drops: bool = False  # rows with missing values are left out
    tune: dict[str, list[Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    data: Path = Path()
    seen: tuple[int, ...] | None = None  # the file's version when it was read
    pieces: Pieces = tuple  # the rows as they stand in the file
    new_ledger: str | None = None  # the reason for one, though another guards the data
    kind_asked: str = "auto"
    resume: bool = False
    yes: bool = False  # fit although the plan says that nobody can gain

    @property
    def asked(self) -> Asked:
        """Which ledger was asked for, for which data."""
        own = self.out / LEDGER  # of a version that kept a ledger in each run folder
        named = self.ledger or (own if own.exists() else None)
        task, called = self.settings["task"], self.given.get("data")
        return Asked(self.data, self.pieces, task, named, self.new_ledger, called)

    def estimator(self, prepared: Rows) -> Any:
        """Return the estimator or search, all checked that can be checked without data."""
        estimator = build(self.method, prepared.kind, self.given, self.extra)
        private = math.isfinite(getattr(estimator, "epsilon", math.inf))
        if self.ledger is not None and not private:
            raise InvalidInput(
                "--ledger: this run is not accounted (it shares nothing, or is not private); leave "
                "out --ledger"
            )
        refuse_means_of_rows(prepared, estimator)
        if not self.tune:
            return estimator
        if not private:
            raise InvalidInput("--tune: selection is paid for with a finite --epsilon; give one")
        from tacit.tuning import PrivateSearch

        search = PrivateSearch(
            estimator,
            self.tune,
            epsilon=estimator.epsilon,
            delta=estimator.delta,
            data=estimator.data,
            random_state=estimator.random_state,
        )
        search._check_parameters()
        return search


def _published(fitted: Any) -> Any:
    """Return the model to keep: a search's published run, or the estimator itself."""
    return getattr(fitted, "best_estimator_", fitted)


@dataclass(frozen=True)
class Run:
    """A finished fit."""

    model: Any
    prepared: Rows
    evaluation: Evaluation | None
    chosen: dict[str, Any]  # by accounted selection; empty without --tune


def _stated(
    statement: Statement, request: Request, estimator: Any, guard: Guard | None = None
) -> Statement:
    """Add to the statement what the command line assumed, or did outside the accounted run."""
    assumed = [f"{fact} are public" for fact in ("; ".join(request.public),) if fact]
    unprotected: list[str] = []
    for other in guard.others if guard is not None else ():
        unprotected.append(
            f"what was spent on these rows in another ledger ({other.identity[:12]}…), which adds "
            "to this"
        )
    if request.kind_read and statement.private:
        unprotected.append(_KIND_READ)
    if request.drops and statement.private and getattr(estimator, "_protects_rows", False):
        unprotected.append(ROWS_LEFT_OUT)
    if request.test_size is not None:
        unprotected.append(
            "the held-out scores, computed from private rows: they stay with their owners"
        )
    return dataclasses.replace(
        statement,
        assumptions=(*statement.assumptions, *assumed),
        not_protected=(*statement.not_protected, *unprotected),
    )


def _accounted(estimator: Any) -> bool:
    return "ledger" in parameters_of(type(estimator)) and math.isfinite(estimator.epsilon)


@contextlib.contextmanager
def _charging(estimator: Any, request: Request, n_tasks: int) -> Iterator[Guard | None]:
    """Give the estimator the ledger that guards its data; None for a run that is not accounted."""
    if not _accounted(estimator):
        yield None
        return
    epsilon = max(estimator.epsilon, getattr(estimator, "epsilon_rows", None) or 0.0)
    with Guard(request.asked, (epsilon, total_delta(estimator, n_tasks))) as guard:
        estimator.ledger = guard.ledger
        try:
            yield guard
        except BudgetExceeded as refusal:
            raise BudgetExceeded(
                f"{refusal}. What was spent: tacit ledger show {guard.path}. If whoever answers "
                "for the data allows more than this total, say so with --new-ledger and the reason",
                asked=refusal.asked,
                left=refusal.left,
            ) from None


def _fitted(estimator: Any, prepared: Rows, what: str) -> Any:
    output = current()
    with output.step(what) as advance, output.warnings_as_lines():
        if "progress" in parameters_of(type(estimator)):
            estimator.progress = advance
        model = _published(prepared.fit(estimator))
        if "progress" in parameters_of(type(estimator)):
            estimator.progress = None
    return model


def _keep(folder: RunFolder, request: Request, estimator: Any, guard: Guard | None) -> None:
    """Keep what the run needs to go on after a crash."""
    ledger = request.settings["ledger"] if guard is None else str(guard.path.absolute())
    settings = {**request.settings, "kind": request.kind_asked, "ledger": ledger}
    estimator._checkpoint = folder.checkpoint(to_toml(settings), request.data, request.seen)


def run(request: Request, prepared: Rows) -> Run:
    """Fit, and write the run folder."""
    estimator = request.estimator(prepared)
    train, test = prepared, None
    if request.test_size is not None and isinstance(prepared, Prepared):
        train, test = hold_out(prepared, request.test_size)
    if not request.resume:
        agree(outlook(*_planned(estimator, train), train.n_outputs), yes=request.yes)
    with (
        RunFolder(request.out, force=request.force, resume=request.resume) as folder,
        _charging(estimator, request, len(prepared.names)) as guard,
    ):
        _keep(folder, request, estimator, guard)
        model = _fitted(estimator, train, f"fitting {request.method}")
        model.privacy_ = _stated(model.privacy_, request, estimator, guard)
        scores = None
        if test is not None and isinstance(train, Prepared) and test.n_rows:
            with current().step("evaluating"), current().warnings_as_lines():
                scores = evaluate(model, request.method, train, test)
        names = list(prepared.intake.feature_names)
        model.feature_names_in_ = _object_array(names)
        _write(folder, request, model, prepared, scores, guard)
        _seal(folder, model, guard)
        folder.commit()
    return Run(model, prepared, scores, dict(getattr(estimator, "best_params_", {})))


def _seal(folder: RunFolder, model: Any, guard: Guard | None) -> None:
    """Seal the files, and write the seal's hash into the ledger's chain."""
    reservation = getattr(model.billboard_, "reservation", None)
    if guard is None or reservation is None:
        write_seal(folder.stage)
        return
    place = {
        "path": str(guard.path.absolute()),
        "identity": guard.ledger.identity,
        "run": reservation.number,
    }
    sealed = write_seal(folder.stage, place)
    guard.ledger.seal(reservation.number, {"files": sealed, "data": guard.data})


def _object_array(names: list[str]) -> Any:
    import numpy as np

    return np.array(names, dtype=object)


def _write(
    folder: RunFolder,
    request: Request,
    model: Any,
    prepared: Rows,
    scores: Evaluation | None,
    guard: Guard | None,
) -> None:
    model.save(folder.stage)
    write_intake(
        folder.stage,
        prepared.intake,
        prepared.fill,
        model.task_names_,
        prepared.kind,
        request.method,
    )
    folder.write("statement.json", model.privacy_.to_json() + "\n")
    folder.write("history.csv", table_csv(model.history_))
    folder.write(CONFIG, to_toml(request.settings))
    shown: dict[str, Any] = {}
    if request.test_size is not None:  # written without scores too: who has some is not for others
        folder.write(EVALUATION, table_csv(() if scores is None else scores.by_task))
    if scores is not None:
        rows = scores.rows
        shown = {"X": rows.X, "y": rows.y, "tasks": rows.tasks, "baselines": scores.baselines}
    ledger = None if guard is None else guard.path
    write_page(model, folder.stage / "report.html", ledger=ledger, **shown)


def dry_run(request: Request, prepared: Rows) -> dict[str, Any]:
    """Return what the run would cost and state, without touching data or budget."""
    estimator = request.estimator(prepared)
    train = prepared
    if request.test_size is not None and isinstance(prepared, Prepared):
        train, _ = hold_out(prepared, request.test_size)
    file = peek(request.asked) if _accounted(estimator) else None
    with contextlib.ExitStack() as stack:
        left = None
        if file is not None:
            estimator.ledger = ledger = stack.enter_context(ledger_copy(file))
            before = ledger.lines()
            left = [(str(line.unit), line.left.epsilon, line.left.delta) for line in before]
        base, plan = _planned(estimator, train)
        statement = _rehearsed(estimator, train)
    statement = _stated(statement, request, estimator)
    return {
        "method": request.method,
        "kind": prepared.kind,
        "n_tasks": len(prepared.names),
        "n_rows": prepared.n_rows,
        "n_features": prepared.n_features,
        "n_outputs": prepared.n_outputs,
        "plan": dataclasses.asdict(plan),
        "table": plan.table(),
        "noise_to_signal": plan.noise_to_signal if plan.releases else None,
        "cannot_help": outlook(base, plan, train.n_outputs),
        "ledger": None if file is None else str(file),
        "ledger_left": left,
        "statement": json.loads(statement.to_json()),
        "explained": statement.explain(),
    }


def _planned(estimator: Any, train: Rows) -> tuple[Any, Plan]:
    """Return the estimator, or that of a search, and what it would release."""
    base = estimator.estimator if hasattr(estimator, "parameters") else estimator
    sizes = _sizes(train)
    with warnings.catch_warnings():  # what there is to warn of, the fit itself says
        warnings.simplefilter("ignore")
        plan: Plan = base.plan(
            sizes.n_tasks, sizes.n_features, n_outputs=sizes.n_outputs, n_rows=sizes.n_rows
        )
    return base, plan


def _sizes(train: Rows) -> Sizes:
    return Sizes(len(train.names), train.n_features, train.n_outputs, train.n_rows)


def _rehearsed(estimator: Any, train: Rows) -> Statement:
    """Return the statement of a fit, from the sizes of its rows alone."""
    with current().warnings_as_lines():
        stated: Statement = estimator._rehearse(_sizes(train))
    return stated
