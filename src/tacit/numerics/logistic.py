"""Logistic regression of all tasks at once: paths, approximate leave-one-out, k-fold.

For every task i and every α, the minimiser of
``Σ_r ℓ(x_rᵀw + b, y_r) + (α/2)(w − μ)ᵀ C⁻¹ (w − μ)``: scikit-learn's objective with C = 1/α, with
a Gaussian prior on the model. Tasks of similar size are solved together, in at most min(n_i, d)
dimensions each, and in stacks small enough for any number of tasks.

Guarantee: what is returned for a task depends on that task's rows (and the prior) alone, bit for
bit. A fit that is not finite is returned as the zero model, with an infinite error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit._check import positive_integer
from tacit._types import AnyArray, Array, IntArray
from tacit.errors import InvalidInput
from tacit.losses import LogisticLoss
from tacit.numerics.buckets import Bucket, size_buckets
from tacit.numerics.logistic_dual import DualPath, dual_path, is_small
from tacit.numerics.newton import LogisticStack, newton
from tacit.numerics.objective import row_targets
from tacit.numerics.prior import Prior, PriorFrame, alpha_table
from tacit.numerics.stacks import inv, settled
from tacit.numerics.tall import TALL, TallPath, left_out
from tacit.numerics.threads import batched_map

if TYPE_CHECKING:
    from tacit.tasks import TaskSet

__all__ = ["LogisticPath", "logistic_kfold", "logistic_paths", "logistic_paths_of_each"]

_LOSS = LogisticLoss()
_ACCURACY = 1e-12  # of a gradient, where a step more costs little


@dataclass(frozen=True)
class LogisticPath:
    """Logistic fits of all tasks along a path of strengths.

    Attributes
    ----------
    alphas : ndarray of shape (m, a)
        Strengths of every task.
    coef : ndarray of shape (a, m, d)
        Models.
    intercept : ndarray of shape (a, m)
        Intercepts (zero if none was asked for).
    loo_predictions : ndarray of shape (a, N)
        Approximate leave-one-out log-odds of every row, in stored order.
    loo_errors : ndarray of shape (a, m)
        Mean logistic loss of those, by task.
    log_evidence : ndarray of shape (a, m)
        Laplace approximation to the log-probability of a task's labels under the prior.
    """

    alphas: Array
    coef: Array
    intercept: Array
    loo_predictions: Array
    loo_errors: Array
    log_evidence: Array

    @classmethod
    def empty(cls, alphas: Array, n_rows: int, n_features: int) -> LogisticPath:
        """Return a path to be written."""
        m, a = alphas.shape
        shapes = ((a, m, n_features), (a, m), (a, n_rows), (a, m), (a, m))
        return cls(alphas, *(np.empty(shape) for shape in shapes))


def logistic_paths(
    tasks: TaskSet,
    alphas: Array | float,
    *,
    targets: Array | None = None,
    prior: Prior | None = None,
    intercept: bool = False,
    many: bool | None = None,
) -> LogisticPath:
    """Fit every task at every strength.

    Parameters
    ----------
    tasks : TaskSet
        Rows sorted by task; one task makes it a pooled regression.
    alphas : float, ndarray of shape (a,) or (m, a)
        Strengths, for all tasks or for each.
    targets : ndarray of shape (N,), optional
        Labels in {0, 1} in stored order; those of ``tasks`` if absent.
    prior : Prior, optional
        What models are pulled to, and the shape of the pull; zero and the identity if absent.
    intercept : bool
        Fit an intercept for each task: unpenalised where both classes occur, and with strength
        α where only one does (it would be infinite otherwise).
    many : bool, optional
        See `tacit.numerics.logistic_dual.is_small`.

    Returns
    -------
    LogisticPath
        Models, intercepts and approximate leave-one-out predictions.

    Notes
    -----
    Leave-one-out is one Newton step from the full fit (ALO): with H the Hessian and
    ``q_r = x_rᵀH⁻¹x_r``, the log-odds of row r without it are ``z_r + q_r ℓ'_r/(1 − q_r ℓ''_r)``.
    """
    y = row_targets(tasks, targets)[:, None]
    return logistic_paths_of_each(tasks, alphas, y, prior=prior, intercept=intercept, many=many)[0]


def logistic_paths_of_each(
    tasks: TaskSet,
    alphas: Array | float,
    targets: Array,
    *,
    prior: Prior | None = None,
    intercept: bool = False,
    many: bool | None = None,
) -> tuple[LogisticPath, ...]:
    """Fit every column of ``targets`` (N, k) as `logistic_paths` does, to the same bits.

    One pass over the tasks: their rows and kernel matrices serve all columns, whose fits stand side
    by side.
    """
    frame = (prior or Prior()).frame(tasks)
    problems = [_Problem.build(tasks, alphas, y, frame, intercept) for y in targets.T]
    a = problems[0].table.shape[1]
    paths = tuple(LogisticPath.empty(problem.table, *tasks.X.shape) for problem in problems)

    def small(bucket: Bucket) -> None:
        rows = frame.rows(bucket, tasks.X)
        found = _dual(problems, bucket, rows)
        b, shares = len(bucket.tasks), bucket.shares(tasks.weights)[:, None]
        for number, (problem, into) in enumerate(zip(problems, paths, strict=True)):
            path = found.part(slice(number * b, number * b + b))
            models = frame.models(path.coef @ rows, bucket.tasks)
            for k in range(a):
                into.coef[k, bucket.tasks], into.intercept[k, bucket.tasks] = settled(
                    models[:, k], path.intercept[:, k]
                )
            bucket.scatter(path.log_odds.transpose(1, 0, 2), into.loo_predictions)
            losses = _LOSS.value(path.log_odds, bucket.stack(problem.y)[:, None])
            loss = (shares * losses).sum(axis=2) / shares.sum(axis=2)
            into.loo_errors[:, bucket.tasks] = np.where(np.isfinite(loss), loss, np.inf).T
            told = np.where(np.isfinite(path.evidence), path.evidence, -np.inf)
            into.log_evidence[:, bucket.tasks] = told.T

    def large(bucket: Bucket, problem: _Problem, into: LogisticPath) -> None:
        reduced = problem.reduced(bucket)
        for k, stack, u, z, hessian in reduced.path_with_hessians(bucket.mask):
            V, b = reduced.expand(u)
            models = frame.models(V[:, None], bucket.tasks)[:, 0]
            into.coef[k, bucket.tasks], into.intercept[k, bucket.tasks] = settled(models, b)
            found = _laplace_evidence(stack, u, z, hessian)
            z = approximate_leave_one_out(stack, z, hessian)
            loss = np.sum(stack.weights * _LOSS.value(z, stack.labels), axis=1)
            amounts = stack.weights.sum(axis=1)
            into.loo_errors[k, bucket.tasks] = np.where(np.isfinite(loss), loss / amounts, np.inf)
            into.log_evidence[k, bucket.tasks] = np.where(np.isfinite(found), found, -np.inf)
            _scatter_path(into.loo_predictions, k, bucket, z)

    def fill(bucket: Bucket) -> None:
        if is_small(bucket.rows.shape[1], frame.width(tasks.X.shape[1]), many):
            small(bucket)
        else:
            for one in bucket.apart() if bucket.rows.shape[1] >= TALL else (bucket,):
                for problem, into in zip(problems, paths, strict=True):
                    large(one, problem, into)

    batched_map(fill, size_buckets(tasks.offsets, tasks.X.shape[1]))
    return paths


def logistic_kfold(
    tasks: TaskSet,
    alphas: Array | float,
    *,
    n_folds: int = 5,
    random_state: int | None = None,
    targets: Array | None = None,
    prior: Prior | None = None,
    intercept: bool = False,
) -> Array:
    """Predict every row by fits without the row's fold, at every strength.

    Folds are within tasks and stratified by label. Every fold's fit starts from the full fit at
    the same strength, so it takes two or three Newton steps. Parameters are those of
    `logistic_paths`, with the number of folds and the seed that deals rows to folds.

    Returns
    -------
    ndarray of shape (a, N)
        Log-odds of every row, in stored order. A row whose fold is its whole task is predicted
        by the prior.
    """
    frame = (prior or Prior()).frame(tasks)
    problem = _Problem.build(tasks, alphas, targets, frame, intercept)
    folds = _stratified_folds(tasks, problem.y, n_folds, random_state)
    predictions = np.empty((problem.table.shape[1], len(problem.y)))

    def fill(bucket: Bucket) -> None:
        reduced = problem.reduced(bucket)
        fold = folds[bucket.rows]
        held_out: Array = np.empty(fold.shape)
        for k, _, u in reduced.path(bucket.mask):
            for f in range(n_folds):
                stack = reduced.stack(bucket.mask & (fold != f), k)
                held_out = np.where(fold == f, stack.predictions(newton(stack, u)), held_out)
            _scatter_path(predictions, k, bucket, held_out)

    batched_map(fill, size_buckets(tasks.offsets, tasks.X.shape[1]))
    return predictions


def _scatter_path(path: Array, k: IntArray, bucket: Bucket, values: Array) -> None:
    """Write ``values`` (b, n) to their rows of ``path`` (a, N), at every task's own strength."""
    path[np.repeat(k, bucket.counts), bucket.rows[bucket.mask]] = values[bucket.mask]


