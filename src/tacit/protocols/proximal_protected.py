"""Model-protected learning by proximal gradient rounds, as the paper iterates it.

Round t: tasks send their models; the noisy second moment becomes a map M; every task applies M to
its own model, adds momentum and takes one gradient step on its own rows (Algorithms 2 and 3; with a
sparse part q of its own, Algorithm 4). Up: k·d numbers a task and round; down: d² (or d).

Two maps:

- *optimal*: M = (I + s(c̄ C⁻¹ − I))⁻¹ with C the noise-aware `Shape` and c̄ its largest eigenvalue:
  the prox of the quadratic that alternating minimisation puts in place of the norm. It is the
  identity when nothing stands out of the noise, and such a round changes nothing. After the last
  round every task fits its rows to the end under the shape of all releases together, as
  `tacit.protocols.model_protected` does: gradient steps alone would leave it overfitted.
- *soft-threshold*: the paper's max(0, 1 − ηλ/√Λ), on eigenvalues moved up by `safe_shift` so that
  noise of either sign deletes no direction. One-sided (published) noise needs no shift.

Except as printed, a task's own penalised fit stays where it is under the identity map: from every
step the one that its loss alone would take there is subtracted. Gradient steps on the bare loss
would walk from that fit towards an overfitted one as soon as noise leaves nothing to share; like
this, the rounds *are* single-task learning then, which is what the paper's Proposition 1 promises.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tacit._types import Array
from tacit.losses import Loss
from tacit.numerics.descent import nesterov_momentum, strongly_convex_momentum
from tacit.numerics.local_fit import local_fit
from tacit.numerics.objective import Objective
from tacit.numerics.shared_map import apply_map, symmetric_spectrum
from tacit.numerics.threads import one_blas_thread
from tacit.penalties import Lasso, Penalty, Ridge, TaskGroup
from tacit.privacy.bounds import SecondMoment
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.unit import Adjacency, Unit
from tacit.protocols.model_protected import Moment, fitted_under, moment_bound
from tacit.protocols.shrinkage import Shape, deepest_fall, safe_shift
from tacit.tasks import TaskSet, one_vs_rest

__all__ = ["SPARSE_PENALTIES", "ProximalProtocol", "ProximalState", "SharedMap"]

SPARSE_PENALTIES: dict[str, type[Penalty]] = {
    "entries": Lasso,
    "tasks": TaskGroup,
    "ridge": Ridge,
}


@dataclass(frozen=True)
class SharedMap:
    """A symmetric map M by its eigenvectors (None: coordinate axes) and factors; public."""

    factors: Array
    vectors: Array | None = None

    def __call__(self, W: Array) -> Array:
        """Return M w for every row of ``W`` (m, d)."""
        if self.vectors is None:
            return W * self.factors.astype(W.dtype)
        return apply_map(W, (self.vectors * self.factors) @ self.vectors.T)

    @classmethod
    def of_shape(cls, shape: Shape, strength: float) -> SharedMap:
        """Return the prox of the shape's quadratic."""
        values = shape.eigenvalues()
        return cls(1 / (1 + strength * (values.max() / values - 1)), shape.vectors)

    @classmethod
    def soft_threshold(cls, release: Array, threshold: float, fall: float) -> SharedMap:
        """Return the paper's map, on eigenvalues (or squared norms) made safe from ``fall``."""
        if release.ndim == 1:
            values, vectors = release, None
        else:
            values, vectors = symmetric_spectrum(release)
        roots = np.sqrt(np.maximum(safe_shift(values, fall), 1e-300))
        return cls(np.maximum(0.0, 1 - threshold / roots), vectors)


@dataclass(frozen=True)
class ProximalState:
    """What a stack of tasks keeps; arrays (m, k, ·) with the intercept column last if there is one.

    ``proposed`` is w^(t) after the gradient step, ``mapped`` ŵ^(t) after the map; ``own`` and
    ``own_mapped`` are the same for the sparse part q of a decomposed model. ``drift`` is the step
    that the bare loss would take from the task's own fit.
    """

    outputs: tuple[TaskSet, ...]
    objectives: tuple[Objective, ...]
    steps: Array
    proposed: Array
    mapped: Array
    own: Array
    own_mapped: Array
    offsets: Array
    moment: Moment
    drift: Array | float = 0.0
    shape: Shape | None = None


