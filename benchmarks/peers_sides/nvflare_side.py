"""NVFlare on the split: the mean of linear models' updates, each through its SVT privacy filter.

The filter runs at the client and trusts no server: some coordinates are chosen by the sparse vector
technique and sent with Laplace noise. ε is the one which the filter's own accountant states over
all rounds, half of it for the choice. The filter is called directly, without a network.
"""

from __future__ import annotations

import logging

import numpy as np
import nvflare
from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.filters.svt_privacy import SVTPrivacy
from side import Method, Split, ended, main

logging.disable(logging.CRITICAL)


def federated(
    split: Split, epsilon: float, rounds: int, steps: int, clip: float, share: float, ending: int
) -> np.ndarray:
    np.random.seed(split.seed)  # noqa: NPY002 - where the filter draws its noise
    homes, context = split.homes(), FLContext()
    each = epsilon / (2 * rounds)
    weights = np.zeros(split.X.shape[1] + 1)
    filters = [
        SVTPrivacy(
            fraction=share, epsilon=each, epsilon_release=each, gamma=clip, tau=0.0, replace=False
        )
        for _ in homes
    ]
    for _ in range(rounds):
        sent = []
        for home, private in zip(homes, filters, strict=True):
            update = {"weights": home.stepped(weights, steps) - weights}
            dxo = DXO(DataKind.WEIGHT_DIFF, data=update)
            sent.append(private.process_dxo(dxo, Shareable(), context).data["weights"])
        weights = weights + np.mean(sent, axis=0)
    spent = filters[0].get_privacy_spent()
    if abs(spent - epsilon) > 1e-9:
        raise ValueError(f"the filter's accountant says {spent}, asked were {epsilon}")
    return ended(split, homes, weights, ending)


GRID = {
    "rounds": (1, 3, 10),
    "steps": (1, 10, 100, 1000),
    "clip": (0.003, 0.01, 0.03, 0.1, 0.3, 1.0),
    "share": (0.03, 0.1, 0.3, 1.0),
    "ending": (0, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000),
}
PROTECTS = "a whole task's update, at the task"

if __name__ == "__main__":
    main(
        nvflare.__version__,
        {
            "FedAvg, SVT filter, then fine-tuned at home": Method(federated, PROTECTS, GRID),
        },
    )
