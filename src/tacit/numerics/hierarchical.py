"""Tasks under a common Gaussian prior on slopes *and* intercept: scores, evidence, posterior means.

A task's model θ = (w, b) acts on z = ((x − origin)/scale, 1). Its prior is

    w ~ N(μ_w, σ²·τ_w·S Sᵀ),   b ~ N(μ_b, σ²·τ_b),

with σ² the task's own noise variance for the squared loss (so no scale of the targets is needed)
and σ² = 1, log-odds, for the logistic loss. `Candidates` is a public grid of such priors. What a
task says about them is its *score* (which way the mean should move), its log-*evidence* for every
candidate, and its model: the average of the candidates' posterior means under weights of its own.

Squared loss, for one task. With r = y − Zμ, A = I + τ_w X S SᵀXᵀ and ⟨u, v⟩ = uᵀA⁻¹v, a rank-one
update carries the intercept:

    D = 1 + τ_b⟨1, 1⟩,   b − μ_b = τ_b⟨1, r⟩/D,   w − μ_w = τ_w S SᵀXᵀA⁻¹(r − (b − μ_b)·1),
    quad = ⟨r, r⟩ − τ_b⟨1, r⟩²/D,   log det V = log det A + log D.

Every ⟨·, ·⟩ comes from one eigendecomposition or, where there are many tasks, one tridiagonal form
of SᵀXᵀXS, so a shape costs one for all its strengths. All of it needs the task's Gram matrix only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from tacit._types import Array, IntArray
from tacit.numerics.bands import Bands, inverses, solutions
from tacit.numerics.buckets import Bucket, size_buckets
from tacit.numerics.logistic_dual import are_many
from tacit.numerics.stacks import eigh
from tacit.numerics.threads import batched_map
from tacit.tasks import TaskSet

__all__ = ["Candidates", "Frame", "ScoreForm", "SquaredTasks", "finite_rows", "frame_rows"]

_LEAST_ENERGY = 1e-12  # of the targets' sum of squares: below it the arithmetic has no say
_LARGEST = 1e100  # of a Gram matrix's entries
_CHUNK = 1 << 21  # numbers in a temporary array
_MANY = 20_000  # slopes in all: fewer are fitted before a compiled kernel is loaded


@dataclass(frozen=True)
class Frame:
    """The public coordinates of the features: z = (x − origin)/scale, and 1 if ``intercept``.

    Without an intercept the origin is zero: there is nothing to take its shift up. ``many`` says
    that so many tasks are fitted, here or elsewhere, that squared losses use compiled kernels, and
    ``many_labels`` so for logistic ones (None where nobody said): the last bits of a task's numbers
    depend on it, so that it must be public and the same for all.
    """

    origin: Array
    scale: Array
    intercept: bool = True
    many: bool = False
    many_labels: bool | None = None

    @property
    def size(self) -> int:
        """Length p of a model."""
        return self.origin.size + self.intercept

    def among(self, n_tasks: int) -> Frame:
        """Return the frame of so many tasks, wherever they are."""
        d = self.origin.size
        return replace(self, many=n_tasks * d >= _MANY, many_labels=are_many(n_tasks, d))

    def rows(self, X: Array) -> Array:
        """Return features (…, d) in these coordinates, without the constant."""
        return (X - self.origin) / self.scale

    def model(self, coef: Array) -> tuple[Array, Array]:
        """Return slopes (m, d) and intercepts (m,) on the features as they came."""
        slopes = coef[:, : self.origin.size] / self.scale
        offset = coef[:, -1] if self.intercept else np.zeros(len(coef))
        return slopes, offset - (slopes * self.origin).sum(axis=1) * self.intercept


@dataclass(frozen=True)
class Candidates:
    """Public priors: every shape, with a mean of its own, with every pair of strengths.

    Attributes
    ----------
    means : (s, p) array
        Prior means of (w, b), one for each shape.
    slopes, levels : (a,) and (c,) arrays
        Strengths τ_w and τ_b; ``levels`` is (0,) where there is no intercept.
    shapes : tuple of (d, d) roots S or None for the identity
        Shapes of the slopes' covariance.
    apart : (m, s, p) array or None
        By how much every task's prior means differ from ``means``; None where none does.
    """

    means: Array
    slopes: Array
    levels: Array
    shapes: tuple[Array | None, ...] = (None,)
    apart: Array | None = None

    def mean(self, s: int, part: slice | IntArray) -> Array:
        """Return a shape's means of some tasks, (b, p), or (1, p) where they are the same."""
        mean = self.means[None, s]
        return mean if self.apart is None else mean + self.apart[part, s]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of shapes, strengths of slopes and strengths of levels."""
        return len(self.shapes), self.slopes.size, self.levels.size

    @property
    def n_strengths(self) -> int:
        """Number of pairs of strengths."""
        return self.slopes.size * self.levels.size

    @property
    def size(self) -> int:
        """Number of candidates; flat vectors over them run over the levels fastest."""
        return int(np.prod(self.shape))


@dataclass(frozen=True)
class _Spectrum:
    """SᵀXᵀXS = U λ Uᵀ of some tasks, and their constant column in these coordinates."""

    root: Array | None
    values: Array  # λ (b, d)
    vectors: Array  # U (b, d, d)
    ones: Array  # UᵀSᵀXᵀ1 (b, d)
    counts: Array

    def turned(self, cross: Array) -> Array:
        """Return UᵀSᵀv for ``cross`` (b, d)."""
        rooted = cross if self.root is None else (cross[:, None, :] @ self.root)[:, 0]
        turned: Array = (rooted[:, None, :] @ self.vectors)[:, 0]
        return turned

    def back(self, coordinates: Array) -> Array:
        """Return S U v for ``coordinates`` (b, d)."""
        rooted = (self.vectors @ coordinates[:, :, None])[:, :, 0]
        return rooted if self.root is None else (rooted[:, None, :] @ self.root.T)[:, 0]


@dataclass(frozen=True)
class ScoreForm:
    """Whitened scores of tasks as functions of the mean μ: h − ν + Pν with ν = R⁻¹μ.

    P = (I + RGR)⁻¹ for the task's Gram matrix G, and h = P·RZᵀy.
    """

    pull: Array  # h (m, p)
    keep: Array  # P (m, p, p)
    deviations: Array  # R's diagonal (p,)

    @np.errstate(all="ignore")
    def at(self, mean: Array) -> Array:
        """Return scores (m, p) of one mean."""
        nu = mean / self.deviations
        return finite_rows(self.pull - nu + (self.keep @ nu[:, None])[:, :, 0])


@dataclass(frozen=True)
class SquaredTasks:
    """Tasks with the squared loss, kept as Gram matrices of (z, y).

    Guarantee: every result's row i is, to the bit, a function of task i's rows and of the public
    arguments. Rows are padded to a size that depends on the task's own count, and every product is
    taken task by task. A task whose numbers overflow counts as one without rows: its messages are
    zero, its model the prior's mean, and nobody else's change.
    """

    frame: Frame
    gram: Array  # (m, p, p)
    cross: Array  # (m, p)
    energy: Array  # (m,)
    counts: Array  # (m,)

    @classmethod
    def of(cls, tasks: TaskSet, frame: Frame) -> SquaredTasks:
        """Collect every task's Gram matrix."""
        m, p = tasks.n_tasks, frame.size
        gram, cross, energy = np.empty((m, p, p)), np.empty((m, p)), np.empty(m)
        targets = np.asarray(tasks.y, dtype=np.float64)

        @np.errstate(all="ignore")
        def fill(bucket: Bucket) -> None:
            rows, y = frame_rows(bucket, tasks.X, frame), bucket.stack(targets)
            if tasks.weights is not None:  # a row of weight w is √w times the row
                root = np.sqrt(bucket.stack(tasks.weights))
                rows, y = rows * root[:, :, None], y * root
            gram[bucket.tasks] = rows.transpose(0, 2, 1) @ rows
            cross[bucket.tasks] = (y[:, None, :] @ rows)[:, 0]
            energy[bucket.tasks] = (y[:, None, :] @ y[:, :, None])[:, 0, 0]

        batched_map(fill, size_buckets(tasks.offsets, p))
        # A decomposition of what is not finite raises for everybody: such a task has no rows.
        largest = np.maximum(np.abs(gram).max(axis=(1, 2)), energy)
        sound = largest < _LARGEST  # False for NaN
        return cls(
            frame,
            np.where(sound[:, None, None], gram, 0.0),
            np.where(sound[:, None], cross, 0.0),
            np.where(sound, energy, 0.0),
            np.where(sound, tasks.amounts, 0.0),
        )

    def scores(self, mean: Array, slope: float, level: float) -> Array:
        """Return whitened scores (m, p): (posterior mean − μ) in units of the prior's deviations.

        With R² = diag(τ_w I, τ_b) this is RᵀZᵀ(I + Z R RᵀZᵀ)⁻¹(y − Zμ), the generalised least
        squares score of μ. Its size is that of the targets, however far out a row lies.
        """
        parts = self._parts(self.frame.size**2)
        if not self.frame.many:
            found = [self._score_form(part, slope, level).at(mean) for part in parts]
            return np.concatenate(found)
        nu = mean / self._deviations(slope, level)
        pulled = self._deviations(slope, level) * self.cross + nu
        solved = [solutions(self._whitened(part, slope, level), pulled[part]) for part in parts]
        return finite_rows(np.concatenate(solved) - nu)

    def _whitened(self, part: slice, slope: float, level: float) -> Array:
        """Return I + RGR of some tasks, (b, p, p)."""
        deviations = self._deviations(slope, level)
        found: Array = self.gram[part] * np.outer(deviations, deviations)
        return found + np.eye(len(deviations))

    def score_form(self, slope: float, level: float) -> ScoreForm:
        """Return the scores as functions of the mean, for many means at little cost."""
        p = self.frame.size
        pull, keep = np.empty((len(self.counts), p)), np.empty((len(self.counts), p, p))
        form = ScoreForm(pull, keep, self._deviations(slope, level))
        for part in self._parts(p * p):
            found = self._score_form(part, slope, level)
            pull[part], keep[part] = found.pull, found.keep
        return form

    def _deviations(self, slope: float, level: float) -> Array:
        slopes = np.full(self.frame.origin.size, np.sqrt(slope))
        return np.append(slopes, [np.sqrt(level)] * self.frame.intercept)

    @np.errstate(all="ignore")
    def _score_form(self, part: slice, slope: float, level: float) -> ScoreForm:
        """Invert I + RGR block by block, from the eigenvectors of the slopes' block."""
        d, deviations = self.frame.origin.size, self._deviations(slope, level)
        if self.frame.many:
            keep = inverses(self._whitened(part, slope, level))
            pull = (keep @ (deviations * self.cross[part])[:, :, None])[:, :, 0]
            return ScoreForm(pull, keep, deviations)
        spectrum = self._spectrum(part, None)
        share = 1 / (1 + slope * spectrum.values)
        keep = np.empty((len(share), self.frame.size, self.frame.size))
        keep[:, :d, :d] = (spectrum.vectors * share[:, None, :]) @ spectrum.vectors.mT
        if self.frame.intercept:
            spare = spectrum.counts - (slope * share * spectrum.ones**2).sum(axis=1)
            schur = 1 + level * np.maximum(spare, 0.0)
            along = np.sqrt(slope * level) * spectrum.back(share * spectrum.ones)
            keep[:, :d, :d] += along[:, :, None] * (along / schur[:, None])[:, None, :]
            keep[:, :d, d] = keep[:, d, :d] = -along / schur[:, None]
            keep[:, d, d] = 1 / schur
        pull = (keep @ (deviations * self.cross[part])[:, :, None])[:, :, 0]
        return ScoreForm(pull, keep, deviations)

    @np.errstate(all="ignore")
    def evidence(self, candidates: Candidates) -> Array:
        """Return log-evidence (m, size): the targets' log-density, σ² integrated out.

        Under Jeffreys' prior 1/σ² it is −(n/2)·log quad − ½ log det V up to a constant of the task.
        """
        found = np.empty((len(self.counts), *candidates.shape))
        for part, s, inner in self._cells(candidates):
            found[part, s] = self._log_evidence(part, inner)
        return finite_rows(found.reshape(len(found), -1))

    @np.errstate(all="ignore")
    def averaged(self, candidates: Candidates, log_weights: Array) -> tuple[Array, Array]:
        """Return posterior means (m, p) averaged by evidence × weight, and log of its sum (m,).

        A candidate's part is added up relative to the best so far, so that no spectrum is taken
        twice.
        """
        weights = log_weights.reshape(candidates.shape)
        models = np.zeros((len(self.counts), self.frame.size))
        total, best = np.zeros(len(models)), np.full(len(models), -np.inf)
        for part, s, inner in self._cells(candidates):
            logs = self._log_evidence(part, inner) + weights[s]
            top = np.maximum(best[part], logs.max(axis=(1, 2)))
            fade = np.exp(best[part] - top)
            share = np.exp(logs - top[:, None, None])
            moved = self._moved(inner, share)
            mass = share.sum(axis=(1, 2))
            moved += mass[:, None] * candidates.mean(s, part)
            models[part] = models[part] * fade[:, None] + moved
            total[part], best[part] = total[part] * fade + mass, top
        models, logs = models / total[:, None], best + np.log(total)
        sound = np.isfinite(models).all(axis=1) & np.isfinite(logs)
        return finite_rows(models), np.where(sound, logs, logsumexp(log_weights))

    def doubted(self, odds: Array, *_: Array | Candidates, most: float = np.inf) -> Array:  # noqa: ARG002
        """Return ``odds``: the evidence for numbers knows their noise, and can be trusted."""
        return odds

    def _moved(self, inner: _Cell, share: Array) -> Array:
        """Return what a cell's posterior means add to its mean, summed with weights (b, a, c)."""
        offset = (share * inner.offset).sum(axis=2)
        moved = inner.slopes(share.sum(axis=2), offset)
        return np.column_stack([moved, offset.sum(axis=1)]) if self.frame.intercept else moved

    def _log_evidence(self, part: slice, inner: _Cell) -> Array:
        """Return (b, a, c) of one shape."""
        degrees = self.counts[part, None, None]
        found: Array = -0.5 * (degrees * np.log(inner.quad) + inner.volume)
        return found

    def _parts(self, width: int) -> Iterator[slice]:
        """Yield tasks, so many at a time as a temporary array of that width can hold."""
        step = max(1, _CHUNK // max(width, 1))
        for low in range(0, len(self.counts), step):
            yield slice(low, min(low + step, len(self.counts)))

    def _spectrum(self, part: slice, root: Array | None) -> _Spectrum:
        d = self.frame.origin.size
        inner = self.gram[part, :d, :d]
        if root is not None:
            inner = root.T @ inner @ root
        values, vectors = eigh(inner)
        spectrum = _Spectrum(
            root, np.maximum(values, 0.0), vectors, np.zeros_like(values), self.counts[part]
        )
        if not self.frame.intercept:
            return spectrum
        ones = spectrum.turned(np.ascontiguousarray(self.gram[part, :d, d]))
        return _Spectrum(root, spectrum.values, vectors, ones, spectrum.counts)

    def _residual(self, part: slice, mean: Array) -> tuple[Array, Array, Array]:
        """Return Xᵀr, 1ᵀr and rᵀr of r = y − Zμ, for means (b, p) or (1, p)."""
        d = self.frame.origin.size
        pulled = (self.gram[part] @ mean[:, :, None])[:, :, 0]
        left = self.cross[part] - pulled
        square = self.energy[part] - ((self.cross[part] + left) * mean).sum(axis=1)
        ones = left[:, d] if self.frame.intercept else np.zeros(len(left))
        least = _LEAST_ENERGY * np.maximum(self.energy[part], 1e-280)
        return left[:, :d], ones, np.maximum(square, least)

    def _cells(self, candidates: Candidates) -> Iterator[tuple[slice, int, _Cell]]:
        d = self.frame.origin.size
        width = d * max(d, candidates.slopes.size) + candidates.slopes.size * candidates.levels.size
        for part in self._parts(width):
            for s, root in enumerate(candidates.shapes):
                cross, ones, square = self._residual(part, candidates.mean(s, part))
                made = self._banded if self.frame.many else self._eigen
                sums, slopes = made(part, root, cross, candidates.slopes)
                yield part, s, self._cell(part, ones, square, candidates.levels, sums, slopes)

    def _eigen(
        self, part: slice, root: Array | None, cross: Array, taus: Array
    ) -> tuple[_Sums, _Slopes]:
        spectrum = self._spectrum(part, root)
        seen = spectrum.turned(cross)
        scaled = taus[None, :, None] * spectrum.values[:, None]
        inverse = taus[None, :, None] / (1 + scaled)
        sums = (
            (inverse * seen[:, None] ** 2).sum(axis=2),
            (inverse * (seen * spectrum.ones)[:, None]).sum(axis=2),
            (inverse * spectrum.ones[:, None] ** 2).sum(axis=2),
            np.log1p(scaled).sum(axis=2),
        )

        def slopes(first: Array, second: Array) -> Array:
            along = (inverse * seen[:, None]) * first[:, :, None]
            along -= inverse * spectrum.ones[:, None] * second[:, :, None]
            return spectrum.back(along.sum(axis=1))

        return sums, slopes

    def _banded(
        self, part: slice, root: Array | None, cross: Array, taus: Array
    ) -> tuple[_Sums, _Slopes]:
        """Do as `_eigen`, from tridiagonal forms."""
        d = self.frame.origin.size
        inner = self.gram[part, :d, :d]
        ones = self.gram[part, :d, d] if self.frame.intercept else np.zeros_like(cross)
        if root is not None:
            inner = root.T @ inner @ root
            cross, ones = ((v[:, None, :] @ root)[:, 0] for v in (cross, ones))
        bands = Bands.of(inner, cross, ones)

        def slopes(first: Array, second: Array) -> Array:
            found = bands.solutions(taus, first, second)
            return found if root is None else (found[:, None, :] @ root.T)[:, 0]

        return bands.sums(taus), slopes

    def _cell(
        self, part: slice, ones: Array, square: Array, levels: Array, sums: _Sums, slopes: _Slopes
    ) -> _Cell:
        rr, one_r = square[:, None] - sums[0], ones[:, None] - sums[1]
        one_one = self.counts[part, None] - sums[2]
        spread = 1 + levels * np.maximum(one_one, 0.0)[:, :, None]
        offset = levels * one_r[:, :, None] / spread
        quad = rr[:, :, None] - offset * one_r[:, :, None]
        least = _LEAST_ENERGY * np.maximum(self.energy[part], 1e-280)
        volume = sums[3][:, :, None] + np.log(spread)
        return _Cell(slopes, offset, np.maximum(quad, least[:, None, None]), volume)


_Sums = tuple[Array, Array, Array, Array]
"""With s = SᵀXᵀr, o = SᵀXᵀ1, N = τ_w(I + τ_w SᵀXᵀXS)⁻¹: sᵀNs, sᵀNo, oᵀNo, −log det(N/τ_w)."""
_Slopes = Callable[[Array, Array], Array]
"""What gives S Σ_a N_a(f_a s − g_a o), (b, d), for f and g (b, a)."""


@dataclass(frozen=True)
class _Cell:
    """One shape at all strengths: ``offset``, ``quad`` and ``volume`` are (b, a, c)."""

    slopes: _Slopes
    offset: Array
    quad: Array
    volume: Array


def frame_rows(bucket: Bucket, X: Array, frame: Frame) -> Array:
    """Return the bucket's rows (b, n, p) in the frame's coordinates, zero in the padding."""
    rows = frame.rows(bucket.stack(X)) * bucket.mask[:, :, None]
    if not frame.intercept:
        return rows
    return np.concatenate([rows, bucket.mask[:, :, None].astype(np.float64)], axis=2)


def finite_rows(values: Array) -> Array:
    """Return ``values`` with every row that holds NaN or infinity set to zero."""
    sound = np.isfinite(values).all(axis=1, keepdims=True)
    return np.where(sound, values, 0.0)
