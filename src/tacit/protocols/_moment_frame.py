"""Public coordinates in which rows speak: centred, scaled, turned, against a released model.

A frame is built from releases and constants only, so what a row says in it depends on that row and
on what is public.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit

from tacit._types import Array
from tacit.losses import Loss
from tacit.numerics.moment_prior import Likely, SharedModels, square_root
from tacit.numerics.threads import quiet_arithmetic
from tacit.tasks import TaskSet

__all__ = ["Frame", "clip_norm"]

CONSTANT = 0.4  # the intercept's coordinate; it counts in the norm of the row
_REACH = {"squared": 0.9, "logistic": 1.1}  # clip of a centred row, in root mean square norms
_RESIDUALS = 1.75, 2.0  # clip of an answer in standard deviations: at first, at a released model
_LEAST_SHARE = 0.02  # of positives: log-odds of rarer classes are not believed
_WHITENED = -0.25
_USUALLY_KEPT = 0.8
_ENOUGH_SPREAD, _LEAST_ROOM = 0.25, 1e-6
_LABELS_VARY = 0.3  # relative error of the labels' variance, as it follows from released shares
_LIKELY_SCORES = 2.0  # variance of log-odds under a common model, a priori
_LARGEST_SCORES = 1.5  # root mean square of a released model’s log-odds


def clip_norm(vectors: Array) -> Array:
    """Return (n, q) vectors of norm at most 1, each by its own numbers alone."""
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return vectors / np.maximum(norms, 1.0)[:, None]


@dataclass(frozen=True)
class Frame:
    """How a row x with answer y becomes (z, r), both of norm at most 1.

    Attributes
    ----------
    row_norm, target_bound
        Public limits of a raw row and a raw answer.
    centre, scale
        Of rows divided by ``row_norm``: (d,) and a number.
    level
        Mean answer (k,); of a classifier, the share of positives.
    bound
        Clip of a residual, in answers divided by ``target_bound``.
    base
        A released model (d + 1, k) of the centred and scaled rows, in the scale of predictions
        (of a classifier, log-odds), whose residuals are sent.
    turn
        (d + 1, d + 1) matrix that rows are multiplied by.
    """

    loss: Loss
    row_norm: float
    target_bound: float
    centre: Array
    scale: float
    level: Array
    bound: float
    base: Array
    turn: Array

    @classmethod
    def of_means(
        cls,
        loss: Loss,
        row_norm: float,
        target_bound: float,
        means: tuple[Array, Array],
        squares: tuple[float, float],
    ) -> Frame:
        """Return the frame that released means and mean squares (of rows, of answers) give."""
        (centre, level), (row_square, answer_square) = means, squares
        d, k = len(centre), len(level)
        spread = np.sqrt(max(row_square - float(centre @ centre), 0.2 * row_square))
        if loss.name == "squared":
            deviation = np.sqrt(max(answer_square - float(level @ level), 0.1 * answer_square))
            bound = min(1 + float(np.abs(level[0])), _RESIDUALS[0] * deviation)
        else:
            level = np.clip(level, _LEAST_SHARE, 1 - _LEAST_SHARE)
            bound = float(_largest_residual(level))
        return cls(
            loss=loss,
            row_norm=row_norm,
            target_bound=target_bound,
            centre=centre,
            scale=float(np.sqrt(1 - CONSTANT**2) / (_REACH[loss.name] * spread)),
            level=level,
            bound=bound,
            base=np.zeros((d + 1, k)),
            turn=np.eye(d + 1),
        )

    @property
    def slope(self) -> Array:
        """How much an answer moves with its score at the mean: 1, or p(1 − p), (k,)."""
        if self.loss.name == "squared":
            return np.ones_like(self.level)
        return np.asarray(self.level * (1 - self.level))

    @property
    def likely(self) -> Likely:
        """What the residuals in this frame are like: of labels, nearly known by their shares."""
        constant = np.linalg.solve(self.turn, np.eye(len(self.turn))[0])
        base = np.linalg.solve(self.turn, self.base * (self.slope / self.bound))
        if self.loss.name == "squared":
            return Likely(constant, base)
        slope = float(self.slope.mean())
        square = slope / self.bound**2
        return Likely(constant, base, square, (_LABELS_VARY * square) ** 2, _LIKELY_SCORES * slope)

    def speak(self, X: Array, answers: Array) -> Array:
        """Return (z, r) of every row, (N, d + 1 + k), from raw rows and scaled answers (N, k).

        Row by row, in a fixed order of additions: a row's numbers do not depend on its neighbours.
        """
        rows = np.full((len(X), X.shape[1] + 1), CONSTANT)
        rows[:, 1:] = self._placed(clip_norm(X / self.row_norm))
        rows = clip_norm(rows)
        score = np.einsum("nq,qk->nk", rows, self.base)
        turned = np.einsum("nq,qp->np", rows, self.turn)
        if self.loss.name == "squared":
            residual = answers - self.level - score
        else:
            shares = expit(logit(self.level) + score)
            residual = answers - shares
            if len(self.level) == 1:  # one Newton step: the rows' weights are those of the model
                root = np.sqrt(np.maximum(shares * (1 - shares), 1e-3) / self.slope)
                turned, residual = turned * root, residual / root
        return np.concatenate([clip_norm(turned), clip_norm(residual / self.bound)], axis=1)

    def _placed(self, rows: Array) -> Array:
        return np.asarray((rows - self.centre) * self.scale)

    def kept(self, rows: TaskSet) -> Array:
        """Return what is left of its rows' spread when they are clipped, by task, (m,) ≤ 1.

        A model of clipped rows is steeper than one of raw rows by about as much. What is usual for
        rows of the declared size is not counted.
        """
        with quiet_arithmetic():
            X = rows.X.astype(np.float64) / self.row_norm
            raw, said = self._placed(X), self._placed(clip_norm(X))
            long = np.sqrt(np.einsum("ij,ij->i", said, said) + CONSTANT**2)
            said /= np.maximum(long, 1.0)[:, None]
            whole = rows.task_sums(np.einsum("ij,ij->i", raw, raw))
            part = rows.task_sums(np.einsum("ij,ij->i", raw, said))
            kept = part / np.maximum(_USUALLY_KEPT * whole, 1e-300)
        return np.clip(np.where(np.isfinite(kept), kept, 0.0), 0.0, 1.0)

    def room(self, rows: TaskSet, *, intercept: bool) -> Array:
        """Return how much of the strength of a prior on slopes suits each task's rows, (m,) ≤ 1.

        A prior of the frame lets slopes of rows as long as the frame's explain about as much as
        noise does. Rows of one task may spread far less than rows of all: then features mostly tell
        tasks apart, or one drowns the others, and what tells answers needs slopes that the prior
        rules out; at every strength all that is left is the prior's mean. Where a task's rows, in
        these coordinates and about their mean, spread by less than a quarter of what rows may,
        strengths fall as the square of it: with the spread the slopes would explain as much as
        before, and once more since nothing is known of slopes so large.
        """
        with quiet_arithmetic():
            X = rows.X.astype(np.float64) / self.row_norm
            if intercept:
                X = X - (rows.task_sums(X) / rows.counts[:, None])[rows.task_of_row]
            turned = np.einsum("nd,dq->nq", X * self.scale, self.turn[1:])
            spread = rows.task_sums(np.einsum("nq,nq->n", turned, turned)) / rows.counts
            room = (spread / _ENOUGH_SPREAD) ** 2
        return np.clip(np.where(np.isfinite(room), room, 1.0), _LEAST_ROOM, 1.0)

    def model(self, shared: Array) -> tuple[Array, Array]:
        """Return raw slopes (…, k, d) and intercepts (…, k) of models (…, d + 1, k) of (z, r)."""
        step = self.turn @ shared * (self.bound / self.slope)
        found = np.moveaxis(self.base + step, -1, -2)  # (…, k, d + 1)
        coef = found[..., 1:] * self.scale
        level = self.level if self.loss.name == "squared" else logit(self.level)
        intercept = level + CONSTANT * found[..., 0] - coef @ self.centre
        unit = self.target_bound if self.loss.name == "squared" else 1.0
        return coef * (unit / self.row_norm), intercept * unit

    def covariance(self, matrix: Array) -> Array:
        """Return the covariance (d, d) of raw slopes from that of a model of (z, r)."""
        unit = self.target_bound if self.loss.name == "squared" else 1.0
        factor = self.scale * self.bound / float(self.slope.mean()) * unit / self.row_norm
        jacobian = factor * self.turn[1:]
        return np.asarray(jacobian @ matrix @ jacobian.T)

    def at(self, shared: SharedModels) -> Frame:
        """Return the frame of the next moments: residuals of the released model, turned rows.

        Rows are multiplied by Σ^(−1/4), half the way to white: noise is the same in all directions.
        """
        step = (shared.bayes[0] + shared.ridge[0]) / 2 * (self.bound / self.slope)
        seen = shared.basis[0].T @ step
        scores = float(np.max(shared.values[0] @ seen**2))
        if self.loss.name != "squared":  # log-odds beyond reason would tell rows to say nothing
            step = step * min(1.0, _LARGEST_SCORES / np.sqrt(max(scores, 1e-300)))
        values = np.maximum(shared.values[0], 0.3 * shared.values[0].mean())
        turn = square_root(values, shared.basis[0], _WHITENED)
        size = float(np.einsum("ij,j,ij->", turn @ shared.basis[0], values, turn @ shared.basis[0]))
        bound = self.bound
        if self.loss.name == "squared":
            bound = min(bound, _RESIDUALS[1] * bound * float(np.sqrt(shared.noise[0])))
        return replace(
            self,
            bound=bound,
            base=self.base + self.turn @ step,
            turn=self.turn @ turn * np.sqrt(0.9 / size),
        )


def _largest_residual(level: Array) -> float:
    """Return the largest norm of (indicators − shares) over the classes a row may have."""
    if len(level) == 1:
        return max(float(level[0]), 1 - float(level[0]))
    rest = float(np.sum(level**2))
    return float(np.sqrt(np.max((1 - level) ** 2 + rest - level**2)))
