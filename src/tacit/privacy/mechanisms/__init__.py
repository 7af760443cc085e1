"""Mechanisms: the noise that turns a bounded aggregate into a release.

``noise_multiplier`` means, everywhere, standard deviation ÷ sensitivity *under the adjacency the
sensitivity was asked for*. Under replace-one the sum of messages clipped to K has sensitivity 2K;
no accountant doubles it for you.

*Central* noise: the curator calls ``release`` on the aggregate of all bounded messages. *Local*
noise, where the curator is not trusted: ``release`` is called on the stack (m, …) of bounded
messages, or by every task on its own row; entries get independent noise, and the sensitivity is
that of one row's change (the same 2K or K). `GammaVector` needs ``local=True`` for a stack.

Diagonal second moments are vectors: `Gaussian` with ℓ2, or `Laplace` with ℓ1, sensitivity.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import MappingProxyType
from typing import Any

from tacit.errors import InvalidInput
from tacit.privacy.mechanisms.distributed import (
    DistributedGaussian,
    DistributedSymmetricGaussian,
    Shares,
)
from tacit.privacy.mechanisms.matrices import SymmetricGaussian, TwoSidedWishart
from tacit.privacy.mechanisms.release import Mechanism, Release
from tacit.privacy.mechanisms.sampled import FixedSizeGaussian, PoissonGaussian
from tacit.privacy.mechanisms.vectors import (
    AdditiveMechanism,
    Exact,
    GammaVector,
    Gaussian,
    Laplace,
)

__all__ = [
    "MECHANISMS",
    "AdditiveMechanism",
    "DistributedGaussian",
    "DistributedSymmetricGaussian",
    "Exact",
    "FixedSizeGaussian",
    "GammaVector",
    "Gaussian",
    "Laplace",
    "Mechanism",
    "PoissonGaussian",
    "Release",
    "Shares",
    "SymmetricGaussian",
    "TwoSidedWishart",
    "mechanism",
]


def _found() -> dict[str, type[Mechanism]]:
    """Import every file of this package and return its mechanisms by name, sorted."""
    kinds: dict[str, type[Mechanism]] = {}
    for part in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{part.name}")
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, Mechanism) and "name" in vars(kind):
                kinds[kind.name] = kind
    return dict(sorted(kinds.items()))


MECHANISMS: MappingProxyType[str, type[Mechanism]] = MappingProxyType(_found())


def mechanism(name: str, **parameters: Any) -> Mechanism:
    """Return the mechanism of that name.

    Guarantee: every name in `MECHANISMS` is sound. A published mechanism that leaks answers only to
    its full name, which ends in "-published", warns with `PrivacyWarning`, and marks its releases
    ``sound=False``.
    """
    kind = MECHANISMS.get(name)
    if kind is None and isinstance(name, str) and name.endswith("-published"):
        from tacit.privacy.published import PUBLISHED

        kind = PUBLISHED.get(name)
    if kind is None:
        raise InvalidInput(f"mechanism={name!r}: must be one of {', '.join(sorted(MECHANISMS))}")
    try:
        return kind(**parameters)
    except TypeError as error:
        raise InvalidInput(f"mechanism={name!r}: {error}") from None
