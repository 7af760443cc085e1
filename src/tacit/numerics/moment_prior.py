"""What a reader of noised second moments can tell about a common linear model.

Everything here is in the moments' own coordinates: rows z of norm at most 1, answers r of norm at
most 1, sums S = Σ zzᵀ, b = Σ z rᵀ and Σ‖r‖² that carry noise of a known variance. Stacks have the
reader on axis 0, because every site reads the sums of the *others*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
from scipy.special import logsumexp

from tacit._types import AnyArray, Array, IntArray
from tacit.numerics.stacks import eigh

__all__ = [
    "Likely",
    "Moments",
    "SharedModels",
    "agreement",
    "evidence_by_site",
    "shared_models",
    "square_root",
]

# Shares of the answers' variance that a common model may explain, in likely ones: bounded, so that
# evidence cannot run away.
_SHARES = np.geomspace(0.02, 4.0, 16)
_HYPER = -0.5 * np.log(_SHARES) ** 2
_LIKELY_SIZE, _SIZE_VARIANCE = 0.8, 0.02  # of a row's mean squared norm, which frames aim at
# Variance of a site's coefficient about the common one, in noise variances; where less is likely to
# be explained than half of the answers' variance, sites are taken to differ by as much less.
_DIFFERENCE = 0.4
_COMMON = (0.25, 0.5, 0.75, 0.95)  # part of the models' variance that is common, if there is any
_RIDGE, _LOUD = 0.02, 3.3  # strength of the plain ridge: at least, and by the noise
_LEAST_NOISE = 0.3  # of the answers' variance: released residuals are never believed below it
_DEGREES = 4.0  # of the t law that decides how far a site may stand apart


@dataclass(frozen=True)
class Moments:
    """Sums over rows, with the reader (or the site) on axis 0.

    Attributes
    ----------
    rows, answers, squares
        S (p, q, q), b (p, q, k) and Σ‖r‖² (p,).
    count, sampled, apart
        Σ w n, Σ w² n and Σ w² n² of the sites in each sum with their weights and rows, (p,): what
        to divide by, and how far chance and the sites' differences move the sum.
    variance
        Variance of the noise on an entry off the diagonal of each sum, (p,).
    """

    rows: Array
    answers: Array
    squares: Array
    count: Array
    sampled: Array
    apart: Array
    variance: Array

    @classmethod
    def of_matrices(
        cls, matrices: Array, n_outputs: int, count: Array, apart: Array, variance: float
    ) -> Moments:
        """Take sums of (z, r)(z, r)ᵀ, (p, q + k, q + k), of ``count`` rows each, apart."""
        q = matrices.shape[-1] - n_outputs
        squares = np.trace(matrices[:, q:, q:], axis1=1, axis2=2)
        noise = np.full(len(matrices), variance)
        return cls(matrices[:, :q, :q], matrices[:, :q, q:], squares, count, count, apart, noise)

    def _each(self, change: Callable[[Array, str], Array]) -> Moments:
        return Moments(**{name: change(getattr(self, name), name) for name in _FIELDS})

    def weighted(self, weights: Array) -> Moments:
        """Return every sum times its weight."""

        def change(part: Array, name: str) -> Array:
            factor = weights**2 if name in ("sampled", "apart", "variance") else weights
            return np.asarray(factor.reshape(-1, *(1,) * (part.ndim - 1)) * part)

        return self._each(change)

    def at(self, places: IntArray) -> Moments:
        """Return the sums at some places."""
        return self._each(lambda part, _: part[places])

    def total(self) -> Moments:
        """Return the one sum of all."""
        return self._each(lambda part, _: part.sum(axis=0, keepdims=True))

    def without(self, own: Moments) -> Moments:
        """Return these sums less ``own``, (p, …) from one or p of each."""
        left = self._each(lambda part, name: part - getattr(own, name))
        return replace(
            left,
            count=np.maximum(left.count, 1e-9 * self.count),
            sampled=np.maximum(left.sampled, 0.0),
            apart=np.maximum(left.apart, 0.0),
            variance=np.maximum(left.variance, 0.0),
        )


_FIELDS = tuple(field.name for field in fields(Moments))


@dataclass(frozen=True)
class Likely:
    """What answers are like a priori.

    Attributes
    ----------
    constant
        The model (q,) that says the same of every row, if there is one: what it explains is a
        matter of levels, and no evidence for common slopes.
    base
        The model (q, k) that answers are residuals of, if they are.
    square, variance
        Mean square of an answer, and the variance of what is known of it.
    share
        Part of that which a common model explains; log-normal, of variance 1.
    """

    constant: Array | None = None
    base: Array | None = None
    square: float = 0.3
    variance: float = 0.02
    share: float = 0.5


@dataclass(frozen=True)
class SharedModels:
    """The common model as every reader sees it.

    Attributes
    ----------
    bayes, ridge
        Two estimates (p, q, k): under the noise-aware Gaussian prior, and a plain ridge.
    spread
        Posterior variance of the first, as a matrix (p, q, q) for all outputs.
    noise
        Variance of an answer about the common model, (p,).
    variance
        The prior variance that the evidence preferred, (p,).
    basis, values
        Eigenvectors (p, q, q) and eigenvalues (p, q) of the pooled second moment of z.
    gain
        Evidence of a common model, base and all, against models that have nothing in common: log
        Bayes factor (p,).
    """

    bayes: Array
    ridge: Array
    spread: Array
    noise: Array
    variance: Array
    basis: Array
    values: Array
    gain: Array


_USUAL = Likely()


def square_root(values: Array, vectors: Array, power: float) -> Array:
    """Return U diag(λ^power) Uᵀ."""
    return np.asarray((vectors * values**power) @ vectors.T)


def _spectrum(moments: Moments) -> tuple[Array, Array, Array]:
    """Return the pooled covariance's eigenvalues and eigenvectors, and how far it was shrunk.

    Linear shrinkage towards a multiple of I by E‖noise‖² = v q(q + 1) against what is seen; what is
    left of the noise's own spectrum is the floor of an eigenvalue. The trace lies in [0, 1] and is
    expected near what frames aim at: an underestimate would make rows, and priors, far too wide.
    """
    q = moments.rows.shape[1]
    mean = moments.rows / moments.count[:, None, None]
    variance = moments.variance / moments.count**2
    believed = _SIZE_VARIANCE / (_SIZE_VARIANCE + 2 * q * variance)
    size = believed * np.trace(mean, axis1=1, axis2=2) + (1 - believed) * _LIKELY_SIZE
    level = np.clip(size, 0.2, 1.0) / q
    centred = mean - level[:, None, None] * np.eye(q)
    seen = np.maximum(np.einsum("pij,pij->p", centred, centred), 1e-300)
    kept = np.maximum(0.0, 1 - variance * q * (q + 1) / seen)
    values, vectors = eigh(level[:, None, None] * np.eye(q) + kept[:, None, None] * centred)
    floor = 1e-4 + 0.5 * kept * np.sqrt(q * variance)
    return np.maximum(values, floor[:, None]), vectors, kept


def shared_models(moments: Moments, likely: Likely = _USUAL) -> SharedModels:
    """Estimate the common model behind sums, as every reader sees them.

    Parameters
    ----------
    moments
        What each reader has: the others' sums.
    likely
        What is known of the answers beforehand.

    In the eigenbasis of the pooled S, g = Uᵀb/N is N(λ m, v + c λ² + σ² λ) with m ~ N(0, κ).
    κ is the one with the most evidence under a bounded hyper-prior; v counts the noise on b and, as
    m multiplies it, the noise on S.
    """
    values, vectors, believed = _spectrum(moments)
    n, k = moments.count, moments.answers.shape[2]
    seen = np.einsum("pji,pjk->pik", vectors, moments.answers) / n[:, None, None]
    level, flat = _level(moments, likely), _flat(values, vectors, likely.constant)
    expected = likely.share * level
    whole = seen
    if likely.base is not None:
        whole = seen + values[:, :, None] * np.einsum("pji,jk->pik", vectors, likely.base)
    noise, size = 0.8 * level, np.zeros(len(n))
    for _ in range(4):
        differ = _DIFFERENCE * likely.share * noise
        other = _other_variance(moments, values, noise, differ, believed**2 * size)
        variance = _preferred_variance(seen, flat, values, other, expected)
        kept = variance[:, None] * values / (variance[:, None] * values**2 + other)
        model = kept[:, :, None] * seen
        explained = 2 * np.einsum("pik,pik->p", model, seen)
        explained -= np.einsum("pi,pik,pik->p", values, model, model)
        noise = np.clip(level - explained / k, _LEAST_NOISE * level, level)
        size = np.einsum("pik,pik->p", model, model) / k
    left = variance[:, None] * other / (variance[:, None] * values**2 + other)
    plain = seen / (values + _ridge(moments, expected)[:, None])[:, :, None]
    return SharedModels(
        bayes=vectors @ model,
        ridge=vectors @ plain,
        spread=np.einsum("pij,pj,pkj->pik", vectors, left, vectors),
        noise=noise,
        variance=variance,
        basis=vectors,
        values=values,
        gain=_gain(moments, values, (seen, whole), flat, noise, believed**2 * size, expected),
    )


def _gain(
    moments: Moments,
    values: Array,
    told: tuple[Array, Array],
    flat: Array,
    noise: Array,
    size: Array,
    expected: Array,
) -> Array:
    """Return the log Bayes factor (p,) of a common model against models with nothing in common.

    ``told`` is g beside the base, which a common model has to explain, and g with it, which others
    have. Either way models have the same size, integrated over what is likely; in the second case
    all of it is differences of sites. So little information says little, and much information
    without a common model speaks *against* one.
    """
    each = (moments.apart / moments.count**2)[:, None]
    nothing = np.zeros_like(noise)
    plain = _other_variance(moments, values, noise, nothing, size)
    alone = _other_variance(moments, values, noise, nothing, nothing)
    prior = (expected / values.sum(axis=1))[:, None] * values**2
    common, apart = prior * (1 + _DIFFERENCE * each), prior * (1 + _DIFFERENCE) * each
    seen, whole = told
    return _integrated(seen, flat, common, plain) - _integrated(whole, flat, apart, alone)


def _integrated(seen: Array, flat: Array, prior: Array, other: Array) -> Array:
    """Return the log density (p,) of g ~ N(0, share · prior + other), integrated over the share."""
    # Shares on the last axis of a copy: the order of additions depends on no other reader.
    score = np.stack([_density(seen, flat, share * prior + other) for share in _SHARES], axis=1)
    return np.asarray(logsumexp(score + _HYPER, axis=1) - logsumexp(_HYPER))


def _level(moments: Moments, likely: Likely) -> Array:
    """Return the mean square of one answer, (p,), from one with noise and what is likely."""
    n, k = moments.count, moments.answers.shape[2]
    believed = likely.variance / (likely.variance + 2 * moments.variance / (k * n**2))
    level = believed * moments.squares / n / k + (1 - believed) * likely.square
    return np.asarray(np.clip(level, 0.02 / k, 1.0))


def _ridge(moments: Moments, likely: Array) -> Array:
    """Return the strength of a plain ridge, (p,): more where noise is loud or little is likely."""
    q = moments.rows.shape[1]
    faint = np.maximum(1.0, np.sqrt(_USUAL.share * _USUAL.square / likely))
    return np.asarray(_LOUD * np.sqrt(q * moments.variance) / moments.count * faint + _RIDGE)


def _other_variance(
    moments: Moments, values: Array, noise: Array, differ: Array, size: Array
) -> Array:
    """Return the variance of g beside that of the common model, (p, q)."""
    added = moments.variance[:, None] * (1 + size[:, None])
    sampled = moments.sampled[:, None] * noise[:, None] * values
    apart = moments.apart[:, None] * differ[:, None] * values**2
    return np.asarray((added + sampled + apart) / moments.count[:, None] ** 2 + 1e-12)


def _flat(values: Array, vectors: Array, constant: Array | None) -> Array:
    """Return the direction of g, of length 1, in which a constant model shows, (p, q); or zero."""
    if constant is None:
        return np.zeros_like(values)
    found = values * np.einsum("pji,j->pi", vectors, constant)
    return np.asarray(found / np.sqrt(np.einsum("pi,pi->p", found, found))[:, None])


def _preferred_variance(
    seen: Array, flat: Array, values: Array, other: Array, likely: Array
) -> Array:
    """Return the prior variance with the most evidence, (p,).

    Candidates are multiples of what a model is ``likely`` to explain of the answers' variance, so
    that they mean the same in any number of dimensions. What is seen along ``flat`` is not counted.
    """
    variances = _SHARES[:, None] * likely / values.sum(axis=1)  # (a, p)
    score = np.stack([_density(seen, flat, one[:, None] * values**2 + other) for one in variances])
    best = np.argmax(score + _HYPER[:, None], axis=0)[None]
    return np.asarray(np.take_along_axis(variances, best, axis=0)[0])


def _density(seen: Array, flat: Array, variance: Array) -> Array:
    """Return the log density (p,) of g ~ N(0, variance), but for what is seen along ``flat``."""
    seen = seen - flat[:, :, None] * np.einsum("pi,pik->pk", flat, seen)[:, None, :]
    energy, k = np.einsum("pik,pik->pi", seen, seen), seen.shape[2] * (1 - flat**2)
    return np.asarray(-0.5 * np.sum(k * np.log(variance) + energy / variance, axis=1))


def agreement(sites: Moments, models: SharedModels) -> Array:
    """Return every site's weight in (0, 1] by a multivariate t law about the common model.

    ``models`` has one reader. A site that differs as sites do keeps its vote; one that nothing of
    what is known explains loses it.
    """
    values, vectors, common = models.values[0], models.basis[0], models.bayes[0]
    n, noise = sites.count[:, None], models.noise[0]
    apart = (sites.answers - sites.rows @ common) / n[:, :, None]
    turned = np.einsum("ji,pjk->pik", vectors, apart)
    size = float(np.sum(common**2)) / common.shape[1]
    variance = _DIFFERENCE * _USUAL.share * noise * values**2 + noise * values / n
    variance = variance + sites.variance[:, None] / n**2 * (1 + size)
    distance = np.einsum("pik,pi->p", turned**2, 1 / variance)
    degrees = turned.shape[1] * turned.shape[2]
    return np.asarray(np.minimum(1.0, (_DEGREES + degrees) / (_DEGREES + distance)))


def evidence_by_site(
    sites: Moments, everybody: Moments, models: SharedModels, likely: Likely, counted: AnyArray
) -> Array:
    """Return the log Bayes factor of a common model, from single sites' sums, (p + 1,).

    As every site sees it in the sums of all the *others*, and in the end from all of them. Given m,
    sites are independent: with g_t ~ N(λ m, D_t), D_t of differences, chance and noise, and
    m ~ N(0, v), the density of all is that of the single ones with 1 + v λ² Σ1/D_t and
    (Σ λ g_t/D_t)² besides. What is common of the models' variance is integrated over, as its size;
    without a common model all of it is differences. Sums over sites: one is left out by
    subtraction. Sites that agree speak for a common model, one large site alone does not. Only
    sites that are ``counted``, (p,), do.
    """
    values, vectors = models.values[0], models.basis[0]
    n, counts = sites.count[:, None], np.asarray(counted, dtype=np.float64)[:, None]
    seen = np.einsum("ji,pjk->pik", vectors, sites.answers) / n[:, :, None]
    flat = _flat(models.values, models.basis, likely.constant)[0]
    base = np.zeros((1, seen.shape[2]))
    if likely.base is not None:
        base = values[:, None] * (vectors.T @ likely.base)
    told = [_beside(flat, part) for part in (seen, seen + base)]
    k = seen.shape[2] * (1 - flat**2)
    prior = likely.share * _level(everybody, likely)[0] / values.sum() * values**2
    chance = models.noise[0] * values / n + sites.variance[:, None] / n**2 + 1e-12
    together, single = [], []
    for whole in (1 + _DIFFERENCE) * _SHARES[:, None] * prior:
        single.append(_apart(told[1], k, counts, whole + chance).sum(axis=1))
        for common in _COMMON:
            left = (1 - common) * whole + chance
            weight = 1 + common * whole * _left_out(counts / left)
            pull = np.sum(_left_out((counts / left)[:, :, None] * told[0]) ** 2, axis=2)
            parts = _apart(told[0], k, counts, left) + k * np.log(weight)
            together.append((parts - common * whole * pull / weight).sum(axis=1))
    return _mixed(together, np.repeat(_HYPER, len(_COMMON))) - _mixed(single, _HYPER)


def _apart(told: Array, k: Array, counts: Array, variance: Array) -> Array:
    """Return −2 log density by direction of sites apart from each other, (p + 1, q)."""
    return _left_out(counts * (k * np.log(variance) + np.sum(told**2, axis=2) / variance))


def _beside(flat: Array, told: Array) -> Array:
    """Return what is told (p, q, k) but for the direction ``flat``, (q,)."""
    return np.asarray(told - flat[:, None] * np.einsum("i,pik->pk", flat, told)[:, None])


def _mixed(terms: list[Array], weights: Array) -> Array:
    """Return the log density of a mixture, from −2 log densities and log weights."""
    each = -0.5 * np.stack(terms, axis=1) + weights
    return np.asarray(logsumexp(each, axis=1) - logsumexp(weights))


def _left_out(parts: Array) -> Array:
    """Return sums over all sites but each, and over all, (p + 1, …)."""
    whole = parts.sum(axis=0, keepdims=True)
    return np.concatenate([whole - parts, whole])
