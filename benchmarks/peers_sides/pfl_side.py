"""pfl-research on the split: its federated averaging of a linear model, simulated, with its central
Gaussian mechanism and PLD accountant; every task a client, all of them in every round.

What a client does is ours (gradient steps in closed form); cohorts, clipping, summing, noise and
accounting are pfl's. It personalises by fine-tuning, as in its Reptile. The algorithm is the one
that Flower's side has, and so are its settings.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pfl
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.base import StatefulModel
from pfl.privacy import (
    CentrallyAppliedPrivacyMechanism,
    GaussianMechanism,
    PLDPrivacyAccountant,
)
from pfl.stats import MappedVectorStatistics
from side import DELTA, Home, Method, Split, ended, main


class Linear(StatefulModel):
    """Weights in a vector."""

    def __init__(self, size: int) -> None:
        self.weights = np.zeros(size)

    def get_parameters(self, placeholders=None):
        return MappedVectorStatistics({"weights": self.weights.copy()})

    def set_parameters(self, w):
        self.weights = w["weights"].copy()

    def get_model_difference(self, other_parameters, clone=False):
        return MappedVectorStatistics({"weights": self.weights - other_parameters["weights"]})

    def apply_model_update(self, statistics):
        self.weights = self.weights + statistics["weights"]
        return self, Metrics()

    def evaluate(self, dataset, name_formatting_fn, eval_params=None):
        return Metrics()

    def save(self, dir_path):
        raise ValueError(f"{dir_path}: nothing is saved here")

    def load(self, dir_path):
        raise ValueError(f"{dir_path}: nothing is saved here")


class Averaging(FederatedAveraging):
    """Federated averaging whose clients step at once; a dataset holds a client's place."""

    def __init__(self, homes: list[Home]) -> None:
        super().__init__()
        self.homes = homes

    def train_one_user(self, initial_model_state, model, user_dataset, central_context):
        steps = central_context.model_train_params.local_num_epochs
        home = self.homes[int(user_dataset.raw_data[0][0])]
        model.weights = home.stepped(model.weights, steps)
        return model.get_model_difference(initial_model_state), Metrics()


@functools.cache
def accountant(epsilon: float, rounds: int) -> PLDPrivacyAccountant:
    return PLDPrivacyAccountant(
        num_compositions=rounds,
        sampling_probability=1.0,
        mechanism="gaussian",
        epsilon=epsilon,
        delta=DELTA,
    )


def federated(
    split: Split, epsilon: float, rounds: int, steps: int, clip: float, ending: int
) -> np.ndarray:
    np.random.seed(split.seed)  # noqa: NPY002 - where pfl draws its seeds
    homes = split.homes()
    turns = itertools.cycle(range(len(homes)))
    clients = FederatedDataset(
        lambda place: Dataset((np.array([place]),), user_id=str(place)), lambda: next(turns)
    )
    noise = split.factor * accountant(epsilon, rounds).cohort_noise_parameter
    mechanism = GaussianMechanism(clip, noise)
    model = Averaging(homes).run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=rounds,
            evaluation_frequency=10**9,
            train_cohort_size=len(homes),
            val_cohort_size=None,
        ),
        backend=SimulatedBackend(
            training_data=clients,
            val_data=clients,
            postprocessors=[CentrallyAppliedPrivacyMechanism(mechanism)],
        ),
        model=Linear(split.X.shape[1] + 1),
        model_train_params=NNTrainHyperParams(
            local_batch_size=None, local_num_epochs=steps, local_learning_rate=1.0
        ),
        send_metrics_to_platform=False,
    )
    return ended(split, homes, model.weights, ending)


PROTECTS = "a whole task, by a trusted server"

if __name__ == "__main__":
    main(
        pfl.__version__,
        {
            "FedAvg, linear": Method(federated, PROTECTS),
            "FedAvg, then fine-tuned at home": Method(federated, PROTECTS),
        },
    )
