"""JAX Privacy on the split: one linear model by DP gradient descent with momentum, with δ.

Its parts are a clipped gradient, a privatizer and an accountant. Clipped are single rows, or a
task's whole gradient, which then protects the task. Every step takes all rows; the step length is
the longest that does not diverge.
"""

from __future__ import annotations

import functools
import importlib.metadata

import jax
import jax.numpy as jnp
import numpy as np
from jax_privacy import accounting, clipping, noise_addition
from side import DELTA, Method, Split, main

ACCOUNTANT = accounting.DpsgdTrainingAccountant(
    dp_accountant_config=accounting.PldAccountantConfig()
)


@functools.cache
def multiplier(epsilon: float, steps: int, units: int) -> float:
    return accounting.calibrate_noise_multiplier(
        target_epsilon=epsilon,
        accountant=ACCOUNTANT,
        batch_sizes=units,
        num_samples=units,
        num_updates=steps,
        target_delta=DELTA,
        tol=1e-3,
    )


def loss(weights: jax.Array, rows: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
    X, y, share = rows
    return jnp.sum(share * (X @ weights - y) ** 2)


@jax.jit
def descended(rows, steps, momentum, clip, deviation, key):
    gradient = clipping.clipped_grad(loss, l2_clip_norm=clip, keep_batch_dim=False)
    privatizer = noise_addition.gaussian_privatizer(stddev=deviation, prng_key=key)
    units, weights = rows[1].shape[0], jnp.zeros(rows[0].shape[-1])

    def step(_, state):
        weights, speed, noise = state
        noised, noise = privatizer.update(gradient(weights, rows), noise)
        speed = momentum * speed + noised / units
        return weights - 0.4 * speed, speed, noise

    start = (weights, jnp.zeros_like(weights), privatizer.init(weights))
    return jax.lax.fori_loop(0, steps, step, start)[0]


def by_rows(split: Split) -> tuple[np.ndarray, ...]:
    X = np.hstack([split.X, np.ones((len(split.y), 1))])
    return X[:, None], split.y[:, None], np.ones((len(split.y), 1))


def by_tasks(split: Split) -> tuple[np.ndarray, ...]:
    members = [np.flatnonzero(split.task == name) for name in split.names]
    most = max(map(len, members))
    X = np.zeros((len(members), most, split.X.shape[1] + 1))
    y, share = np.zeros((2, len(members), most))
    for place, rows in enumerate(members):
        X[place, : len(rows), :-1], X[place, : len(rows), -1] = split.X[rows], 1.0
        y[place, : len(rows)], share[place, : len(rows)] = split.y[rows], 1 / len(rows)
    return X, y, share


def trained(split: Split, epsilon: float, steps: int, momentum: float, clip: float, units):
    rows = tuple(jnp.asarray(part, dtype=jnp.float32) for part in units(split))
    deviation = split.factor * clip * multiplier(epsilon, steps, len(rows[1]))
    weights = descended(rows, steps, momentum, clip, deviation, jax.random.key(split.seed))
    return split.predict(np.asarray(weights, dtype=float))


GRID = {
    "steps": (25, 100, 400, 1600, 6400, 25600),
    "momentum": (0.0, 0.9, 0.97, 0.99, 0.997),
    "clip": (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
}

if __name__ == "__main__":
    rows = Method(functools.partial(trained, units=by_rows), "a row", GRID, reach=2)
    tasks = Method(
        functools.partial(trained, units=by_tasks),
        "a whole task, by a trusted server",
        GRID,
        reach=2,
    )
    version = importlib.metadata.version("jax_privacy")
    main(version, {"linear, all rows, DP-SGD": rows, "linear, a task's gradient clipped": tasks})
