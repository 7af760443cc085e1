"""FedJAX: its for_each_client with the steps of its own federated averaging, clip and noise."""

from __future__ import annotations

from setting import BATCH, CLASSES, CLIP, COHORT, MODEL, NOISE, RATE, Gate, cohorts, data

X, y = data()

import fedjax  # noqa: E402
import haiku as hk  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from fedjax.algorithms.fed_avg import create_train_for_each_client  # noqa: E402


def forward(batch):
    x = batch["x"]
    if MODEL == "logistic":
        return hk.Linear(CLASSES)(x)
    return hk.Sequential(
        [
            hk.Reshape((28, 28, 1)),
            hk.Conv2D(32, 5),
            jax.nn.relu,
            hk.MaxPool(2, 2, "VALID"),
            hk.Conv2D(64, 5),
            jax.nn.relu,
            hk.MaxPool(2, 2, "VALID"),
            hk.Flatten(),
            hk.Linear(512),
            jax.nn.relu,
            hk.Linear(CLASSES),
        ]
    )(x)


network = hk.without_apply_rng(hk.transform(forward))
model = fedjax.create_model_from_haiku(
    hk.transform(forward),
    sample_batch={"x": X[0, :BATCH], "y": y[0, :BATCH]},
    train_loss=lambda batch, outputs: fedjax.metrics.unreduced_cross_entropy_loss(
        batch["y"], outputs
    ),
)
train_clients = create_train_for_each_client(fedjax.model_grad(model), fedjax.optimizers.sgd(RATE))
clients = [fedjax.ClientDataset({"x": X[i], "y": y[i].astype("int32")}) for i in range(len(X))]
options = fedjax.ShuffleRepeatBatchHParams(batch_size=BATCH, num_epochs=1)


@jax.jit
def add_clipped(total, delta):
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(delta)))
    scale = jnp.minimum(1.0, CLIP / norm)
    return jax.tree.map(lambda t, d: t + scale * d, total, delta)


@jax.jit
def moved(params, total, key):
    leaves, form = jax.tree.flatten(total)
    keys = jax.random.split(key, len(leaves))
    noisy = [
        leaf + NOISE * CLIP * jax.random.normal(k, leaf.shape)
        for leaf, k in zip(leaves, keys, strict=True)
    ]
    return jax.tree.map(lambda p, t: p - t / COHORT, params, jax.tree.unflatten(form, noisy))


params = model.init(jax.random.PRNGKey(0))
gate, chosen, key = Gate(), cohorts(), jax.random.PRNGKey(1)
while gate():
    key, noise_key, *client_keys = jax.random.split(key, COHORT + 2)
    asked = [
        (client, clients[client].shuffle_repeat_batch(options), client_key)
        for client, client_key in zip(next(chosen), client_keys, strict=True)
    ]
    total = jax.tree.map(jnp.zeros_like, params)
    for _, delta in train_clients(params, asked):
        total = add_clipped(total, delta)
    params = jax.block_until_ready(moved(params, total, noise_key))
