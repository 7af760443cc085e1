"""What pulls a personal model towards the public centre while it is trained.

A pull adds strength · pull(w) to the task's own mean loss, at every local step. Whatever it uses
beside the centre (importances, outputs) is computed at home from the task's own rows, so that
under joint DP it costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp

__all__ = ["ElasticWeights", "Minibatch", "NoPull", "Pull", "Quadratic", "SymmetrisedKL"]


@dataclass(frozen=True)
class Minibatch:
    """Outputs of one minibatch at the personal model and, on request, at the centre."""

    outputs: Any
    at_centre: Any
    mean: Any


class Pull(Protocol):
    """A penalty on the distance of a personal model from the centre; pure, hashable, traced."""

    @property
    def importance(self) -> bool:
        """Whether the penalty weighs parameters by the task's Fisher information at the centre."""
        ...

    def __call__(self, params: Any, centre: Any, importance: Any, batch: Minibatch) -> Any:
        """Return the penalty at strength 1."""
        ...


def _distance(params: Any, centre: Any, importance: Any = None) -> Any:
    """Return ½ Σ F (w − c)², with F = 1 unless given."""
    squares = jax.tree.map(lambda w, c: (w - c) ** 2, params, centre)
    if importance is not None:
        squares = jax.tree.map(jnp.multiply, importance, squares)
    return 0.5 * sum(jnp.sum(leaf) for leaf in jax.tree.leaves(squares))


@dataclass(frozen=True)
class NoPull:
    """No pull: FedAvg's local training, or vanilla fine-tuning."""

    importance = False

    def __call__(self, params: Any, centre: Any, importance: Any, batch: Minibatch) -> Any:  # noqa: ARG002
        """Return 0."""
        return 0.0


@dataclass(frozen=True)
class Quadratic:
    """½‖w − c‖²: mean regularisation, and FedProx's proximal term."""

    importance = False

    def __call__(self, params: Any, centre: Any, importance: Any, batch: Minibatch) -> Any:  # noqa: ARG002
        """Return half the squared distance."""
        return _distance(params, centre)


@dataclass(frozen=True)
class SymmetrisedKL:
    """½ (KL(p_c ‖ p_w) + KL(p_w ‖ p_c)) of the predicted classes, on the task's own rows."""

    importance = False

    def __call__(self, params: Any, centre: Any, importance: Any, batch: Minibatch) -> Any:  # noqa: ARG002
        """Return the minibatch's mean divergence, which is ½ Σ (p_w − p_c)(log p_w − log p_c)."""
        own = jax.nn.log_softmax(batch.outputs)
        shared = jax.nn.log_softmax(batch.at_centre())
        gap = (jnp.exp(own) - jnp.exp(shared)) * (own - shared)
        return batch.mean(0.5 * jnp.sum(gap, axis=-1))


@dataclass(frozen=True)
class ElasticWeights:
    """½ Σ F (w − c)² with the empirical Fisher information F of the own rows at the centre (EWC).

    Kirkpatrick et al. 2017; for personalisation Yu, Bagdasaryan and Shmatikov 2020.
    """

    importance = True

    def __call__(self, params: Any, centre: Any, importance: Any, batch: Minibatch) -> Any:  # noqa: ARG002
        """Return half the weighted squared distance."""
        return _distance(params, centre, importance)
