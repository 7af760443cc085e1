"""What ``tacit fit`` does once the command line is understood."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.cli._build import build, total_delta
from tacit.cli._config import to_toml
from tacit.cli._evaluate import Evaluation, evaluate, hold_out
from tacit.cli._methods import parameters_of
from tacit.cli._output import current
from tacit.cli._prepare import Prepared
from tacit.cli._rehearsal import ledger_copy, rehearse
from tacit.cli._report_page import BILLBOARD, write_page
from tacit.cli._run_folder import EVALUATION, LEDGER, RunFolder, table_csv, write_intake
from tacit.errors import BudgetExceeded, InvalidInput
from tacit.privacy.ledger import Ledger

__all__ = ["Request", "Run", "dry_run", "run"]

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
    tune: dict[str, list[Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)

    def estimator(self, prepared: Prepared) -> Any:
        """Return the estimator or search, all checked that can be checked without data."""
        estimator = build(self.method, prepared.kind, self.given, self.extra)
        private = math.isfinite(getattr(estimator, "epsilon", math.inf))
        if self.ledger is not None and not private:
            raise InvalidInput(
                "--ledger: this run is not accounted (it shares nothing, or is not private); leave "
                "out --ledger"
            )
        from_rows = prepared.n_filled and prepared.intake.missing == "task-mean"
        if from_rows and getattr(estimator, "epsilon_rows", None) is not None:
            raise InvalidInput(
                "--missing: with epsilon_rows single rows are protected, and a mean of rows would "
                "cost budget; choose --missing drop or a number"
            )
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
    prepared: Prepared
    evaluation: Evaluation | None
    chosen: dict[str, Any]  # by accounted selection; empty without --tune


def _stated(model: Any, request: Request) -> None:
    """Add to the statement what the command line assumed, or did outside the accounted run."""
    statement = model.privacy_
    assumed = [f"{fact} are public" for fact in ("; ".join(request.public),) if fact]
    unprotected: list[str] = []
    if request.kind_read and statement.private:
        unprotected.append(_KIND_READ)
    if request.test_size is not None:
        unprotected.append(
            "the held-out scores, computed from private rows: they stay with their owners"
        )
    model.privacy_ = dataclasses.replace(
        statement,
        assumptions=(*statement.assumptions, *assumed),
        not_protected=(*statement.not_protected, *unprotected),
    )


@contextlib.contextmanager
def _charging(estimator: Any, request: Request, folder: RunFolder, n_tasks: int) -> Iterator[None]:
    """Give the estimator the ledger it charges: the one named, or the folder's own."""
    if "ledger" not in parameters_of(type(estimator)) or math.isinf(estimator.epsilon):
        yield
        return
    if request.ledger is not None:
        with _named_ledger(request.ledger) as estimator.ledger:
            yield
        return
    epsilon = max(estimator.epsilon, getattr(estimator, "epsilon_rows", None) or 0.0)
    estimator.ledger = folder.own_ledger(epsilon, total_delta(estimator, n_tasks))
    try:
        yield
    except BudgetExceeded as refusal:
        if folder.new_ledger:
            raise
        raise BudgetExceeded(
            f"{refusal}. This folder's ledger records an earlier run on the data and is kept; fit "
            "to another --out if the data are others",
            asked=refusal.asked,
            left=refusal.left,
        ) from None


def _named_ledger(path: Path) -> Ledger:
    if not path.exists():
        raise InvalidInput(
            f"--ledger {path}: no such ledger; make one with a total budget: "
            f"tacit ledger create {path} --epsilon 3 --delta 1e-5"
        )
    return Ledger(path)


def _fitted(estimator: Any, prepared: Prepared, what: str) -> Any:
    output = current()
    with output.step(what) as advance, output.warnings_as_lines():
        if "progress" in parameters_of(type(estimator)):
            estimator.progress = advance
        model = _published(estimator.fit(prepared.X, prepared.y, tasks=prepared.tasks))
        if "progress" in parameters_of(type(estimator)):
            estimator.progress = None
    return model


def run(request: Request, prepared: Prepared) -> Run:
    """Fit, and write the run folder."""
    estimator = request.estimator(prepared)
    train, test = prepared, None
    if request.test_size is not None:
        train, test = hold_out(prepared, request.test_size)
    with RunFolder(request.out, force=request.force) as folder:
        with _charging(estimator, request, folder, len(prepared.names)):
            model = _fitted(estimator, train, f"fitting {request.method}")
        _stated(model, request)
        scores = None
        if test is not None:
            with current().step("evaluating"), current().warnings_as_lines():
                scores = evaluate(model, request.method, train, test)
        names = list(prepared.intake.feature_names)
        model.feature_names_in_ = _object_array(names)
        _write(folder, request, model, prepared, scores)
        folder.commit()
    return Run(model, prepared, scores, dict(getattr(estimator, "best_params_", {})))


def _object_array(names: list[str]) -> Any:
    import numpy as np

    return np.array(names, dtype=object)


def _write(
    folder: RunFolder, request: Request, model: Any, prepared: Prepared, scores: Evaluation | None
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
    folder.write("config.toml", to_toml(request.settings))
    if model.billboard_ is not None:
        model.billboard_.save(folder.stage / BILLBOARD)
    shown: dict[str, Any] = {}
    if scores is not None:
        folder.write(EVALUATION, table_csv(scores.by_task))
        rows = scores.rows
        shown = {"X": rows.X, "y": rows.y, "tasks": rows.tasks, "baselines": scores.baselines}
    write_page(
        model,
        folder.stage / "report.html",
        folder=folder.stage,
        ledger=request.ledger or folder.path / LEDGER,
        **shown,
    )


def dry_run(request: Request, prepared: Prepared) -> dict[str, Any]:
    """Return what the run would cost and state, without touching data or budget."""
    estimator = request.estimator(prepared)
    train = prepared
    if request.test_size is not None:
        train, _ = hold_out(prepared, request.test_size)
    file = request.ledger
    with contextlib.ExitStack() as stack:
        left = None
        if file is not None:
            _named_ledger(file).close()
            estimator.ledger = ledger = stack.enter_context(ledger_copy(file))
            before = ledger.lines()
            left = [(str(line.unit), line.left.epsilon, line.left.delta) for line in before]
        with current().step("rehearsing on made-up rows"), current().warnings_as_lines():
            model = _published(rehearse(estimator, train))
    _stated(model, request)
    return {
        "method": request.method,
        "kind": prepared.kind,
        "n_tasks": len(prepared.names),
        "n_rows": len(prepared.codes),
        "n_features": prepared.X.shape[1],
        "n_outputs": prepared.n_outputs,
        "history": [dict(row) for row in model.history_],
        "ledger_left": left,
        "statement": json.loads(model.privacy_.to_json()),
        "explained": model.privacy_.explain(),
    }
