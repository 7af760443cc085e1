"""Attacking a mechanism: an empirical lower bound on the ε of one release."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit._check import fraction, non_negative, positive, positive_integer
from tacit.audit import specimens
from tacit.audit.attack import Claim, attack
from tacit.audit.result import AuditResult
from tacit.errors import InvalidInput
from tacit.privacy.mechanisms import Mechanism, SymmetricGaussian
from tacit.privacy.noise.entropy import entropy_from

__all__ = ["DEFAULT_DELTA", "audit_mechanism"]

DEFAULT_DELTA = 1e-5
"""The δ of a Gaussian mechanism audited by name when none is given: it has no pure ε."""

_MOST_TRIALS = 200_000
_WISHART_TRIALS = 24_000
_ENTRIES = 20_000_000


def audit_mechanism(
    mechanism: str | Mechanism,
    *,
    epsilon: float,
    delta: float = 0.0,
    n_features: int = 10,
    n_trials: int | None = None,
    confidence: float = 0.999,
    pair: tuple[Any, Any] | str | None = None,
    random_state: Any = None,
) -> AuditResult:
    """Bound from below the ε that one release of a mechanism really costs.

    Parameters
    ----------
    mechanism
        A name from `specimens.AUDITABLE`, calibrated here for (epsilon, delta) and messages of
        norm at most 1; or a mechanism object, whose claim you state by ``epsilon`` and ``delta``.
    epsilon, delta
        The claim. A Gaussian mechanism by name with ``delta=0`` is calibrated and audited at
        δ = 1e-5, since it has no pure ε; the result says so.
    n_features
        Dimension d of vectors, or of d x d matrices.
    n_trials
        Releases of each neighbour; by default 200 000, fewer where a release has more than
        100 entries, and 24 000 of Wishart noise, which is drawn matrix by matrix.
    confidence
        That all reported bounds hold.
    pair
        Two neighbouring aggregates to tell apart, or the description of a built-in pair. By
        default all built-in worst-case pairs compete.
    random_state
        Makes the audit repeatable; None draws the noise from the system's entropy.

    Guarantee: `AuditResult`'s. For Gaussian mechanisms the claim under attack is the whole curve
    that the accountant composes (μ-GDP); ``epsilon_direct`` attacks the one point (ε, δ) alone.

    Examples
    --------
    >>> audit_mechanism("wishart-published", epsilon=1.0, n_features=5, random_state=0).violated
    True
    """
    epsilon = positive("epsilon", epsilon, remedy="audit a finite claim, for example epsilon=1.0")
    delta = non_negative("delta", delta, remedy="use delta=0.0 for a pure-ε claim")
    if delta >= 1:
        raise InvalidInput(f"delta={delta!r}: must be below 1; use for example delta=1e-5")
    fraction("confidence", confidence, remedy="use for example confidence=0.999")
    d = positive_integer("n_features", n_features, remedy="use at least one feature")
    if isinstance(mechanism, str):
        if delta == 0 and "gaussian" in mechanism:
            delta = DEFAULT_DELTA
        target, name = specimens.calibrated(mechanism, epsilon, delta), mechanism
    else:
        target, name = mechanism, mechanism.name
    if n_trials is None:
        n_trials = _default_trials(target, d)
    if positive_integer("n_trials", n_trials, remedy="use a few thousand") < 100:
        raise InvalidInput(f"n_trials={n_trials}: too few to choose and test; use at least 100")
    entropy = entropy_from(random_state)
    contests = [
        specimens.contest(described, target, chosen, entropy)
        for described, chosen in _pairs(target, d, pair).items()
    ]
    claim = Claim(name, epsilon, delta, gaussian=_is_gaussian(target))
    return attack(contests, claim, n_trials=n_trials, confidence=confidence)


def _pairs(
    target: Mechanism, n_features: int, pair: tuple[Any, Any] | str | None
) -> dict[str, specimens.Pair]:
    if pair is not None and not isinstance(pair, str):
        first, second = (np.asarray(side, dtype=float) for side in pair)
        return {"the given pair": (first, second)}
    built_in = specimens.pairs(target, n_features)
    if pair is None:
        return built_in
    if pair not in built_in:
        listed = ", ".join(repr(name) for name in built_in)
        raise InvalidInput(f"pair={pair!r}: must be two aggregates or one of {listed}")
    return {pair: built_in[pair]}


def _default_trials(target: Mechanism, n_features: int) -> int:
    if not specimens.is_matrix(target):
        return min(_MOST_TRIALS, max(_ENTRIES // n_features, _WISHART_TRIALS))
    if not isinstance(target, SymmetricGaussian):
        return _WISHART_TRIALS
    return min(_MOST_TRIALS, max(_ENTRIES // n_features**2, _WISHART_TRIALS))


def _is_gaussian(target: Mechanism) -> bool:
    from dp_accounting import GaussianDpEvent

    return isinstance(target.event, GaussianDpEvent)
