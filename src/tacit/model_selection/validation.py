"""Cross-validation within tasks, through one ledger, with the sum stated."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any

import sklearn
from sklearn.base import clone
from sklearn.model_selection import cross_validate as _cross_validate

from tacit.errors import BudgetExceeded, InvalidInput
from tacit.estimators import _input
from tacit.estimators._base import MultiTaskEstimator
from tacit.estimators._private import PrivateEstimator, Sizes, default_delta
from tacit.model_selection.scores import scorer_of
from tacit.model_selection.splits import TaskKFold
from tacit.privacy.accounting import Cost
from tacit.privacy.ledger import Ledger, refuse_other_ledger
from tacit.privacy.rehearsal import ledger_copy
from tacit.privacy.statement import DEFINITIONS, Statement
from tacit.privacy.unit import Adjacency, Unit

__all__ = [
    "Look",
    "charges",
    "cross_validate",
    "inner",
    "looking",
    "planned_cost",
    "sizes_of",
    "validated",
]

_WITHOUT_LIMIT = 1e6  # ε of a ledger that only adds up
_OPEN = "the rows that models without noise were fitted on, among those compared"
_SCORES = (
    "the scores, and whatever is chosen by them: they are computed from private rows without noise "
    "and are for the owners of the rows; tacit.tuning.PrivateSearch chooses within a budget"
)


class Look:
    """Several fits on the same rows that go through one ledger."""

    def __init__(self, ledger: Ledger, spent_before: bool) -> None:
        self.ledger = ledger
        self._spent_before = spent_before
        self._sound, self._seeded = True, False
        self._kinds: set[bool] = set()  # whether fits were private
        self._n_units: int | None = None

    def charging(self, estimator: Any) -> Any:
        """Return an unfitted copy of ``estimator`` whose fits charge the ledger."""
        copy = clone(estimator)
        if not charges(inner(copy)):  # without noise there is nothing to account
            return copy
        names = [name for name in copy.get_params() if name.split("__")[-1] == "ledger"]
        return copy.set_params(**dict.fromkeys(names, self.ledger))

    def note(self, fitted: Any) -> None:
        """Take down what a fit's own statement says of it."""
        stated: Statement = inner(fitted).privacy_
        self._kinds.add(stated.private)
        self._sound &= stated.sound
        self._seeded |= stated.seeded
        self._n_units = max(self._n_units or 0, stated.n_units or 0) or None

    def stated(self) -> Statement:
        """State what all fits cost together, on the line with the most spent."""
        lines = self.ledger.lines()
        if True not in self._kinds:
            return Statement.non_private(not_protected=(_SCORES,), n_units=self._n_units)
        unprotected = (_SCORES, *([_OPEN] if False in self._kinds else ()))
        if not lines:
            nothing = Statement.of_nothing(
                Unit.TASK, DEFINITIONS[0], Adjacency.REPLACE_ONE, n_units=self._n_units
            )
            return replace(nothing, not_protected=unprotected)
        line = max(lines, key=lambda one: (one.spent.epsilon, one.spent.delta))
        counted = f"all {line.n_reservations} fits on the ledger {self._name} are counted together"
        return Statement(
            unit=line.unit,
            definition=DEFINITIONS[0 if line.unit is Unit.TASK else 1],
            adjacency=line.adjacency,
            epsilon=line.spent.epsilon,
            delta=line.spent.delta,
            accountant=line.rule,
            n_releases=line.n_charges,
            sound=self._sound,
            seeded=self._seeded,
            assumptions=(counted,),
            not_protected=unprotected,
            n_units=self._n_units,
        )

    @property
    def _name(self) -> str:
        return "of this look alone" if not self._spent_before else repr(str(self.ledger.path))


def inner(estimator: Any) -> Any:
    """Return tacit's estimator: the one given, or the one inside a pipeline."""
    parts = [estimator, *estimator.get_params().values()]
    found = [part for part in parts if isinstance(part, MultiTaskEstimator)]
    if not found:
        raise InvalidInput(
            f"estimator={estimator!r}: holds no estimator of tacit; scikit-learn's own "
            "cross_validate is the one for it"
        )
    return next((part for part in found if hasattr(part, "privacy_")), found[0])


@contextlib.contextmanager
def looking(
    fits: list[tuple[Any, int]], ledger: Ledger | str | PathLike[str] | None, sizes: Sizes
) -> Iterator[Look]:
    """Open one ledger for all ``fits``, pairs (estimator, how often it is fitted).

    Guarantee: with a ledger of one's own the fits are rehearsed on a copy of it first: if all of
    them together exceed what is left, `BudgetExceeded` comes before any data are touched, and
    nothing is spent. Without one they are added up in a file that is removed afterwards. An
    estimator's own ledger, which is not charged here, is refused unless it is the one given.
    """
    for estimator, _ in fits:
        if charges(inner(estimator)):
            refuse_other_ledger(inner(estimator).ledger, ledger)
    if ledger is not None:
        kept = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        if kept.path == ":memory:":
            raise InvalidInput("ledger: lives in memory; a look in several processes needs a file")
        try:
            with ledger_copy(Path(kept.path)) as copy:
                for estimator, count in fits:
                    _rehearse(estimator, count, copy, sizes)
        except BudgetExceeded:
            raise _too_dear(planned_cost(fits, sizes), kept) from None
        yield Look(kept, spent_before=True)
        return
    with _adding_up(fits, sizes) as own:
        yield Look(own, spent_before=False)


