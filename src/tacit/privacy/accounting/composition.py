"""What a list of releases costs together, and the noise that keeps it within a budget."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from tacit import _check
from tacit.errors import InvalidInput
from tacit.privacy.accounting import curves
from tacit.privacy.accounting._search import safe_endpoint
from tacit.privacy.accounting.gaussian import (
    check_delta,
    check_epsilon,
    gaussian_epsilon,
    gaussian_mu,
    mu_of,
)
from tacit.privacy.accounting.leaves import (
    Event,
    Leaves,
    event_from_json,
    event_to_json,
    kind,
    leaves,
    refuse,
)
from tacit.privacy.accounting.pure import optimal_composition
from tacit.privacy.unit import Adjacency

__all__ = [
    "ACCOUNTANTS",
    "Cost",
    "calibrate",
    "check_sampling",
    "compose",
    "epsilon_of",
]

ACCOUNTANTS = ("auto", "gdp", "optimal", "pld", "rdp", "zcdp")
OBSERVERS = ("participants", "outside")


@dataclass(frozen=True)
class Cost:
    """What releases cost together: (ε, δ), and the accountant that computed it."""

    epsilon: float
    delta: float
    accountant: str

    def __str__(self) -> str:
        return f"(ε = {self.epsilon:.6g}, δ = {self.delta:.3g}) by {self.accountant}"


def _gdp(parts: Leaves, delta: float) -> float:
    return gaussian_epsilon(mu_of(curves.total_square(parts)), delta)


def _optimal(parts: Leaves, delta: float) -> float:
    epsilons, deltas, counts = [], [], []
    for event, count in parts:
        pure = curves.response_parameter(event)
        if kind(event) == "non-private" or pure == math.inf:
            return math.inf
        if pure is None and kind(event) != "step":
            raise refuse(event, "optimal", "knows (ε, δ)-DP steps only; use 'auto'")
        epsilons.append(event.epsilon if pure is None else pure)
        deltas.append(event.delta if pure is None else 0.0)
        counts.append(count)
    if sum(counts) > 10_000_000:
        raise InvalidInput(
            f"events: {sum(counts)} pure-ε steps are too many for 'optimal'; use accountant='rdp'"
        )
    return optimal_composition(
        np.repeat(epsilons, counts),
        delta,
        deltas=np.repeat(deltas, counts) if any(deltas) else None,
    )


_EPSILON: dict[str, Callable[[Leaves, float], float]] = {
    "gdp": _gdp,
    "optimal": _optimal,
    "pld": curves.pld_epsilon,
    "rdp": curves.rdp_epsilon,
    "zcdp": curves.zcdp_epsilon,
}


def _chosen(parts: Leaves) -> str:
    kinds = {kind(event) for event, _ in parts} - {"non-private"}
    if kinds <= {"gaussian"}:
        return "gdp"
    if kinds <= {"step", "laplace", "response"}:
        return "optimal"
    return "pld" if kinds.isdisjoint({"fixed-size", "zcdp", "other"}) else "rdp"


def check_sampling(parts: Leaves, adjacency: str | None, observer: str) -> None:
    """Refuse sampling whose amplification does not hold for this adjacency or observer."""
    for event, _ in parts:
        if kind(event) == "fixed-size" and observer != "outside":
            raise InvalidInput(
                f"event {event!r}: a cohort of fixed size is not amplified for the tasks "
                "themselves, who together know who was chosen; charge the inner event in full, or "
                "state the guarantee for observer='outside' only"
            )
        if kind(event) == "fixed-size" and adjacency not in (None, Adjacency.REPLACE_ONE):
            raise InvalidInput(f"event {event!r}: sampling without replacement needs replace-one")
        if kind(event) == "poisson" and adjacency == Adjacency.REPLACE_ONE:
            raise InvalidInput(
                f"event {event!r}: Poisson sampling is accounted under add-or-remove or zero-out; "
                "under replace-one charge the inner event in full"
            )


@functools.lru_cache(maxsize=4096)
def _cached(keys: tuple[tuple[str, int], ...], delta: float, accountant: str) -> float:
    parts = tuple((event_from_json(text), count) for text, count in keys)
    return _EPSILON[accountant](parts, delta)


def compose(
    events: Event | Iterable[Event],
    *,
    delta: float,
    accountant: str = "auto",
    adjacency: Adjacency | str | None = None,
    observer: str = "participants",
) -> Cost:
    """Return the cost at ``delta`` of releases fixed in advance, rounded towards more ε.

    Guarantee: the releases together, each query chosen after seeing earlier answers, are
    (ε, δ)-DP for the unit and adjacency under which every noise multiplier (standard deviation ÷
    sensitivity) was computed. dp-accounting's ``REPLACE_ONE`` does not double a sensitivity: a
    clip to C has sensitivity 2C under replace-one, and the noise multiplier must say so. Noise
    chosen from earlier releases needs a `PrivacyFilter` instead.

    Parameters
    ----------
    events : event or iterable of events
        What was released; `ComposedDpEvent` and `SelfComposedDpEvent` are taken apart.
    delta : float
        In [0, 1); 0 asks for pure ε.
    accountant : str
        ``"gdp"`` exact, plain Gaussians; ``"optimal"`` exact or near, (ε, δ)-DP steps;
        ``"pld"`` also Poisson-sampled releases and mixtures; ``"rdp"``, ``"zcdp"`` upper bounds.
        ``"auto"`` takes the first of these that knows every event. An event the accountant does
        not know is refused by name.
    adjacency : Adjacency, optional
        Checked against the sampling: Poisson needs add-or-remove or zero-out.
    observer : {"participants", "outside"}
        Sampling without replacement amplifies for an observer outside the cohort only.
    """
    delta = check_delta(delta)
    _check.one_of("accountant", accountant, ACCOUNTANTS)
    _check.one_of("observer", observer, OBSERVERS)
    parts = leaves(events)
    check_sampling(parts, adjacency, observer)
    name = _chosen(parts) if accountant == "auto" else accountant
    if any(kind(event) == "non-private" for event, _ in parts):
        return Cost(math.inf, delta, name)
    keys = tuple((event_to_json(event), count) for event, count in parts)
    return Cost(_cached(keys, delta, name) if keys else 0.0, delta, name)


def epsilon_of(
    event: Event,
    delta: float,
    *,
    accountant: str = "auto",
    adjacency: Adjacency | str | None = None,
    observer: str = "participants",
) -> float:
    """Return the ε of one event (itself possibly composed) at ``delta``; see `compose`."""
    return compose(
        event, delta=delta, accountant=accountant, adjacency=adjacency, observer=observer
    ).epsilon


def calibrate(
    epsilon: float,
    delta: float,
    *,
    event: Callable[[float], Event] | None = None,
    n_releases: int = 1,
    accountant: str = "auto",
    observer: str = "participants",
    tolerance: float | None = None,
) -> float:
    """Return the smallest noise multiplier that keeps the releases within (ε, δ), rounded up.

    Guarantee: `compose` of ``n_releases`` such events costs at most ``epsilon`` at ``delta``; the
    returned value was itself checked. The unit and adjacency are those of the sensitivity by
    which the noise multiplier is later multiplied.

    Parameters
    ----------
    event : callable, default ``GaussianDpEvent``
        Makes the event of one release from a noise multiplier; its cost must fall with it.
        For instance ``lambda s: PoissonSampledDpEvent(0.1, GaussianDpEvent(s))``.
    tolerance : float, optional
        Relative width at which the search stops, on the safe side. By default as fine as floats
        for plain Gaussians, and 1e-6 for others.

    Examples
    --------
    >>> round(calibrate(1.0, 1e-5), 4)
    3.7306
    """
    from dp_accounting import dp_event

    epsilon, delta = check_epsilon(epsilon), check_delta(delta)
    count = _check.positive_integer("n_releases", n_releases, remedy="it is the number of rounds")
    if math.isinf(epsilon):
        return 0.0
    make = dp_event.GaussianDpEvent if event is None else event
    plain = event is None or event is dp_event.GaussianDpEvent
    if plain and delta == 0:
        raise InvalidInput("delta=0: Gaussian noise has no pure ε; use delta > 0 or Laplace noise")

    def excess(noise: float) -> float:
        released = dp_event.SelfComposedDpEvent(make(noise), count)
        cost = compose(released, delta=delta, accountant=accountant, observer=observer)
        return cost.epsilon - epsilon

    if plain and accountant in ("auto", "gdp"):
        noise = math.sqrt(count) / gaussian_mu(epsilon, delta)
        return safe_endpoint(excess, unsafe=noise * (1 - 1e-12), safe=_grown(excess, noise))
    unsafe, safe = _bracket(excess, epsilon, delta)
    return safe_endpoint(
        excess, unsafe=unsafe, safe=safe, tolerance=1e-6 if tolerance is None else tolerance
    )


def _grown(excess: Callable[[float], float], noise: float) -> float:
    """Return ``noise``, or the first value above it by rounding alone that is safe."""
    step = 2e-16
    while excess(noise) > 0:
        noise, step = noise * (1 + step), 2 * step
    return noise


def _bracket(excess: Callable[[float], float], epsilon: float, delta: float) -> tuple[float, float]:
    """Return (unsafe, safe) noise multipliers around the smallest safe one.

    The cost falls about as 1 / noise, which tells where to look next.
    """
    noise, unsafe, safe = 1.0, 0.0, math.inf
    while unsafe == 0.0 or math.isinf(safe):
        over = excess(noise)
        if over > 0:
            unsafe = noise
            growth = (over + epsilon) / epsilon if math.isfinite(over) else 8.0
            noise *= min(max(1.1 * growth, 1.05), 1e3)
        else:
            safe = noise
            noise *= min(max(0.9 * (over + epsilon) / epsilon, 1e-2), 0.95)
        if noise > 1e12:
            raise InvalidInput(
                f"epsilon={epsilon!r}, delta={delta!r}: no noise reaches it with this accountant; "
                "ask for more ε or δ"
            )
        if noise < 1e-9:
            return 0.0, safe
    return unsafe, safe
