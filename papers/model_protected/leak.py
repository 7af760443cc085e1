"""Fig. 2: what one anomalous task leaves in the others' models, in one proximal step."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from tacit.errors import PrivacyWarning
from tacit.privacy.noise.perturb import SeededEntropy
from tacit.privacy.published import WishartPublished
from tacit.privacy.schedule import Schedule
from tacit.protocols.model_protected import Moment, moment_bound, moment_rounds
from tacit.protocols.proximal_protected import SharedMap

__all__ = ["leak_rows"]


def _models(config: dict[str, Any]) -> np.ndarray:
    W = np.random.default_rng(config["seed"]).uniform(size=(config["tasks"], config["features"]))
    W[-1] *= 100
    return W


def _resemblance(W: np.ndarray) -> np.ndarray:
    """Return each other task's cosine with the anomalous one."""
    units = W / np.maximum(np.linalg.norm(W, axis=1, keepdims=True), 1e-300)
    return units[:-1] @ units[-1]


def leak_rows(config: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the cosines before sharing, with nothing, printed and sound noise on the moment."""
    W, clip, threshold = _models(config), config["clip"], config["threshold"]
    bound = moment_bound(clip, diagonal=False)
    moment = bound.aggregate(bound(W))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        printed = WishartPublished(config["epsilon"], clip)
    noisy = printed.release(moment, SeededEntropy(config["seed"])).value
    rounds = moment_rounds((1.0,), W.shape[1], 1, bound)
    schedule = Schedule.calibrate(rounds, epsilon=config["epsilon"], delta=config["delta"])
    (sound,) = schedule.mechanisms
    release = sound.release(moment, SeededEntropy(config["seed"])).value
    shape = Moment().plus(release, sound, n_tasks=len(W), trace=None).shape
    own = W if shape is None or shape.flat else SharedMap.of_shape(shape, 0.005)(W)
    outputs = {
        "before sharing": W,
        "no noise (leaks)": SharedMap.soft_threshold(moment, threshold, 0.0)(W),
        f"printed Wishart, ε = {config['epsilon']:g} (leaks)": SharedMap.soft_threshold(
            noisy, threshold, 0.0
        )(W),
        f"sound Gaussian, ε = {config['epsilon']:g}": own,
    }
    return {name: np.clip(_resemblance(value), 0, math.inf) for name, value in outputs.items()}
