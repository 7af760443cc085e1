"""Flower's simulation (Ray), FedAvg with its server-side clipping and noise."""

from __future__ import annotations

import contextlib
import os

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_DISABLE_DOCKER_CPU_WARNING", "1")

from setting import BATCH, CLIENTS, CLIP, COHORT, IMAGES, NOISE, RATE, Gate, data

X, y = data()

import torch  # noqa: E402
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402
from flwr.serverapp import Grid, ServerApp  # noqa: E402
from flwr.serverapp.strategy import (  # noqa: E402
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
)
from flwr.simulation import run_simulation  # noqa: E402
from torch_model import network, train  # noqa: E402

client_app, server_app = ClientApp(), ServerApp()
gate = Gate()


class Finished(Exception):
    """No further round is wanted."""


class Gated(FedAvg):
    """FedAvg that waits before every round."""

    def configure_train(self, *given, **named):
        """Return the round's messages."""
        if not gate():
            raise Finished
        return super().configure_train(*given, **named)


@client_app.train()
def local_epoch(message: Message, context: Context) -> Message:
    torch.set_num_threads(1)
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    client = int(context.node_config["partition-id"])
    train(model, torch.from_numpy(X[client]), torch.from_numpy(y[client]), RATE, BATCH)
    content = RecordDict(
        {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"num-examples": IMAGES}),
        }
    )
    return Message(content=content, reply_to=message)


@server_app.main()
def rounds(grid: Grid, context: Context) -> None:  # noqa: ARG001
    average = Gated(
        fraction_train=COHORT / CLIENTS, fraction_evaluate=0.0, min_available_nodes=CLIENTS
    )
    strategy = DifferentialPrivacyServerSideFixedClipping(average, NOISE, CLIP, COHORT)
    strategy.start(grid, ArrayRecord(network().state_dict()), num_rounds=10**6)


with contextlib.suppress(Exception):  # the end of the run, as the simulation reports it
    run_simulation(
        server_app,
        client_app,
        num_supernodes=CLIENTS,
        backend_config={"client_resources": {"num_cpus": 1}},
    )
