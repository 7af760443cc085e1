"""Logistic tasks under a common Gaussian prior: modes, scores and Laplace evidence.

The counterpart of `tacit.numerics.hierarchical.SquaredTasks`. The mode θ̂ of a task under
N(μ, diag(τ_w S Sᵀ, τ_b)) is found in coordinates of its own: θ = μ + (S Q v, b) with Q an
orthonormal basis of the rows' span if there are fewer rows than features, and the penalty
½‖v‖²/τ_w + ½b²/τ_b. Strengths then differ in the penalty alone, and each of them starts from the
mode of the stronger prior before. The evidence is Laplace's:
log-likelihood − penalty − ½ log det(I + RᵀZᵀ diag(p(1 − p)) Z R) with R Rᵀ the prior's covariance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import logsumexp

from tacit._types import Array, IntArray
from tacit.losses import LogisticLoss
from tacit.numerics.buckets import Bucket, size_buckets
from tacit.numerics.hierarchical import Candidates, Frame, finite_rows, frame_rows
from tacit.numerics.logistic import approximate_leave_one_out
from tacit.numerics.logistic_dual import DualPath, dual_path, is_small
from tacit.numerics.newton import LogisticStack, newton
from tacit.numerics.threads import batched_map
from tacit.numerics.told_alone import doubted, own_left_out
from tacit.tasks import TaskSet

__all__ = ["LogisticTasks", "evidence_of_each", "scores_of_each"]

_LOSS = LogisticLoss()
_ACCURACY = 1e-8  # of a mode's gradient; the evidence is off by its square


@dataclass(frozen=True)
class LogisticTasks:
    """Tasks with labels in {0, 1}.

    Guarantee: as for `SquaredTasks`, every result's row i is, to the bit, a function of task i's
    rows and of the public arguments; a fit that does not stay finite is zero in that row alone.
    """

    frame: Frame
    tasks: TaskSet

    def scores(self, mean: Array, slope: float, level: float) -> Array:
        """Return whitened scores (m, p): posterior mode − μ in units of the prior's deviations."""
        return scores_of_each((self,), mean[None], slope, level)[:, 0]

    def evidence(self, candidates: Candidates) -> Array:
        """Return Laplace log-evidence (m, size) of every candidate."""
        return evidence_of_each((self,), (candidates,))[0]

    def averaged(self, candidates: Candidates, log_weights: Array) -> tuple[Array, Array]:
        """Return modes (m, p) averaged by evidence × weight, and the logarithm of its sum (m,)."""
        m, p = self.tasks.n_tasks, self.frame.size
        models, totals = np.zeros((m, p)), np.empty(m)

        @np.errstate(all="ignore")
        def fill(bucket: Bucket) -> None:
            b = len(bucket.tasks)
            top, total, model = np.full(b, -np.inf), np.zeros(b), np.zeros((b, p))
            for _, modes in _modes_of_each((self,), bucket, (candidates,)):
                logs = modes.evidence + log_weights[modes.cells]
                before, top = top, np.maximum(top, logs.max(axis=1))
                kept, weights = np.exp(before - top), np.exp(logs - top[:, None])
                total = kept * total + weights.sum(axis=1)
                shape = modes.cells.start // candidates.n_strengths
                mean = candidates.mean(shape, bucket.tasks)
                added = modes.summed(weights) + weights.sum(axis=1)[:, None] * mean
                model = kept[:, None] * model + added
            models[bucket.tasks] = model / total[:, None]
            totals[bucket.tasks] = top + np.log(total)

        batched_map(fill, _buckets((self,), candidates.levels.size))
        sound = np.isfinite(models).all(axis=1) & np.isfinite(totals)
        return finite_rows(models), np.where(sound, totals, logsumexp(log_weights))

    def doubted(
        self,
        odds: Array,
        models: Array,
        candidates: Candidates,
        log_weights: Array,
        *,
        most: float = np.inf,
    ) -> Array:
        """Return ``odds`` less where a task's labels, left out, are told better by the own fit."""
        own = own_left_out(self.tasks, intercept=self.frame.intercept, many=self.frame.many_labels)
        shared = self._left_out(models, candidates, log_weights)
        return doubted(odds, self.tasks, own, shared, most=most)

    def _left_out(self, models: Array, candidates: Candidates, log_weights: Array) -> Array:
        """Return the loss (N,) of every row, told by ``models`` (m, p) without it.

        One step of Newton's from the model, under the prior that the weights speak for: the
        strengths' geometric means, with the likeliest shape.
        """
        weights = np.exp(log_weights - logsumexp(log_weights)).reshape(candidates.shape)
        shape = candidates.shapes[int(weights.sum(axis=(1, 2)).argmax())]
        slope = np.exp(weights.sum(axis=(0, 2)) @ np.log(candidates.slopes))
        level = candidates.levels[0]
        if self.frame.intercept:
            level = np.exp(weights.sum(axis=(0, 1)) @ np.log(candidates.levels))
        d, losses = self.frame.origin.size, np.empty(len(self.tasks.X))

        @np.errstate(all="ignore")
        def tell(bucket: Bucket) -> None:
            rows = frame_rows(bucket, self.tasks.X, self.frame)
            labels = bucket.stack(np.asarray(self.tasks.y, dtype=np.float64))
            shares = bucket.shares(self.tasks.weights)
            told = (rows @ models[bucket.tasks][:, :, None])[:, :, 0]
            reduced = _Reduced.of(rows, shape, d).rows
            penalty = np.full((len(rows), reduced.shape[2]), 1 / slope)
            if self.frame.intercept:
                penalty[:, -1] = 1 / level
            stack = LogisticStack(reduced, np.zeros_like(told), labels, shares, penalty)
            without = approximate_leave_one_out(stack, told, stack.hessian(told))
            bucket.scatter((shares * _LOSS.value(without, labels))[None], losses[None])

        batched_map(tell, _buckets((self,), 1))
        return losses


