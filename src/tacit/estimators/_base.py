"""What every estimator shares: input, prediction, scoring, files.

An estimator is thin. It checks its parameters, builds a :class:`~tacit.tasks.TaskSet`, lets
``_learn`` find one model per task, and keeps what comes back. To add a method, subclass
:class:`MultiTaskEstimator` with ``__init__``, ``_parameter_constraints`` and ``_learn``, then mix
in one of the kinds of ``_kinds``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from tacit import _check
from tacit._types import AnyArray, Array, IntArray
from tacit.errors import InvalidInput, UnknownTask
from tacit.estimators import _input
from tacit.estimators._constraints import Constraints, rule, validate
from tacit.estimators._prediction import linear_scores, positions_of
from tacit.losses import Loss
from tacit.numerics.spread import Spread, spread_alone
from tacit.privacy.statement import Statement
from tacit.tasks import ParquetTasks, TaskSet, within_range

if TYPE_CHECKING:
    from tacit.privacy.billboard import Billboard

__all__ = ["Found", "Learned", "MultiTaskEstimator", "outputs"]


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a run leaves beside its models."""

    statement: Statement
    history: tuple[dict[str, Any], ...] = ()
    billboard: Billboard | None = None
    extra: dict[str, Any] = field(default_factory=dict)  # further fitted attributes


@dataclass(frozen=True, kw_only=True)
class Learned(Found):
    """What ``_learn`` returns: k models a task, what they may be shared with, what they cost."""

    coef: Array  # (m, k, d)
    intercept: Array  # (m, k)
    shared_coef: Array | None = None  # (k, d), from releases only
    shared_intercept: Array | None = None  # (k,)


def outputs(tasks: TaskSet, targets: Array) -> Iterator[TaskSet]:
    """Yield ``tasks``, `within_range`, once per output column, with that column as ``y``."""
    for column in range(targets.shape[1]):
        yield within_range(tasks.replace(y=np.ascontiguousarray(targets[:, column])))


def _in_type(values: Array, dtype: Any) -> Array:
    """Return ``values`` in ``dtype``; what is beyond its range is at its end, and nobody is warned.

    Guarantee: number by number, so that one task's model is nothing to another's.
    """
    most = np.finfo(dtype).max
    return np.clip(values, -most, most).astype(dtype, copy=False)


