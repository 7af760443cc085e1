"""Figures of secure sums: what the server sees of one site, the law of the noise, the cost."""

from __future__ import annotations

import math
import statistics
import time

import numpy as np

from tacit.federation import sums
from tacit.federation.keys import make_identities
from tacit.privacy import SystemEntropy
from tacit.privacy.mechanisms import DistributedGaussian
from tacit.privacy.noise.entropy import KeyedEntropy

ABOUT = b"run|0"


def book_of(identities, about=ABOUT):
    """Return every site's secret and the pages of all."""
    secrets = {name: sums.new_key(SystemEntropy()) for name in identities}
    pages = {
        name: identity.signed(about, secrets[name].public_key().public_bytes_raw())
        for name, identity in identities.items()
    }
    return secrets, pages


def masked(identities, steps, about=ABOUT):
    """Return what every site sends."""
    secrets, book = book_of(identities, about)
    return [sums.masked(steps[name], secrets[name], identities[name], book, about) for name in book]


def uniformity(words):
    """Return how many deviations χ² of all bytes, and the mean, are from those of uniform words."""
    seen = words.view(np.uint8)
    counts, expected = np.bincount(seen, minlength=256), len(seen) / 256
    bytes_apart = (float(np.sum((counts - expected) ** 2) / expected) - 255) / math.sqrt(510)
    mean = float((words.astype(np.float64) / 2**64).mean())
    return bytes_apart, (mean - 0.5) * math.sqrt(12 * len(words))


def noise_law(mechanism, message=0.3, count=20_000):
    """Return (Kolmogorov distance times √n, variance apart in deviations) of all and of honest.

    The noise of all shares against ``mechanism.scale``, that of the honest ones alone against what
    is accounted.
    """
    from scipy.special import ndtr

    n_shares, honest = mechanism.n_shares, mechanism.min_honest
    entropy = KeyedEntropy(KeyedEntropy.new())
    shares = mechanism.at_home(np.full((n_shares * count, 1), message), entropy)
    steps = shares / mechanism.step
    assert np.array_equal(steps, np.round(steps))
    parts, found = shares.reshape(n_shares, count), []
    accounted = mechanism.sensitivity * mechanism.noise_multiplier
    for many, scale in ((n_shares, mechanism.scale), (honest, accounted)):
        noise = parts[:many].sum(axis=0) - message * many
        ranks, grid = ndtr(np.sort(noise / scale)), np.arange(1, count + 1) / count
        distance = float(np.max(np.abs(ranks - grid))) * math.sqrt(count)
        found.append((distance, float(noise.var() / scale**2 - 1) * math.sqrt(count / 2)))
    return found


def secure_sums(_, say):
    """The server's view of one site, the noise of the total, and what it costs."""
    four = make_identities(("ash", "birch", "cedar", "dogwood"))
    for value in (0, 2**61):
        steps = {name: np.full(100_000, value if name == "ash" else 0) for name in four}
        apart = uniformity(masked(four, steps)[0])
        say(
            f"secure sum: the server's view of a site that says {value}",
            max(map(abs, apart)) < 5.5,
            f"χ² of bytes {apart[0]:+.2f}, mean {apart[1]:+.2f} deviations from uniform words",
        )
    for honest in (1, 3, 4):
        (all_d, all_v), (own_d, own_v) = noise_law(DistributedGaussian(2.0, 1.5, 4, honest))
        say(
            f"secure sum: law of the noise, {honest} of 4 honest",
            max(all_d, own_d) < 2.7 and max(abs(all_v), abs(own_v)) < 5,
            f"√n × Kolmogorov distance {all_d:.2f}, of the honest alone {own_d:.2f} (2.7 at 1e-6); "
            f"variance {all_v:+.2f}, {own_v:+.2f} deviations off",
        )
    for count in (4, 50):
        _cost(count, say)


def _cost(count, say):
    names = tuple(f"s{number:02d}" for number in range(count))
    identities = make_identities(names)
    secrets, pages = book_of(identities)
    spent, parts = [], []
    for name in names:
        began = time.perf_counter()
        steps = np.arange(100_000)
        parts.append(sums.masked(steps, secrets[name], identities[name], pages, ABOUT))
        spent.append(time.perf_counter() - began)
    began = time.perf_counter()
    total = sums.total(parts, 1.0)
    adding = time.perf_counter() - began
    exact = np.array_equal(total, count * np.arange(100_000.0))
    say(
        f"secure sum: {count} sites, 100 000 numbers",
        exact,
        f"exact: {exact}; {statistics.median(spent):.3f} s a site, {adding:.3f} s to add up",
    )