@dataclass(frozen=True)
class _Problem:
    """What is common to all buckets."""

    X: Array
    y: Array
    frame: PriorFrame
    table: Array
    intercept: bool
    weights: Array | None

    @classmethod
    def build(
        cls,
        tasks: TaskSet,
        alphas: Array | float,
        targets: Array | None,
        frame: PriorFrame,
        intercept: bool,
    ) -> _Problem:
        y = np.asarray(row_targets(tasks, targets), dtype=np.float64)
        if not ((y >= 0) & (y <= 1)).all():
            raise InvalidInput("targets: labels must lie in {0, 1}; encode the classes first")
        table = alpha_table(alphas, len(tasks.offsets) - 1)
        return cls(tasks.X, y, frame, table, intercept, tasks.weights)

    def reduced(self, bucket: Bucket) -> _Reduced:
        rows = self.frame.rows(bucket, self.X)
        basis = None
        if rows.shape[1] < rows.shape[2]:
            # The penalised optimum lies in the span of the rows: solve in those coordinates.
            basis, triangle = np.linalg.qr(rows.transpose(0, 2, 1))
            rows = np.ascontiguousarray(triangle.transpose(0, 2, 1))
        if self.intercept:
            rows = np.concatenate([rows, bucket.mask[:, :, None].astype(np.float64)], axis=2)
        offset = np.broadcast_to(self.frame.predictions(bucket, self.X), bucket.mask.shape)
        return _Reduced(
            rows,
            offset,
            bucket.stack(self.y),
            basis,
            self.table[bucket.tasks],
            self.intercept,
            bucket.shares(self.weights),
        )


