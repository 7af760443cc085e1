"""How well every task is served, on rows the caller owns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from tacit._types import AnyArray, Array
from tacit.errors import InvalidInput
from tacit.estimators import _input

__all__ = ["Evaluation", "evaluate", "own_index"]


@dataclass(frozen=True)
class Evaluation:
    """Error of each method on each task: root mean squared error, or share of wrong answers.

    ``errors`` (n_methods, n_tasks) has the reported model first; ``total`` (n_methods,) is over
    all rows. ``refused`` names baselines that may not be shown on this page.
    """

    metric: str
    methods: tuple[str, ...]
    protected: tuple[str, ...]
    names: tuple[Hashable, ...]
    n_rows: AnyArray
    errors: Array
    total: Array
    refused: tuple[str, ...] = ()

    @property
    def classification(self) -> bool:
        """Whether errors are shares of wrong answers."""
        return self.metric == "wrong answers"

    @property
    def gain(self) -> Array | None:
        """How much less error than the first baseline, by task; None without a baseline."""
        return None if len(self.methods) < 2 else self.errors[1] - self.errors[0]


def own_index(names: tuple[Hashable, ...], party: Any) -> int:
    """Return the position of ``party``; a text that spells exactly one task's name will do."""
    if party in names:
        return names.index(party)
    alike = [index for index, name in enumerate(names) if str(name) == str(party)]
    if len(alike) != 1:
        raise InvalidInput(
            f"party={party!r}: not one of the model's {len(names)} tasks; use a name of task_names_"
        )
    return alike[0]


def _protection(model: Any) -> str:
    statement = model.privacy_
    if not statement.holds:
        return "nobody protected"
    if statement.n_releases == 0 and statement.epsilon == 0:
        return "nothing shared"
    return f"ε = {statement.epsilon:.3g}"


def _may_show(model: Any) -> bool:
    """Whether a model's answers tell one party no more of the others than was paid for."""
    return bool(model.privacy_.holds)


def _row_errors(model: Any, X: Any, y: AnyArray, tasks: Any) -> Array:
    predicted = np.asarray(model.predict(X, tasks=tasks))
    if is_classifier(model):
        return np.asarray(predicted != y, dtype=np.float64)
    return (np.asarray(predicted, dtype=np.float64) - np.asarray(y, dtype=np.float64)) ** 2


def _rows(X: Any, keep: AnyArray) -> Any:
    import narwhals as nw

    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame.filter(keep.tolist()).to_native()
    return np.asarray(X)[keep]


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    tasks: Any,
    baselines: Mapping[str, Any] | None,
    party: Hashable | None,
) -> Evaluation:
    """Return the errors of ``model`` and the fitted ``baselines`` on these rows.

    Guarantee: with a ``party`` only its own rows are looked at, and a baseline whose statement
    does not hold (one fitted on everybody's rows without protection, say) is left out by name.
    """
    X, tasks = _input.without_task_column(X, tasks)
    labels: Any = _input.labels_of_rows(tasks, len(X)) if tasks is not None else None
    if labels is None:
        only = party if party is not None else model.task_names_[0]
        if party is None and len(model.task_names_) > 1:
            raise InvalidInput("tasks=None: pass tasks= with one label per row of X")
        labels = [only] * len(X)
    labels = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    y = _input.target(y, len(labels))
    if party is not None:
        keep = np.fromiter((label == party for label in labels), bool, len(labels))
        if not keep.any():
            raise InvalidInput(f"tasks: has no row of party={party!r}; pass rows of that task")
        X, y, labels = _rows(X, keep), y[keep], [party] * int(keep.sum())
    if not labels:
        raise InvalidInput("X: has no rows; leave X out for a report without evaluation")
    shown = {"this model": model}
    refused = []
    for name, baseline in (baselines or {}).items():
        if party is None or _may_show(baseline):
            shown[str(name)] = baseline
        else:
            refused.append(str(name))
    position = {name: index for index, name in enumerate(dict.fromkeys(labels))}
    index = np.fromiter((position[label] for label in labels), np.int64, len(labels))
    n_rows = np.bincount(index)
    rows = np.stack([_row_errors(each, X, y, labels) for each in shown.values()])
    errors = np.stack([np.bincount(index, weights=row) / n_rows for row in rows])
    total = rows.mean(axis=1)
    wrong = is_classifier(model)
    if not wrong:
        errors, total = np.sqrt(errors), np.sqrt(total)
    return Evaluation(
        metric="wrong answers" if wrong else "root mean squared error",
        methods=tuple(shown),
        protected=tuple(_protection(each) for each in shown.values()),
        names=tuple(position),
        n_rows=n_rows,
        errors=errors,
        total=total,
        refused=tuple(refused),
    )
