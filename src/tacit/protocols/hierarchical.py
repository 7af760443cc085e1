"""The hierarchical prior: mean, covariance, level and strengths, all learned from all tasks.

A task's model is drawn from a Gaussian around a common mean, slopes *and* intercept, with strengths
relative to the task's own noise. What the prior is, the tasks settle together in a public
conversation of some 20 bounded and noised sums:

1. *scale*, *centre*, *magnitude*, *level*: of the features and of the targets;
2. *length*: how long a task's score is, for the clip;
3. *scores*: some turns, each of which moves the mean by the sum of the tasks' scores at it;
4. *moment*: of the directions in which slopes deviate from the mean, where noise lets it be seen;
5. *evidence*: how well each candidate of a public grid of priors explains the tasks' targets.

At home every task takes its own word out of the mean, and averages the candidates' posterior means
and its own fit, by its own evidence and by what all said. If a vote shows no agreement, nobody
shares and all keep the own fit; if noise is too loud for any, nothing is said or spent at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from tacit import _check
from tacit._types import AnyArray, Array, IntArray
from tacit.losses import Loss
from tacit.numerics.evidence import personal_models
from tacit.numerics.hierarchical import Candidates, Frame, SquaredTasks
from tacit.numerics.local_fit import local_fits
from tacit.numerics.logistic_dual import are_many
from tacit.numerics.spread import Spread, spread_under
from tacit.privacy.bounds import Bound, NonNegativeClip, SecondMoment, VectorClip, VectorNormalise
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.mechanisms.laws import Coordinates
from tacit.privacy.schedule import AtTask, Call, Curator, Round
from tacit.protocols import _hierarchical_home as at_home
from tacit.protocols._hierarchical_evidence import Comparisons, WholeGrid
from tacit.protocols._hierarchical_home import HierarchicalHome
from tacit.protocols._hierarchical_plan import (
    BINS,
    MOST_OF_SEVERAL,
    PATTERNS,
    SPREAD_WEIGHT,
    Loudness,
    Plan,
    alone,
    compared,
    grid,
    plan,
)
from tacit.protocols._hierarchical_public import HierarchicalPublic, known
from tacit.protocols._hierarchical_reading import (
    CENTRE_RADIUS,
    MeanReading,
    cast_votes,
    kept_of,
    low_rank_shapes,
    read_centre,
    read_diagonal,
    read_level,
    read_spreads,
    read_votes,
    shaped_mean,
    sparse_shapes,
)
from tacit.protocols._home import joining
from tacit.protocols._shrinkage import shrink_spectrum
from tacit.protocols.protocol import Protocol
from tacit.protocols.shown import Shared, TaskMap
from tacit.protocols.task_relationship import denoised_models
from tacit.tasks import TaskSet, one_vs_rest

__all__ = ["HierarchicalProtocol", "HierarchicalPublic", "Loudness"]

# The length of a score: a part of the targets' size where they have been measured, or log-odds.
_USUAL_PART, _USUAL_LOG_ODDS = 0.7, 1.0
# Rounds about rows as they came.
_UNFRAMED = ("scale", "centre", "magnitude", "level")
# The prior under which slopes' deviations are taken, relative to that of the scores.
_WIDER = {"squared": 2.5, "logistic": 1.0}
_Priors = tuple[Candidates, Candidates]  # learned together, and of a task that learns alone


@dataclass(frozen=True)
class HierarchicalProtocol(Protocol[HierarchicalPublic, HierarchicalHome]):
    """The conversation.

    Parameters
    ----------
    n_tasks, n_features, n_outputs : int
        Public sizes; ``n_tasks`` is the only divisor.
    loudness : Loudness
        How loud the noise of the whole budget is; the plan follows from it.
    pattern : "any", "mean", "low-rank", "group-sparse" or "related"
        Which shapes of the slopes' covariance to look for, where noise lets them be seen; "mean"
        shares the mean alone. "group-sparse" releases the moment's d diagonal entries only.
        "related" looks for any shape, and where noise lets it be seen every task releases its own
        deviation from the mean as well, with noise of its own: a map of the tasks.

    Guarantee: joint DP with the task as unit under replace-one. Whatever a task computed, its
    bounded message satisfies, round by round:

    - votes (scale, magnitude, level, length) are non-negative with norm ≤ K, so for two of them
      ‖a − b‖² ≤ 2K² (`NonNegativeClip`): the sum moves by at most √2·K in ℓ2, with K = 1, and
      K² = 1 + 0.7² where the relative spreads stand beside the vote;
    - own models are of norm ≤ 1 each; a replaced task changes its own row only, by 2 in ℓ2;
    - centre, scores and evidence are clipped to a constant K (scores in units of the released
      length, evidence in a public part of nats), all outputs jointly: 2K in ℓ2;
    - the moment's message, all outputs jointly of norm ≤ 1, makes a PSD matrix P of trace ≤ 1, and
      ‖P − P'‖_F² ≤ ‖P‖_F² + ‖P'‖_F² ≤ 2 as tr PP' ≥ 0: √2 in Frobenius, 2 in trace norm; its
      diagonal alone, non-negative entries of sum ≤ 1, moves by √2 in ℓ2 and 2 in ℓ1.

    All bounds, shapes and numbers of turns are constants of the plan, fixed before any row is seen;
    so is the noise of each release. What earlier releases told (frame, length, mean, shapes, grid)
    enters only into *what* tasks compute, and bounds hold for anything they compute: the releases
    compose adaptively, μ² = Σ μ_t² for Gaussian noise and ε = Σ ε_t for pure. A closed conversation
    goes on with zero messages, so its length tells nothing. Readings are post-processing; personal
    models are functions of releases and of the task's own rows (billboard lemma). The choice of
    strengths is read off a noised sum like any other release; nothing is picked by a rule that sees
    the data otherwise. The curator is trusted with the bounded messages.
    """

    loss: Loss
    n_tasks: int
    n_features: int
    n_outputs: int = 1
    loudness: Loudness = field(default_factory=Loudness)
    pattern: str = "any"
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        _check.one_of("pattern", self.pattern, PATTERNS)

    @cached_property
    def plan(self) -> Plan:
        """Rounds, shares and constants, from public quantities."""
        found = plan(
            self.loudness,
            n_tasks=self.n_tasks,
            n_features=self.n_features,
            n_outputs=self.n_outputs,
            loss=self.loss.name,
            intercept=self.fit_intercept,
            pattern=self.pattern,
        )
        return found if self.n_tasks > 1 else replace(found, shares=())

    @property
    def _squared(self) -> bool:
        return self.loss.name == "squared"

    @property
    def _root(self) -> Array:
        """Deviations of the prior that scores are in units of; of the level, the targets' unit."""
        return np.append([math.sqrt(self.plan.slope)] * self.n_features, [1.0] * self.fit_intercept)

    @cached_property
    def _comparisons(self) -> Comparisons | WholeGrid:
        return compared(
            self.plan,
            self.loudness,
            n_tasks=self.n_tasks,
            loss=self.loss.name,
            intercept=self.fit_intercept,
            pattern=self.pattern,
        )

    @cached_property
    def _rounds(self) -> tuple[Round, ...]:
        d, k, p = self.n_features, self.n_outputs, self.n_features + self.fit_intercept
        vote, unit = NonNegativeClip(1.0), VectorClip(1.0)
        sparse = self.pattern == "group-sparse"
        direction = SecondMoment(1.0, inner=VectorNormalise(1.0), diagonal=sparse)
        wide = NonNegativeClip(math.hypot(1.0, SPREAD_WEIGHT))
        said: dict[str, tuple[Bound, tuple[int, ...]]] = {
            "scale": (wide, (BINS + d,)) if self.plan.spreads else (vote, (BINS,)),
            "centre": (VectorClip(CENTRE_RADIUS), (d,)),
            "magnitude": (vote, (BINS,)),
            "level": (vote, (BINS,)),
            "length": (vote, (BINS,)),
            "scores": (unit, (k, p)),
            "moment": (direction, (d,) if sparse else (d, d)),
            "evidence": (unit, (self._comparisons.size,)),
            "own models": (VectorNormalise(1.0), (k * d,)),
        }
        found = []
        for name, share in self.plan.shares:
            turns = self.plan.n_scores if name == "scores" else 1
            bound, shape = said[name]
            found.append(
                Round(
                    name,
                    bound,
                    shape,
                    message=(k, d) if name == "moment" else None,
                    share=self.loudness.turn_share(share, turns),
                    turns=turns,
                    noise=AtTask() if name == "own models" else Curator(),
                )
            )
        return tuple(found)

    def rounds(self) -> tuple[Round, ...]:
        """Return the plan's rounds; none where nothing could be told from noise."""
        return self._rounds

    def opening(self) -> HierarchicalPublic:
        """Nothing is known."""
        return HierarchicalPublic()

    def read(
        self, public: HierarchicalPublic, release: AnyArray, call: Call, noise: Mechanism
    ) -> HierarchicalPublic:
        """Read what the round was about; the conversation closes where only noise is in it."""
        if public.closed:
            return public
        round = self.rounds()[call.round]
        values, deviation = np.asarray(release), noise.deviation(round.shape)
        if round.name == "scale":
            return self._read_scale(public, values, deviation)
        if round.name == "magnitude":
            magnitude = read_votes(values, deviation)
            closed = magnitude is None
            return replace(public, closed=closed, magnitude=magnitude)
        if round.name == "centre":
            frame = known(public.frame)
            given = values, deviation, frame.scale, self.n_tasks
            origin = read_centre(*given, self.plan.centre)
            return replace(public, frame=replace(frame, origin=origin))
        if round.name == "level":
            level = read_level(values, deviation, known(public.magnitude))
            return self._starting(public, level)
        if round.name == "length":
            return self._read_length(public, values, deviation)
        if round.name == "scores":
            return self._read_scores(public, values, deviation)
        if round.name == "moment":
            return self._read_moment(public, values, deviation, noise)
        if round.name == "own models":
            left, strengths, _ = denoised_models(values, deviation)
            return replace(public, embedding=left * strengths)
        candidates, _ = self._candidates(public, 0)
        found = self._comparisons.read(values, deviation, candidates, public.parents)
        # Shapes were chosen by the very tasks that now speak for them: a maximum of the evidence
        # over so many numbers is by as many nats too high (Akaike 1974), shared by all tasks.
        chosen = np.repeat(np.array(public.free) / self.n_tasks, candidates.n_strengths)
        weights = np.concatenate([found[0] - chosen, found[1]])
        return replace(public, log_weights=weights - weights.max())

    def _read_scale(
        self, public: HierarchicalPublic, values: Array, deviation: float
    ) -> HierarchicalPublic:
        size = read_votes(values[:BINS], deviation)
        if size is None:
            return replace(public, closed=True)
        scale = np.full(self.n_features, size)
        if self.plan.spreads:
            scale = read_spreads(values[BINS:], deviation, size, self.n_tasks)
        frame = Frame(np.zeros(self.n_features), scale, self.fit_intercept).among(self.n_tasks)
        return self._starting(replace(public, frame=frame), 0.0)

    def _starting(self, public: HierarchicalPublic, level: float) -> HierarchicalPublic:
        start = np.zeros((self.n_outputs, self.n_features + self.fit_intercept))
        start[:, self.n_features :] = level
        return replace(public, start=start, reading=MeanReading.at(start))

    def _read_length(
        self, public: HierarchicalPublic, values: Array, deviation: float
    ) -> HierarchicalPublic:
        usual = None if self._squared else _USUAL_LOG_ODDS
        if public.magnitude is not None:
            usual = _USUAL_PART * public.magnitude
        length = read_votes(values, deviation, usual=usual, n_tasks=self.n_tasks)
        if length is None:
            return replace(public, closed=True)
        return replace(public, length=self.plan.clip * length)

    def _read_scores(
        self, public: HierarchicalPublic, values: Array, deviation: float
    ) -> HierarchicalPublic:
        values, deviation = values * public.length, deviation * public.length
        given = self._root, self.n_tasks, self.plan, self.n_features
        reading = known(public.reading).after(values, deviation, *given)
        public = replace(public, reading=reading)
        if reading.rounds < self.plan.n_scores:
            return public
        public = replace(public, reach=reading.reach(deviation, *given))
        mean, noise = reading.settled(deviation, *given)
        if mean is None and not self.plan.moment:
            return replace(public, closed=True)
        return replace(public, mean=public.start if mean is None else mean, noise=noise)

    def _read_moment(
        self, public: HierarchicalPublic, values: Array, deviation: float, noise: Mechanism
    ) -> HierarchicalPublic:
        m, d, few = self.n_tasks, self.n_features, not self._squared
        if self.pattern == "group-sparse":
            use = read_diagonal(values, noise.coordinates(), m)
            return public.with_shapes((use, sparse_shapes(use, few=few), d))
        rank = shrink_spectrum(values, noise.spectrum(d), trace=float(m), n_tasks=m)
        standing = int((rank.excess > 0).sum())
        found = [(rank, low_rank_shapes(rank, few=few), standing * d)]
        if self.pattern == "any" and not few:
            # Of all symmetric noise here the diagonal has twice the variance of the rest.
            diagonal = Coordinates(math.sqrt(2) * deviation)
            use = read_diagonal(np.diag(values).copy(), diagonal, m)
            found.append((use, sparse_shapes(use), d))
        return public.with_shapes(*found)

    def _of_others(self, home: HierarchicalHome, public: HierarchicalPublic) -> list[_Priors]:
        """Return every output's candidates, a task's own word taken out of their means."""
        home = home.scored(self.plan.slope, self.plan.level)  # to the bits of whoever remembers
        said = self._scores(home, known(public.reading).mean)
        apart = self._root * at_home.without_own_word(home, said, public, self.n_tasks)
        return [self._candidates(public, c, apart[:, c]) for c in range(self.n_outputs)]

    def _candidates(
        self, public: HierarchicalPublic, output: int, apart: Array | None = None
    ) -> _Priors:
        """Return all candidates; tasks' means lie ``apart`` (m, p), as if nothing was shrunk."""
        d, loss = self.n_features, self.loss.name
        start, mean = known(public.start)[output], known(public.mean)[output]
        root = math.sqrt(self.plan.slope)
        went = known(public.reading).mean[output] - start
        went[:d] *= self.plan.shorten
        means = np.repeat(mean[None], len(public.shapes), axis=0)
        for number, shape in enumerate(public.shapes):
            if shape is not None:
                seen = shaped_mean(went[:d] / root, public.noise, shape)
                means[number, :d] = start[:d] + root * seen
        if apart is not None:
            apart = apart[:, None] * np.stack([kept_of(each - start, went, d) for each in means])
        # Whoever learns alone has a level of its own: what is common of it speaks for nobody.
        free = alone(np.append(start[:d], mean[d:]), d, loss)
        return grid(means, d, loss, public.shapes, apart), free

    def shown(self, public: HierarchicalPublic) -> Shared:
        """Show the mean model, and the spectrum of the slopes' directions around it."""
        if public.model is None:
            return Shared()
        told = Shared() if public.spectrum is None else public.spectrum.shown()
        if public.embedding is not None:
            told = replace(told, task_map=TaskMap.of_embedding(public.embedding), per_task=True)
        return replace(told, mean_model=public.model[0])

    def start(self, rows: TaskSet, positions: IntArray) -> HierarchicalHome:
        """Fit every task on its own."""
        outputs = one_vs_rest(rows, self.n_outputs)
        many = are_many(self.n_tasks, self.n_features)
        own = local_fits(outputs, self.loss, intercept=self.fit_intercept, many=many)
        return HierarchicalHome.of(outputs, own, strangers=positions < 0)

    def memory(self, home: HierarchicalHome) -> dict[str, Array]:
        """Return the own fits and, once they are asked for, the scores as functions of the mean."""
        return home.kept

    def resume(
        self,
        rows: TaskSet,
        positions: IntArray,  # noqa: ARG002
        memory: dict[str, Any],
    ) -> HierarchicalHome:
        """Take the own fits up again."""
        return HierarchicalHome.remembering(memory, one_vs_rest(rows, self.n_outputs))

    def recall(self, memory: dict[str, Any], call: Call) -> HierarchicalHome | None:
        """Answer score rounds from what is remembered."""
        if "pull" not in memory or self.rounds()[call.round].name != "scores":
            return None
        return HierarchicalHome.remembering(memory)

    def speak(
        self,
        home: HierarchicalHome,
        public: HierarchicalPublic,
        call: Call,
        joined: AnyArray | None,
    ) -> tuple[HierarchicalHome, Array]:
        """Say what the round asks for; zero once nobody shares."""
        round = self.rounds()[call.round]
        if public.closed:
            return home, joining(np.zeros((home.n_tasks, *round.sent)), joined)
        scoring = round.name in ("length", "scores")
        if round.name not in _UNFRAMED and not (scoring and home.forms):
            home = home.under(known(public.frame), self.loss)
        if scoring:
            home = home.scored(self.plan.slope, self.plan.level)
        return home, joining(self._said(home, public, round), joined)

    def _said(self, home: HierarchicalHome, public: HierarchicalPublic, round: Round) -> Array:
        if round.name == "scale":
            told = at_home.spreads(home.outputs[0], intercept=self.fit_intercept)
            return told[:, : round.shape[0]]
        if round.name == "magnitude":
            return at_home.magnitudes(home.outputs[0])
        if round.name == "centre":
            return at_home.centres(home.outputs[0], known(public.frame).scale, self.plan.centre)
        if round.name == "level":
            return at_home.levels(home.outputs[0], known(public.magnitude))
        if round.name in ("length", "scores"):
            found = self._scores(home, known(public.reading).mean)
            if round.name == "scores":
                return found / public.length
            flat = found.reshape(len(found), -1)
            return cast_votes(np.sqrt((flat * flat).sum(axis=1)))
        if round.name in ("moment", "own models"):
            wider = self.plan.slope * _WIDER[self.loss.name]
            found = at_home.scores(home, known(public.mean), wider, self.plan.level)
            slopes = found[..., : self.n_features]
            return slopes if round.name == "moment" else slopes.reshape(len(slopes), -1)
        shared, free = zip(*self._of_others(home, public), strict=True)
        pulled, alone = at_home.evidence(home, shared, free)
        return self._comparisons.messages(pulled, alone, shared[0], public.parents)

    def _scores(self, home: HierarchicalHome, means: Array) -> Array:
        """Return scores (m, k, p) with the level's part in the targets' units."""
        if home.forms:
            pairs = zip(home.forms, means, strict=True)
            found = np.stack([form.at(mean) for form, mean in pairs], axis=1)
        else:
            found = at_home.scores(home, means, self.plan.slope, self.plan.level)
        if self.fit_intercept:
            found[..., -1] *= math.sqrt(self.plan.level)
        return found

    def spread(self, rows: TaskSet, public: HierarchicalPublic) -> Spread | None:
        """Return how far predictions of numbers may be off; None where nobody shares.

        Guarantee: computed at home; row i depends on task i's rows and on public values only.
        """
        if public.closed or public.frame is None or public.log_weights is None:
            return None
        framed = SquaredTasks.of(rows, public.frame)
        return spread_under(framed, *self._candidates(public, 0), public.log_weights)

    def finish(self, home: HierarchicalHome, public: HierarchicalPublic) -> Array:
        """Return personal models (m, k, d + 1), the intercept last."""
        if public.closed or public.frame is None or public.log_weights is None:
            fits = list(home.own)
        else:
            home, most = home.under(public.frame, self.loss), np.inf
            if self.n_outputs > 1:
                most = 1.0 if isinstance(self._comparisons, WholeGrid) else MOST_OF_SEVERAL
            told, priors = public.log_weights, self._of_others(home, public)
            fits = [
                personal_models(rows, *pair, told, own, most=most)
                for rows, pair, own in zip(home.framed, priors, home.own, strict=True)
            ]
        return np.stack([np.column_stack([f.coef, f.intercept]) for f in fits], axis=1)