def _dual(problems: Sequence[_Problem], bucket: Bucket, rows: Array) -> DualPath:
    """Return a bucket's paths, strongest first, with log-odds of rows left out, by problem."""
    first, k = problems[0], len(problems)
    shares = np.tile(bucket.shares(first.weights), (k, 1))
    labels = np.concatenate([bucket.stack(problem.y) for problem in problems])
    alphas, levels = np.tile(first.table[bucket.tasks], (k, 1)), None
    if first.intercept:
        positives = np.sum(shares * labels, axis=1)
        both = (positives > 0) & (positives < shares.sum(axis=1))
        levels = np.where(both[:, None], 0.0, alphas)
    offset = np.broadcast_to(first.frame.predictions(bucket, first.X), bucket.mask.shape)
    return dual_path(
        rows,
        np.tile(offset, (k, 1)),
        labels,
        shares,
        np.tile(bucket.counts, k),
        alphas,
        levels,
        np.argsort(-alphas, axis=1, kind="stable"),
        accuracy=_ACCURACY,
        left_out=True,
    )


@dataclass(frozen=True)
class _Reduced:
    """A bucket in the coordinates it is solved in: at most min(n, d), and the intercept last."""

    rows: Array
    offset: Array
    labels: Array
    basis: Array | None
    alphas: Array
    intercept: bool
    shares: Array

    def stack(self, counted: AnyArray, k: IntArray) -> LogisticStack:
        """Return the regressions on the rows that count, each at its k-th strength."""
        weights = self.shares * counted
        strength = np.take_along_axis(self.alphas, k[:, None], axis=1)
        penalty = np.repeat(strength, self.rows.shape[2], axis=1)
        if self.intercept:
            positives = np.sum(weights * self.labels, axis=1)
            both = (positives > 0) & (positives < weights.sum(axis=1))
            penalty[both, -1] = 0.0
        return LogisticStack(self.rows, self.offset, self.labels, weights, penalty)

    def path(self, counted: AnyArray) -> Iterator[tuple[IntArray, LogisticStack, Array]]:
        """Yield the solution at every strength, strongest first, each starting from the last.

        Which strength is next is each task's own affair: (b,) positions in its row of strengths.
        """
        u: Array = np.zeros((self.rows.shape[0], self.rows.shape[2]))
        for k in np.argsort(-self.alphas, axis=1, kind="stable").T:
            stack = self.stack(counted, k)
            u = newton(stack, u)
            yield k, stack, u

    def path_with_hessians(
        self, counted: AnyArray
    ) -> Iterator[tuple[IntArray, LogisticStack, Array, Array, Array]]:
        """Do as `path`, with the predictions and Hessians at the solutions.

        Tasks of `TALL` rows and more are given alone, whoever is of their size.
        """
        if self.rows.shape[1] < TALL:
            for k, stack, u in self.path(counted):
                z = stack.predictions(u)
                yield k, stack, u, z, stack.hessian(z)
            return
        order = np.argsort(-self.alphas, axis=1, kind="stable").T
        first = self.stack(counted, order[0])
        tall = TallPath(first)
        for k in order:
            strength = np.take_along_axis(self.alphas, k[:, None], axis=1)
            yield (k, *tall.at(np.where(first.penalty > 0, strength, 0.0)))

    def expand(self, u: Array) -> tuple[Array, Array]:
        """Return models in the prior's coordinates, (b, r), and intercepts, (b,)."""
        b = u[:, -1] if self.intercept else np.zeros(len(u))
        v = u[:, :-1] if self.intercept else u
        return (v if self.basis is None else (self.basis @ v[:, :, None])[:, :, 0]), b


