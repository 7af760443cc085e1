"""How good methods are at several budgets, beside learning alone, pooled, and without noise."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit import _check
from tacit._files import write_whole
from tacit._types import Array
from tacit.errors import InvalidInput
from tacit.methods import estimator_class

if TYPE_CHECKING:
    from tacit.privacy.accounting import Cost
    from tacit.privacy.ledger import Ledger
    from tacit.privacy.statement import Statement

__all__ = ["Comparison", "Entry", "compare", "look_cost"]

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
_PUBLIC = (
    "The rows were declared public, or one's own: nobody's privacy was spent, and nothing was "
    "charged."
)


@dataclass(frozen=True)
class Entry:
    """One method at one budget, on every split; ε = 0 shares nothing, inf hides nothing."""

    method: str
    epsilon: float
    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the splits."""
        return float(np.mean(self.scores))

    @property
    def spread(self) -> float:
        """Standard deviation over the splits; 0 of one."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else 0.0


@dataclass(frozen=True)
class Comparison:
    """What `compare` found.

    Attributes
    ----------
    entries : what every method reached, single-task and pooled first
    measure : what the scores are; greater is better
    n_tasks, n_rows : sizes
    privacy : what all private fits of the look cost together; None on public rows
    """

    entries: tuple[Entry, ...]
    measure: str
    n_tasks: int
    n_rows: int
    privacy: Statement | None

    @property
    def cost(self) -> str:
        """What the look itself cost, in words."""
        stated = self.privacy
        if stated is None:
            return _PUBLIC
        return (
            f"The private fits of this look spent ε = {stated.epsilon:.3g}, δ = {stated.delta:.2g} "
            f"together (unit: {stated.unit}, {stated.n_releases} releases). The scores, and the "
            "models without noise among them, are computed from everybody's rows and are covered "
            "by no ε: keep this comparison with those who may see the rows, and choose by public "
            "or simulated rows, or with PrivateSearch, where nobody may."
        )

    def table(self) -> str:
        """Return the comparison as lines of text, budgets ascending."""
        width = max(len(entry.method) for entry in self.entries)
        lines = [f"{'method':<{width}}  {'ε':>6}  {self.measure} (± deviation over splits)"]
        lines += [
            f"{entry.method:<{width}}  {_budget(entry.epsilon):>6}  "
            f"{entry.mean:.4f} ± {entry.spread:.4f}"
            for entry in self.entries
        ]
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"{self.table()}\n\n{self.cost}"

    def to_csv(self, path: str | PathLike[str] | None = None) -> str:
        """Return one line a split as CSV text, and write it if ``path`` is given."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["method", "epsilon", "split", self.measure])
        for entry in self.entries:
            for number, score in enumerate(entry.scores):
                writer.writerow([entry.method, entry.epsilon, number, score])
        if path is not None:
            write_whole(Path(path), stream.getvalue())
        return stream.getvalue()

    def plot(self, path: str | PathLike[str]) -> Path:
        """Write the picture: score against ε, with the spread over splits (needs matplotlib)."""
        from tacit._comparison_plot import plot

        return plot(self, Path(path))


def _budget(epsilon: float) -> str:
    return "none" if math.isinf(epsilon) else f"{epsilon:g}"


def _kind(y: Any, kind: str) -> str:
    _check.one_of("kind", kind, ("auto", "regression", "classification"))
    if kind != "auto":
        return kind
    values = np.asarray(y)
    numbers = values.dtype.kind in "iuf" and len(np.unique(values)) > 2
    return "regression" if numbers else "classification"


def _checked(methods: Sequence[str], epsilons: Sequence[float]) -> tuple[float, ...]:
    if isinstance(methods, str) or not methods:
        raise InvalidInput(f"methods={methods!r}: must be a list of names; see tacit methods")
    budgets = [
        _check.positive("epsilons", value, remedy="the open model is compared anyway")
        for value in epsilons
    ]
    if not budgets:
        raise InvalidInput("epsilons: give one budget at least, such as (1.0,)")
    return tuple(sorted(set(budgets)))


