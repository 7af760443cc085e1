"""From a big organisation to a small one: private source models that a target continues from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tacit import _check
from tacit._types import AnyArray, Array
from tacit.errors import InvalidInput
from tacit.estimators import _input
from tacit.estimators._base import Learned
from tacit.estimators._constraints import Constraints, rule
from tacit.estimators._private import Sizes, open_ledger
from tacit.estimators._row_private import RowPrivateClassifier
from tacit.privacy.ledger import Ledger
from tacit.privacy.schedule import Schedule
from tacit.privacy.statement import Statement
from tacit.privacy.unit import Unit
from tacit.tasks import TaskSet
from tacit.transfer.design import Design
from tacit.transfer.package import SourcePackage
from tacit.transfer.protocol import TransferProtocol

__all__ = ["SourceRequest", "TransferClassifier", "TransferEstimator"]

Packages = tuple[SourcePackage, ...]
_SOURCE_CLASSES = (
    "that every label is one of the source’s classes: another one is refused; declare the classes "
    "to have it counted as the last of them"
)


@dataclass(frozen=True)
class SourceRequest:
    """Where a fit takes its sources from: packages of others, or tasks of its own call."""

    packages: Packages = ()
    tasks: tuple[Any, ...] = ()


def _request(source: Any, source_task: Any, tasks: Any) -> SourceRequest:
    if source is not None and source_task is not None:
        raise InvalidInput(
            "source, source_task: pass one of source=package (or a list of packages, from "
            "fit_source) and source_task=label (or a list of labels, with tasks=…), not both"
        )
    if source is None and source_task is None:
        return SourceRequest()
    if source_task is not None:
        if tasks is None:
            raise InvalidInput(f"source_task={source_task!r}: needs tasks= with one label per row")
        labels = source_task if isinstance(source_task, list) else [source_task]
        if len(set(labels)) < len(labels):
            raise InvalidInput(
                f"source_task={source_task!r}: names a task more than once; each would be another "
                "release of the same rows: name every source once"
            )
        return SourceRequest(tasks=tuple(labels))
    packages = (source,) if isinstance(source, SourcePackage) else tuple(source)
    if not packages or not all(isinstance(package, SourcePackage) for package in packages):
        raise InvalidInput("source: must be a SourcePackage, or a list of them, from fit_source")
    return SourceRequest(packages=packages)


def _plain(classes: AnyArray) -> AnyArray:
    """Return classes as numbers or fixed-width text, which a file can hold without pickle."""
    return classes.astype(str) if classes.dtype == object else classes


class TransferEstimator(RowPrivateClassifier):
    """Common to both transfer classifiers: sources, packages, and one model per target."""

    eta: float | str
    _parameter_constraints: ClassVar[Constraints] = {
        "eta": [
            "auto",
            rule(_check.below, limit=1, included=True, remedy='use "auto", or a number in [0, 1]'),
        ],
    }
    _stacked = False  # whether a target weighs its groups' answers

    @abstractmethod
    def _arrays(self, models: Sequence[Array], design: Design) -> dict[str, AnyArray]:
        """Return the fitted arrays of all targets, from what was posted."""

    def _protocol(self, sizes: Sizes) -> TransferProtocol:
        """Return the target's conversation."""
        return TransferProtocol(
            self._learner(sizes),
            stacked=self._stacked,
            sources=self._requested.packages,
            eta=None if isinstance(self.eta, str) else float(self.eta),
        )

    @property
    def _requested(self) -> SourceRequest:
        return getattr(self, "_sources", SourceRequest())

    def fit_source(self, X: Any, y: Any) -> SourcePackage:
        """Learn the source's models and return them as a package for other organisations.

        Guarantee: the package is (ε, δ)-DP for one replaced row of X, y, whatever targets do with
        it; ``package.statement`` says so. The estimator itself stays as it was.
        """
        source = clone(self)
        source._check_parameters()
        rows = _input.features(source, X, reset=True)
        targets = source._encode_target(source._target_values(y, len(rows)))
        codes = targets[:, 0] if targets.shape[1] == 1 else targets.argmax(axis=1)
        names = getattr(source, "feature_names_in_", None)
        task_set = TaskSet.from_arrays(rows, codes, feature_names=names)
        return source._package(task_set, targets.shape[1])

    def _package(
        self, tasks: TaskSet, n_outputs: int, *, number: int = 0, charged: bool = False
    ) -> SourcePackage:
        """Return the package of the one source in ``tasks``, the ``number``-th of this call."""
        sizes = Sizes.of(tasks, n_outputs)
        protocol, _ = self._source_staged(sizes)
        entropy = self._checkpoint.entropy(self.random_state).child("source", number)
        run = self._conversation(protocol, tasks, sizes, entropy, charged=charged)
        statement = run.statements["privacy_"]
        return self._packed(protocol, run.models, tasks.n_rows, tasks.feature_names, statement)

    def _source_staged(self, sizes: Sizes) -> tuple[TransferProtocol, Schedule]:
        """Return a source's conversation, in which nothing is weighed, and its schedule."""
        protocol = TransferProtocol(self._learner(sizes))
        return protocol, protocol.schedule()

    def _packed(
        self,
        protocol: TransferProtocol,
        released: Array,
        n_rows: int,
        feature_names: tuple[str, ...] | None,
        statement: Statement,
    ) -> SourcePackage:
        """Return what a source released (1, …) as a package; all else in it is public."""
        return SourcePackage(
            design=protocol.learner.design,
            models=tuple(models[0] for models in protocol.models(released)),
            uncertainties=protocol.learner.uncertainties(n_rows),
            classes=_plain(self.classes_),
            feature_names=feature_names,
            statement=self._stated(statement),
        )

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        source: Any = None,
        tasks: Any = None,
        source_task: Any = None,
        **refused: Any,
    ) -> Self:
        """Learn the target's model, continuing from one or several sources.

        Parameters
        ----------
        X, y : the target's rows and classes (of all tasks, if ``tasks`` is given)
        source : SourcePackage or list of them
            From `fit_source`; several are averaged by their precision.
        tasks : array-like of task labels or column name, optional
            Every task gets a model of its own.
        source_task : label or list of labels, optional
            In place of ``source``: these tasks are the sources, all others are targets.

        Without any source the target learns from its own rows alone.
        """
        self._refuse(refused)
        before = dict(vars(self))
        try:
            self._sources = _request(source, source_task, tasks)
            super().fit(X, y, tasks=tasks)
            del self._sources
        except BaseException:
            self.__dict__ = before
            raise
        return self

    def _encode_target(self, y: AnyArray) -> Array:
        packages = self._requested.packages
        if not packages:
            return super()._encode_target(y)
        self.classes_ = packages[0].classes
        codes = {label: code for code, label in enumerate(self.classes_.tolist())}
        if any(package.classes.tolist() != list(codes) for package in packages[1:]):
            raise InvalidInput("source: the packages have different classes; code them alike")
        if self.classes is not None:
            if sorted(self.classes) != list(codes):
                raise InvalidInput(
                    f"classes={self.classes!r}: the source has {list(codes)}; declare the same"
                )
            return super()._encode_target(y)
        strange = [label for label in np.unique(y).tolist() if label not in codes]
        if strange:
            raise InvalidInput(
                f"y: class {strange[0]!r} is not one of the source's {list(codes)}; "
                "code the target's classes like the source's, or declare them with classes="
            )
        coded = np.array([codes[label] for label in y.tolist()], dtype=np.float64)
        return (
            coded[:, None] if len(codes) == 2 else (coded[:, None] == np.arange(len(codes))) * 1.0
        )

    def _stated(self, statement: Statement) -> Statement:
        packages = self._requested.packages
        if packages and self.classes is None:
            return replace(statement, not_protected=(*statement.not_protected, _SOURCE_CLASSES))
        return super()._stated(statement)

    def _converse(self, tasks: TaskSet, n_outputs: int) -> Learned:  # type: ignore[override]
        packages, design = self._requested.packages, self._design(tasks.n_features)
        targets = tasks.take_tasks(self._targets(tasks))
        for package in packages:
            package.check_fits(design, tasks.feature_names)
        for name, count in zip(targets.names, targets.counts, strict=True):
            self._check_size(int(count), design.n_groups, name)
        together = bool(self._requested.tasks)
        if together:
            packages = self._packages_within(tasks, targets, n_outputs)
        sizes = Sizes.of(targets, n_outputs)
        protocol = replace(self._protocol(sizes), sources=packages)
        entropy = self._checkpoint.entropy(self.random_state).child("target")
        run = self._conversation(protocol, targets, sizes, entropy, charged=together)
        arrays = self._arrays(protocol.models(run.models), design)
        return Learned(
            coef=arrays.pop("coef"),
            intercept=arrays.pop("intercept"),
            statement=run.statements["privacy_"],
            history=run.history,
            billboard=run.billboard,
            extra={
                **arrays,
                "task_names_": targets.names,
                "packages_": packages,
                "source_privacy_": tuple(package.statement for package in packages),
                "n_clipped_rows_": self._clipped(targets.X, design),
            },
        )

    def _check_size(self, n_rows: int, n_groups: int, name: Any) -> None:
        """Refuse a target that is too small for the method."""

    def _targets(self, tasks: TaskSet) -> list[int]:
        """Return the positions of the tasks that are not sources."""
        for label in self._requested.tasks:
            if label not in tasks.names:
                raise InvalidInput(f"source_task={label!r}: not one of the tasks {tasks.names}")
        chosen = [i for i, name in enumerate(tasks.names) if name not in self._requested.tasks]
        if not chosen:
            raise InvalidInput("source_task: names every task; leave at least one as target")
        return chosen

    def _packages_within(self, tasks: TaskSet, targets: TaskSet, n_outputs: int) -> Packages:
        """Charge all sources and targets of one call, then make the sources' packages.

        Guarantee: every row is in one task, so it enters one of the releases only, and all of them
        cost what the dearest does (parallel composition). A refusal comes before any of them.
        """
        labels = self._requested.tasks
        sources = [tasks.take_tasks([tasks.names.index(label)]) for label in labels]
        sizes = [Sizes.of(part, n_outputs) for part in (targets, *sources)]
        dearest = max(sizes, key=self._run_delta)
        schedule = self._schedule(self._protocol(dearest), dearest)
        ledger = open_ledger(self.ledger, *self._total(dearest))
        with self._reserved(ledger, schedule, dearest) as reservation:
            for event in schedule.events(Unit.ROW):
                reservation.charge(event)
        return tuple(
            self._package(source, n_outputs, number=number, charged=True)
            for number, source in enumerate(sources)
        )

    def _rows_and_tasks(self, X: Any, tasks: Any) -> tuple[Array, Any]:
        check_is_fitted(self)
        X, tasks = _input.without_task_column(X, tasks)
        rows = _input.features(self, X, reset=False)
        TaskSet.from_arrays(rows)  # refuses NaN and inf, with row and column named
        return rows, self._index_of_tasks(tasks, len(rows))