def approximate_leave_one_out(stack: LogisticStack, z: Array, hessian: Array) -> Array:
    """Return log-odds (b, n) of every row without it, from log-odds ``z`` with it."""
    inverse = inv(hessian)
    if z.shape[1] >= TALL:
        return left_out(stack, z, inverse)
    leverage = np.einsum("bnp,bnp->bn", stack.rows @ inverse, stack.rows)
    # Padding has the weight 0 and is nobody's row: what is left out there is not looked at.
    bend = stack.weights * _LOSS.second_derivative(z, stack.labels)
    slope = stack.weights * _LOSS.derivative(z, stack.labels)
    # The leverage of a row times its curvature is below one; rounding must not cross it.
    return z + leverage * slope / np.maximum(1 - leverage * bend, 1e-12)


def _laplace_evidence(stack: LogisticStack, u: Array, z: Array, hessian: Array) -> Array:
    """Return log ∫ likelihood × prior, (b,), the integrand replaced by a Gaussian at its peak.

    An unpenalised intercept has a flat prior; its constant is the same for all priors compared.
    """
    volume = np.linalg.slogdet(hessian)[1]
    prior = np.log(np.where(stack.penalty > 0, stack.penalty, 1.0)).sum(axis=1)
    return 0.5 * (prior - volume) - stack.value(z, u)


def _stratified_folds(tasks: TaskSet, y: Array, n_folds: int, random_state: int | None) -> IntArray:
    """Deal the rows of every task to folds in turn, label by label, in random order.

    Guarantee: a task's folds follow from the seed, its name and its own rows.
    """
    if positive_integer("n_folds", n_folds, remedy="use n_folds=5") < 2:
        raise InvalidInput(f"n_folds={n_folds}: must be at least 2; use n_folds=5")
    task, dealt = tasks.task_of_row, tasks.random_numbers(random_state)
    folds = np.empty(len(y), dtype=np.int64)
    place = np.arange(len(y)) - tasks.offsets[task]
    folds[np.lexsort((dealt, y, task))] = place % n_folds
    return folds
