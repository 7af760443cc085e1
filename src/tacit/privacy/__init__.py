"""Units, bounds, mechanisms, accounting, billboard, ledger, statement.

Names are resolved on first use, so that importing one part does not load the others.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tacit.errors import BudgetExceeded, LedgerError, PrivacyLeak, PrivacyWarning

if TYPE_CHECKING:
    from tacit.privacy.accounting import (
        Cost,
        PrivacyFilter,
        calibrate,
        compose,
        composition_bound,
        epsilon_of,
        gaussian_delta,
        gaussian_epsilon,
        gaussian_mu,
        geometric,
        group_privacy,
        optimal_composition,
        power,
        scale_gaussian,
        scale_pure,
    )
    from tacit.privacy.billboard import Billboard, Posting
    from tacit.privacy.bounds import (
        Bound,
        NonNegativeClip,
        RowClip,
        RowGradientClip,
        RowNormalise,
        SecondMoment,
        VectorClip,
        VectorNormalise,
    )
    from tacit.privacy.ledger import Ledger, Reservation
    from tacit.privacy.mechanisms import MECHANISMS, Mechanism, Release, mechanism
    from tacit.privacy.noise.entropy import (
        Entropy,
        KeyedEntropy,
        SeededEntropy,
        SystemEntropy,
        entropy_from,
    )
    from tacit.privacy.plan import Plan
    from tacit.privacy.schedule import (
        AtTask,
        Call,
        Curator,
        Distributed,
        Everyone,
        FixedSize,
        Poisson,
        Round,
        Schedule,
    )
    from tacit.privacy.statement import Statement
    from tacit.privacy.unit import Adjacency, Norm, Unit

_HOME = {
    "accounting": "Cost PrivacyFilter calibrate compose composition_bound epsilon_of "
    "gaussian_delta gaussian_epsilon gaussian_mu geometric group_privacy optimal_composition power "
    "scale_gaussian scale_pure",
    "billboard": "Billboard Posting",
    "bounds": "Bound NonNegativeClip RowClip RowGradientClip RowNormalise SecondMoment VectorClip "
    "VectorNormalise",
    "ledger": "Ledger Reservation",
    "mechanisms": "MECHANISMS Mechanism Release mechanism",
    "plan": "Plan",
    "noise.entropy": "Entropy KeyedEntropy SeededEntropy SystemEntropy entropy_from",
    "schedule": "AtTask Call Curator Distributed Everyone FixedSize Poisson Round Schedule",
    "statement": "Statement",
    "unit": "Adjacency Norm Unit",
}
_MODULE = {name: module for module, names in _HOME.items() for name in names.split()}

__all__ = [
    "MECHANISMS",
    "Adjacency",
    "AtTask",
    "Billboard",
    "Bound",
    "BudgetExceeded",
    "Call",
    "Cost",
    "Curator",
    "Distributed",
    "Entropy",
    "Everyone",
    "FixedSize",
    "KeyedEntropy",
    "Ledger",
    "LedgerError",
    "Mechanism",
    "NonNegativeClip",
    "Norm",
    "Plan",
    "Poisson",
    "Posting",
    "PrivacyFilter",
    "PrivacyLeak",
    "PrivacyWarning",
    "Release",
    "Reservation",
    "Round",
    "RowClip",
    "RowGradientClip",
    "RowNormalise",
    "Schedule",
    "SecondMoment",
    "SeededEntropy",
    "Statement",
    "SystemEntropy",
    "Unit",
    "VectorClip",
    "VectorNormalise",
    "calibrate",
    "compose",
    "composition_bound",
    "entropy_from",
    "epsilon_of",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "geometric",
    "group_privacy",
    "mechanism",
    "optimal_composition",
    "power",
    "scale_gaussian",
    "scale_pure",
]


def __getattr__(name: str) -> Any:
    if name in _MODULE:
        return getattr(importlib.import_module(f"tacit.privacy.{_MODULE[name]}"), name)
    raise AttributeError(f"module 'tacit.privacy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
