"""Throughput of the exact samplers against OpenDP's and numpy's, in one run.

``python benchmarks/noise.py [--draws N]`` prints draws per second (wall clock, best of five, one
core) and ratios. OpenDP is the reference for exactness; numpy's generator is not safe for privacy
(predictable, and its low bits leak) and stands here as the speed limit.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from tacit.privacy import SystemEntropy
from tacit.privacy.mechanisms import Gaussian, TwoSidedWishart
from tacit.privacy.noise import perturb

OPENDP_DRAWS = 20_000


def rate(draw: Callable[[], object], n_draws: int, repeats: int = 5) -> float:
    """Return the best draws per second."""
    draw()
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        draw()
        best = min(best, time.perf_counter() - start)
    return n_draws / best


def opendp_rate(kind: str) -> float:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False))
    make, metric = {
        "gaussian": (dp.m.make_gaussian, dp.l2_distance(T=float)),
        "laplace": (dp.m.make_laplace, dp.l1_distance(T=float)),
    }[kind]
    measurement = make(domain, metric, scale=1.0)
    values = [0.0] * OPENDP_DRAWS
    return rate(lambda: measurement(values), OPENDP_DRAWS, repeats=2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=1 << 21)
    n = parser.parse_args().draws
    entropy = SystemEntropy()
    generator = np.random.default_rng()
    values = np.zeros(n)
    gaussian = Gaussian(sensitivity=1.0, noise_multiplier=1.0)

    rates = {
        "gaussian (rounded real)": rate(lambda: perturb.gaussian(1.0, n, entropy), n),
        "gaussian release": rate(lambda: gaussian.release(values, entropy), n),
        "laplace (rounded real)": rate(lambda: perturb.laplace(1.0, n, entropy), n),
        "OpenDP gaussian": opendp_rate("gaussian"),
        "OpenDP laplace": opendp_rate("laplace"),
        "numpy normal (unsafe)": rate(lambda: generator.normal(size=n), n),
        "system entropy, words": rate(lambda: [entropy.words(1 << 14) for _ in range(n >> 14)], n),
    }
    numpy_rate, opendp = rates["numpy normal (unsafe)"], rates["OpenDP gaussian"]
    print(f"{'sampler':28s}{'draws/s':>14s}{'÷ OpenDP':>12s}{'÷ numpy':>10s}")
    for name, value in rates.items():
        print(f"{name:28s}{value:14,.0f}{value / opendp:12.1f}{value / numpy_rate:10.3f}")
    for d in (10, 30, 100, 300):
        wishart = TwoSidedWishart(sensitivity_trace=2.0, epsilon=1.0)
        matrix = np.zeros((d, d))
        start = time.perf_counter()
        for _ in range(5):
            wishart.release(matrix, entropy)
        print(
            f"two-sided Wishart release, d = {d}: {(time.perf_counter() - start) / 5 * 1e3:.1f} ms"
        )


if __name__ == "__main__":
    main()
