"""Reading the releases of the hierarchical prior: scales, centre, mean, shapes and strengths.

Pure functions of releases and of their known noise: post-processing, which anybody can repeat and
which costs no budget. Each comes with its own answer to "is there anything but noise in it?", and
where there is not, it answers as if the release had not been made.

A ``deviation`` is the standard deviation of the noise on one entry of the *sum* over tasks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtri, expit, logit, logsumexp

from tacit._types import Array
from tacit.privacy.mechanisms.laws import Coordinates
from tacit.protocols._hierarchical_plan import SPREAD_WEIGHT, Plan
from tacit.protocols._shrinkage import Shape, shrink_diagonal

__all__ = [
    "CENTRE_RADIUS",
    "MeanReading",
    "cast_levels",
    "cast_votes",
    "kept_of",
    "low_rank_shapes",
    "read_centre",
    "read_diagonal",
    "read_level",
    "read_spreads",
    "read_votes",
    "shaped_mean",
    "sparse_mean",
    "sparse_shapes",
]

_OCTAVES = np.arange(-16.0, 17.0)
_FINE = np.arange(-16.0, 16.01, 0.25)
_WIDTH = 1.5  # octaves
# Deviations: the peak of noise over all octaves passes once in fifteen. What is read amiss then
# does no harm, as the evidence stands against it; not to have read what is there costs all.
_STANDS_OUT = 2.5
_USUALLY_WITHIN, _AGREE = 0.8, 0.6  # octaves; part of the tasks
CENTRE_RADIUS = 1.0
_LEVELS = 10.0  # votes' steps in a magnitude
_LEAST_SPREAD = 0.25  # of the mean spread
_DOUBT = 0.05  # chance that noise alone passes for a pattern
_FLOORS, _FEW_FLOORS, _SPARSE_FLOORS = (1.0, 0.1, 0.01), (0.3,), (1.0, 0.01)
# Part of an error in the mean that the next scores take back: to choose from, usually, and how far
# the scores are believed.
_PULLS, _USUAL_PULL, _TRUST = np.geomspace(0.02, 0.5, 15), 0.3, 0.85
_ROUNDS_OF_STEP = 2  # beyond which the step follows the scores
_MUCH_LONGER = 2.5  # than the usual step, where the usual pull is known
_NOISE_OF_STEPS = 0.1  # deviations of the prior that noise may move the mean's coordinates
_ALL_PULLS = np.geomspace(0.02, 1.0, 18)  # to where tasks know their models by themselves
# Slopes of a mean: shares that may be large, and the size of the others relative to them; the
# chance that there are none.
_SHARES, _SMALL, _NONE = (0.05, 0.1, 0.2, 0.4, 0.7, 0.999), 0.2, 0.5


def _kernel(positions: Array) -> Array:
    bumps = np.exp(-0.5 * ((_OCTAVES - positions[..., None]) / _WIDTH) ** 2)
    return np.asarray(bumps / np.sqrt((bumps * bumps).sum(axis=-1, keepdims=True)))


def cast_votes(values: Array) -> Array:
    """Return votes (m, 33) on the size of ``values`` (m,); what is not positive abstains.

    A vote is a bump over the octaves with unit ℓ2 norm. Bumps as wide as the tasks' disagreement
    lose little to the reader's smoothing and much of what a replaced task can change.

    Guarantee: row i depends on value i alone, is non-negative and has norm ≤ 1; for two such rows
    ‖a − b‖² = ‖a‖² + ‖b‖² − 2 aᵀb ≤ 2, so a replaced task moves the sum by at most √2.
    """
    sound = np.isfinite(values) & (values > 0)
    size = np.log2(np.where(sound, values, 1.0))
    return _kernel(np.clip(size, _OCTAVES[0], _OCTAVES[-1])) * sound[:, None]


def cast_levels(levels: Array) -> Array:
    """Return votes (m, 33) on where ``levels`` (m,), in magnitudes, lie between −1.6 and 1.6.

    Guarantee: as for `cast_votes`, whose bumps these are. Where tasks' levels differ less than
    their size the place of the votes' peak is told far better than a mean of clipped levels.
    """
    sound = np.isfinite(levels)
    places = _LEVELS * np.where(sound, levels, 0.0)
    return _kernel(np.clip(places, _OCTAVES[0], _OCTAVES[-1])) * sound[:, None]


def read_votes(
    counts: Array,
    deviation: float,
    *,
    usual: float | None = None,
    n_tasks: int = 1,
) -> float | None:
    """Return the size most tasks agree on; None if noise explains it and no size is ``usual``.

    The counts are matched with the votes' own bump, which has unit norm, so that the match has
    the deviation of one count. Where a size is usual the answer is what to expect of its octave if
    sizes are spread about the usual one by some octaves and a part of all tasks agrees.
    """
    matches = _kernel(_FINE) @ counts
    if usual is not None:
        away = (_FINE - math.log2(usual)) / _USUALLY_WITHIN
        logs = _AGREE * n_tasks * matches / max(deviation**2, 1e-12) - 0.5 * away**2
        weights = np.exp(logs - logs.max())
        return float(2.0 ** (weights @ _FINE / weights.sum()))
    peak = int(matches.argmax())
    if not matches[peak] > max(_STANDS_OUT * deviation, 1e-9):
        return None
    return float(2.0 ** _FINE[peak])


def _kept(values: Array, deviation: float, degrees: int) -> float:
    """Return what to keep of a pattern: 1 − (what noise reaches once in twenty)/(its size)."""
    size = float(values @ values)
    most = float(chdtri(degrees, _DOUBT)) * deviation**2
    return max(0.0, 1 - most / size) if size > 0 else 0.0


def read_spreads(spreads: Array, deviation: float, scale: float, n_tasks: int) -> Array:
    """Return the features' scales (d,) from the sum of the tasks' relative spreads.

    Each task sends SPREAD_WEIGHT·(its deviations, scaled to norm 1). Their differences are shrunk
    by what noise explains of them and taken half-way, as a square root: a slope is then expected
    to be neither of equal size on every feature nor of equal effect. The scales' root mean square
    is ``scale``.
    """
    found = spreads / (SPREAD_WEIGHT * n_tasks)
    middle = max(float(found.mean()), 1e-9)
    apart = found - found.mean()
    noise = deviation / (SPREAD_WEIGHT * n_tasks)
    kept = _kept(apart, noise, found.size - 1) if found.size > 1 else 0.0
    settled = np.sqrt(np.maximum(middle + kept * apart, _LEAST_SPREAD * middle))
    return np.asarray(scale * settled / np.sqrt((settled * settled).mean()))


def read_centre(
    total: Array, deviation: float, scale: Array, n_tasks: int, far: float = 2.0
) -> Array:
    """Return the features' origin (d,) from the sum of the tasks' centres.

    A task sends x̄/(far·scale·√d), clipped to CENTRE_RADIUS. An origin that noise explains is zero:
    a wrong one ties slopes to levels and costs more than none.
    """
    d = scale.size
    mean = total / n_tasks
    return np.asarray(mean * _kept(mean, deviation / n_tasks, d) * far * scale * math.sqrt(d))


def read_level(counts: Array, deviation: float, magnitude: float) -> float:
    """Return the targets' level that most tasks agree on; zero if noise explains the votes."""
    matches = _kernel(_FINE) @ counts
    peak = int(matches.argmax())
    if not matches[peak] > max(_STANDS_OUT * deviation, 1e-9):
        return 0.0
    return float(magnitude / _LEVELS * _FINE[peak])


