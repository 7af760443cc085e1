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

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tacit._rows import row_dots
from tacit._types import AnyArray, Array, IntArray
from tacit.losses import Loss
from tacit.numerics.descent import nesterov_momentum, strongly_convex_momentum
from tacit.numerics.local_fit import local_fit
from tacit.numerics.logistic_dual import are_many
from tacit.numerics.objective import Objective
from tacit.numerics.shared_map import apply_map, symmetric_spectrum
from tacit.penalties import OWN_PENALTIES
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.schedule import Call, Round
from tacit.protocols._home import Outputs, fitted, joining
from tacit.protocols._shrinkage import Shape, safe_shift
from tacit.protocols.model_protected import Moment, candidate_priors, moment_bound, moment_rounds
from tacit.protocols.protocol import Protocol
from tacit.protocols.shown import Shared
from tacit.tasks import TaskSet, one_vs_rest

__all__ = ["Maps", "ProximalHome", "ProximalProtocol", "SharedMap"]

_ITERATES = ("steps", "proposed", "mapped", "own", "own_mapped", "total")


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
class Maps:
    """What the billboard told: the moment of all releases, and the map of every round.

    A round in which nothing stood out has no map, and changes nothing.
    """

    moment: Moment = field(default_factory=Moment)
    maps: tuple[SharedMap | None, ...] = ()


@dataclass(frozen=True)
class ProximalHome:
    """What a stack of tasks keeps; arrays (m, k, ·) with the intercept column last if there is one.

    ``proposed`` is w^(t) after the gradient step, ``mapped`` ŵ^(t) after the map; ``own`` and
    ``own_mapped`` are the same of the part q; ``drift`` is the step that the loss alone would take
    from the task's own fit; ``total`` is the sum of all mapped models; ``heard`` counts the maps
    taken in.
    """

    outputs: Outputs
    objectives: tuple[Objective, ...]
    steps: Array
    proposed: Array
    mapped: Array
    own: Array
    own_mapped: Array
    total: Array
    offsets: Array
    drift: Array | float = 0.0
    heard: int = 0