@dataclass(frozen=True)
class ProximalProtocol:
    """The conversation; ``mechanisms`` are one a round, calibrated by the caller.

    Parameters
    ----------
    strength : float
        Public strength of the map: ηλ of the paper for "soft-threshold", s above for "optimal".
    step : float or None
        Public step size η; None lets every task use its own curvature, which is free.
    strong_convexity : float
        μ of a ridge term (μ/2)‖w‖² added to every task's loss.
    sparse : "entries", "tasks", "ridge" or None
        Penalty of a part q that stays at home (Algorithm 4 and its remark); None has no such part.
    as_printed : bool
        Map the *clipped* model, start where ``start_at_zero`` says, and read only the last
        release, as the paper prints it.

    Guarantee: that of `ModelProtectedProtocol`: the bound limits what is sent whatever steps were
    taken before; step sizes, momentum, q and intercept never leave the task; strength, μ and the
    budget of each round are public constants. With ``wishart-published`` there is no guarantee.
    """

    loss: Loss
    n_tasks: int
    mechanisms: tuple[Mechanism, ...]
    n_outputs: int = 1
    clip: float | None = None
    diagonal: bool = False
    fit_intercept: bool = True
    strength: float = 0.005
    shrinkage: str = "optimal"
    step: float | None = None
    accelerated: bool = True
    strong_convexity: float = 0.0
    sparse: str | None = None
    sparse_strength: float = 0.1
    as_printed: bool = False
    start_at_zero: bool = False
    unit: Unit = Unit.TASK
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @property
    def n_rounds(self) -> int:
        """Number of releases."""
        return len(self.mechanisms)

    def start(self, tasks: TaskSet) -> ProximalState:
        """Set out from every task's own fit (or from zero)."""
        outputs = one_vs_rest(tasks, self.n_outputs)
        rows, means = _centred(outputs, self.loss, self.fit_intercept)
        objectives = tuple(Objective(part, self.loss) for part in rows)
        curvature = np.maximum(objectives[0].curvature() + self.strong_convexity, 1e-300)
        if self.sparse is not None:  # f(p + q) bends twice as much in (p, q) as f does in p alone
            curvature = 2 * curvature
        steps = np.full(len(curvature), self.step) if self.step else 1 / curvature
        models = np.zeros((tasks.n_tasks, len(rows), rows[0].n_features), dtype=rows[0].X.dtype)
        if not self.start_at_zero:
            for number, part in enumerate(outputs):
                fit = local_fit(part, self.loss, intercept=self.fit_intercept)
                models[:, number, : part.n_features] = fit.coef
                if rows[0].n_features > part.n_features:
                    centre = means[:, :-1] if means.size else 0.0
                    level = fit.intercept + np.einsum("md,md->m", fit.coef, centre)
                    models[:, number, -1] = level
        nothing = np.zeros_like(models)
        state = ProximalState(
            outputs, objectives, steps, models, models, nothing, nothing, means, Moment()
        )
        if self.as_printed or self.start_at_zero:
            return state
        return replace(state, drift=self._stepped(state, models) - models)

    def _width(self, state: ProximalState) -> int:
        """Return d, the features without the intercept column."""
        appended = self.fit_intercept and self.loss.name != "squared"
        return int(state.proposed.shape[-1]) - int(appended)

    def speak(self, state: ProximalState, t: int) -> Array:  # noqa: ARG002
        """Say the model after the last gradient step, without intercept and without q."""
        return state.proposed[..., : self._width(state)]

    @property
    def _limit(self) -> SecondMoment:
        # The printed group-sparse algorithm noises the whole matrix and then reads its diagonal.
        return moment_bound(self.clip, diagonal=self.diagonal and not self.as_printed)

    def bound(self, messages: Array) -> Array:
        """Limit every task's message."""
        return self._limit(messages)

    def aggregate(self, messages: Array) -> Array:
        """Sum the outer products, or squares, of the bounded models."""
        with one_blas_thread():  # many small products: threads would only wait for each other
            return self._limit.aggregate(messages)

    def mechanism(self, t: int) -> Mechanism:
        """Return the mechanism of round ``t``."""
        return self.mechanisms[t]

    def shape(self, moment: Moment, t: int) -> Shape:
        """Return what stands out of the noise of all releases so far."""
        trace = float(self.n_tasks) if self.clip is None else None
        return moment.shape(self.mechanisms[t], n_tasks=self.n_tasks, trace=trace)

    def soft_threshold(self, release: Array, t: int) -> SharedMap:
        """Return the paper's map of one release, with the safe shift where noise has two signs."""
        mechanism, d = self.mechanisms[t], release.shape[0]
        value = np.diag(release) if self.diagonal and release.ndim == 2 else release
        fall = deepest_fall(mechanism, d, self.n_rounds) if mechanism.sound else 0.0
        return SharedMap.soft_threshold(value, self.strength, fall)

    def listen(self, state: ProximalState, release: Array, t: int) -> ProximalState:
        """Apply the map, add momentum, take one gradient step."""
        release = np.asarray(release)
        moment = state.moment.plus(release, self.mechanisms[t].scale)
        if self.shrinkage == "soft-threshold":
            shared = self.soft_threshold(release, t)
        else:
            shape = self.shape(moment, t)
            state = replace(state, moment=moment, shape=shape)
            if shape.flat:
                return state
            shared = SharedMap.of_shape(shape, self.strength)
        mapped = self._mapped(state, shared)
        beta = self._momentum(t + 1, state.steps)
        point = _ahead(mapped, state.mapped, beta)
        if self.sparse is None:
            return replace(
                state, proposed=self._stepped(state, point), mapped=mapped, moment=moment
            )
        own_mapped = self._own_prox(state.own, state.steps)
        own_point = _ahead(own_mapped, state.own_mapped, beta)
        together = point + own_point
        move = together - self._stepped(state, together)
        own = own_point - move
        own[..., self._width(state) :] = 0.0
        return replace(
            state,
            proposed=point - move,
            mapped=mapped,
            own=own,
            own_mapped=own_mapped,
            moment=moment,
        )

    def _mapped(self, state: ProximalState, shared: SharedMap) -> Array:
        """Return M w for every model; an intercept column stays as it is."""
        d = self._width(state)
        mapped = np.empty_like(state.proposed)
        mapped[..., d:] = state.proposed[..., d:]
        scale: Array | float = 1.0
        if self.as_printed and self.clip is not None:
            norms = np.linalg.norm(state.proposed[..., :d], axis=(1, 2))
            scale = (1 / np.maximum(1.0, norms / self.clip))[:, None]
        for number in range(mapped.shape[1]):
            mapped[:, number, :d] = shared(state.proposed[:, number, :d]) * scale
        return mapped

    def _stepped(self, state: ProximalState, point: Array) -> Array:
        """Return ``point`` after one gradient step of every task, ridge term included."""
        moved = np.empty_like(point)
        for number, objective in enumerate(state.objectives):
            moved[:, number] = objective.step(point[:, number], state.steps)
        if self.strong_convexity > 0:
            shrink = self.strong_convexity * state.steps.astype(point.dtype)
            moved -= shrink[:, None, None] * point
        moved -= state.drift
        return moved

    def _own_prox(self, own: Array, steps: Array) -> Array:
        if self.sparse is None:
            return own
        penalty = SPARSE_PENALTIES[self.sparse](self.sparse_strength)  # type: ignore[call-arg]
        parts = [penalty.prox(own[:, c], steps) for c in range(own.shape[1])]
        return np.stack(parts, axis=1)

    def _momentum(self, t: int, steps: Array) -> Array:
        if not self.accelerated:
            return np.zeros((1, 1, 1))
        if self.strong_convexity > 0:
            values = np.asarray(strongly_convex_momentum(self.strong_convexity, 1 / steps))
            return np.reshape(values, (-1, 1, 1))
        return np.full((1, 1, 1), nesterov_momentum(t))

    def finish(self, state: ProximalState) -> Array:
        """Return models (m, k, d + 1), the intercept last."""
        if self.shrinkage == "optimal" and self.sparse is None:
            return fitted_under(
                state.outputs, self.loss, state.shape, fit_intercept=self.fit_intercept
            )
        d = self._width(state)
        W = state.mapped + state.own_mapped
        coef = np.asarray(W[..., :d], dtype=np.float64)
        level = np.asarray(W[..., d], dtype=np.float64) if W.shape[-1] > d else 0.0
        if not self.fit_intercept:
            intercept = np.zeros(coef.shape[:2])
        elif self.loss.name == "squared":
            target = state.offsets[:, d:]
            intercept = target - np.einsum("mkd,md->mk", coef, state.offsets[:, :d])
        else:
            intercept = level - np.einsum("mkd,md->mk", coef, state.offsets[:, :d])
        return np.concatenate([coef, intercept[..., None]], axis=2)


