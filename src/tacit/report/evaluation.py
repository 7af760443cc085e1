"""How well every task is served, on rows the caller owns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from tacit._types import AnyArray, Array, IntArray
from tacit.errors import InvalidInput
from tacit.estimators import _input
from tacit.report.baselines import crossed_baselines, fitted_baselines
from tacit.report.measures import Answers, Measure, Resampled, bins_of, confidence, measured

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
    measures: tuple[Measure, ...] = ()
    less: tuple[float, float, float] | None = None  # share of the baseline's error, with interval
    by_task: bool = False  # intervals come from drawing tasks again, not rows
    base_rate: tuple[str, float] | None = None  # the most frequent class, and its share
    reliability: tuple[tuple[float, float, int], ...] = ()  # expected, happened, rows
    crossed: bool = False  # baselines learned from these very rows, each from the other folds
    left_out: int = 0  # rows that no baseline could be tested on

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


def _codes(y: AnyArray, classes: AnyArray) -> IntArray:
    """Return the class of every row; one that the model does not know is −1."""
    position = {label: code for code, label in enumerate(classes.tolist())}
    return np.fromiter((position.get(label, -1) for label in y.tolist()), np.int64, len(y))


def _answers(model: Any, X: Any, tasks: Any, classes: AnyArray | None) -> Answers:
    predicted = np.asarray(model.predict(X, tasks=tasks))
    if classes is None:
        return Answers(predicted.astype(np.float64))
    shares = np.asarray(model.predict_proba(X, tasks=tasks))
    if [str(label) for label in model.classes_] != [str(label) for label in classes]:
        return Answers(_codes(predicted, classes))
    return Answers(_codes(predicted, classes), shares)


def _rows(X: Any, keep: AnyArray) -> Any:
    import narwhals as nw

    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame.filter(keep.tolist()).to_native()
    return np.asarray(X)[keep]


@dataclass(frozen=True)
class Rows:
    """Rows that somebody owns, with the task of each."""

    X: Any
    y: AnyArray
    tasks: list[Hashable]

    @classmethod
    def given(cls, model: Any, X: Any, y: Any, tasks: Any, party: Hashable | None) -> Rows:
        """Return the rows as they came; with a ``party`` its own only."""
        X, tasks = _input.without_task_column(X, tasks)
        labels: Any = _input.labels_of_rows(tasks, len(X)) if tasks is not None else None
        if labels is None:
            only = party if party is not None else model.task_names_[0]
            if party is None and len(model.task_names_) > 1:
                raise InvalidInput("tasks=None: pass tasks= with one label per row of X")
            labels = [only] * len(X)
        labels = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
        rows = cls(X, _input.target(y, len(labels)), labels)
        if party is not None:
            keep = np.fromiter((label == party for label in labels), bool, len(labels))
            if not keep.any():
                raise InvalidInput(f"tasks: has no row of party={party!r}; pass rows of that task")
            rows = rows.take(keep)
        if not rows.tasks:
            raise InvalidInput("X: has no rows; leave X out for a report without evaluation")
        return rows

    def take(self, keep: AnyArray) -> Rows:
        """Return the rows of a mask."""
        labels = [label for label, kept in zip(self.tasks, keep.tolist(), strict=True) if kept]
        return Rows(_rows(self.X, keep), self.y[keep], labels)


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    tasks: Any,
    baselines: Mapping[str, Any] | None,
    party: Hashable | None,
    fitted_on: tuple[Any, Any, Any] | None = None,
) -> Evaluation:
    """Return the errors of ``model`` and the ``baselines`` on these rows.

    Without ``baselines`` the model is compared with single-task and pooled ones: learned from the
    rows ``fitted_on``, or else from these rows, each answer from the folds that lack its row.

    Guarantee: with a ``party`` only its own rows are looked at, by baselines too, and a baseline
    whose statement does not hold (one fitted on everybody's rows without protection, say) is left
    out by name.
    """
    rows = Rows.given(model, X, y, tasks, party)
    crossed, left_out, refused = False, 0, []
    shown: dict[str, Any] = {"this model": model}
    if baselines is None and fitted_on is not None:
        own = Rows.given(model, *fitted_on, party)
        shown |= fitted_baselines(model, own.X, own.y, own.tasks, alone=party is not None)
    elif baselines is None:
        found, tested = crossed_baselines(
            model, rows.X, rows.y, rows.tasks, alone=party is not None
        )
        if found:
            crossed, left_out = True, int((~tested).sum())
            rows, shown = rows.take(tested), shown | found
    for name, baseline in (baselines or {}).items():
        if party is None or _may_show(baseline):
            shown[str(name)] = baseline
        else:
            refused.append(str(name))
    return _evaluated(shown, rows, tuple(refused), crossed=crossed, left_out=left_out)


def _evaluated(
    shown: dict[str, Any], rows: Rows, refused: tuple[str, ...], *, crossed: bool, left_out: int
) -> Evaluation:
    model = shown["this model"]
    classes = np.asarray(model.classes_) if is_classifier(model) else None
    y = rows.y if classes is None else _codes(rows.y, classes)
    answers = [_answers(each, rows.X, rows.tasks, classes) for each in shown.values()]
    position = {name: index for index, name in enumerate(dict.fromkeys(rows.tasks))}
    index = np.fromiter((position[label] for label in rows.tasks), np.int64, len(rows.tasks))
    n_rows = np.bincount(index)
    if classes is None:
        each = [(one.predicted - y.astype(np.float64)) ** 2 for one in answers]
    else:
        each = [(one.predicted != y).astype(np.float64) for one in answers]
    losses = np.stack(each)
    errors = np.stack([np.bincount(index, weights=row) / n_rows for row in losses])
    total = losses.mean(axis=1)
    if classes is None:
        errors, total = np.sqrt(errors), np.sqrt(total)
    drawn = Resampled(index)
    measures, less = measured(y, answers, drawn)
    return Evaluation(
        metric="root mean squared error" if classes is None else "wrong answers",
        methods=tuple(shown),
        protected=tuple(_protection(each) for each in shown.values()),
        names=tuple(position),
        n_rows=n_rows,
        errors=errors,
        total=total,
        refused=refused,
        measures=measures,
        less=None if less is None else _with_ends(less),
        by_task=drawn.by_task,
        base_rate=None if classes is None else _base_rate(y, classes),
        reliability=_reliability(answers[0], y),
        crossed=crossed,
        left_out=left_out,
    )


def _with_ends(draws: Array) -> tuple[float, float, float]:
    finite = draws[1:][np.isfinite(draws[1:])]
    low, high = np.percentile(finite, [2.5, 97.5]) if finite.size else (np.nan, np.nan)
    return float(draws[0]), float(low), float(high)


def _base_rate(codes: IntArray, classes: AnyArray) -> tuple[str, float]:
    counts = np.bincount(codes[codes >= 0], minlength=len(classes))
    return str(classes[counts.argmax()]), float(counts.max() / max(len(codes), 1))


def _reliability(answers: Answers, y: AnyArray) -> tuple[tuple[float, float, int], ...]:
    if answers.shares is None:
        return ()
    expected, happened = confidence(answers.shares, y, answers.predicted)
    where = bins_of(expected)
    count = np.bincount(where)
    kept = np.flatnonzero(count)
    means = (np.bincount(where, values) / np.maximum(count, 1) for values in (expected, happened))
    said, seen = means
    return tuple((float(said[b]), float(seen[b]), int(count[b])) for b in kept)
