"""Parameters as one flat vector, which is what is bounded, released, kept and saved."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np

from tacit._types import AnyArray
from tacit.neural.models import Model

__all__ = ["Layout", "layout_of"]


@dataclass(frozen=True)
class Layout:
    """Where each part of a model's parameters stands in the flat vector."""

    structure: Any
    shapes: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(math.prod(shape) for shape in self.shapes)

    def tree(self, flat: AnyArray) -> Any:
        """Return the parameters (…, P) as a pytree of views (…, *shape)."""
        leaves, start = [], 0
        for shape in self.shapes:
            stop = start + math.prod(shape)
            leaves.append(flat[..., start:stop].reshape(*flat.shape[:-1], *shape))
            start = stop
        return jax.tree.unflatten(self.structure, leaves)

    def write(self, stack: AnyArray, where: Any, tree: Any) -> None:
        """Put the models of a pytree (b, *shape) into the rows ``where`` of ``stack`` (m, P)."""
        start = 0
        for leaf, shape in zip(jax.tree.leaves(tree), self.shapes, strict=True):
            stop = start + math.prod(shape)
            stack[where, start:stop] = np.asarray(leaf).reshape(len(leaf), -1)
            start = stop

    def flat(self, tree: Any) -> AnyArray:
        """Return the parameters of one model as a vector."""
        parts = [np.ravel(np.asarray(leaf, dtype=np.float32)) for leaf in jax.tree.leaves(tree)]
        return np.concatenate(parts)


@cache
def layout_of(model: Model) -> Layout:
    """Return the layout of a model's parameters."""
    shapes = jax.eval_shape(model.init, jax.random.key(0))
    leaves, structure = jax.tree.flatten(shapes)
    return Layout(structure, tuple(tuple(leaf.shape) for leaf in leaves))
