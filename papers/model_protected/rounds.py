"""Figs. 4 and 5: how the budget is divided over rounds, and how loud the noise then is."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import tacit
from tacit.errors import PrivacyWarning
from tacit.estimators._private import Sizes
from tacit.privacy.noise.perturb import SeededEntropy
from tacit.privacy.schedule import in_turn

from .baselines import mtrl_rounds
from .experiments import load, paper_delta, score, train, tuned

__all__ = ["allocation_value", "ratio_values"]


def allocation_value(
    config: dict[str, Any], panel: dict[str, Any], method: dict[str, Any], run: int, x: float
) -> float:
    """Return the test error with budgets ∝ t^x, or ∝ Q^(−t) with log Q / log Q₀ = x."""
    rows, test = load(panel["data"], run)
    varied: dict[str, Any] = {"allocation": x}
    if panel["rule"] == "geometric":
        mu = panel["strong_convexity"]
        varied = {"allocation_ratio": (1 - mu**0.5) ** x, "strong_convexity": mu}
    if method.get("open"):
        varied = {}
    changed = method | {"parameters": method.get("parameters", {}) | varied}
    model = train(changed, rows, config["epsilon"], data=panel["data"], kind="Regressor", seed=run)
    return score(model, test, "nmse")


def ratio_values(
    config: dict[str, Any], panel: dict[str, Any], method: dict[str, Any], run: int
) -> dict[int, float]:
    """Return log10 ‖noise‖_F / ‖Σ‖_F of every round."""
    rows, _ = load(panel["data"], run)
    delta, epsilon = paper_delta(rows.n_tasks), config["epsilon"]
    choice = tuned(method["tuned"], panel["data"], epsilon) if "tuned" in method else {}
    choice |= method.get("parameters", {})
    if method.get("baseline") == "dp-mtrl":
        settings = {"epsilon": epsilon, "delta": delta, "seed": run, **choice}
        found, _ = mtrl_rounds(rows, kind="Regressor", intercept=False, **settings)
        return {t: _ratio(W @ W.T, N @ N.T) for t, (W, N) in enumerate(found, start=1)}
    estimator = getattr(tacit, method["estimator"] + "Regressor")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        model = estimator(epsilon, delta=delta, fit_intercept=False, **choice)
        protocol, schedule = model._staged(Sizes.of(rows, 1))
    entropy, public, ratios = SeededEntropy(run), protocol.opening(), {}
    home = protocol.start(rows, np.arange(rows.n_tasks))
    for call in in_turn(schedule.rounds):
        round, mechanism = schedule.rounds[call.round], schedule.mechanisms[call.round]
        home, message = protocol.speak(home, public, call, None)
        signal = round.bound.aggregate(round.bound(message))
        release = mechanism.release(signal, entropy.child("round", call.number)).value
        ratios[call.number + 1] = _ratio(signal, release)
        public = protocol.read(public, release, call, mechanism)
    return ratios


def _ratio(signal: np.ndarray, release: np.ndarray) -> float:
    return float(np.log10(np.linalg.norm(release - signal) / np.linalg.norm(signal)))
