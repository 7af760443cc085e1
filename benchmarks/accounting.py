"""Accounting against dp-accounting called directly, and against the papers' composition bound.

    python benchmarks/accounting.py

1. ε of a Poisson-sampled Gaussian (q = 0.01, σ = 1, T = 1000, δ = 1e-5) by RDP and PLD: value and
   time beside dp-accounting's own accountant, timed alternately with cold caches.
2. Budget per round that fits into (ε = 1, δ = 1e-6) over T rounds: ours (optimal composition of
   pure steps; exact Gaussian composition) over what the papers' bound CB allows.

Writes benchmarks/results/accounting.json.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from tacit.privacy.accounting import calibrate, epsilon_of, power, scale_pure
from tacit.privacy.accounting.composition import _cached

DELTA = 1e-5
EVENT = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))
ROUNDS = 1000
REPEATS = 7


def timed(call: Callable[[], float]) -> tuple[float, float]:
    """Return value and seconds of one cold call."""
    _cached.cache_clear()
    began = time.perf_counter()
    value = call()
    return value, time.perf_counter() - began


def against_direct(accountant: str, direct: Callable[[], float]) -> dict[str, float]:
    released = dp_event.SelfComposedDpEvent(EVENT, ROUNDS)

    def ours() -> float:
        return epsilon_of(released, DELTA, accountant=accountant)

    timed(ours), timed(direct)
    pairs = [(timed(ours), timed(direct)) for _ in range(REPEATS)]
    seconds = statistics.median(a[1] for a, _ in pairs)
    seconds_direct = statistics.median(b[1] for _, b in pairs)
    return {
        "epsilon": pairs[0][0][0],
        "epsilon_direct": pairs[0][1][0],
        "value_ratio": pairs[0][0][0] / pairs[0][1][0],
        "seconds": seconds,
        "seconds_direct": seconds_direct,
        "time_ratio": statistics.median(a[1] / b[1] for a, b in pairs),
    }


def savings(epsilon: float = 1.0, delta: float = 1e-6) -> list[dict[str, float]]:
    rows = []
    for rounds in (1, 10, 100, 1000):
        published = scale_pure(power(rounds), epsilon, delta, bound="published")[0]
        optimal = scale_pure(power(rounds), epsilon, delta)[0]
        # Laplace noise of scale S/ε_t has standard deviation √2 S/ε_t, for the same sensitivity S.
        gaussian = calibrate(epsilon, delta, n_releases=rounds)
        rows.append(
            {
                "rounds": rounds,
                "published_epsilon_per_round": float(published),
                "optimal_epsilon_per_round": float(optimal),
                "optimal_over_published": float(optimal / published),
                "published_laplace_deviation_over_gaussian": float(2**0.5 / published / gaussian),
            }
        )
    return rows


def main() -> None:
    result = {
        "poisson_gaussian": {
            "rdp": against_direct(
                "rdp", lambda: RdpAccountant().compose(EVENT, ROUNDS).get_epsilon(DELTA)
            ),
            "pld": against_direct(
                "pld", lambda: PLDAccountant().compose(EVENT, ROUNDS).get_epsilon(DELTA)
            ),
        },
        "composition": savings(),
    }
    folder = Path(__file__).with_name("results")
    folder.mkdir(exist_ok=True)
    text = json.dumps(result, indent=2)
    (folder / "accounting.json").write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
