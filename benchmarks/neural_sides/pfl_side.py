"""pfl-research: its simulated backend, federated averaging and central Gaussian mechanism."""

from __future__ import annotations

from setting import BATCH, CLIP, COHORT, NOISE, RATE, Gate, cohorts, data

X, y = data()

import torch  # noqa: E402
from pfl.aggregate.simulate import SimulatedBackend  # noqa: E402
from pfl.algorithm.base import NNAlgorithmParams  # noqa: E402
from pfl.algorithm.federated_averaging import FederatedAveraging  # noqa: E402
from pfl.callback.base import TrainingProcessCallback  # noqa: E402
from pfl.data.dataset import Dataset  # noqa: E402
from pfl.data.federated_dataset import FederatedDataset  # noqa: E402
from pfl.hyperparam.base import NNTrainHyperParams  # noqa: E402
from pfl.metrics import Metrics  # noqa: E402
from pfl.model.pytorch import PyTorchModel  # noqa: E402
from pfl.privacy import CentrallyAppliedPrivacyMechanism, GaussianMechanism  # noqa: E402
from torch_model import network  # noqa: E402

X, y = torch.from_numpy(X), torch.from_numpy(y)


class Classifier(torch.nn.Module):
    """The model with the loss where pfl looks for it."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return outputs."""
        return self.network(x)

    def loss(self, x: torch.Tensor, y: torch.Tensor, eval: bool = False) -> torch.Tensor:  # noqa: A002, ARG002
        """Return the mean loss."""
        return torch.nn.functional.cross_entropy(self(x), y)

    def metrics(self, *rows: torch.Tensor) -> dict:  # noqa: ARG002
        """Return nothing: nothing is evaluated."""
        return {}


class Wait(TrainingProcessCallback):
    """The gate after every round."""

    def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):  # noqa: ARG002
        """Return whether to stop."""
        return not gate(), Metrics()


def members():
    """Yield clients one after the other, cohort by cohort."""
    for cohort in cohorts():
        yield from cohort


chosen = members()
clients = FederatedDataset(
    lambda client: Dataset((X[client], y[client]), user_id=str(client)), lambda: next(chosen)
)
classifier = Classifier()
gate = Gate()
gate()
FederatedAveraging().run(
    algorithm_params=NNAlgorithmParams(
        central_num_iterations=10**6,
        evaluation_frequency=10**9,
        train_cohort_size=COHORT,
        val_cohort_size=None,
    ),
    backend=SimulatedBackend(
        training_data=clients,
        val_data=clients,
        postprocessors=[
            CentrallyAppliedPrivacyMechanism(
                GaussianMechanism(clipping_bound=CLIP, relative_noise_stddev=NOISE)
            )
        ],
    ),
    model=PyTorchModel(
        model=classifier,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(classifier.parameters(), lr=1.0),
    ),
    model_train_params=NNTrainHyperParams(
        local_batch_size=BATCH, local_num_epochs=1, local_learning_rate=RATE
    ),
    callbacks=[Wait()],
    send_metrics_to_platform=False,
)
