"""The accountants that dp-accounting computes: Rényi (RDP), zCDP and privacy loss (PLD)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from tacit._types import Array
from tacit.privacy.accounting.gaussian import gaussian_epsilon, mu_of, square_of
from tacit.privacy.accounting.leaves import Event, Leaves, kind, refuse
from tacit.privacy.accounting.sampled import poisson_gaussian

__all__ = [
    "pld_epsilon",
    "rdp_at",
    "rdp_epsilon",
    "response_parameter",
    "total_square",
    "zcdp_epsilon",
]

# The discretisation of dp-accounting's own default; its estimates are pessimistic at any width.
_INTERVAL = 1e-4
_LONGEST = 4e6  # grid points of a PLD, before the interval is widened


def total_square(parts: Leaves, accountant: str = "gdp") -> Fraction:
    """Return Σ 1/σ² of plain Gaussian releases, exactly; refuses any other by name."""
    total = Fraction(0)
    for event, count in parts:
        if kind(event) != "gaussian":
            raise refuse(event, accountant, "knows plain Gaussian releases only; use 'auto'")
        total += count * square_of(1 / Fraction(event.noise_multiplier))
    return total


def response_parameter(event: Event) -> float | None:
    """Return ε of an event that is pure ε-DP, or None."""
    match kind(event):
        case "step":
            return float(event.epsilon) if event.delta == 0 else None
        case "laplace":
            return math.nextafter(1 / event.noise_multiplier, math.inf)
        case "response":
            # Truth 1 − p + p/k against a lie p/k: e^ε = 1 + k(1 − p)/p, for replaced inputs.
            p, k = event.noise_parameter, event.num_buckets
            if k <= 1:
                return 0.0
            return math.log1p(k * (1 - p) / p) * (1 + 1e-14) if p > 0 else math.inf
    return None


def _response_rdp(epsilon: float, orders: Array) -> Array:
    """Return the RDP of binary randomised response: the worst case of any ε-DP release."""
    log_truth = -math.log1p(math.exp(-epsilon))
    log_lie = log_truth - epsilon
    one = orders * log_truth + (1 - orders) * log_lie
    two = orders * log_lie + (1 - orders) * log_truth
    tight = np.logaddexp(one, two) / (orders - 1)
    # For small ε the logarithm cancels; ε²α/2 (Bun & Steinke 2016) is then as good and safe.
    tight = np.where(epsilon * orders < 1e-3, np.inf, tight * (1 + 1e-12))
    return np.minimum(np.minimum(tight, 0.5 * orders * epsilon**2), epsilon)


def _relation(events: Leaves, accountant: str) -> Any:
    from dp_accounting import NeighboringRelation as Relation

    fixed = [event for event, _ in events if kind(event) == "fixed-size"]
    poisson = [event for event, _ in events if kind(event) == "poisson"]
    if fixed and poisson:
        raise refuse(fixed[0], accountant, "cannot mix replace-one and add-or-remove sampling")
    return Relation.REPLACE_ONE if fixed else Relation.ADD_OR_REMOVE_ONE


def rdp_at(
    events: Leaves, orders: Array | None = None, *, accountant: str = "rdp"
) -> tuple[Array, Array]:
    """Return (orders, RDP at these orders) of all ``events`` together."""
    from dp_accounting import UnsupportedEventError
    from dp_accounting.rdp import RdpAccountant

    relation = _relation(events, accountant)
    given = None if orders is None else np.asarray(orders, dtype=float)
    inner = RdpAccountant(given, relation)
    own = np.zeros(inner.orders.shape)
    for event, count in events:
        epsilon = response_parameter(event) if kind(event) != "laplace" else None
        if epsilon is not None:
            own += count * _response_rdp(epsilon, inner.orders)
            continue
        try:
            inner.compose(event, count)
        except UnsupportedEventError as error:
            raise refuse(event, accountant, "does not know it; use another accountant") from error
    return inner.orders, inner.rdp + own


def rdp_epsilon(events: Leaves, delta: float, orders: Array | None = None) -> float:
    """Return ε at δ by Rényi accounting, best of the orders."""
    from dp_accounting.rdp import compute_epsilon

    used, rdp = rdp_at(events, orders)
    return float(compute_epsilon(used, rdp, delta)[0])


def zcdp_epsilon(events: Leaves, delta: float) -> float:
    """Return ε at δ by zero-concentrated accounting (ρ adds up; converted at the best order)."""
    from dp_accounting.rdp import compute_epsilon

    rho = xi = 0.0
    for event, count in events:
        pure = response_parameter(event)
        match kind(event):
            case "non-private":
                return math.inf
            case "gaussian":
                rho += count * 0.5 / event.noise_multiplier**2
            case "zcdp":
                rho, xi = rho + count * event.rho, xi + count * event.xi
            case _ if pure is not None:
                rho += count * 0.5 * pure**2
            case _:
                raise refuse(event, "zcdp", "does not know it; use 'rdp' or 'pld'")
    if delta == 0 or rho == 0:
        return math.inf if rho > 0 else xi
    best = 1 + math.sqrt(math.log(1 / delta) / rho)
    orders = 1.01 + (best - 1) * np.geomspace(0.2, 5, 400)
    return float(compute_epsilon(orders, xi + rho * (1 + 1e-14) * orders, delta)[0])


def _step_pld(event: Event, count: int, interval: float) -> Any:
    """Return the PLD of ``count`` (ε, δ)-DP steps: randomised responses with a failure mass."""
    from dp_accounting.pld import privacy_loss_distribution as losses

    from tacit.privacy.accounting.pure import _on_grid

    delta = float(getattr(event, "delta", 0.0))
    epsilon = response_parameter(event) if delta == 0 else float(event.epsilon)
    masses = _on_grid(float(epsilon or 0.0), interval) * (1 - delta)
    half = masses.size // 2
    at = {int(i) - half: float(masses[i]) for i in np.flatnonzero(masses)}
    single = losses.PrivacyLossDistribution.create_from_rounded_probability(at, delta, interval)
    return single.self_compose(count) if count > 1 else single


def _one_pld(event: Event, count: int, interval: float) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as losses

    match kind(event):
        case "gaussian":
            return losses.from_gaussian_mechanism(
                event.noise_multiplier / math.sqrt(count), value_discretization_interval=interval
            )
        case "laplace":
            single = losses.from_laplace_mechanism(
                event.noise_multiplier, value_discretization_interval=interval
            )
        case "poisson" if kind(event.event) == "gaussian":
            single = poisson_gaussian(
                event.event.noise_multiplier, event.sampling_probability, interval
            )
        case "poisson" if kind(event.event) == "laplace":
            single = losses.from_laplace_mechanism(
                event.event.noise_multiplier,
                value_discretization_interval=interval,
                sampling_prob=event.sampling_probability,
            )
        case "step" | "response":
            return _step_pld(event, count, interval)
        case "fixed-size":
            raise refuse(event, "pld", "does not know sampling without replacement; use 'rdp'")
        case _:
            raise refuse(event, "pld", "does not know it; use 'rdp'")
    return single.self_compose(count) if count > 1 else single


def _gaussian_losses(events: Leaves) -> float:
    """Return the width of the loss distribution of the Gaussian part, in units of ε."""
    squares = sum(c / e.noise_multiplier**2 for e, c in events if kind(e) == "gaussian")
    mu = math.sqrt(squares)
    return mu * (0.5 * mu + 15)


def pld_epsilon(events: Leaves, delta: float, finest: float = _INTERVAL) -> float:
    """Return ε at δ by composing privacy loss distributions, an upper bound of the exact value.

    ``finest`` is the width of the grid of losses; any width gives an upper bound, a wider one a
    quicker and looser one.
    """
    if any(kind(event) == "non-private" for event, _ in events):
        return math.inf
    gaussian = tuple((e, c) for e, c in events if kind(e) == "gaussian")
    if len(gaussian) == len(events):
        # A grid of width 1e-4 cannot hold very small losses, and needs none for Gaussians alone.
        exact = gaussian_epsilon(mu_of(total_square(gaussian)), delta)
        if exact < 100 * _INTERVAL or exact > _LONGEST * _INTERVAL:
            return exact
    interval = max(finest, _gaussian_losses(events) / _LONGEST)
    total = None
    for event, count in events:
        part = _one_pld(event, count, interval)
        total = part if total is None else total.compose(part)
    return 0.0 if total is None else float(total.get_epsilon_for_delta(delta))
