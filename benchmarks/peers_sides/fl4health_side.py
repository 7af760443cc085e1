"""FL4Health on the split: MR-MTL without privacy, and its FedAvg with client-level privacy.

Every task a client. What a client does in training is ours: SGD of its squared error (and MR-MTL's
penalty) with steps of 1/2 on rows of norm 1, in closed form, which gives what its own loop gives.
Exchange, clipping, noise, aggregation and accounting are FL4Health's; clients and strategies are
called directly, without a network. Its personal methods have no privacy as they come. The private
algorithm is the one that Flower's side has, and so are its settings.
"""

from __future__ import annotations

import functools
import importlib.metadata
import logging
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from fl4health.clients.clipping_client import NumpyClippingClient
from fl4health.clients.mr_mtl_client import MrMtlClient
from fl4health.privacy.fl_accountants import FlClientLevelAccountantPoissonSampling
from fl4health.strategies.client_dp_fedavgm import ClientLevelDPFedAvgM
from fl4health.strategies.fedavg_with_adaptive_constraint import FedAvgWithAdaptiveConstraint
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from scipy.optimize import brentq
from side import DELTA, Home, Method, Split, ended, main
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)


class Member:
    """What a client has at home, and how it trains."""

    def __init__(self, home: Home) -> None:
        super().__init__(Path(), [], torch.device("cpu"))
        self.home = home

    def get_model(self, config):
        layer = torch.nn.Linear(len(self.home.values), 1, bias=False, dtype=torch.float64)
        torch.nn.init.zeros_(layer.weight)
        return layer

    def get_data_loaders(self, config):
        rows = DataLoader(TensorDataset(torch.zeros(1, len(self.home.values))))
        return rows, rows

    def get_optimizer(self, config):
        return torch.optim.SGD(self.model.parameters(), lr=0.5)

    def get_criterion(self, config):
        return torch.nn.MSELoss()

    def train_by_steps(self, steps, current_round=None):
        weights = self.model.weight.detach().numpy()[0]
        trained = self.home.stepped(weights, steps, *self.drawn())
        with torch.no_grad():
            self.model.weight.copy_(torch.from_numpy(trained[None]))
        return {"loss_for_adaptation": 0.0}, {}

    def drawn(self) -> tuple[np.ndarray | float, float]:
        return 0.0, 0.0


class Personal(Member, MrMtlClient):
    """A client of MR-MTL: its model is drawn to the mean of all, and stays at home."""

    def drawn(self):
        # The penalty is λ/2 times the squared distance, beside twice the squared error's half.
        return self.drift_penalty_tensors[0].numpy()[0], self.drift_penalty_weight / 2


class Clipped(Member, NumpyClippingClient):
    """A client of FedAvgM that sends a clipped update."""


def run(strategy, members: list, rounds: int, steps: int) -> np.ndarray:
    parameters = parameters_to_ndarrays(strategy.initial_parameters)
    for number in range(1, rounds + 1):
        config = {"current_server_round": number, "local_steps": steps, "adaptive_clipping": False}
        results = []
        for place, member in enumerate(members):
            sent, _, _ = member.fit(parameters, config)
            answer = FitRes(Status(Code.OK, ""), ndarrays_to_parameters(sent), 1, {})
            results.append((SimpleNamespace(cid=str(place)), answer))
        aggregated, _ = strategy.aggregate_fit(number, results, [])
        parameters = parameters_to_ndarrays(aggregated)
    return parameters[0][0]


def start(split: Split):
    return ndarrays_to_parameters([np.zeros((1, split.X.shape[1] + 1))])


def personal(split: Split, epsilon: None, rounds: int, steps: int, weight: float) -> np.ndarray:
    members = [Personal(home) for home in split.homes()]
    strategy = FedAvgWithAdaptiveConstraint(
        initial_parameters=start(split), initial_loss_weight=weight, weighted_aggregation=False
    )
    run(strategy, members, rounds, steps)
    models = np.stack([member.model.weight.detach().numpy()[0] for member in members])
    return split.predict(models / np.sqrt(2))


@functools.cache
def multiplier(epsilon: float, rounds: int) -> float:
    """Return the noise at which its accountant says ε for all rounds."""

    def excess(noise: float) -> float:
        accountant = FlClientLevelAccountantPoissonSampling(1.0, noise)
        return accountant.get_epsilon(rounds, DELTA) - epsilon

    return brentq(excess, 0.2, 200.0, xtol=1e-3)


def federated(
    split: Split, epsilon: float, rounds: int, steps: int, clip: float, ending: int
) -> np.ndarray:
    np.random.seed(split.seed)  # noqa: NPY002 - where it draws its noise
    homes = split.homes()
    strategy = ClientLevelDPFedAvgM(
        initial_parameters=start(split),
        initial_clipping_bound=clip,
        weight_noise_multiplier=split.factor * multiplier(epsilon, rounds),
        beta=0.0,
    )
    weights = run(strategy, [Clipped(home) for home in homes], rounds, steps)
    return ended(split, homes, weights, ending)


MEANS = {
    "rounds": (1, 3, 10, 30),
    "steps": (30, 300, 3000, 30000, 300000),
    "weight": (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0),
}
PROTECTS = "a whole task, by a trusted server"

if __name__ == "__main__":
    main(
        importlib.metadata.version("fl4health"),
        {
            "MR-MTL, linear": Method(personal, "nobody", MEANS, private=False),
            "FedAvg, then fine-tuned at home": Method(federated, PROTECTS),
        },
    )
