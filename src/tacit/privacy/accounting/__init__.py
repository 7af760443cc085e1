"""What releases cost: composition, calibration, budgets over rounds, filters.

Everything rounds towards more ε, or more noise. See docs/accounting.md.
"""

from tacit.privacy.accounting.allocation import geometric, power, scale_gaussian, scale_pure
from tacit.privacy.accounting.composition import ACCOUNTANTS, Cost, calibrate, compose, epsilon_of
from tacit.privacy.accounting.filters import PrivacyFilter
from tacit.privacy.accounting.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from tacit.privacy.accounting.leaves import event_from_json, event_to_json
from tacit.privacy.accounting.pure import composition_bound, group_privacy, optimal_composition

__all__ = [
    "ACCOUNTANTS",
    "Cost",
    "PrivacyFilter",
    "calibrate",
    "compose",
    "composition_bound",
    "epsilon_of",
    "event_from_json",
    "event_to_json",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "geometric",
    "group_privacy",
    "optimal_composition",
    "power",
    "scale_gaussian",
    "scale_pure",
]
