"""What one reader may see of a fitted model, and nothing else.

The page is built from `Facts` alone, so this file decides what can appear on it:

- everybody: the statement, the releases and what follows from them, names and public counts;
- a party, besides: its own model and its own rows' errors;
- the coordinator, besides: every task's errors, only where the caller hands in the rows of every
  task, who then has them anyway. The page says so.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tacit._types import AnyArray, Array
from tacit.errors import InvalidInput
from tacit.privacy.billboard import Billboard
from tacit.privacy.statement import Statement
from tacit.report.cost import Account, Step, account_of, steps_of
from tacit.report.evaluation import Evaluation, evaluate, own_index
from tacit.report.releases import Shared, read_shared

__all__ = ["AuditPoint", "Facts", "collect"]


@dataclass(frozen=True)
class AuditPoint:
    """An attack's lower bound next to the claim it attacked."""

    target: str
    claimed: float
    lower: float
    confidence: float | None
    n_trials: int | None
    violated: bool


@dataclass(frozen=True)
class Facts:
    """All that the page may say."""

    method: str
    party: Hashable | None
    own: int | None  # position of the party among the tasks on the billboard, if known
    n_tasks: int
    task_names: tuple[Hashable, ...]
    feature_names: tuple[str, ...]
    outputs: tuple[str, ...]  # ("",) for one output, else the classes
    statement: Statement
    steps: tuple[Step, ...]
    releases_kept: bool
    shared: Shared
    shared_coef: Array | None  # (k, d)
    released_coef: Array | None  # (m, k, d), where the models themselves were released
    own_coef: Array | None  # (k, d)
    own_intercept: Array | None  # (k,)
    evaluation: Evaluation | None
    account: Account | None
    audit: tuple[AuditPoint, ...]
    seen: bool = False  # the fit may have learned from the rows of the evaluation

    @property
    def all_tasks_evaluated(self) -> bool:
        """Whether the page holds private results of every task."""
        return self.party is None and self.evaluation is not None


def collect(
    model: Any,
    *,
    X: Any = None,
    y: Any = None,
    tasks: Any = None,
    baselines: Mapping[str, Any] | None = None,
    fitted_on: tuple[Any, Any, Any] | None = None,
    audit: Any = None,
    ledger: Any = None,
    party: Any = None,
    billboard: Billboard | None = None,
    seen: bool = False,
) -> Facts:
    """Read what the reader may see off a fitted model.

    Guarantee: with ``party=None`` and no rows, every value comes from the statement, the billboard
    or public counts. With a ``party``, personal values are that party's only: its row of ``coef_``
    and ``intercept_``, and errors on its own rows.
    """
    check_is_fitted(model)
    if (X is None) != (y is None):
        raise InvalidInput("X, y: give both to evaluate, or neither")
    if fitted_on is not None and (X is None or len(fitted_on) != 3):
        raise InvalidInput("fitted_on: must be (X, y, tasks), beside rows X and y to evaluate on")
    if baselines is not None and not isinstance(baselines, Mapping):
        raise InvalidInput("baselines: must map names to fitted estimators")
    names = tuple(model.task_names_)
    own = None if party is None else own_index(names, party)
    party = None if own is None else names[own]
    statement: Statement = model.privacy_
    posted = billboard if billboard is not None else model.billboard_
    # A party's own model folder names one task; the public number of tasks is in the statement.
    n_tasks = statement.n_units if statement.unit == "task" and statement.n_units else len(names)
    linear = hasattr(model, "coef_")  # of other models there are no weights of features to show
    coef = _stacked(model.coef_) if linear else np.empty((len(names), 1, 0))
    outputs = ("",) if coef.shape[1] == 1 else tuple(str(c) for c in model.classes_)
    features = tuple(str(name) for name in getattr(model, "feature_names_in_", ()))
    d = int(model.n_features_in_)
    kept = posted is not None and len(posted) > 0
    history = tuple(getattr(model, "history_", ()))
    return Facts(
        method=_in_words(type(model).__name__),
        party=party,
        own=own if len(names) == n_tasks else None,
        n_tasks=n_tasks,
        task_names=names,
        feature_names=features or tuple(f"feature {number + 1}" for number in range(d)),
        outputs=outputs,
        statement=statement,
        steps=steps_of(posted, history, statement),
        releases_kept=kept,
        shared=read_shared(model, posted) if statement.private else Shared(),
        shared_coef=_fitting(getattr(model, "shared_coef_", None), d),
        released_coef=coef if kept and model._models_released and coef.shape[2] == d else None,
        own_coef=None if own is None or coef.shape[2] != d else coef[own],
        own_intercept=None if own is None or not linear else np.atleast_1d(model.intercept_[own]),
        evaluation=None if X is None else evaluate(model, X, y, tasks, baselines, party, fitted_on),
        account=account_of(ledger),
        audit=_audit_points(audit),
        seen=seen and X is not None,
    )


def _stacked(coef: AnyArray) -> Array:
    array = np.asarray(coef, dtype=float)
    return array[:, None, :] if array.ndim == 2 else array


def _fitting(coef: AnyArray | None, n_features: int) -> Array | None:
    if coef is None:
        return None
    array = np.atleast_2d(np.asarray(coef, dtype=float))
    return array if array.shape[-1] == n_features else None


def _in_words(name: str) -> str:
    """Return "Shared prior" for SharedPriorRegressor."""
    bare = re.sub(r"(Regressor|Classifier)$", "", name)
    words = re.findall(r"[A-Z][a-z0-9]*", bare) or [name]
    return " ".join([words[0], *(word.lower() for word in words[1:])])


def _audit_points(audit: Any) -> tuple[AuditPoint, ...]:
    if audit is None:
        return ()
    if hasattr(audit, "epsilon_lower"):
        audit = [audit]
    if not isinstance(audit, Iterable):
        raise InvalidInput(f"audit={audit!r}: must be an AuditResult, or (claimed, lower) pairs")
    points = []
    for item in audit:
        if hasattr(item, "epsilon_lower"):
            points.append(
                AuditPoint(
                    str(item.target),
                    float(item.claimed_epsilon),
                    float(item.epsilon_lower),
                    float(item.confidence),
                    int(item.n_trials),
                    bool(item.violated),
                )
            )
            continue
        try:
            claimed, lower = (float(value) for value in item)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"audit: {item!r} is neither an AuditResult nor a pair (claimed, lower bound)"
            ) from error
        points.append(AuditPoint("", claimed, lower, None, None, lower > claimed))
    if not np.isfinite([(point.claimed, point.lower) for point in points]).all():
        raise InvalidInput("audit: claimed and measured ε must be finite numbers")
    return tuple(points)