def compare(
    X: Any,
    y: Any,
    *,
    tasks: Any,
    methods: Sequence[str] = ("shared-prior",),
    epsilons: Sequence[float] = EPSILONS,
    kind: str = "auto",
    scoring: Any = None,
    n_repeats: int = 5,
    test_size: float = 0.3,
    public: bool = False,
    ledger: Ledger | str | PathLike[str] | None = None,
    n_jobs: int | None = None,
    random_state: int | None = 0,
    progress: Callable[[int, int], None] | None = None,
    settings: dict[str, Any] | None = None,
) -> Comparison:
    """Compare methods at several budgets on repeated splits within tasks.

    Parameters
    ----------
    X, y, tasks : rows, as for ``fit``
    methods : names as on the command line, such as "shared-prior" and "mean-regularized"
        Single-task, pooled, and every method without noise are compared besides.
    epsilons : budgets of one fit
    kind : "auto", "regression" or "classification"
        "auto" takes more than two numbers for a regression.
    scoring : as for `tacit.model_selection.task_scorer`; accuracy, or R², if None
    n_repeats, test_size : splits, the same for every method
    public : bool
        Whether the rows are public, or the caller's own: then nothing is charged. Otherwise the
        cost of all private fits together is stated, and charged to ``ledger``.
    ledger : Ledger, path or None
    n_jobs : processes
    random_state : seed of the splits, which carry no privacy; noise is never seeded here
    progress : callable(done, all), after every method and budget
    settings : further parameters for those methods that have them, such as ``classes``

    Guarantee: the stated cost composes every release of every private fit. The scores are not
    noised (see `Comparison.cost`); fits of one budget are refused together, before any data are
    touched, if the ledger cannot pay for all of them.
    """
    from tacit.estimators import _input
    from tacit.model_selection import TaskShuffleSplit
    from tacit.model_selection.scores import scorer_of
    from tacit.model_selection.validation import looking, sizes_of, validated

    budgets, kind = _checked(methods, epsilons), _kind(y, kind)
    if public and ledger is not None:
        raise InvalidInput("ledger: public rows are not charged; leave out ledger, or public")
    X, tasks = _input.without_task_column(X, tasks)
    shown = _estimators([m for m in methods if m not in _OPEN], budgets, kind, settings or {})
    splits = TaskShuffleSplit(n_repeats, test_size=test_size, random_state=random_state)
    first = shown[0][2]
    sizes = sizes_of(first, X, y, tasks)
    entries: list[Entry] = []
    with looking([(model, splits.n_splits) for *_, model in shown], ledger, sizes) as look:
        for number, (method, epsilon, model) in enumerate(shown):
            found = validated(look, model, X, y, tasks, splits, scoring, n_jobs)
            scores: Array = found["test_score"]
            entries.append(Entry(method, epsilon, tuple(float(score) for score in scores)))
            if progress is not None:
                progress(number + 1, len(shown))
        stated = None if public else look.stated()
    measure = scorer_of(scoring, first).name
    return Comparison(tuple(entries), measure, sizes.n_tasks, sizes.n_rows or 0, stated)


def look_cost(
    X: Any,
    y: Any,
    *,
    tasks: Any,
    methods: Sequence[str],
    epsilons: Sequence[float],
    kind: str,
    n_repeats: int,
    settings: dict[str, Any],
) -> Cost:
    """Return what `compare` with these arguments would spend; of the rows, only sizes are used."""
    from tacit.model_selection.validation import planned_cost, sizes_of

    budgets = _checked(methods, epsilons)
    shown = _estimators([m for m in methods if m not in _OPEN], budgets, kind, settings)
    sizes = sizes_of(shown[0][2], X, y, tasks)
    return planned_cost([(model, n_repeats) for *_, model in shown], sizes)


_OPEN = ("single-task", "pooled")


def _estimators(
    methods: Sequence[str], budgets: Sequence[float], kind: str, settings: dict[str, Any]
) -> list[tuple[str, float, Any]]:
    """Return (method, ε, estimator) of everything that is compared."""

    def build(method: str, **given: Any) -> Any:
        chosen = estimator_class(method, kind)
        known = chosen._get_param_names()
        if "epsilon" in given and "epsilon" not in known:
            raise InvalidInput(f"methods: {method!r} has no budget to compare; leave it out")
        return chosen(**given, **{name: settings[name] for name in settings if name in known})

    shown = [("single-task", 0.0, build("single-task")), ("pooled", math.inf, build("pooled"))]
    for method in dict.fromkeys(methods):
        shown += [(method, budget, build(method, epsilon=budget)) for budget in budgets]
        shown.append((method, math.inf, build(method, epsilon=math.inf)))
    return shown