@dataclass(frozen=True)
class MeanReading:
    """The mean models so far, (p,) or (k, p): an average of where each score round pointed.

    Round t releases the sum of scores at the present mean μ_t; it points to
    μ_t + step·R·(mean score), and μ_{t+1} is the average of all that was pointed to, later rounds
    counting more. The noise of a round is averaged down with the others', and nothing is ever
    followed far: plain steps, or momentum, diverge at ε = 1.

    Tasks that know little (of fewer rows than features) take back a small part κ of an error in the
    mean, and steps of one length would leave most of it after all rounds: the step on slopes is 1/κ
    where that is longer, with the κ that the releases so far speak for, and no longer than noise
    allows.
    """

    start: Array
    mean: Array
    weight: float = 0.0
    means: tuple[Array, ...] = ()  # before each round
    scores: tuple[Array, ...] = ()  # mean scores at them, as released
    steps: tuple[Array, ...] = ()  # (p,) each

    @classmethod
    def at(cls, start: Array) -> MeanReading:
        """Begin where no round has been held."""
        return cls(start, start)

    @property
    def rounds(self) -> int:
        """Rounds held."""
        return len(self.means)

    def after(
        self,
        total: Array,
        deviation: float,
        root: Array,
        n_tasks: int,
        plan: Plan,
        n_features: int,
    ) -> MeanReading:
        """Return the reading with one more round's sum of scores."""
        score, slopes = total / n_tasks, slice(0, n_features)
        heard = replace(self, means=(*self.means, self.mean), scores=(*self.scores, score))
        steps = np.full(root.size, plan.step)
        if heard.rounds > _ROUNDS_OF_STEP:
            noise = deviation / n_tasks
            longest = _NOISE_OF_STEPS * math.sqrt(plan.n_scores) / max(noise, 1e-12)
            wanted = min(1 / heard._pull(slopes, root, noise), longest)
            if wanted > plan.step * (1.0 if plan.pull is None else _MUCH_LONGER):
                steps[slopes] = wanted
        weight = heard.rounds**plan.power
        whole = self.weight + weight
        mean = (self.weight * self.mean + weight * (self.mean + steps * root * score)) / whole
        return replace(heard, mean=mean, weight=whole, steps=(*self.steps, steps))

    def settled(
        self, deviation: float, root: Array, n_tasks: int, plan: Plan, n_features: int
    ) -> tuple[Array | None, float]:
        """Return the mean, shrunk towards the start by the noise in it, and that noise on slopes.

        The mean is None if noise is all. Slopes and levels have nothing to do with each other:
        labels that are rare move the levels far, and were they shrunk as one, noise on the slopes
        would pass for a part of it. Levels are shrunk by positive-part James–Stein in the scores'
        coordinates, slopes by `sparse_mean`. ``deviation`` is in the scores' units.
        """
        moved = (self.mean - self.start) / root
        slopes, levels = moved[..., :n_features], moved[..., n_features:]
        noise = self._noise(slice(0, n_features), root, deviation / n_tasks, plan)
        if _kept_by_noise(moved, noise) == 0:
            return None, noise
        found = plan.shorten * sparse_mean(slopes, noise)
        if levels.size:
            left = self._noise(slice(n_features, None), root, deviation / n_tasks, plan)
            found = np.concatenate([found, _kept_by_noise(levels, left) * levels], axis=-1)
        return self.start + root * found, plan.shorten * noise

    def _noise(self, part: slice, root: Array, noise: float, plan: Plan) -> float:
        """Return the deviation of the noise left on a coordinate of the mean.

        Tasks that know their models take back a part κ of every error in the mean with the next
        round's scores; those that know nothing of them take back none, and noise walks at random.
        """
        pull, left = plan.pull, 0.0
        if pull is None or any((steps > plan.step).any() for steps in self.steps):
            pull = self._pull(part, root, noise)
        for gain in self._gains(plan)[:, part][:, 0]:
            left = left * (1 - pull * gain) ** 2 + gain**2
        return noise * math.sqrt(left)

    def reach(
        self, deviation: float, root: Array, n_tasks: int, plan: Plan, n_features: int
    ) -> Array:
        """Return how far mean scores that every round had would have moved the mean, (p,).

        It is in units of scores, number by number, of the mean that tasks are drawn to.

        The part κ of them that the tasks took back in every next round is left out.
        """
        slopes, noise = slice(0, n_features), deviation / n_tasks
        pulls = np.full(root.size, self._pull(slice(None), root, noise, _ALL_PULLS))
        pulls[slopes] = self._pull(slopes, root, noise, _ALL_PULLS)
        moved = np.zeros(root.size)
        for gains in self._gains(plan):
            moved += gains * (1 - pulls * moved)
        moved[slopes] *= plan.shorten
        return moved

    def _gains(self, plan: Plan) -> Array:
        """Return what each round's mean score added to the mean, (rounds, p)."""
        weights = np.arange(1.0, self.rounds + 1) ** plan.power
        return np.asarray(np.stack(self.steps) * (weights / np.cumsum(weights))[:, None])

    def _pull(self, part: slice, root: Array, noise: float, pulls: Array = _PULLS) -> float:
        moved = [(mean - self.start) / root for mean in self.means]
        places = np.stack([place[..., part].ravel() for place in moved])
        scores = np.stack([score[..., part].ravel() for score in self.scores])
        return likely_pull(places, scores, noise, pulls)


