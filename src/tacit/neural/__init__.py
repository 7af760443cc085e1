"""Neural personal models on JAX: estimators, cohort training, fine-tuning.

Needs the extra ``neural`` (``pip install 'tacit[neural]'``). A model is a pair of pure functions,
``init(key)`` and ``apply(params, x)``, with any pytree of float32 arrays as parameters, so Flax,
Haiku and Equinox models fit as they are. The estimators are imported on first use: whoever trains
cohorts alone needs no scikit-learn.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

try:
    import jax as _jax  # noqa: F401
    import optax as _optax  # noqa: F401
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        f"tacit.neural needs {missing.name!r}; install it with: pip install 'tacit[neural]'",
        name=missing.name,
    ) from missing

from tacit.neural.cohort import LocalTraining, Turn, train_cohort
from tacit.neural.finetune import fine_tune
from tacit.neural.losses import cross_entropy, squared_error
from tacit.neural.models import Model, image_cnn, mlp, multinomial_logistic, sensor_cnn
from tacit.neural.protocol import CohortProtocol, Ending
from tacit.neural.pulls import ElasticWeights, NoPull, Pull, Quadratic, SymmetrisedKL
from tacit.neural.radius import FixedRadius, QuantileRadius
from tacit.neural.relations import Relations
from tacit.neural.rows import StackedRows

if TYPE_CHECKING:
    from tacit.neural.curves import (
        AverageLosses,
        OwnLosses,
        PublicLosses,
        own_losses,
        public_losses,
    )
    from tacit.neural.estimators import (
        NeuralMeanRegularizedClassifier,
        NeuralMeanRegularizedRegressor,
        PrivateFedAvgClassifier,
        PrivateFedAvgRegressor,
        PrivateFedProxClassifier,
        PrivateFedProxRegressor,
    )

_CURVES = ("AverageLosses", "OwnLosses", "PublicLosses", "own_losses", "public_losses")

__all__ = [
    "AverageLosses",
    "CohortProtocol",
    "ElasticWeights",
    "Ending",
    "FixedRadius",
    "LocalTraining",
    "Model",
    "NeuralMeanRegularizedClassifier",
    "NeuralMeanRegularizedRegressor",
    "NoPull",
    "OwnLosses",
    "PrivateFedAvgClassifier",
    "PrivateFedAvgRegressor",
    "PrivateFedProxClassifier",
    "PrivateFedProxRegressor",
    "PublicLosses",
    "Pull",
    "Quadratic",
    "QuantileRadius",
    "Relations",
    "StackedRows",
    "SymmetrisedKL",
    "Turn",
    "cross_entropy",
    "fine_tune",
    "image_cnn",
    "mlp",
    "multinomial_logistic",
    "own_losses",
    "public_losses",
    "sensor_cnn",
    "squared_error",
    "train_cohort",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        place = "curves" if name in _CURVES else "estimators"
        return getattr(importlib.import_module(f"tacit.neural.{place}"), name)
    raise AttributeError(f"module 'tacit.neural' has no attribute {name!r}")
