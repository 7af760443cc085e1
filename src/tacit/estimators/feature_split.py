"""Transfer with feature groups: a private model per group, stacked at the target (PPTL-FS)."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, ClassVar

import numpy as np

from tacit import _check
from tacit._types import AnyArray, Array
from tacit.errors import InvalidInput
from tacit.estimators._constraints import Constraints, anything, rule
from tacit.estimators.transfer import TransferEstimator, outputs_first
from tacit.privacy.ledger import Ledger
from tacit.transfer.design import Design, equal_groups
from tacit.transfer.stacking import stack_rows

__all__ = ["FeatureSplitTransferClassifier", "public_importance"]


def public_importance(X: Any) -> Array:
    """Return the share of each column in the variance of *public* rows.

    Guarantee: none. Importances computed from private rows are a release of their own; pass rows
    that are public.
    """
    variance = np.var(np.asarray(X, dtype=np.float64), axis=0)
    total = float(variance.sum())
    if not np.isfinite(total) or total <= 0:
        raise InvalidInput("X: public rows need finite columns, some of which vary")
    shares: Array = variance / total
    return shares


class FeatureSplitTransferClassifier(TransferEstimator):
    """Private transfer by feature groups and stacking (PPTL-FS).

    The features are split into K groups. The source releases one private model per group, the
    important groups with more of the budget. The target continues each on one half of its rows
    and learns on the other half how to weigh their K answers. ``fit`` without a source is the
    paper's private logistic regression by feature groups alone (PLR-FS): the K models are in
    ``coef_`` and ``group_intercept_``, by ``groups_``, and predictions weigh them.

    Parameters
    ----------
    epsilon, delta, alpha, eta, row_norm, rows, fit_intercept, intercept_scaling, ledger,
    data, random_state
        As for `TransferClassifier`; ``row_norm`` bounds a row within each group.
    importance : array of shape (n_features,) of numbers ≥ 0, or None
        Public importances: from domain knowledge or public data (`public_importance`), divided by
        their sum. None: equal.
    split : {"importance", "random"}, default "importance"
        Groups of neighbours in importance, or groups drawn at random.
    n_groups : int, default 5
        K, or the number of features if that is smaller.
    split_seed : int, default 0
        Public seed of ``split="random"``; source and target must use the same.
    unknown_task : "error"

    Attributes
    ----------
    coef_, group_intercept_ : the level-0 models of each target
    groups_ : group of each column
    stack_coef_, intercept_ : the level-1 model of each target
    classes_, privacy_ (the target's), billboard_, packages_, source_privacy_, n_clipped_rows_

    Guarantee: ``fit_source`` is (ε, δ)-DP for one row of the source. ``fit`` is (ε, δ)-DP for one
    row of the target: a row lies in one half only, so level 0 and level 1 share one ε (parallel
    composition); level-1 rows have norm ≤ 1 because K answers in (−1, 1) are divided by √K.
    """

    _stacked = True
    _task_arrays = ("group_intercept_", "stack_coef_")
    _public_arrays = ("groups_",)
    _parameter_constraints: ClassVar[Constraints] = {
        "importance": [anything],  # one number a column, which only the data's width can tell
        "split": [rule(_check.one_of, choices=("importance", "random"))],
        "n_groups": [rule(_check.positive_integer, remedy="K = 5 is the paper's choice")],
        "split_seed": [rule(_check.whole, least=0, remedy="0 is as good as any")],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | str = 0.0,
        *,
        importance: Any = None,
        split: str = "importance",
        n_groups: int = 5,
        split_seed: int = 0,
        alpha: float | str = "auto",
        eta: float | str = "auto",
        row_norm: float = 1.0,
        rows: str = "normalise",
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        ledger: Ledger | str | PathLike[str] | None = None,
        data: str | None = None,
        random_state: Any = None,
        unknown_task: str = "error",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.importance = importance
        self.split = split
        self.n_groups = n_groups
        self.split_seed = split_seed
        self.alpha = alpha
        self.eta = eta
        self.row_norm = row_norm
        self.rows = rows
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.ledger = ledger
        self.data = data
        self.random_state = random_state
        self.unknown_task = unknown_task

    def _importance(self, n_features: int) -> Array:
        if self.importance is None:
            return np.full(n_features, 1.0 / n_features)
        importance = np.asarray(self.importance, dtype=np.float64)
        if importance.shape != (n_features,):
            raise InvalidInput(
                f"importance: shape {importance.shape} for {n_features} features; pass one a column"
            )
        if not np.isfinite(importance).all() or importance.min() < 0:
            raise InvalidInput("importance: must be finite numbers of at least 0")
        # It is public, so bringing its sum to 1 tells nobody anything.
        total = float(importance.sum())
        if not 0 < total < np.inf:
            raise InvalidInput(f"importance: sums to {total:g}; some feature must matter")
        return importance / total

    def _design(self, n_features: int) -> Design:
        importance = self._importance(n_features)
        if self.split == "random":
            order = np.random.default_rng(self.split_seed).permutation(n_features)
        else:
            order = np.argsort(-importance, kind="stable")
        groups, shares = equal_groups(importance, min(int(self.n_groups), n_features), order)
        return Design(groups, shares, float(self.row_norm), self.rows, self._constant)

    def _check_size(self, n_rows: int, n_groups: int, name: Any) -> None:
        least = max(2, n_groups)
        if n_rows < least:
            raise InvalidInput(
                f"X: target {name!r} has {n_rows} rows for {n_groups} groups; use at least "
                f"{least} rows, fewer groups, or TransferClassifier"
            )

    def _arrays(self, models: Sequence[Array], design: Design) -> dict[str, AnyArray]:
        *level_0, stack = models
        K, constant = design.n_groups, design.intercept * design.row_norm
        coef = np.zeros((*stack.shape[:2], design.n_features))
        group_intercept = np.zeros((*stack.shape[:2], K))
        groups = np.zeros(design.n_features, dtype=np.int64)
        for k, (group, fitted) in enumerate(zip(design.groups, level_0, strict=True)):
            columns = list(group)
            groups[columns] = k
            coef[:, :, columns] = fitted[:, :, : len(columns)]
            if self.fit_intercept:
                group_intercept[:, :, k] = constant * fitted[:, :, -1]
        intercept = (
            self._constant * stack[:, :, -1] if self.fit_intercept else np.zeros(stack.shape[:2])
        )
        return {
            "coef": coef,
            "intercept": intercept,
            "group_intercept_": group_intercept,
            "stack_coef_": stack[:, :, :K],
            "groups_": groups,
        }

    def _scores(self, X: Any, tasks: Any) -> Array:
        rows, index = self._rows_and_tasks(X, tasks)
        coef, intercept = outputs_first(self.coef_, 3), outputs_first(self.intercept_, 2)
        columns = [np.flatnonzero(self.groups_ == k) for k in range(self.groups_.max() + 1)]
        shape = tuple(tuple(int(c) for c in group) for group in columns)
        design = Design(shape, (1.0,) * len(shape), float(self.row_norm), self.rows)
        scores = np.empty((len(rows), coef.shape[1]))
        for task in np.unique(index):
            mine = index == task
            ones = np.ones((int(mine.sum()), 1))
            parts = [np.hstack([part, ones]) for part in design.bounded(rows[mine])]
            models = [
                np.hstack([coef[task][:, group], self.group_intercept_[task][:, k : k + 1]])
                for k, group in enumerate(columns)
            ]
            for output in range(coef.shape[1]):
                answers = stack_rows(parts, [model[output] for model in models])
                scores[mine, output] = (
                    answers @ self.stack_coef_[task, output] + intercept[task, output]
                )
        return scores