def likely_pull(places: Array, scores: Array, noise: float, pulls: Array = _PULLS) -> float:
    """Return the part κ of its place that a mean score takes back, from scores (t, q) at places.

    A score is taken for κ·(where it vanishes − its place) + noise, with κ among ``pulls``. With
    z = score + κ·place, the residuals of z about its mean over the rounds tell one κ from another,
    and so does that mean, which is N(0, κ²S² + noise²/t) for places N(0, S²), with S the likeliest.
    Scores are not quite linear: the noise is at least what the best κ leaves.
    """
    rounds, size = places.shape
    z = scores + pulls[:, None, None] * places
    centre = z.mean(axis=1)
    rest = ((z - centre[:, None]) ** 2).sum(axis=(1, 2))
    variance = max(noise**2, float(rest.min()) / (max(rounds - 1, 1) * size), 1e-300)
    square = (centre * centre).sum(axis=1) / size
    reach = np.maximum(square, variance / rounds)
    logs = -0.5 * rest / variance - 0.5 * size * (np.log(reach) + square / reach)
    weights = np.exp(logs - logs.max())
    found = float(weights @ np.log(pulls) / weights.sum())
    return math.exp(_TRUST * found + (1 - _TRUST) * math.log(_USUAL_PULL))


def _kept_by_noise(moved: Array, noise: float) -> float:
    """Return the part that positive-part James–Stein keeps."""
    size = float(np.sum(moved * moved))
    return max(0.0, 1 - max(moved.size - 2, 1) * noise**2 / size) if size > 0 else 0.0