def outputs_first(array: Array, ndim: int) -> Array:
    """Return an array of all tasks with the axis of outputs that a single output leaves out."""
    return array if array.ndim == ndim else array[:, None]


class TransferClassifier(TransferEstimator):
    """Private logistic regression that continues from a source's private model (SimComb).

    The target minimises its own perturbed loss with the regulariser
    (η/2)‖w‖² + ((1−η)/2)‖w − w_source‖², that is, pulled towards (1−η)·w_source.

    Parameters
    ----------
    epsilon, delta, alpha, row_norm, rows, fit_intercept, intercept_scaling, ledger, data,
    random_state
        As for `PrivateLogisticRegression`; source and target may have different budgets.
    eta : float in [0, 1] or "auto", default "auto"
        How far the target is pulled to zero rather than to the source. "auto" is 1/(1 + u), where u
        is the target's public noise-to-signal ratio: small or tightly protected targets follow the
        source, others hardly.
    unknown_task : "error"

    Attributes
    ----------
    coef_, intercept_, classes_, privacy_ (the target's), billboard_, n_clipped_rows_
    packages_, source_privacy_
        The sources, and their statements.

    Guarantee: ``fit_source`` is (ε, δ)-DP for one row of the source and ``fit`` for one row of the
    target, each with the budget of the call; a row of one is no row of the other.
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | str = 0.0,
        *,
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

    def _design(self, n_features: int) -> Design:
        everything = (tuple(range(n_features)),)
        return Design(everything, (1.0,), float(self.row_norm), self.rows, self._constant)

    def _arrays(self, models: Sequence[Array], design: Design) -> dict[str, AnyArray]:
        coef, intercept = self._coefficients(models[0], design)
        return {"coef": coef, "intercept": intercept}

    def _prepared(self, X: Any) -> Array:
        return self._bounded(super()._prepared(X))
