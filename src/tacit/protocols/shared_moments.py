"""Released moments: rows are protected one by one, sites learn from what all rows have in common.

Every site says three things in all: sums of its rows (*means*), and twice the second moment of
its rows with their answers (*moments*, then *moments again* at the model that the first gave).
What is released is enough for any number of regressions, at no further cost; each site then fits
its own rows, at home, under the common model of the *others*.

Up: d + k + 2 and twice (d + 1 + k)² numbers a site. Down: the same of every site if sites add the
noise, the same once if it is added to the sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tacit import _check
from tacit._types import AnyArray, Array, IntArray
from tacit.errors import InvalidInput
from tacit.losses import Loss
from tacit.numerics.logistic_dual import are_many
from tacit.numerics.moment_prior import (
    Moments,
    SharedModels,
    agreement,
    evidence_by_site,
    shared_models,
)
from tacit.numerics.prior_families import Family, family_fit
from tacit.privacy.bounds import MeansAndSquares, RowMessages, SecondMoment
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.schedule import AtTask, Call, Curator, Distributed, Place, Round, Schedule
from tacit.privacy.unit import Unit
from tacit.protocols._home import Outputs, check_places
from tacit.protocols._moment_frame import Frame, clip_norm
from tacit.protocols.protocol import Protocol
from tacit.tasks import TaskSet, one_vs_rest

__all__ = ["AGGREGATIONS", "SharedMomentsHome", "SharedMomentsProtocol", "SharedMomentsPublic"]

AGGREGATIONS = ("untrusted", "trusted", "secure")
# Shares of μ²; a round's weight is the root of its share.
_MEANS, _MOMENTS, _AGAIN = 0.15, 0.40, 0.45
_STRENGTHS = np.array([0.1, 1.0, 10.0, 100.0])
_DIFFERENCE = 1.0  # variance of a site’s slopes about the common ones, in noise variances
_LEVEL = 1.0  # variance of a site's intercept about the common one, in noise variances
_LIKELY_SQUARE, _SQUARE_VARIANCE = 0.4, 0.06  # of mean squares of rows and answers, a priori
_SHARE_VARIANCE = 0.06  # of a class's share among all rows, a priori
# Log-odds for what was shared, before a site's own rows speak: the evidence for common slopes in
# what was released, less the logarithm of the site's rows by direction, within limits (a site of
# few rows has little to lose), and less where noise is loud.
_BY_ROWS = {"squared": (0.0, 1.0), "logistic": (-1.0, 0.0)}
_DOUBT = 2.0
_MOST_FAVOUR, _LEAST_FAVOUR, _UNKNOWN = 3.0, -8.0, -1.0
_TRUST = 0.1  # variance that one row adds to a site's sums, beside the noise


def moments_bound() -> SecondMoment:
    """Return the bound of a row's w = (z, r), whose w wᵀ are added up.

    Guarantee: ‖w‖² ≤ 2, so that ‖w wᵀ − w′w′ᵀ‖_F² = ‖w‖⁴ + ‖w′‖⁴ − 2(wᵀw′)² ≤ 8: a replaced row
    moves the sum by at most 2√2, as much as Σ z rᵀ alone. The intercept's coordinate is part of z.
    """
    return SecondMoment(math.sqrt(2))


@dataclass(frozen=True)
class SharedMomentsPublic:
    """What the billboard told: the frame of the next (or last) moments, and the last moments.

    ``sites`` holds sums of single sites, or one sum of all; ``weights`` are the sites' votes;
    ``precision`` is that of all moments' noise together, and ``evidence`` that for common slopes
    in earlier moments.
    """

    frame: Frame
    sites: Moments | None = None
    weights: Array | None = None
    precision: float = 0.0
    evidence: float = -math.inf

    def everybody(self) -> Moments:
        """Return the weighted sum of all sites."""
        if self.sites is None or self.weights is None:
            raise InvalidInput("no moments were released yet")
        return self.sites.weighted(self.weights).total()

    def models(self) -> SharedModels:
        """Return the common model of all sites."""
        return shared_models(self.everybody(), self.frame.likely)

    def gain(self, *, apart: bool) -> Array:
        """Return the evidence for a common model: by site that reads it (``apart``), and of all."""
        everybody, models = self.everybody(), self.models()
        if not apart or self.sites is None or self.weights is None:
            return models.gain
        heard = self.weights > 1e-6 * self.weights.max()
        return evidence_by_site(self.sites, everybody, models, self.frame.likely, heard)


@dataclass(frozen=True)
class SharedMomentsHome:
    """What a stack of sites keeps: rows by output, and their places among all sites."""

    outputs: Outputs
    positions: IntArray

    def part(self, joined: AnyArray) -> SharedMomentsHome:
        """Return the home of some of the sites."""
        chosen = np.flatnonzero(joined)
        outputs = tuple(rows.take_tasks(chosen) for rows in self.outputs)
        return SharedMomentsHome(outputs, self.positions[chosen])


@dataclass(frozen=True)
class SharedMomentsProtocol(Protocol[SharedMomentsPublic, SharedMomentsHome]):
    """The conversation.

    Parameters
    ----------
    counts : tuple of int
        Rows of every site, in order of position; declared public.
    row_norm, target_bound : float
        Public limits of ‖x‖ and |y|; larger ones are clipped. A classifier's answers are 0 and 1.
    aggregation : "untrusted", "trusted" or "secure"
        Noise at every site, or once on the sum, or on the sum in shares of the sites.
    min_honest : int, optional
        With "secure": least number of honest sites (`tacit.privacy.schedule.Distributed`).

    Guarantee: (ε, δ) with one row of one site as the unit, under replace-one with public numbers of
    rows, for whatever a site hands out, against all others together. The row says w₁ in the first
    round and w₂, w₃ in the others, functions of the row and of earlier releases only (`Frame`),
    and the sum of a site, hence of all sites, moves by what `MeansAndSquares` and `moments_bound`
    prove when the row is replaced; the noise covers it and releases compose adaptively. A row is in
    one site, so the releases of different sites compose in parallel. Divisors, weights, priors and
    the model that residuals refer to are functions of releases and public numbers. A site's own
    model is computed from its own rows and the releases, and stays with it (joint privacy).

    Robustness: where sites' releases are seen one by one, a site whose numbers no rows could have
    given is left out, and one that disagrees beyond what noise and the usual differences of sites
    explain loses its vote. In sums of all sites nobody can tell.
    """

    loss: Loss
    n_features: int
    counts: tuple[int, ...]
    n_outputs: int = 1
    row_norm: float = 1.0
    target_bound: float = 1.0
    fit_intercept: bool = True
    aggregation: str = "untrusted"
    n_moments: int = 2
    min_honest: int | None = None

    def __post_init__(self) -> None:
        _check.one_of("aggregation", self.aggregation, AGGREGATIONS)
        if not self.by_site:
            moments_bound().check_count(sum(self.counts))

    @property
    def by_site(self) -> bool:
        """Whether every site's release is seen by itself."""
        return self.aggregation == "untrusted"

    @property
    def _sizes(self) -> Array:
        counts = np.asarray(self.counts, dtype=np.float64)
        return counts if self.by_site else counts.sum(keepdims=True)

    @property
    def _apart(self) -> Array:
        squares = np.asarray(self.counts, dtype=np.float64) ** 2
        return squares if self.by_site else squares.sum(keepdims=True)

    @property
    def _place(self) -> Place:
        if self.aggregation == "secure":
            return Distributed(self.min_honest)
        return AtTask() if self.by_site else Curator()

    def rounds(self) -> tuple[Round, ...]:
        """Return means, moments, and moments at the released model."""
        place = self._place
        side = self.n_features + 1 + self.n_outputs
        first = Round(
            "means",
            MeansAndSquares(1.0, self.n_features),
            (side + 1,),
            message=(side - 1,),
            share=math.sqrt(_MEANS),
            unit=Unit.ROW,
            noise=place,
        )
        second = Round(
            "moments",
            moments_bound(),
            (side, side),
            message=(side,),
            share=math.sqrt(_MOMENTS),
            unit=Unit.ROW,
            noise=place,
        )
        if self.n_moments == 1:
            return first, replace(second, share=math.sqrt(_MOMENTS + _AGAIN))
        return first, second, replace(second, name="moments again", share=math.sqrt(_AGAIN))

    def information(self, schedule: Schedule) -> float:
        """Return how well a common model can be told under this noise, from public numbers alone.

        It is μ√(Σn_t²)/D if sites add the noise and μΣn_t/D if it is added once, μ that of the
        moments: rows over the noise on a direction of Σ z rᵀ, and over the directions that share
        what is to be found. Features are rarely all of one size and independent: D is the effective
        number of directions if their variances fall as 1, ½, ⅓ …, (Σ1/j)²/Σ1/j². Around 3 sharing
        begins to pay.
        """
        precision = 0.0
        for round, mechanism in list(zip(schedule.rounds, schedule.mechanisms, strict=True))[1:]:
            if math.isinf(mechanism.reach):
                return math.inf
            precision += 4 / _variance(mechanism, round.shape)
        return self._information(precision)

    def _information(self, precision: float) -> float:
        rows = float(np.sqrt(np.sum(self._sizes**2)))
        return math.sqrt(precision) * rows / self._directions

    @property
    def _directions(self) -> float:
        """Effective number of directions of features whose variances fall as 1, ½, ⅓ …"""
        variances = 1 / np.arange(1.0, self.n_features + 2)
        return float(variances.sum() ** 2 / (variances @ variances))

    # -- in public -------------------------------------------------------------------------------

    def opening(self) -> SharedMomentsPublic:
        """Return the frame of constants."""
        zero = np.zeros(self.n_features), np.zeros(self.n_outputs)
        return SharedMomentsPublic(self._frame(zero, (1.0, 1.0)))

    def _frame(self, means: tuple[Array, Array], squares: tuple[float, float]) -> Frame:
        return Frame.of_means(self.loss, self.row_norm, self.target_bound, means, squares)

    def read(
        self, public: SharedMomentsPublic, release: AnyArray, call: Call, noise: Mechanism
    ) -> SharedMomentsPublic:
        """Take the next release in: means give a frame, moments a model."""
        release = np.asarray(release, dtype=np.float64)
        release = release if self.by_site else release[None]
        variance = _variance(noise, release.shape[1:])
        if call.round == 0:
            return SharedMomentsPublic(self._read_means(release, variance))
        sites = Moments.of_matrices(
            np.where(np.isfinite(release), release, 0.0),
            self.n_outputs,
            self._sizes,
            self._apart,
            variance,
        )
        found = SharedMomentsPublic(
            self._next(public),
            sites,
            self._moment_weights(release, variance),
            public.precision + (4 / variance if variance > 0 else math.inf),
            -math.inf if public.sites is None else float(public.gain(apart=self.by_site)[-1]),
        )
        return self._with_votes(found) if self.by_site else found

    def _next(self, public: SharedMomentsPublic) -> Frame:
        """Return the frame in which rows speak next."""
        if public.sites is None:
            return public.frame
        return public.frame.at(public.models())

    def _read_means(self, release: Array, variance: float) -> Frame:
        """Return the frame: pooled means and squares, shrunk by their known noise."""
        weights = self._vector_weights(release, variance)
        total = float(weights @ self._sizes)
        pooled = weights @ np.where(np.isfinite(release), release, 0.0) / total
        error = float(weights**2 @ np.full(len(weights), variance)) / total**2
        d = self.n_features
        centre, level = _shrunk(pooled[:d], error), pooled[d:-2]
        if self.loss.name == "squared":
            level = _shrunk(level, error)
        else:
            believed = _SHARE_VARIANCE / (_SHARE_VARIANCE + error)
            level = believed * level + (1 - believed) / max(2, self.n_outputs)
        row, answer = (_in_unit(float(square), error) for square in pooled[-2:])
        return self._frame((centre, level), (row, answer))

    def _vector_weights(self, release: Array, variance: float) -> Array:
        """Return weights of sites' sums of vectors."""
        sizes = self._sizes
        longest = 2 * sizes + 6 * math.sqrt(variance * release.shape[1])
        admitted = np.linalg.norm(release, axis=1) <= longest
        return np.asarray(admitted * sizes / (variance + _TRUST * sizes + 1e-9) + 1e-12)

    def _moment_weights(self, release: Array, variance: float) -> Array:
        """Return weights of sites' moments; none for sums that no rows could have given."""
        sizes, side = self._sizes, release.shape[1]
        largest = 2 * sizes + 6 * side * math.sqrt(variance)
        admitted = np.linalg.norm(release, axis=(1, 2)) <= largest
        return np.asarray(admitted * sizes / (2 * variance + _TRUST * sizes + 1e-9) + 1e-12)

    def _with_votes(self, public: SharedMomentsPublic) -> SharedMomentsPublic:
        """Return the state with the votes of sites that stand apart cut down."""
        if public.sites is None or public.weights is None:
            return public
        start, weights = public.weights, public.weights
        for _ in range(4):
            shared = replace(public, weights=weights).models()
            weights = start * agreement(public.sites, shared)
        return replace(public, weights=weights)

    # -- at home ---------------------------------------------------------------------------------

    def start(self, rows: TaskSet, positions: IntArray) -> SharedMomentsHome:
        """Keep the rows, once per output, and the sites' places."""
        check_places(positions, len(self.counts))
        return SharedMomentsHome(one_vs_rest(rows, self.n_outputs), positions)

    def speak(
        self,
        home: SharedMomentsHome,
        public: SharedMomentsPublic,
        call: Call,
        joined: AnyArray | None,
    ) -> tuple[SharedMomentsHome, RowMessages]:
        """Say every row's part of the sums."""
        asked = home if joined is None else home.part(joined)
        rows = asked.outputs[0]
        if call.round > 0:
            return home, RowMessages(self._moments_of(asked, self._next(public)), rows.offsets)
        x, y = clip_norm(rows.X.astype(np.float64) / self.row_norm), self._answers(asked)
        return home, RowMessages(np.concatenate([x, y], axis=1), rows.offsets)

    def _answers(self, home: SharedMomentsHome) -> Array:
        """Return answers (N, k) of norm at most 1: scaled targets, or indicators of classes."""
        y = np.stack([np.asarray(rows.y, dtype=np.float64) for rows in home.outputs], axis=1)
        return np.clip(y / self.target_bound, -1.0, 1.0)

    def _moments_of(self, home: SharedMomentsHome, frame: Frame) -> Array:
        return frame.speak(home.outputs[0].X.astype(np.float64), self._answers(home))

    def finish(self, home: SharedMomentsHome, public: SharedMomentsPublic) -> Array:
        """Return models (m, k, d + 1), the intercept last: own fits and fits under the others'."""
        families, favour = self._families(home, public)
        outputs, many = home.outputs, are_many(len(self.counts), self.n_features)
        models = np.empty((outputs[0].n_tasks, self.n_outputs, self.n_features + 1))
        for number, rows in enumerate(outputs):
            fit = family_fit(
                rows,
                self.loss,
                families[number],
                favour=favour,
                intercept=self.fit_intercept,
                many=many,
            )
            models[:, number, :-1], models[:, number, -1] = fit.coef, fit.intercept
        return models

    def _others(self, home: SharedMomentsHome, public: SharedMomentsPublic) -> Moments:
        """Return the weighted sums of all sites but each of those at home."""
        everybody, spoke = public.everybody(), home.positions >= 0
        if public.sites is None or public.weights is None:
            raise InvalidInput("no moments were released yet")
        if self.by_site:
            own = public.sites.weighted(public.weights).at(np.maximum(home.positions, 0))
        else:
            said = RowMessages(self._moments_of(home, public.frame), home.outputs[0].offsets)
            count = home.outputs[0].counts.astype(np.float64)
            sums = moments_bound().by_task(said)
            own = Moments.of_matrices(sums, self.n_outputs, count, count**2, 0.0)
            own = own.weighted(np.full(len(count), public.weights[0]))
        return everybody.without(own.weighted(spoke.astype(np.float64)))

    def _families(
        self, home: SharedMomentsHome, public: SharedMomentsPublic
    ) -> tuple[list[list[Family]], Array]:
        """Return, by output, the priors that the others' rows give to each site, and its favour."""
        if public.sites is None:
            return [[] for _ in range(self.n_outputs)], np.zeros(len(home.positions))
        frame = public.frame
        others = shared_models(self._others(home, public), frame.likely)
        known = public.models()
        noise = float(known.noise[0])
        unit = noise * (frame.bound * self.target_bound) ** 2 if self.loss.name == "squared" else 1
        apart = _DIFFERENCE * noise * np.eye(self.n_features + 1)
        wide = frame.covariance(apart + known.spread[0]) / unit
        narrow = frame.covariance(apart) / unit
        gain = public.gain(apart=True)[home.positions] if self.by_site else others.gain
        favour = self._favour(home, public, gain)
        kept = frame.kept(home.outputs[0])[:, None, None]
        (bayes, level), ridge = frame.model(others.bayes), frame.model(others.ridge)[0]
        level = level + ((1 - kept) * bayes) @ (frame.centre * frame.row_norm)
        bayes, ridge = kept * bayes, kept * ridge
        common = frame.model(known.bayes[0])[0]
        strengths = _STRENGTHS * frame.room(home.outputs[0], intercept=self.fit_intercept)[:, None]
        left = unit if self.loss.name == "squared" else 0.0
        found = []
        for number in range(self.n_outputs):
            along = np.outer(common[number], common[number]) / unit
            slopes = [
                Family(bayes[:, number], wide, strengths, spread=left),
                Family(ridge[:, number], narrow, strengths, spread=left),
                Family(bayes[:, number], along, (1.0, 10.0, 100.0), spread=left),
                Family(ridge[:, number], narrow + along, strengths, spread=left),
            ]
            levelled = [
                replace(one, level=level[:, number], level_variance=_LEVEL) for one in slopes
            ]
            # Few labels tell a free intercept so badly that nothing is heard of slopes.
            found.append([*slopes, levelled[0]] if self.loss.name == "squared" else levelled)
        return found, favour

    def _favour(
        self, home: SharedMomentsHome, public: SharedMomentsPublic, evidence: Array
    ) -> Array:
        """Return every site's log-odds (m,) for what was shared, before its rows speak.

        Where rows are much longer than was declared, what is common are their directions, and
        nothing is known in favour of it.
        """
        rows = home.outputs[0]
        against = np.clip(np.log(rows.counts / self._directions), *_BY_ROWS[self.loss.name])
        doubt = (_DOUBT / max(self._information(public.precision), 1e-3)) ** 2
        odds = np.maximum(public.evidence, evidence) - against - doubt
        odds = np.clip(odds, _LEAST_FAVOUR, _MOST_FAVOUR)
        kept = public.frame.kept(rows) ** 2
        return np.asarray(kept * odds + (1 - kept) * np.minimum(odds, _UNKNOWN))


def _shrunk(mean: Array, error: float) -> Array:
    """Return a mean that has noise of variance ``error`` on every entry, by James and Stein."""
    return mean * max(0.0, 1 - len(mean) * error / max(float(mean @ mean), 1e-300))


def _in_unit(square: float, error: float) -> float:
    """Return a mean square, known to lie in [0, 1], from one with noise of variance ``error``."""
    believed = _SQUARE_VARIANCE / (_SQUARE_VARIANCE + error)
    return float(np.clip(believed * square + (1 - believed) * _LIKELY_SQUARE, 0.02, 1.0))


def _variance(noise: Mechanism, shape: tuple[int, ...]) -> float:
    """Return the variance of the noise on one entry; none where nothing is private."""
    return 0.0 if math.isinf(noise.reach) else noise.deviation(shape) ** 2
