"""Figs. 4 and 5: how the budget is divided over rounds, and how loud the noise then is."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from experiments import load, paper_delta, score, train

import tacit
from tacit.errors import PrivacyWarning
from tacit.privacy.noise.perturb import SeededEntropy

__all__ = ["allocation_value", "ratio_values"]


def allocation_value(
    config: dict[str, Any], panel: dict[str, Any], method: dict[str, Any], number: int, x: float
) -> float:
    """Return the test error with budgets ∝ t^x, or ∝ Q^(−t) with log_{Q₀} Q = x."""
    rows, test = load(panel["data"], number)
    varied: dict[str, Any] = {"allocation": x}
    if panel["rule"] == "geometric":
        mu = panel["strong_convexity"]
        varied = {"allocation_ratio": (1 - mu**0.5) ** x, "strong_convexity": mu}
    parameters = method.get("parameters", {}) | varied
    model = train(
        method | {"parameters": parameters}, rows, config["epsilon"], kind="Regressor", seed=number
    )
    return score(model, test, "nmse")


def ratio_values(
    config: dict[str, Any], panel: dict[str, Any], method: dict[str, Any], number: int
) -> list[float]:
    """Return log10 ‖noise‖_F / ‖Σ‖_F of every round."""
    rows, _ = load(panel["data"], number)
    model = getattr(tacit, method["estimator"] + "Regressor")(
        config["epsilon"], delta=paper_delta(rows.n_tasks), **method["parameters"]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        protocol = model._protocol(rows, np.asarray(rows.y)[:, None])
    entropy, state, ratios = SeededEntropy(number), protocol.start(rows), []
    for t in range(protocol.n_rounds):
        signal = protocol.aggregate(protocol.bound(protocol.speak(state, t)))
        release = protocol.mechanism(t).release(signal, entropy).value
        ratios.append(float(np.log10(np.linalg.norm(release - signal) / np.linalg.norm(signal))))
        state = protocol.listen(state, release, t)
    return ratios
