"""Neural personal models on JAX: estimators, cohort training, fine-tuning.

Needs the extra ``neural`` (``pip install 'tacit[neural]'``). A model is a pair of pure functions,
``init(key)`` and ``apply(params, x)``, with any pytree of float32 arrays as parameters, so Flax,
Haiku and Equinox models fit as they are. Estimators and the conversation are imported on first use:
whoever trains cohorts alone needs no scikit-learn, Optax or SciPy in memory.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if _missing := [name for name in ("jax", "optax") if importlib.util.find_spec(name) is None]:
    raise ModuleNotFoundError(
        f"tacit.neural needs {_missing[0]!r}; install it with: pip install 'tacit[neural]'",
        name=_missing[0],
    )

from tacit.neural.cohort import LocalTraining, Turn, train_cohort
from tacit.neural.finetune import fine_tune
from tacit.neural.losses import cross_entropy, squared_error
from tacit.neural.models import Model, image_cnn, mlp, multinomial_logistic, sensor_cnn
from tacit.neural.pulls import ElasticWeights, NoPull, Pull, Quadratic, SymmetrisedKL
from tacit.neural.radius import FixedRadius, QuantileRadius
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
    from tacit.neural.protocol import CohortProtocol, Ending
    from tacit.neural.relations import Relations

_PLACES = {
    "curves": ("AverageLosses", "OwnLosses", "PublicLosses", "own_losses", "public_losses"),
    "protocol": ("CohortProtocol", "Ending"),
    "relations": ("Relations",),
}

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
        place = next((place for place in _PLACES if name in _PLACES[place]), "estimators")
        return getattr(importlib.import_module(f"tacit.neural.{place}"), name)
    raise AttributeError(f"module 'tacit.neural' has no attribute {name!r}")