def scores_of_each(
    outputs: Sequence[LogisticTasks], means: Array, slope: float, level: float
) -> Array:
    """Return whitened scores (m, k, p) of k labels of the same rows, under their means (k, p).

    One pass over the tasks, whose rows and kernel matrices serve all labels; to the same bits as
    one label after the other.
    """
    frame, k = outputs[0].frame, len(outputs)
    scores = np.empty((outputs[0].tasks.n_tasks, k, frame.size))
    levels = np.full(int(frame.intercept), level) if frame.intercept else np.zeros(1)
    priors = tuple(Candidates(mean[None], np.array([slope]), levels) for mean in means)
    root = np.sqrt(np.append(np.full(frame.origin.size, slope), levels))

    @np.errstate(all="ignore")
    def fill(bucket: Bucket) -> None:
        for c, modes in _modes_of_each(outputs, bucket, priors, evidence=False):
            moved = modes.summed(np.ones((len(bucket.tasks), 1)))
            scores[bucket.tasks, c] = moved / root[: frame.size]

    batched_map(fill, _buckets(outputs, 1))
    return np.stack([finite_rows(scores[:, c]) for c in range(k)], axis=1)


def evidence_of_each(
    outputs: Sequence[LogisticTasks], candidates: Sequence[Candidates]
) -> tuple[Array, ...]:
    """Return log-evidence (m, size) of each of k labels of the same rows, in one pass.

    The candidates of the labels differ in their means alone.
    """
    n_tasks = outputs[0].tasks.n_tasks
    found = tuple(np.empty((n_tasks, one.size)) for one in candidates)

    @np.errstate(all="ignore")
    def fill(bucket: Bucket) -> None:
        for c, modes in _modes_of_each(outputs, bucket, candidates):
            found[c][bucket.tasks, modes.cells] = modes.evidence

    batched_map(fill, _buckets(outputs, candidates[0].levels.size))
    return tuple(finite_rows(one) for one in found)


def _buckets(outputs: Sequence[LogisticTasks], n_levels: int) -> list[Bucket]:
    width = 2 * n_levels * outputs[0].frame.size * len(outputs)
    return list(size_buckets(outputs[0].tasks.offsets, width))


def _modes_of_each(
    outputs: Sequence[LogisticTasks],
    bucket: Bucket,
    candidates: Sequence[Candidates],
    *,
    evidence: bool = True,
) -> Iterator[tuple[int, _Modes]]:
    """Yield label and modes under every shape, some of its strengths at once."""
    frame, tasks, k, b = outputs[0].frame, outputs[0].tasks, len(outputs), len(bucket.tasks)
    d, n_strengths = frame.origin.size, candidates[0].n_strengths
    n_levels = candidates[0].levels.size
    rows, shares = frame_rows(bucket, tasks.X, frame), bucket.shares(tasks.weights)
    labels = [bucket.stack(np.asarray(one.tasks.y)) for one in outputs]
    for number, shape in enumerate(candidates[0].shapes):
        first = number * n_strengths
        means = [each.mean(number, bucket.tasks) for each in candidates]
        offsets = [(rows @ mean[:, :, None])[:, :, 0] for mean in means]
        if is_small(rows.shape[1], d, frame.many_labels):
            slopes = rows[:, :, :d] if shape is None else rows[:, :, :d] @ shape
            stacked = np.concatenate(offsets), np.concatenate(labels), np.tile(shares, (k, 1))
            path = _dual(slopes, *stacked, np.tile(bucket.counts, k), candidates[0], evidence)
            for c in range(k):
                own = path.part(slice(c * b, c * b + b))
                cells = slice(first, first + n_strengths)
                yield c, _Modes(cells, own.evidence, partial(_expanded, own, slopes, shape))
            continue
        reduced = _Reduced.of(rows, shape, d)
        for c, each in enumerate(candidates):
            for place, told, moved in reduced.path(labels[c], shares, offsets[c], each):
                low = first + place * n_levels
                yield c, _Modes(slice(low, low + n_levels), told, partial(_weigh, moved))