def _ahead(now: Array, before: Array, beta: Array) -> Array:
    """Return ``now + beta (now − before)``."""
    if not beta.any():
        return now
    point = now - before
    point *= beta.astype(now.dtype)
    point += now
    return point


def _centred(
    outputs: tuple[TaskSet, ...], loss: Loss, fit_intercept: bool
) -> tuple[tuple[TaskSet, ...], Array]:
    """Return rows centred task by task, with what was taken: (m, d) and the targets' means.

    The squared loss is centred in its targets too; others get an intercept column.
    """
    first = outputs[0]
    if not fit_intercept:
        return outputs, np.zeros((first.n_tasks, 0))
    counts = first.counts[:, None]
    x_mean = first.task_sums(np.asarray(first.X, dtype=np.float64)) / counts
    X = (first.X - x_mean[first.task_of_row]).astype(first.X.dtype)
    if loss.name != "squared":
        rows = first.replace(X=X).with_intercept()
        parts = tuple(rows.replace(y=output.y) for output in outputs)
        return parts, np.column_stack([x_mean, np.zeros(first.n_tasks)])
    means = [output.task_sums(np.asarray(output.y)) / output.counts for output in outputs]
    parts = tuple(
        output.replace(X=X, y=np.asarray(output.y) - mean[first.task_of_row])
        for output, mean in zip(outputs, means, strict=True)
    )
    return parts, np.column_stack([x_mean, *means])