class MultiTaskEstimator(BaseEstimator):
    """One linear model per task, learned together.

    Fitted attributes: ``coef_`` (n_tasks, n_features), with an axis for classes in the middle
    when there are more than two; ``intercept_``; ``task_names_``; ``privacy_``; ``history_``;
    ``billboard_`` (everything that was released, None if nothing was); ``shared_coef_`` and
    ``shared_intercept_`` (from releases only; None where the method has no shared model).

    ``coef_`` and ``intercept_`` hold *every* task's personal model: joint privacy says nothing to
    whoever reads all of them. Hand a party only its own, with ``save(directory, task=name)``.
    """

    # Asked for by default: wherever metadata are routed, labels of tasks arrive here.
    __metadata_request__fit: ClassVar[dict[str, bool]] = {"tasks": True}
    __metadata_request__predict: ClassVar[dict[str, bool]] = {"tasks": True}
    __metadata_request__score: ClassVar[dict[str, bool]] = {"tasks": True}
    noise_: Array  # kept with intervals, for predict(…, return_std=True)
    centre_: Array
    spread_: Array | None
    _loss: Loss
    unknown_task: str = "error"
    # Further fitted arrays with the task on axis 0, to be saved.
    _task_arrays: tuple[str, ...] = ("noise_", "centre_", "spread_")
    _public_arrays: tuple[str, ...] = ()  # further fitted arrays that belong to no task
    _given_again: ClassVar[tuple[str, ...]] = ()  # parameters that no file holds: None once loaded
    _weights_within: ClassVar[str] = "task"  # among whom weights are relative
    _models_released: ClassVar[bool] = False  # whether the models themselves are the release
    _parameter_constraints: ClassVar[Constraints] = {
        "alpha": ["auto", rule(_check.positive, remedy='use alpha="auto" or a strength')],
        "fit_intercept": [rule(_check.flag)],
        "intervals": [rule(_check.flag)],
        "unknown_task": [rule(_check.one_of, choices=("error", "shared"))],
    }

    @abstractmethod
    def _learn(self, tasks: TaskSet, targets: Array) -> Found:
        """Learn from ``tasks`` and the (N, k) targets in the task set's row order.

        ``tasks.y`` is the one target column, or class codes 0 … k − 1 if there are several.
        """

    @abstractmethod
    def _encode_target(self, y: AnyArray) -> Array:
        """Turn y into (N, k) numbers, setting ``classes_`` where there are classes."""

    def _target_values(self, y: Any, n_rows: int) -> AnyArray:
        """Return y as one value a row."""
        return _input.target(y, n_rows)

    def _encode_known(self, y: AnyArray) -> Array:
        """Turn y of a later party into (N, k) numbers, by what was learned already."""
        return self._encode_target(y)

    def _later(self, tasks: TaskSet, targets: Array) -> Array:  # noqa: ARG002
        """Return the models (1, k, d + 1) of a party that comes after the fit."""
        raise InvalidInput(
            f"{type(self).__name__}: has nothing that a later party could learn from for free; fit "
            "again with its rows"
        )

    def _stated(self, statement: Statement) -> Statement:
        """Add to a run's statement what follows from how the target was read."""
        return statement

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        """Check each parameter as declared; subclasses add what ties parameters to each other."""
        validate(self)

    def fit(self, X: Any, y: Any = None, *, tasks: Any = None, **refused: Any) -> Self:
        """Learn one model per task.

        Parameters
        ----------
        X : array, pandas or polars frame, or scipy sparse matrix, of shape (n_rows, n_features)
            What is sparse becomes dense: every solver here needs it so.
        y : array-like of shape (n_rows,)
        tasks : array-like of task labels, or the name of a column of X; None is one single task.
        """
        self._refuse(refused)
        with self._unchanged_if_refused():
            self._fit(X, y, tasks)
        return self

    def _refuse(self, unknown: dict[str, Any]) -> None:
        """Refuse arguments that this estimator's fit does not take, by name."""
        for name in unknown:
            raise InvalidInput(
                f"{name}: {type(self).__name__}.fit takes no such argument; sample_weight is for "
                "SingleTask, Pooled, Averaged, SharedPrior and MeanRegularized estimators"
            )

    def fit_parquet(
        self,
        path: str | PathLike[str],
        *,
        tasks: str,
        target: str,
        features: Sequence[str] | None = None,
        models: str | PathLike[str] | None = None,
    ) -> Self:
        """Learn from a parquet file (or a folder of them) that may be larger than memory.

        Rows are read a batch of tasks at a time, once for every release and once for the models,
        which go to a file that is mapped into memory. They are the models that ``fit`` finds on the
        same rows, bit for bit; tasks stay in the file's order.

        Parameters
        ----------
        tasks, target : str
            Columns of task labels and of what is learned. Rows of a task must stand together; see
            `tacit.tasks.sort_parquet`.
        features : sequence of str, optional
            Columns to learn from; by default all others.
        models : path, optional
            Where to keep the personal models of all tasks (an ``.npy`` file); by default in a
            temporary file that is gone with the model. ``save`` copies them.
        """
        self._check_parameters()
        encode = self._file_codes
        rows = ParquetTasks(
            Path(path), tasks=tasks, target=target, features=features, encode=encode
        )
        return self._fit_file(rows, None if models is None else Path(models))

    def _fit_file(self, tasks: ParquetTasks, models: Path | None) -> Self:
        """Learn from a file that was opened; ``models`` is where the personal models go."""
        with self._unchanged_if_refused():
            self._check_parameters()
            if getattr(self, "intervals", False):
                raise InvalidInput(
                    "intervals=True: a fit from a file keeps no spread; leave it out, or use fit"
                )
            rows = tasks.encoded(self._file_codes)
            n_outputs = self._begin_file(rows)
            self.n_features_in_ = rows.n_features
            self.feature_names_in_ = np.asarray(rows.feature_names, dtype=object)
            self._take(self._learn_file(rows, n_outputs, models), rows.names)
        return self

    @property
    def _reads_batches(self) -> bool:
        """Whether `fit_parquet` can be, with these parameters."""
        return False

    @contextmanager
    def _unchanged_if_refused(self) -> Iterator[None]:
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__ = before  # a refused fit leaves the model as it was
            raise

    def _begin_file(self, rows: ParquetTasks) -> int:  # noqa: ARG002
        """Look at the target column where one has to, and return the number of outputs."""
        return 1

    def _file_codes(self, values: AnyArray) -> Array:
        """Turn target values of a file into numbers."""
        return self._encode_target(values)[:, 0]

    def _learn_file(self, rows: ParquetTasks, n_outputs: int, models: Path | None) -> Found:  # noqa: ARG002
        """Learn from rows that are read in batches; personal models go to the file ``models``."""
        raise InvalidInput(
            f"{type(self).__name__}: learns from all rows at once; read the file into a frame and "
            "use fit"
        )

    def _fit(self, X: Any, y: Any, tasks: Any, weights: Any = None) -> None:
        self._check_parameters()
        X, tasks = _input.without_task_column(X, tasks)
        rows = _input.features(self, X, reset=True)
        targets = self._encode_target(self._target_values(y, len(rows)))
        task_set = TaskSet.from_arrays(
            rows,
            targets[:, 0] if targets.shape[1] == 1 else targets.argmax(axis=1),
            _input.labels_of_rows(tasks, len(rows)),
            feature_names=getattr(self, "feature_names_in_", None),
        )
        if weights is not None:
            values = _input.row_weights(weights, len(rows))[task_set.order]
            task_set = task_set.weighted(values, within=self._weights_within)
        self._take(self._learn(task_set, targets[task_set.order]), task_set.names)
        self._keep_type(rows.dtype)
        self._keep_spread(task_set)

    def _keep_type(self, dtype: Any) -> None:
        """Hold models in the rows' precision: single stays single."""
        names = ("coef_", "intercept_", "shared_coef_", "shared_intercept_")
        for name in names if dtype == np.float32 else ():
            if getattr(self, name, None) is not None:
                setattr(self, name, _in_type(getattr(self, name), dtype))

    def _keep_spread(self, tasks: TaskSet, *, later: bool = False) -> None:
        """Keep what predictions with ``return_std`` need, where it was asked for."""

    def _spread(self, tasks: TaskSet) -> Spread:
        """Return what a task's own rows leave open; of its own prior, unless a method has more."""
        return spread_alone(tasks, intercept=getattr(self, "fit_intercept", True))

    def _take(self, learned: Found, names: tuple[Hashable, ...]) -> None:
        """Keep what was learned as fitted attributes."""
        if isinstance(learned, Learned):
            single = learned.coef.shape[1] == 1
            self.coef_ = learned.coef[:, 0] if single else learned.coef
            self.intercept_ = learned.intercept[:, 0] if single else learned.intercept
            self.shared_coef_ = learned.shared_coef
            self.shared_intercept_ = learned.shared_intercept
        self.task_names_ = names
        self.privacy_ = self._stated(learned.statement)
        self.history_ = learned.history
        self.billboard_ = learned.billboard
        for name, value in learned.extra.items():
            setattr(self, name, value)

    def fit_task(self, X: Any, y: Any, *, name: Hashable) -> Self:
        """Add the personal model of a party that comes later, from the billboard and its rows.

        Parameters
        ----------
        X, y : the party's own rows
        name : label of the new task

        Guarantee: nothing is released and nothing charged; no other model changes by a bit. The new
        model is computed at home from the party's rows and what everybody may read, and is for
        that party alone: hand it over with ``save(directory, task=name)``.
        """
        check_is_fitted(self)
        if name in self.task_names_:
            raise InvalidInput(f"name={name!r}: the model has such a task; choose another name")
        rows = _input.features(self, X, reset=False)
        targets = self._encode_known(self._target_values(y, len(rows)))
        single = targets.shape[1] == 1
        task_set = TaskSet.from_arrays(rows, targets[:, 0] if single else targets.argmax(axis=1))
        self._append(self._later(task_set, targets[task_set.order]))
        self._keep_spread(task_set, later=True)
        self.task_names_ = (*self.task_names_, name)
        return self

    def _append(self, models: Array) -> None:
        """Put further personal models behind the others."""
        added = models[:, 0] if models.shape[1] == 1 else models
        added = _in_type(added, self.coef_.dtype)
        self.coef_ = np.concatenate([self.coef_, added[..., :-1]])
        self.intercept_ = np.concatenate([self.intercept_, added[..., -1]])

    @property
    def _has_shared(self) -> bool:
        """Whether there is a shared model to answer for unknown tasks."""
        return self.shared_coef_ is not None

    def _index_of_tasks(self, tasks: Any, n_rows: int) -> IntArray:
        """Return the model index of every row; -1 stands for the shared model."""
        names = self.task_names_
        if tasks is None and len(names) > 1:
            raise InvalidInput(
                f"tasks=None: this model has {len(names)} tasks; pass tasks= with one label per "
                "row (scikit-learn's own scorers do not: use those of tacit.model_selection)"
            )
        if tasks is None:
            return np.zeros(n_rows, dtype=np.int64)
        labels = _input.labels_of_rows(tasks, n_rows)
        index = positions_of(labels, names)
        if (index < 0).any() and (self.unknown_task != "shared" or not self._has_shared):
            unknown = labels[int(np.argmax(index < 0))]
            unknown = unknown.item() if isinstance(unknown, np.generic) else unknown
            remedy = (
                'pass unknown_task="shared" to answer with the shared model'
                if self._has_shared
                else "there is no shared model; learn its own with fit_task, or fit again with it"
            )
            raise UnknownTask(f"tasks: task {unknown!r} was not there at fit time; {remedy}")
        return index

    def _prepared(self, X: Any) -> Array:
        """Return the rows that models answer on."""
        return _input.features(self, X, reset=False)

    def _scores(self, X: Any, tasks: Any) -> Array:
        """Return (n_rows, k) linear scores."""
        check_is_fitted(self)
        X, tasks = _input.without_task_column(X, tasks)
        rows = self._prepared(X)
        index = self._index_of_tasks(tasks, len(rows))
        coef = self.coef_ if self.coef_.ndim == 3 else self.coef_[:, None, :]
        intercept = self.intercept_ if self.intercept_.ndim == 2 else self.intercept_[:, None]
        if self.shared_coef_ is not None and self.shared_intercept_ is not None:
            # index -1 is the row appended here
            coef = np.concatenate([coef, self.shared_coef_[None]])
            intercept = np.concatenate([intercept, self.shared_intercept_[None]])
        with np.errstate(all="ignore"):
            scores = linear_scores(rows, index, coef, intercept)
        if not np.isfinite(scores).all():
            TaskSet.from_arrays(rows)  # refuses NaN and inf, with row and column named
        return scores

    def save(self, directory: str | PathLike[str], *, task: Any = None) -> None:
        """Write the model to a folder; ``task=name`` writes that party's model only.

        Guarantee: with ``task`` given, the folder holds that task's personal model and the
        releases' shared model, nothing computed from any other task's data beyond the releases.
        """
        from tacit.estimators._files import save

        save(self, directory, task=task)

    def export(self, path: str | PathLike[str], *, task: Any = None) -> Path:
        """Write plain coefficients (``.csv``, ``.json``), or one task's model as ``.onnx``.

        Guarantee: with ``task`` given, the file holds that task's personal model alone. Without, it
        holds everybody's, like `save`, and is the coordinator's to guard.
        """
        from tacit.exports import export

        return export(self, path, task=task)

    def report(self, path: str | PathLike[str], **options: Any) -> None:
        """Write a self-contained HTML report of the fit; it opens offline.

        Parameters
        ----------
        path : file to write, such as ``"report.html"``
        X, y, tasks : rows that were kept out of the fit, to be evaluated
            The page then holds every task's private results, and says so.
        baselines : mapping of names to fitted estimators, such as single-task and pooled
            They answer the same rows; the first is the one the model is compared with.
        fitted_on : tuple (X, y, tasks) of the rows of the fit, from which default baselines learn
        audit : AuditResult, several of them, or pairs (claimed ε, lower bound)
        ledger : Ledger or path, to show what is left
        party : name of a task: the page is that party's own
        title : heading of the page
        billboard : the run's releases, where the model was loaded from files and has none
        seen : whether the model may have learned from X; the page then says that it is no test

        See Also
        --------
        tacit.report.write_report : the same as a function, with its guarantee.
        """
        from tacit.report import write_report

        write_report(self, path, **options)