@dataclass(frozen=True)
class ProximalProtocol(Protocol[Maps, ProximalHome]):
    """The conversation.

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
    average : bool
        Return the average of all rounds' models instead of the last, with "soft-threshold".
    as_printed : bool
        Map the *clipped* model, start where ``start_at_zero`` says, and read only the last
        release, as the paper prints it.

    Guarantee: that of `ModelProtectedProtocol`: the bound limits what is sent whatever steps were
    taken before; step sizes, momentum, q and intercept never leave the task; strength, μ and the
    budget of each round are public constants. With ``wishart-published`` there is no guarantee.
    """

    loss: Loss
    n_tasks: int
    n_features: int
    n_outputs: int = 1
    shares: tuple[float, ...] = (1.0,)
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
    average: bool = False
    as_printed: bool = False
    start_at_zero: bool = False

    def rounds(self) -> tuple[Round, ...]:
        """Return the moment's rounds, one a share of the budget."""
        # The printed group-sparse algorithm noises the whole matrix and then reads its diagonal.
        bound = moment_bound(self.clip, diagonal=self.diagonal and not self.as_printed)
        return moment_rounds(self.shares, self.n_features, self.n_outputs, bound)

    def opening(self) -> Maps:
        """Nothing is known."""
        return Maps()

    def read(self, public: Maps, release: AnyArray, call: Call, noise: Mechanism) -> Maps:  # noqa: ARG002
        """Return the moment and the maps with one more release."""
        trace = float(self.n_tasks) if self.clip is None else None
        value = np.asarray(release)
        if self.shrinkage == "soft-threshold":
            shared: SharedMap | None = self.soft_threshold(value, noise)
            return Maps(public.moment, (*public.maps, shared))
        moment = public.moment.plus(value, noise, n_tasks=self.n_tasks, trace=trace)
        shape = moment.shape
        flat = shape is None or shape.flat
        shared = None if shape is None or flat else SharedMap.of_shape(shape, self.strength)
        return Maps(moment, (*public.maps, shared))

    def shown(self, public: Maps) -> Shared:
        """Show the spectrum of all releases; the printed map reads them singly, and has none."""
        return Shared() if public.moment.shape is None else public.moment.shape.shown()

    def soft_threshold(self, release: Array, noise: Mechanism) -> SharedMap:
        """Return the paper's map of one release, with the safe shift where noise has two signs."""
        value = np.diag(release) if self.diagonal and release.ndim == 2 else release
        fall = noise.fall(len(value), len(self.shares)) if noise.sound else 0.0
        return SharedMap.soft_threshold(value, self.strength, fall)

    def start(self, rows: TaskSet, positions: IntArray) -> ProximalHome:  # noqa: ARG002
        """Set out from every task's own fit (or from zero)."""
        home = self._at_zero(rows)
        curvature = np.maximum(home.objectives[0].curvature() + self.strong_convexity, 1e-300)
        if self.sparse is not None:  # f(p + q) bends twice as much in (p, q) as f does in p alone
            curvature = 2 * curvature
        steps = np.full(len(curvature), self.step) if self.step else 1 / curvature
        models = home.proposed if self.start_at_zero else self._own_models(home)
        home = replace(home, steps=steps, proposed=models, mapped=models)
        if self.as_printed or self.start_at_zero:
            return home
        return replace(home, drift=self._stepped(home, models) - models)

    def _at_zero(self, rows: TaskSet) -> ProximalHome:
        """Return the home of these rows with nothing fitted."""
        outputs = one_vs_rest(rows, self.n_outputs)
        centred, means = _centred(outputs, self.loss, self.fit_intercept)
        objectives = tuple(Objective(part, self.loss) for part in centred)
        shape = (rows.n_tasks, len(centred), centred[0].n_features)
        nothing: Array = np.zeros(shape, dtype=centred[0].X.dtype)
        steps = np.zeros(rows.n_tasks)
        return ProximalHome(
            outputs, objectives, steps, nothing, nothing, nothing, nothing, nothing, means
        )

    def _own_models(self, home: ProximalHome) -> Array:
        """Return every task's single-task fit, in the coordinates of the centred rows."""
        models, means = np.zeros_like(home.proposed), home.offsets
        many = are_many(self.n_tasks, self.n_features)
        for number, part in enumerate(home.outputs):
            fit = local_fit(part, self.loss, intercept=self.fit_intercept, many=many)
            models[:, number, : part.n_features] = fit.coef
            if models.shape[2] > part.n_features:
                shift = row_dots(fit.coef, means[:, :-1]) if means.size else 0.0
                models[:, number, -1] = np.asarray(fit.intercept + shift)
        return models

    def memory(self, home: ProximalHome) -> dict[str, Array]:
        """Return the iterates, what they move by, and how many maps they have seen."""
        kept = {name: getattr(home, name) for name in _ITERATES}
        if isinstance(home.drift, np.ndarray):
            kept["drift"] = home.drift
        return {**kept, "heard": np.full(len(home.proposed), home.heard)}

    def resume(self, rows: TaskSet, positions: IntArray, memory: dict[str, Any]) -> ProximalHome:  # noqa: ARG002
        """Take the iterates up again; nothing is fitted anew."""
        kept = {name: memory[name] for name in memory if name != "heard"}
        return replace(self._at_zero(rows), **kept, heard=int(memory["heard"][0]))

    def _width(self, home: ProximalHome) -> int:
        """Return d, the features without the intercept column."""
        appended = self.fit_intercept and self.loss.name != "squared"
        return int(home.proposed.shape[-1]) - int(appended)

    def speak(
        self,
        home: ProximalHome,
        public: Maps,
        call: Call,  # noqa: ARG002
        joined: AnyArray | None,
    ) -> tuple[ProximalHome, Array]:
        """Say the model after the last gradient step, without intercept and without q."""
        home = self._caught_up(home, public)
        return home, joining(home.proposed[..., : self._width(home)], joined)

    def _caught_up(self, home: ProximalHome, public: Maps) -> ProximalHome:
        for number, shared in enumerate(public.maps[home.heard :], start=home.heard + 1):
            if shared is not None:
                home = self._moved(home, shared, number)
        return replace(home, heard=len(public.maps))

    def _moved(self, home: ProximalHome, shared: SharedMap, t: int) -> ProximalHome:
        """Apply the map of round ``t``, add momentum, take one gradient step."""
        mapped = self._mapped(home, shared)
        beta = self._momentum(t, home.steps)
        point = _ahead(mapped, home.mapped, beta)
        if self.sparse is None:
            proposed, total = self._stepped(home, point), home.total + mapped
            return replace(home, proposed=proposed, mapped=mapped, total=total)
        own_mapped = self._own_prox(home.own, home.steps)
        own_point = _ahead(own_mapped, home.own_mapped, beta)
        together = point + own_point
        move = together - self._stepped(home, together)
        own = own_point - move
        own[..., self._width(home) :] = 0.0
        total = home.total + mapped + own_mapped
        return replace(
            home,
            proposed=point - move,
            mapped=mapped,
            own=own,
            own_mapped=own_mapped,
            total=total,
        )

    def _mapped(self, home: ProximalHome, shared: SharedMap) -> Array:
        """Return M w for every model; an intercept column stays as it is."""
        d = self._width(home)
        mapped = np.empty_like(home.proposed)
        mapped[..., d:] = home.proposed[..., d:]
        scale: Array | float = 1.0
        if self.as_printed and self.clip is not None:
            norms = np.linalg.norm(home.proposed[..., :d], axis=(1, 2))
            scale = (1 / np.maximum(1.0, norms / self.clip))[:, None]
        for number in range(mapped.shape[1]):
            mapped[:, number, :d] = shared(home.proposed[:, number, :d]) * scale
        return mapped

    def _stepped(self, home: ProximalHome, point: Array) -> Array:
        """Return ``point`` after one gradient step of every task, ridge term included."""
        moved = np.empty_like(point)
        for number, objective in enumerate(home.objectives):
            moved[:, number] = objective.step(point[:, number], home.steps)
        if self.strong_convexity > 0:
            shrink = self.strong_convexity * home.steps.astype(point.dtype)
            moved -= shrink[:, None, None] * point
        moved -= home.drift
        return moved

    def _own_prox(self, own: Array, steps: Array) -> Array:
        if self.sparse is None:
            return own
        penalty = OWN_PENALTIES[self.sparse](self.sparse_strength)
        parts = [penalty.prox(own[:, c], steps) for c in range(own.shape[1])]
        return np.stack(parts, axis=1)

    def _momentum(self, t: int, steps: Array) -> Array:
        if not self.accelerated:
            return np.zeros((1, 1, 1))
        if self.strong_convexity > 0:
            values = np.asarray(strongly_convex_momentum(self.strong_convexity, 1 / steps))
            return np.reshape(values, (-1, 1, 1))
        return np.full((1, 1, 1), nesterov_momentum(t))

    def finish(self, home: ProximalHome, public: Maps) -> Array:
        """Return models (m, k, d + 1), the intercept last."""
        if self.shrinkage == "optimal" and self.sparse is None:
            priors = [candidate_priors(public.moment.shape)] * len(home.outputs)
            many = are_many(self.n_tasks, self.n_features)
            return fitted(home.outputs, self.loss, priors, intercept=self.fit_intercept, many=many)
        home = self._caught_up(home, public)
        d = self._width(home)
        W = home.total / home.heard if self.average else home.mapped + home.own_mapped
        coef = np.asarray(W[..., :d], dtype=np.float64)
        level = np.asarray(W[..., d], dtype=np.float64) if W.shape[-1] > d else 0.0
        if not self.fit_intercept:
            intercept: Array = np.zeros(coef.shape[:2])
        elif self.loss.name == "squared":
            target = home.offsets[:, d:]
            intercept = target - row_dots(coef, home.offsets[:, None, :d])
        else:
            intercept = level - row_dots(coef, home.offsets[:, None, :d])
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
