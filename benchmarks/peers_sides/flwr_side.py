"""Flower on the split: FedAvg of a linear model with its server-side fixed clipping; every task a
client, whole clients protected by a trusted server.

Flower takes a noise multiplier and states no ε, so the multiplier is the one that exact Gaussian
composition gives for all rounds at δ = 1e-5 (every client takes part in every round). The strategy
is called directly, without a network; the noise is Flower's own.
"""

from __future__ import annotations

import logging
import math
import warnings
from types import SimpleNamespace

import flwr
import numpy as np
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from scipy.optimize import brentq
from scipy.stats import norm
from side import DELTA, Method, Split, ended, main

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)


def multiplier(epsilon: float, rounds: int) -> float:
    """Return σ per unit of sensitivity so that all rounds together are (ε, δ)."""

    def excess(mu: float) -> float:
        likely, unlikely = norm.cdf([mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu])
        return likely - math.exp(epsilon) * unlikely - DELTA

    return math.sqrt(rounds) / brentq(excess, 1e-6, 50.0)


def federated(
    split: Split, epsilon: float, rounds: int, steps: int, clip: float, ending: int
) -> np.ndarray:
    np.random.seed(split.seed)  # noqa: NPY002 - where Flower draws its noise
    homes = split.homes()
    strategy = DifferentialPrivacyServerSideFixedClipping(
        FedAvg(inplace=False), split.factor * multiplier(epsilon, rounds), clip, len(homes)
    )
    weights = np.zeros(split.X.shape[1] + 1)
    for number in range(rounds):
        strategy.current_round_params = [weights.copy()]
        results = [
            (
                SimpleNamespace(cid=str(place)),
                # Equal weights: the noise is for a mean of clients, however many rows they have.
                FitRes(
                    Status(Code.OK, ""),
                    ndarrays_to_parameters([home.stepped(weights, steps)]),
                    1,
                    {},
                ),
            )
            for place, home in enumerate(homes)
        ]
        parameters, _ = strategy.aggregate_fit(number + 1, results, [])
        weights = parameters_to_ndarrays(parameters)[0]
    return ended(split, homes, weights, ending)


GRID = {
    "rounds": (1, 3, 10, 30, 100),
    "steps": (3, 30, 300, 3000, 30000, 300000),
    "clip": (0.1, 0.3, 1.0, 3.0, 10.0, 30.0),
    "ending": (0,),
}
LAST = {"ending": (0, 1, 10, 100, 1000, 10000)}
PROTECTS = "a whole task, by a trusted server"

if __name__ == "__main__":
    main(
        flwr.__version__,
        {
            "FedAvg, linear": Method(federated, PROTECTS, GRID, reach=2),
            "FedAvg, then fine-tuned at home": Method(federated, PROTECTS, GRID | LAST, reach=2),
        },
    )
