"""Asynchronous learning with a server that nobody need trust; the unit is one row of one task.

Every task has w = p + q. The server holds the shared parts P, under a penalty that couples them,
and the last gradient that every task *released*. A task speaks whenever it is ready: one sum of
clipped row gradients with noise. The server exchanges that task's vector, takes one proximal step
and answers that task alone. Up: k(d + 1) numbers a turn; down: the same.

One release a turn serves both parts, as ∂/∂p and ∂/∂q of ℓ(p + q) are the same vector. The own part
that gradients are taken at, the *shadow*, is made of releases; the own part that a task predicts
with is fitted at home, exactly, when the conversation is over, and touches nothing that was sent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tacit import _check
from tacit._rows import row_dots
from tacit._types import AnyArray, Array, IntArray
from tacit.losses import Loss
from tacit.numerics.columns import COLUMNS, Columns
from tacit.numerics.logistic_dual import are_many
from tacit.penalties import OWN_PENALTIES, SHARED_PENALTIES
from tacit.privacy.bounds import RowGradientClip, RowMessages
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.schedule import AtTask, Call, Everyone, Poisson, Round
from tacit.privacy.unit import Unit
from tacit.protocols._home import Outputs, check_places
from tacit.protocols._moment_frame import clip_norm
from tacit.protocols._shared_columns import personal_models
from tacit.protocols.protocol import Protocol
from tacit.protocols.shown import Shared
from tacit.tasks import TaskSet, one_vs_rest

__all__ = ["AsynchronousHome", "AsynchronousProtocol", "AsynchronousPublic", "Design"]

_CONSTANT = 0.4  # the intercept's coordinate, before rows are scaled to norm 1
_EDGE = 0.7  # of the largest singular value of noise, that a threshold covers
_LONGEST = 1e6  # of a row's gradient where nothing is private: steps too long must not overflow
_FAR = 6.0  # deviations of the noise within which a release can come from bounded rows


@dataclass(frozen=True)
class Design:
    """How raw rows become those of the conversation: (x / row_norm, 0.4), of norm at most 1.

    Guarantee: a row's image depends on that row and public numbers only.
    """

    row_norm: float
    target_bound: float
    fit_intercept: bool = True

    @property
    def _constant(self) -> float:
        return _CONSTANT if self.fit_intercept else 0.0

    @property
    def _shrink(self) -> float:
        return 1 / math.sqrt(1 + self._constant**2)

    @property
    def scale(self) -> float:
        """Raw slope of a unit slope in the conversation."""
        return self._shrink * self.target_bound / self.row_norm

    def rows(self, X: Array) -> Array:
        """Return the rows (N, d + 1)."""
        found = np.full((len(X), X.shape[1] + 1), self._constant)
        found[:, :-1] = clip_norm(np.asarray(X, dtype=np.float64) / self.row_norm)
        return found * self._shrink

    def answers(self, y: Array) -> Array:
        """Return targets between −1 and 1 (classes are 0 and 1)."""
        return np.clip(np.asarray(y, dtype=np.float64) / self.target_bound, -1.0, 1.0)

    def raw(self, models: Array) -> Array:
        """Return models (…, d + 1) of raw rows, the intercept last."""
        slopes = models[..., :-1] * self.scale
        level = models[..., -1:] * (self._shrink * self._constant * self.target_bound)
        return np.concatenate([slopes, level], axis=-1)


@dataclass(frozen=True)
class AsynchronousPublic:
    """What the billboard told.

    Attributes
    ----------
    server
        One vector a task and output, whose proximal point are the shared parts.
    told
        The shared part (m, k, d + 1) that every task was last told: where its next gradient is
        taken, however much the server has learned meanwhile.
    own
        The shadow (m, k, d + 1) of every task's own part.
    moved
        How far each task's p + q went with its last turn, (m,); infinite before the first.
    """

    server: Columns
    told: Array
    own: Array
    moved: Array


@dataclass(frozen=True)
class AsynchronousHome:
    """What a stack of tasks keeps: their rows, raw and as they speak, and their places."""

    outputs: Outputs
    rows: Array
    answers: Array
    positions: IntArray


@dataclass(frozen=True)
class AsynchronousProtocol(Protocol[AsynchronousPublic, AsynchronousHome]):
    """The conversation.

    Parameters
    ----------
    counts : tuple of int
        Rows of every task, in order of position; declared public.
    shared, own : str
        Penalties by name: "low-rank" or "group-sparse", and "ridge", "entries" or "tasks". The four
        structures of the paper are group-sparse + entries (dirty model), low-rank + ridge
        (alternating structure), group-sparse + tasks (robust feature learning) and low-rank + tasks
        (robust multi-task learning).
    shared_strength, own_strength : float
        Of the objective Σ_t Σ_i ℓ(row) / max n + λ r(P) + τ g(Q).
    turns, local_steps : int
        Releases of a task, and how many of them in a row move its own part before the last of
        them moves the shared part, too.
    step, relaxation : float
        Length of a gradient step, and the over-relaxation ω of both parts.
    clip : float
        Largest norm of a row's gradient.
    sampling : float
        Probability with which a row joins a turn.
    tolerance : float
        Stop when no task's model moved further with its last turn; 0: never.

    Guarantee: (ε, δ) for one row, under replace-one with public numbers of rows (zero-out with
    ``sampling`` < 1), against the server and all other tasks together. All that a task computes
    from its rows for others is Σ_i clip(∇ℓ_i(p_t + q̃_t)), where p_t was told and q̃_t is made of its
    own earlier releases: both public. So a replaced row moves the sum by 2·clip (a row counted as
    zero by clip) whatever happened before, the noise covers it, and turns compose adaptively; tasks
    compose in parallel (`Billboard`). Divisors, steps, thresholds and the stopping rule are
    functions of public numbers and releases. Who speaks when comes from an engine that sees no row.
    Models of `finish` stay at home (joint privacy).

    Robustness: a release longer than any rows and the noise could make it is cut to that length.
    """

    loss: Loss
    n_features: int
    counts: tuple[int, ...]
    design: Design
    n_outputs: int = 1
    shared: str = "low-rank"
    own: str = "ridge"
    shared_strength: float = 0.0
    own_strength: float = 0.0
    turns: int = 20
    local_steps: int = 1
    step: float = 0.5
    relaxation: float = 1.0
    clip: float = 0.5
    sampling: float = 1.0
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        _check.one_of("shared", self.shared, SHARED_PENALTIES)
        _check.one_of("own", self.own, OWN_PENALTIES)

    @property
    def n_tasks(self) -> int:
        """Public number of tasks."""
        return len(self.counts)

    @property
    def divisor(self) -> float:
        """What sums of gradients are divided by: rows of the largest task that are expected."""
        return max(self.counts) * self.sampling

    @property
    def threshold(self) -> float:
        """Threshold of the server's proximal step."""
        return self.step * self.shared_strength

    def with_strength(self, strength: float) -> AsynchronousProtocol:
        """Return the conversation with another strength of the shared penalty."""
        return replace(self, shared_strength=strength)

    def noise_edge(self, noise: Mechanism) -> float:
        """Return the strength that thresholds away what a matrix of pure noise would show."""
        deviation = noise.deviation(self._shape) if math.isfinite(noise.reach) else 0.0
        size = self.n_tasks * self.n_outputs
        edge = math.sqrt(size)
        if self.shared == "low-rank":
            edge += math.sqrt(self.n_features + 1)
        return _EDGE * edge * deviation / self.divisor

    def information(self, noise: Mechanism) -> float:
        """Return how well a common model can be told under this noise, from public numbers alone.

        Rows over the noise on a direction of the sum of all turns, and over the directions.
        """
        if not math.isfinite(noise.reach):
            return math.inf
        rows = math.sqrt(sum(count * count for count in self.counts)) * self.sampling
        deviation = noise.deviation(self._shape) / math.sqrt(self.turns)
        return 2 * self.clip * rows / (deviation * (self.n_features + 1))

    def rounds(self) -> tuple[Round, ...]:
        """Return the one round: a sum of row gradients, noised at the task, as often as turns."""
        return (
            Round(
                "gradient",
                RowGradientClip(self.clip),
                (self.n_outputs, self.n_features + 1),
                turns=self.turns,
                unit=Unit.ROW,
                noise=AtTask(),
                cohort=Poisson(self.sampling) if self.sampling < 1 else Everyone(),
                apart=True,
            ),
        )

    # -- in public -------------------------------------------------------------------------------

    def opening(self) -> AsynchronousPublic:
        """Return zero everywhere."""
        zero = np.zeros((self.n_tasks, self.n_outputs, self.n_features + 1))
        server = COLUMNS[self.shared](zero.reshape(-1, self.n_features + 1))
        return AsynchronousPublic(server, zero, zero, np.full(self.n_tasks, np.inf))

    def read(
        self, public: AsynchronousPublic, release: AnyArray, call: Call, noise: Mechanism
    ) -> AsynchronousPublic:
        """Take the gradient of one task (or of all) in, and step."""
        tasks = np.arange(self.n_tasks) if call.task is None else np.array([call.task])
        gradient = self._gradient(np.asarray(release, dtype=np.float64), tasks, noise)
        before = public.told[tasks] + public.own[tasks]
        own = self._own_step(public.own[tasks], gradient)
        last = (call.turn + 1) % self.local_steps == 0
        server, told = public.server, public.told[tasks]
        if last:
            server, told = self._shared_step(server, told, gradient, tasks)
        moved = public.moved.copy()
        moved[tasks] = np.sqrt(np.sum((told + own - before) ** 2, axis=(1, 2)))
        return AsynchronousPublic(
            server, _with(public.told, tasks, told), _with(public.own, tasks, own), moved
        )

    def _gradient(self, release: Array, tasks: IntArray, noise: Mechanism) -> Array:
        """Return the mean gradients (j, k, d + 1) in a release, cut to what rows can have made."""
        sums = np.clip(np.where(np.isfinite(release), release, 0.0), -1e100, 1e100)
        sums = sums.reshape(len(tasks), *self._shape)
        most = np.asarray(self.counts, dtype=np.float64)[tasks] * min(self.clip, _LONGEST)
        most = most + _FAR * noise.noise_norm(self._shape)
        length = np.sqrt(np.sum(sums * sums, axis=(1, 2)))
        cut = np.minimum(1.0, most / np.maximum(length, 1e-300))
        return np.asarray(sums * (cut / self.divisor)[:, None, None])

    @property
    def _shape(self) -> tuple[int, int]:
        return self.n_outputs, self.n_features + 1

    def _own_step(self, own: Array, gradient: Array) -> Array:
        penalty = OWN_PENALTIES[self.own](self.own_strength)
        target = (own - self.step * gradient).reshape(-1, own.shape[-1])
        return own + self.relaxation * (penalty.prox(target, self.step).reshape(own.shape) - own)

    def _shared_step(
        self, server: Columns, told: Array, gradient: Array, tasks: IntArray
    ) -> tuple[Columns, Array]:
        """Exchange the vectors of ``tasks``, and return what they are told.

        The whole matrix of cached gradients is *not* applied again, as the paper prints it: with
        delays that steps by all tasks' old gradients at every arrival.
        """
        places = self._places(tasks)
        flat = (told - self.step * gradient).reshape(len(places), -1)
        now = server.vectors[places]
        server = server.replaced(places, now + self.relaxation * (flat - now))
        answer, server = server.shrunk(self.threshold, places)
        return server, answer.reshape(told.shape)

    def _places(self, tasks: IntArray) -> IntArray:
        """Return where the vectors of ``tasks`` stand at the server."""
        return (tasks[:, None] * self.n_outputs + np.arange(self.n_outputs)).ravel()

    def parts(self, public: AsynchronousPublic) -> tuple[Array, Array]:
        """Return the shared parts as the server has them now, and the shadows, (m, k, d + 1)."""
        shared, _ = public.server.shrunk(self.threshold)
        return shared.reshape(public.own.shape), public.own

    def raw_shared(self, public: AsynchronousPublic) -> Array:
        """Return the shared parts as models of raw rows, (m, k, d + 1)."""
        return self.design.raw(self.parts(public)[0])

    def settled(self, public: AsynchronousPublic) -> bool:
        """Whether no task's model moved by more than the tolerance with its last turn."""
        return self.tolerance > 0 and float(np.max(public.moved)) <= self.tolerance

    def shown(self, public: AsynchronousPublic) -> Shared:
        """Show the mean of the shared parts, without intercepts."""
        return Shared(mean_model=self.raw_shared(public).mean(axis=0)[:, :-1])

    # -- at home ---------------------------------------------------------------------------------

    def start(self, rows: TaskSet, positions: IntArray) -> AsynchronousHome:
        """Keep the rows, raw and as they speak."""
        check_places(positions, self.n_tasks)
        outputs = one_vs_rest(rows, self.n_outputs)
        answers = np.stack([self.design.answers(np.asarray(part.y)) for part in outputs], axis=1)
        return AsynchronousHome(outputs, self.design.rows(rows.X), answers, positions)

    def speak(
        self,
        home: AsynchronousHome,
        public: AsynchronousPublic,
        call: Call,  # noqa: ARG002
        joined: AnyArray | None,
    ) -> tuple[AsynchronousHome, RowMessages]:
        """Say every row's gradient at what its task was told and has made of its releases."""
        asked = np.ones(len(home.positions), dtype=bool) if joined is None else np.asarray(joined)
        at = home.positions[asked]
        return home, self.gradients(home, public.told[at] + public.own[at], asked)

    def gradients(self, home: AsynchronousHome, models: Array, asked: AnyArray) -> RowMessages:
        """Return the gradients of all rows of the tasks ``asked``, at their ``models``.

        Row by row: a row's numbers do not depend on how many are asked together.
        """
        counts = home.outputs[0].counts
        kept = slice(None) if asked.all() else np.repeat(asked, counts)
        X, y, counts = home.rows[kept], home.answers[kept], counts[asked]
        score = row_dots(X[:, None], np.repeat(models, counts, axis=0))
        derivative = self.loss.derivative(score, y)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return RowMessages(derivative[:, :, None] * X[:, None, :], offsets)

    def finish(self, home: AsynchronousHome, public: AsynchronousPublic) -> Array:
        """Return models (m, k, d + 1), the intercept last: fitted at home, under the others'."""
        return self.personal(home, self.raw_shared(public), home.positions)

    def personal(self, home: AsynchronousHome, shared: Array, positions: IntArray) -> Array:
        """Return models fitted at home around shared parts; alone, if these are all zero."""
        return personal_models(
            home.outputs,
            positions,
            self.loss,
            shared if shared.any() else None,
            scale=self.design.scale,
            target_bound=self.design.target_bound,
            intercept=self.design.fit_intercept,
            many=are_many(self.n_tasks, self.n_features),
        )


def _with(array: Array, places: IntArray, new: Array) -> Array:
    changed = array.copy()
    changed[places] = new
    return changed