@contextlib.contextmanager
def _adding_up(fits: list[tuple[Any, int]], sizes: Sizes) -> Iterator[Ledger]:
    """Open a ledger without a limit, which is removed afterwards."""
    delta = sum(count * _delta(inner(estimator), sizes) for estimator, count in fits)
    with tempfile.TemporaryDirectory(prefix="tacit-look-") as folder:
        file = Path(folder) / "look.db"
        with Ledger(file, epsilon=_WITHOUT_LIMIT, delta=min(delta, 0.5)) as own:
            yield own


def _too_dear(cost: Cost, ledger: Ledger) -> BudgetExceeded:
    left = ledger.left()
    return BudgetExceeded(
        f"{ledger.path}: all private fits of this look cost ε = {cost.epsilon:.4g}, δ = "
        f"{cost.delta:.2g} together, and what is left allows one of ε = {left.epsilon:.4g}, δ = "
        f"{left.delta:.2g}; take fewer budgets, methods or splits, or look at public or simulated "
        "rows. Nothing was spent",
        asked=cost.epsilon,
        left=left.epsilon,
    )


def planned_cost(fits: list[tuple[Any, int]], sizes: Sizes) -> Cost:
    """Return what all ``fits`` would spend together, on a ledger of their own; no data are used."""
    with _adding_up(fits, sizes) as own:
        for estimator, count in fits:
            _rehearse(estimator, count, own, sizes)
        return own.spent()


def charges(model: Any) -> bool:
    """Whether a fit spends budget."""
    return isinstance(model, PrivateEstimator) and math.isfinite(float(model.epsilon))


def _rehearse(estimator: Any, count: int, copy: Ledger, sizes: Sizes) -> None:
    model = inner(estimator)
    if charges(model):
        again = clone(model).set_params(ledger=copy)
        for _ in range(count):
            again._rehearse(sizes)


def _delta(model: Any, sizes: Sizes) -> float:
    """Return a δ that one fit on a part of the rows does not exceed."""
    if not charges(model):
        return 0.0
    if model.delta != "auto":
        return float(model.delta)
    fewest = max(1, (sizes.n_rows or 2) // 2)
    return default_delta(sizes.n_tasks if model._unit is Unit.TASK else fewest)


def cross_validate(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    tasks: Any,
    cv: Any = 5,
    scoring: Any = None,
    ledger: Ledger | str | PathLike[str] | None = None,
    n_jobs: int | None = None,
    return_estimator: bool = False,
) -> dict[str, Any]:
    """Score an estimator on folds within tasks; nothing needs to be routed.

    Parameters
    ----------
    estimator : estimator of tacit, or a pipeline that ends in one
    X, y, tasks : as for ``fit``; in a pipeline, ``tasks`` are labels
    cv : int or splitter, default 5
        A number of `TaskKFold` folds, or a splitter that takes ``tasks``.
    scoring : str, callable, `TaskScorer` or None
        See `task_scorer`; None is accuracy, or R².
    ledger : Ledger, path or None
        What every fit charges, in whichever process. None adds up without a limit.
    n_jobs : int or None
        Processes.

    Returns
    -------
    dict with ``test_score``, ``fit_time``, ``score_time``, ``privacy`` (what all fits cost
    together) and, if asked, ``estimator``.

    Guarantee: ``privacy`` composes every release of every fold. The scores themselves are not
    noised: they are for whoever owns the rows.
    """
    X, tasks = _input.without_task_column(X, tasks)
    splitter = TaskKFold(int(cv)) if isinstance(cv, Integral) else cv
    sizes = sizes_of(estimator, X, y, tasks)
    with looking([(estimator, splitter.get_n_splits())], ledger, sizes) as look:
        found = validated(look, estimator, X, y, tasks, splitter, scoring, n_jobs)
        found["privacy"] = look.stated()
    if not return_estimator:
        del found["estimator"]
    return found


def sizes_of(estimator: Any, X: Any, y: Any, tasks: Any) -> Sizes:
    """Return the public sizes of a fit on these rows."""
    model = inner(estimator)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    n_tasks = len(set(_input.labels_of_rows(tasks, n_rows)))
    n_features = X.shape[1] if hasattr(X, "shape") else len(X[0])
    targets = clone(model)._encode_target(model._target_values(y, n_rows))
    return Sizes(n_tasks, n_features, targets.shape[1], n_rows)


def validated(
    look: Look,
    estimator: Any,
    X: Any,
    y: Any,
    tasks: Any,
    cv: Any,
    scoring: Any,
    n_jobs: Any,
) -> dict[str, Any]:
    """Cross-validate within a look."""
    scorer = scorer_of(scoring, estimator)
    with sklearn.config_context(enable_metadata_routing=True):
        found: dict[str, Any] = _cross_validate(
            look.charging(estimator),
            X,
            y,
            params={"tasks": tasks},
            cv=cv,
            scoring=scorer,
            n_jobs=n_jobs,
            error_score="raise",
            return_estimator=True,
        )
    for fitted in found["estimator"]:
        look.note(fitted)
    return found
