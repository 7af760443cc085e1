"""Fine-tuning after the last release: every task goes on alone.

Free under joint DP: a task reads its own rows and the public centre, and nothing leaves it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np

from tacit._check import non_negative, one_of, positive
from tacit._types import AnyArray, Array
from tacit.neural.cohort import LocalTraining, train_cohort
from tacit.neural.pulls import ElasticWeights, NoPull, Pull, Quadratic, SymmetrisedKL
from tacit.neural.rows import StackedRows

__all__ = ["FINE_TUNING", "fine_tune"]

FINE_TUNING: dict[str, Pull] = {
    "vanilla": NoPull(),
    "mean-regularized": Quadratic(),
    "kl": SymmetrisedKL(),
    "ewc": ElasticWeights(),
}


def fine_tune(
    method: str,
    training: LocalTraining,
    rows: StackedRows,
    *,
    centre: Any,
    models: Any = None,
    keys: AnyArray,
    turn: int,
    strength: float | Array = 1.0,
    learning_rate: float,
) -> Any:
    """Return personal models (m, …) after ``training``'s epochs under the method's own pull.

    Parameters
    ----------
    method : {"vanilla", "mean-regularized", "kl", "ewc"}
        What holds the model near the public centre: nothing, ‖w − c‖², the divergence of the
        predicted classes, or ‖w − c‖² weighted by the Fisher information of the task's own rows.
    models : pytree or None
        Personal models (m, …) to start from; None starts at the centre.
    training, rows, centre, keys, turn, strength, learning_rate
        As in `train_cohort`; the training's own pull is replaced.

    Guarantee: joint DP at no cost. The models are a function of releases that are already public
    and of each task's own rows, key and model; they are given to that task alone.
    """
    one_of("method", method, FINE_TUNING)
    positive("learning_rate", learning_rate, remedy="0.01 to 0.1 is usual")
    for value in np.unique(np.asarray(strength)):
        non_negative("strength", float(value), remedy="0 is no pull")
    m = len(keys)
    if models is None:
        models = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (m, *leaf.shape)), centre)
    tuned = jax.tree.map(lambda leaf: np.empty(leaf.shape, np.float32), models)
    turns = train_cohort(
        replace(training, pull=FINE_TUNING[method]),
        rows,
        np.arange(m),
        centre=centre,
        models=models,
        keys=keys,
        turn=turn,
        strength=strength,
        learning_rate=learning_rate,
    )
    for done in turns:
        for kept, leaf in zip(jax.tree.leaves(tuned), jax.tree.leaves(done.models), strict=True):
            kept[done.positions] = leaf
    return tuned
