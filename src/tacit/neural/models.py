"""Models as pairs of pure functions; four ready ones.

``init(key)`` returns a pytree of float32 arrays, ``apply(params, x)`` the outputs (n, k) of a
minibatch x (n, …). Anything of that form can be trained:

- Flax: ``Model(lambda key: net.init(key, x0), net.apply)``;
- Haiku: ``net = hk.without_apply_rng(hk.transform(f))``, then as Flax;
- Equinox: ``params, rest = eqx.partition(net, eqx.is_inexact_array)`` and
  ``Model(lambda key: params, lambda p, x: jax.vmap(eqx.combine(p, rest))(x))``.

Ready models of equal sizes are one object, so that fitting again compiles nothing again.
``apply`` must treat the rows of a minibatch independently: the last minibatch of an epoch is
padded with rows of weight zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp

from tacit._check import positive_integer
from tacit.errors import InvalidInput
from tacit.neural._layers import dense, halved, initial, lines_first, rows_first
from tacit.neural._memory import give_back

__all__ = ["Model", "image_cnn", "mlp", "multinomial_logistic", "sensor_cnn"]

_LANES = 16


def _same(params: Any) -> Any:
    return params


@dataclass(frozen=True)
class Model:
    """A model as two pure functions.

    ``widen`` and ``narrow`` say in which form its parameters are trained, if another one is faster:
    ``apply`` takes both, ``narrow(widen(params))`` is ``params``, and what is added has no effect
    and no gradient. ``linear`` says that outputs are linear in the parameters, in the rows' numbers
    and a constant, and zero at first: every task then minimises its objective instead of taking
    small steps, and averages of models are models. ``affine(params, shift, scale)``, if there is
    one, returns the parameters that say of x (n, d) what ``params`` say of (x − shift) / scale.
    ``softmax`` says that parameters are ``weight`` (d, k) and ``bias`` (k,), and outputs x W + b.
    """

    init: Callable[[Any], Any]
    apply: Callable[[Any, Any], Any]
    widen: Callable[[Any], Any] = _same
    narrow: Callable[[Any], Any] = _same
    linear: bool = False
    affine: Callable[[Any, Any, Any], Any] | None = None
    softmax: bool = False

    def opening(self, seed: int = 0) -> Any:
        """Return the parameters everybody starts from, a public constant of ``seed``."""
        params = jax.block_until_ready(jax.jit(self.init)(jax.random.key(seed)))
        give_back()
        for path, leaf in jax.tree_util.tree_leaves_with_path(params):
            if leaf.dtype != jnp.float32:
                name = jax.tree_util.keystr(path)
                raise InvalidInput(
                    f"model: parameter {name} has dtype {leaf.dtype}; every one must be float32, "
                    "so keep counters and keys out of init"
                )
        return params


def _checked(**sizes: int) -> None:
    for name, size in sizes.items():
        positive_integer(name, size, remedy="give the number the data have")


def _flat(x: Any) -> Any:
    return x.reshape(x.shape[0], -1)


@cache
def multinomial_logistic(n_features: int, n_outputs: int) -> Model:
    """Return the linear model (softmax regression, with `cross_entropy`), zero at first."""
    _checked(n_features=n_features, n_outputs=n_outputs)

    def init(key: Any) -> Any:  # noqa: ARG001
        weight = jnp.zeros((n_features, n_outputs), jnp.float32)
        return {"weight": weight, "bias": jnp.zeros(n_outputs, jnp.float32)}

    def apply(params: Any, x: Any) -> Any:
        return dense(params, _flat(x), data=True)[:, :n_outputs]

    # A product whose width is no multiple of the vector registers takes nearly twice as long.
    lanes = -n_outputs % _LANES if 2 * n_outputs >= _LANES else 0

    def widen(params: Any) -> Any:
        def filled(leaf: Any) -> Any:
            return jnp.pad(leaf, [(0, 0)] * (leaf.ndim - 1) + [(0, lanes)])

        return jax.tree.map(filled, params)

    def narrow(params: Any) -> Any:
        return jax.tree.map(lambda leaf: leaf[..., :n_outputs], params)

    def affine(params: Any, shift: Any, scale: Any) -> Any:
        weight = params["weight"] / scale
        return {"weight": weight, "bias": params["bias"] - shift @ weight}

    forms = (widen, narrow) if lanes else (_same, _same)
    return Model(init, apply, *forms, linear=True, affine=affine, softmax=True)


def mlp(n_features: int, n_outputs: int, hidden: Sequence[int] = (128,)) -> Model:
    """Return dense layers of the ``hidden`` widths with rectifiers between them."""
    widths = (n_features, *hidden, n_outputs)
    for width in widths:
        positive_integer("width", width, remedy="n_features, hidden and n_outputs count units")
    return _mlp(widths)


@cache
def _mlp(widths: tuple[int, ...]) -> Model:

    def init(key: Any) -> Any:
        keys = jax.random.split(key, len(widths) - 1)
        pairs = zip(keys, widths[:-1], widths[1:], strict=True)
        return [initial(k, inputs, outputs) for k, inputs, outputs in pairs]

    def apply(params: Any, x: Any) -> Any:
        x = dense(params[0], _flat(x), data=True)
        for layer in params[1:]:
            x = dense(layer, jax.nn.relu(x))
        return x

    return Model(init, apply)


@cache
def _convolutional(
    shape: tuple[int, ...], kernel: int, channels: tuple[int, int], hidden: int, n_outputs: int
) -> Model:
    """Return two convolutions, each halved by maximum pooling, and two dense layers."""
    *extent, inputs = shape
    width = (kernel,) * len(extent)
    first, second = channels
    positions = 1
    for length in extent:
        positions *= length // 4

    def init(key: Any) -> Any:
        a, b, c, d = jax.random.split(key, 4)
        return {
            "conv1": initial(a, *width, inputs, first),
            "conv2": initial(b, *width, first, second),
            "dense1": initial(c, positions * second, hidden),
            "dense2": initial(d, hidden, n_outputs),
        }

    def apply(params: Any, x: Any) -> Any:
        x = lines_first(x.reshape(-1, *shape))
        for name in ("conv1", "conv2"):
            # Bias and rectifier are monotone: after the maximum they see a quarter of the numbers.
            x = jax.nn.relu(halved(params[name], x) + params[name]["bias"])
        x = jax.nn.relu(dense(params["dense1"], rows_first(x)))
        return dense(params["dense2"], x)

    return Model(init, apply)


def image_cnn(n_outputs: int, size: int = 28, n_channels: int = 1) -> Model:
    """Return the two-convolution network of the federated literature (5×5, 32 and 64, dense 512).

    Images are (size, size, n_channels), or flat rows of as many numbers.
    """
    _checked(n_outputs=n_outputs, n_channels=n_channels)
    if positive_integer("size", size, remedy="images are square") < 4:
        raise InvalidInput(f"size={size}: must be at least 4, since it is halved twice")
    return _convolutional((size, size, n_channels), 5, (32, 64), 512, n_outputs)


def sensor_cnn(n_outputs: int, length: int, n_channels: int = 1) -> Model:
    """Return a small one-dimensional network (5 wide, 16 and 32, dense 64) for sensor windows.

    Windows are (length, n_channels), or flat rows of as many numbers, time first.
    """
    _checked(n_outputs=n_outputs, n_channels=n_channels)
    if positive_integer("length", length, remedy="samples in a window") < 4:
        raise InvalidInput(f"length={length}: must be at least 4, since it is halved twice")
    return _convolutional((length, n_channels), 5, (16, 32), 64, n_outputs)
