"""From a big organisation to a small one: private source models that a target continues from."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from tacit import _check
from tacit._types import AnyArray, Array
from tacit.errors import InvalidInput
from tacit.estimators import _input
from tacit.estimators._base import Learned
from tacit.estimators._row_private import RowPrivateClassifier
from tacit.privacy.entropy import Entropy
from tacit.privacy.ledger import Ledger
from tacit.privacy.objective import ObjectivePerturbation
from tacit.privacy.statement import Statement
from tacit.protocols.package import SourcePackage
from tacit.protocols.transfer import Budget, Design, Learner, combined_centre, trust
from tacit.tasks import TaskSet

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
        return SourceRequest(tasks=tuple(labels))
    packages = (source,) if isinstance(source, SourcePackage) else tuple(source)
    if not packages or not all(isinstance(package, SourcePackage) for package in packages):
        raise InvalidInput("source: must be a SourcePackage, or a list of them, from fit_source")
    return SourceRequest(packages=packages)


def _plain(classes: AnyArray) -> AnyArray:
    """Return classes as numbers or fixed-width text, which a file can hold without pickle."""
    return classes.astype(str) if classes.dtype == object else classes


def _rows_of(tasks: TaskSet, task: int) -> slice:
    return slice(int(tasks.offsets[task]), int(tasks.offsets[task + 1]))


class TransferEstimator(RowPrivateClassifier):
    """Common to both transfer classifiers: sources, packages, and one model per target."""

    eta: float | str

    @abstractmethod
    def _design(self, n_features: int) -> Design:
        """Return the public design, which source and target compute alike."""

    @abstractmethod
    def _target(
        self, X: Array, targets: Array, learner: Learner, packages: Packages, entropy: Entropy
    ) -> list[Array]:
        """Return a target's models, every row used by one of them only; ``learner`` is for all."""

    @abstractmethod
    def _arrays(self, models: Sequence[Sequence[Array]], design: Design) -> dict[str, AnyArray]:
        """Return the fitted arrays of all targets, from what was posted."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.eta != "auto":
            eta = _check.non_negative("eta", self.eta, remedy='use "auto", or a number in [0, 1]')
            if eta > 1:
                raise InvalidInput(f'eta={self.eta!r}: must be at most 1; use "auto"')

    def fit_source(self, X: Any, y: Any) -> SourcePackage:
        """Learn the source's models and return them as a package for other organisations.

        Guarantee: the package is (ε, δ)-DP for one replaced row of X, y, whatever targets do with
        it; ``package.statement`` says so. The estimator itself stays as it was.
        """
        source = clone(self)
        source._check_parameters()
        rows = _input.features(source, X, reset=True)
        targets = source._encode_target(source._target_values(y, len(rows)))
        names = getattr(source, "feature_names_in_", None)
        task_set = TaskSet.from_arrays(rows, targets[:, 0], feature_names=names)
        return source._package(task_set.X, targets, task_set.feature_names)

    def _package(
        self,
        X: Array,
        targets: Array,
        feature_names: tuple[str, ...] | None,
        *,
        charged: bool = False,
    ) -> SourcePackage:
        design = self._design(X.shape[1])
        learner = Learner(design, self._budget(len(X)), targets.shape[1], len(X), self._strength)
        models, statement, _ = self._publish(
            learner.mechanism,
            lambda entropy: learner.learn(X, targets, entropy),
            data="source",
            n_rows=len(X),
            charged=charged,
        )
        return SourcePackage(
            design=design,
            models=tuple(models),
            uncertainties=learner.uncertainties,
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
        packages = self._sources.packages if hasattr(self, "_sources") else ()
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
        packages = self._sources.packages if hasattr(self, "_sources") else ()
        if packages and self.classes is None:
            return replace(statement, not_protected=(*statement.not_protected, _SOURCE_CLASSES))
        return super()._stated(statement)

    def _learn(self, tasks: TaskSet, targets: Array) -> Learned:
        design = self._design(tasks.n_features)
        chosen, packages = self._targets(tasks), self._sources.packages
        for package in packages:
            package.check_fits(design, tasks.feature_names)
        spans = [_rows_of(tasks, i) for i in chosen]
        for i, span in zip(chosen, spans, strict=True):
            self._check_size(span.stop - span.start, design.n_groups, tasks.names[i])
        n_rows = sum(span.stop - span.start for span in spans)
        budget, alpha = self._budget(n_rows), self._strength
        if self._sources.tasks:
            self._charge_together(tasks, budget)
            packages = self._sources_within(tasks, targets)
        sizes: list[int] = []

        def solve(entropy: Entropy) -> list[Array]:
            models = []
            for span in spans:
                learner = Learner(design, budget, targets.shape[1], span.stop - span.start, alpha)
                fitted = self._target(tasks.X[span], targets[span], learner, packages, entropy)
                sizes.append(len(fitted))
                models.extend(fitted)
            return models

        event = ObjectivePerturbation(budget.epsilon, budget.delta, (1.0,))
        posted, statement, billboard = self._publish(
            event, solve, data="target", n_rows=n_rows, charged=bool(self._sources.tasks)
        )
        per_target = [posted[i * sizes[0] : (i + 1) * sizes[0]] for i in range(len(spans))]
        arrays = self._arrays(per_target, design)
        clipped = sum(design.longer(tasks.X[span]) for span in spans) if self.rows == "clip" else 0
        return Learned(
            coef=arrays.pop("coef"),
            intercept=arrays.pop("intercept"),
            statement=statement,
            history=({"release": 1, "mechanism": event.name, "n_sources": len(packages)},),
            billboard=billboard,
            extra={
                **arrays,
                "task_names_": tuple(tasks.names[i] for i in chosen),
                "packages_": packages,
                "source_privacy_": tuple(package.statement for package in packages),
                "n_clipped_rows_": clipped,
            },
        )

    def _check_size(self, n_rows: int, n_groups: int, name: Any) -> None:
        """Refuse a target that is too small for the method."""

    def _targets(self, tasks: TaskSet) -> list[int]:
        """Return the positions of the tasks that are not sources."""
        for label in self._sources.tasks:
            if label not in tasks.names:
                raise InvalidInput(f"source_task={label!r}: not one of the tasks {tasks.names}")
        chosen = [i for i, name in enumerate(tasks.names) if name not in self._sources.tasks]
        if not chosen:
            raise InvalidInput("source_task: names every task; leave at least one as target")
        return chosen

    def _charge_together(self, tasks: TaskSet, target: Budget) -> None:
        """Charge the releases of all sources and targets of one call, before the first is made.

        Guarantee: every row is in one task, so it enters one of the releases only, and all of them
        cost what the dearest does (parallel composition). A refusal comes before any of them.
        """
        spans = [_rows_of(tasks, tasks.names.index(label)) for label in self._sources.tasks]
        budgets = [target, *(self._budget(span.stop - span.start) for span in spans)]
        dearest = max(budgets, key=lambda budget: budget.delta)
        mechanism = ObjectivePerturbation(dearest.epsilon, dearest.delta, (1.0,))
        with self._reserved(mechanism) as reservation:
            if reservation is not None:
                reservation.charge(mechanism.event)

    def _sources_within(self, tasks: TaskSet, targets: Array) -> Packages:
        spans = [_rows_of(tasks, tasks.names.index(label)) for label in self._sources.tasks]
        return tuple(
            self._package(tasks.X[span], targets[span], tasks.feature_names, charged=True)
            for span in spans
        )

    def _centres(self, learner: Learner, packages: Packages) -> list[Array] | None:
        if not packages:
            return None
        shrinkage = [
            trust(own) if isinstance(self.eta, str) else 1.0 - float(self.eta)
            for own in learner.uncertainties
        ]
        return combined_centre(
            [package.models for package in packages],
            [package.uncertainties for package in packages],
            shrinkage,
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

    def _target(
        self, X: Array, targets: Array, learner: Learner, packages: Packages, entropy: Entropy
    ) -> list[Array]:
        return learner.learn(X, targets, entropy, self._centres(learner, packages))

    def _arrays(self, models: Sequence[Sequence[Array]], design: Design) -> dict[str, AnyArray]:
        stack = np.stack([target[0] for target in models])
        coef = stack[:, :, : design.n_features]
        constant = design.intercept * design.row_norm
        intercept = constant * stack[:, :, -1] if self.fit_intercept else np.zeros(coef.shape[:2])
        return {"coef": coef, "intercept": intercept}

    def _scores(self, X: Any, tasks: Any) -> Array:
        rows, index = self._rows_and_tasks(X, tasks)
        (bounded,) = self._design(rows.shape[1]).bounded(rows)
        bounded = bounded[:, : rows.shape[1]]
        coef, intercept = outputs_first(self.coef_, 3), outputs_first(self.intercept_, 2)
        scores = np.empty((len(rows), coef.shape[1]))
        for task in np.unique(index):
            mine = index == task
            scores[mine] = bounded[mine] @ coef[task].T + intercept[task]
        return scores