def sparse_mean(moved: Array, noise: float) -> Array:
    """Return ``moved`` = shift + noise·N(0, I) without what noise explains, number by number.

    Of the shift's numbers a share is N(0, s²), the others are N(0, (0.2·s)²); each gets its
    posterior mean, averaged over shares and sizes s by their likelihood. Where the shift is all of
    one size this is about James and Stein's estimate, where few are large it keeps those. If it is
    likelier that there is no shift at all, it is none: the least of a wrong mean turns the ranking
    of tasks that know nothing of their own.
    """
    if noise <= 0:
        return moved
    flat = (moved / noise).ravel()
    largest = max(float(np.abs(flat).max()), 1.0)
    sizes = np.geomspace(0.3, 2 * largest, 24) ** 2
    small = _SMALL**2 * sizes
    kept, less = sizes / (1 + sizes), small / (1 + small)
    # log of large over small, number by number
    odds = 0.5 * ((kept - less) * (flat * flat)[:, None] - np.log1p(sizes) + np.log1p(small))
    shares = np.array(_SHARES)[:, None, None]
    mixed = np.logaddexp(np.log1p(-shares), np.log(shares) + odds)
    alone = 0.5 * (less * (flat * flat)[:, None] - np.log1p(small))
    weights = (mixed + alone).sum(axis=1)  # log-likelihood over that of noise alone
    some = logsumexp(weights) - math.log(weights.size) - logit(_NONE)
    if some < 0:
        return np.zeros_like(moved)
    weights = np.exp(weights - weights.max())
    large = np.exp(np.log(shares) + odds - mixed)
    inside = large * kept + (1 - large) * less
    means = expit(some) * (inside * weights[:, None]).sum(axis=(0, 2)) / weights.sum()
    return np.asarray(noise * (flat * means).reshape(moved.shape))


def kept_of(found: Array, moved: Array, n_features: int) -> Array:
    """Return what ``found`` (p,) kept of ``moved``: a part of all slopes, and one of the level."""
    kept = np.zeros_like(moved)
    for part in (slice(0, n_features), slice(n_features, None)):
        size = float(moved[part] @ moved[part])
        kept[part] = found[part] @ moved[part] / size if size > 0 else 0.0
    return kept


def shaped_mean(moved: Array, noise: float, root: Array) -> Array:
    """Return a mean slope (d,) shrunk as if means were spread like the tasks are about theirs.

    With ``moved`` = the mean's shift + noise·N(0, I) and the shift ~ N(0, a·SSᵀ), S = ``root``:
    a by maximum likelihood, then the posterior mean. Where tasks never differ, noise is not taken
    for a mean.
    """
    values, vectors = np.linalg.eigh(root @ root.T)
    seen = vectors.T @ moved
    # From nothing to all of the shift: a signal of a thousandth of the noise is none.
    unit = noise**2 + 1e-300
    sizes = np.concatenate([[0.0], np.geomspace(1e-3, 1e9, 60)]) * unit
    spread = np.maximum(values, 0.0)[:, None] * sizes + unit
    likelihood = -0.5 * (np.log(spread) + (seen * seen)[:, None] / spread).sum(axis=0)
    best = spread[:, int(likelihood.argmax())]
    return np.asarray(vectors @ (seen * (1 - unit / best)))


def low_rank_shapes(rank: Shape, *, few: bool = False) -> tuple[Array, ...]:
    """Return roots of low-rank covariances to try, by how much else is left; none if none shows.

    Parameters
    ----------
    rank : Shape
        Directions that stand out of the noise (`shrink_spectrum`).
    few : bool
        One floor instead of several, where a candidate is dear (logistic).
    """
    if rank.flat or rank.vectors is None:
        return ()
    floors = _FEW_FLOORS if few else _FLOORS
    return tuple(rank.vectors * np.sqrt(rank.eigenvalues(floor)) for floor in floors)


def read_diagonal(diagonal: Array, noise: Coordinates, n_tasks: int) -> Shape:
    """Return the features' parts in the sum of squared unit slope residuals, (d,)."""
    # m squared entries of unit vectors vary on their own, by √(2m)/d in the sum.
    own = math.sqrt(2 * n_tasks) / diagonal.size
    wider = replace(noise, scale=math.hypot(noise.scale, own))
    return shrink_diagonal(diagonal, wider, trace=float(n_tasks))


def sparse_shapes(diagonal: Shape, *, few: bool = False) -> tuple[Array, ...]:
    """Return roots of diagonal covariances to try; none if all features are used alike."""
    if diagonal.flat:
        return ()
    floors = _FEW_FLOORS if few else _SPARSE_FLOORS
    return tuple(np.diag(np.sqrt(diagonal.eigenvalues(floor))) for floor in floors)