@dataclass(frozen=True)
class _Modes:
    """Log-evidence (b, c) of some cells, and what sums modes − μ with weights (b, c) to (b, p)."""

    cells: slice
    evidence: Array
    summed: Callable[[Array], Array]


def _weigh(moved: Array, weights: Array) -> Array:
    found: Array = (weights[:, None] @ moved)[:, 0]
    return found


def _dual(
    slopes: Array,
    offset: Array,
    labels: Array,
    shares: Array,
    counts: IntArray,
    candidates: Candidates,
    evidence: bool,
) -> DualPath:
    """Return the modes under one shape at all strengths, of as many problems as ``counts``."""
    strengths = np.repeat(1 / candidates.slopes, candidates.levels.size)
    free = (candidates.levels == 0).all()  # no intercept
    levels = None if free else np.tile(1 / candidates.levels, candidates.slopes.size)
    b = len(counts)
    return dual_path(
        slopes,
        offset,
        labels,
        shares,
        counts,
        np.tile(strengths, (b, 1)),
        None if levels is None else np.tile(levels, (b, 1)),
        np.tile(_order(candidates), (b, 1)),
        accuracy=_ACCURACY,
        evidence=evidence,
    )


def _expanded(path: DualPath, slopes: Array, shape: Array | None, weights: Array) -> Array:
    """Return modes − μ summed with weights (b, c): one product for all cells."""
    moved = _weigh(slopes, _weigh(path.coef, weights))
    if shape is not None:
        moved = (moved[:, None] @ shape.T)[:, 0]
    if path.bordered:
        return np.column_stack([moved, (weights * path.intercept).sum(axis=1)])
    return moved


def _order(candidates: Candidates) -> IntArray:
    """Return the strengths from the strongest prior on slopes to the weakest, levels to and fro."""
    places = np.arange(candidates.n_strengths).reshape(-1, candidates.levels.size)
    places = places[np.argsort(candidates.slopes, kind="stable")]
    places[1::2] = places[1::2, ::-1]
    return places.ravel()


@dataclass(frozen=True)
class _Reduced:
    """Rows (b, n, r + i) of tasks in coordinates of at most n slopes, the constant last."""

    rows: Array
    basis: Array | None  # Q (b, d, r)
    shape: Array | None  # S (d, d)
    intercept: bool

    @classmethod
    def of(cls, rows: Array, shape: Array | None, d: int) -> _Reduced:
        slopes, basis = rows[:, :, :d], None
        if shape is not None:
            slopes = slopes @ shape
        if rows.shape[1] < d:
            # The penalised optimum lies in the span of the rows.
            basis, triangle = np.linalg.qr(slopes.transpose(0, 2, 1))
            slopes = triangle.transpose(0, 2, 1)
        whole = np.concatenate([slopes, rows[:, :, d:]], axis=2)
        return cls(whole, basis, shape, rows.shape[2] > d)

    def path(
        self, labels: Array, weights: Array, offset: Array, candidates: Candidates
    ) -> Iterator[tuple[int, Array, Array]]:
        """Yield (number of the slope's strength, evidence (b, c), modes − μ (b, c, p))."""
        b, _, p = self.rows.shape
        c = candidates.levels.size
        u = np.zeros((b * c, p))
        penalty = np.empty((b, c, p))
        if self.intercept:
            penalty[:, :, -1] = 1 / candidates.levels
        parts = (np.repeat(part, c, axis=0) for part in (self.rows, offset, labels, weights))
        rows, offsets, answers, counted = parts
        for number in np.argsort(candidates.slopes, kind="stable"):
            penalty[:, :, : p - self.intercept] = 1 / candidates.slopes[number]
            flat = penalty.reshape(b * c, p)
            stack = LogisticStack(rows, offsets, answers, counted, flat)
            u = newton(stack, u, _ACCURACY)
            z = stack.predictions(u)
            volume = np.linalg.slogdet(stack.hessian(z))[1] - np.log(flat).sum(axis=1)
            evidence = -stack.value(z, u) - 0.5 * volume
            yield int(number), evidence.reshape(b, c), self._models(u.reshape(b, c, p))

    def _models(self, u: Array) -> Array:
        slopes = u[:, :, : u.shape[2] - self.intercept]
        if self.basis is not None:
            slopes = slopes @ self.basis.transpose(0, 2, 1)
        if self.shape is not None:
            slopes = slopes @ self.shape.T
        return np.concatenate([slopes, u[:, :, u.shape[2] - self.intercept :]], axis=2)
