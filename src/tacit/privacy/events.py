"""The events of pure-ε releases, which dp-accounting has no class for.

dp-accounting describes Gaussian, Laplace and sampled releases, but has no event that says only
"this release is (ε, δ)-differentially private", and that is all that is known, and needed, of the
gamma-vector and two-sided Wishart mechanisms. `EpsilonDeltaDpEvent` is that event. Like
dp-accounting's own it is frozen, and the meaning of its fields never changes.

Importing this module imports dp-accounting (about two seconds): import it inside functions.
"""

from __future__ import annotations

import math

import attr
from dp_accounting import dp_event

__all__ = ["EpsilonDeltaDpEvent", "dominating_event"]


@attr.s(frozen=True, slots=True, auto_attribs=True)
class EpsilonDeltaDpEvent(dp_event.DpEvent):
    """One release that is (epsilon, delta)-differentially private, and of which no more is known.

    The adjacency is the one stated with the release.
    """

    epsilon: float
    delta: float = 0.0


def dominating_event(event: EpsilonDeltaDpEvent) -> dp_event.DpEvent:
    """Return an event that dp-accounting knows and that costs at least as much as ``event``.

    Guarantee: every ε-DP mechanism is a post-processing of binary randomised response that answers
    truly with probability e^ε / (1 + e^ε) (Kairouz, Oh, Viswanath 2015, Theorem 3.4), so that event
    dominates it under any adaptive composition. dp-accounting's randomised response over two
    buckets with noise parameter p lies with probability p / 2; the p given here is 2 / (1 + e^ε)
    rounded down by two units in the last place, towards a higher cost. Only ``delta = 0`` can be
    represented; anything else raises `ValueError`.
    """
    if event.delta != 0:
        raise ValueError(f"delta={event.delta!r}: only pure-ε events have a dominating event here")
    lie = math.exp(-event.epsilon) / (1 + math.exp(-event.epsilon))
    return dp_event.RandomizedResponseDpEvent(
        noise_parameter=math.nextafter(math.nextafter(2 * lie, 0.0), 0.0), num_buckets=2
    )
