"""Fig. 2: what one anomalous task leaves in the others' models, in one proximal step."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tacit._types import Array
from tacit.errors import PrivacyWarning
from tacit.privacy.noise.perturb import SeededEntropy
from tacit.privacy.published import WishartPublished
from tacit.privacy.schedule import Schedule
from tacit.protocols.model_protected import Moment, moment_bound, moment_rounds
from tacit.protocols.proximal_protected import SharedMap
from tacit.reproduce import Record

__all__ = ["draw_leak", "leak_values"]


def _models(config: dict[str, Any], run: int) -> Array:
    W = np.random.default_rng(run).uniform(size=(config["tasks"], config["features"]))
    W[-1] *= 100
    return W


def _shared(config: dict[str, Any], method: dict[str, Any], run: int) -> Array:
    """Return the models after one step with the method's noise."""
    W = _models(config, run)
    if method["noise"] == "nothing":
        return W
    bound = moment_bound(config["clip"], diagonal=False)
    moment = bound.aggregate(bound(W))
    if method["noise"] == "wishart":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PrivacyWarning)
            printed = WishartPublished(method["epsilon"], config["clip"])
        noisy = printed.release(moment, SeededEntropy(run)).value
        return SharedMap.soft_threshold(noisy, config["threshold"], 0.0)(W)
    rounds = moment_rounds((1.0,), W.shape[1], 1, bound)
    schedule = Schedule.calibrate(rounds, epsilon=method["epsilon"], delta=config["delta"])
    (sound,) = schedule.mechanisms
    release = sound.release(moment, SeededEntropy(run)).value
    shape = Moment().plus(release, sound, n_tasks=len(W), trace=None).shape
    return W if shape is None or shape.flat else SharedMap.of_shape(shape, 0.005)(W)


def leak_values(config: dict[str, Any], method: dict[str, Any], run: int) -> dict[str, float]:
    """Return the normalised model matrix by entry, and how like the anomaly the others became.

    *closer*: the share of the way from their own direction to the anomaly's that the others moved,
    by 1 − cosine.
    """
    own, after = (_units(W) for W in (_models(config, run), _shared(config, method, run)))
    far, now = (1 - float(np.mean(U[:-1] @ own[-1])) for U in (own, after))
    entries = {f"{j + 1},{i + 1}": after[i, j] for i, j in np.ndindex(after.shape)}
    return {"closer": 1 - now / far, **entries}


def _units(W: Array) -> Array:
    return W / np.maximum(np.linalg.norm(W, axis=1, keepdims=True), 1e-300)


def draw_leak(config: dict[str, Any], record: Record, path: Path) -> None:
    """Draw the normalised model matrices of the first run as heat maps."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    panel, names = config["panel"][0]["name"], [method["name"] for method in config["method"]]
    figure, axes = plt.subplots(
        1, len(names), figsize=(3.4 * len(names), 2.5), layout="constrained"
    )
    for axis, name in zip(axes, names, strict=True):
        matrix = np.array(
            [
                [record.of(panel, name, f"{j + 1},{i + 1}")[0] for i in range(config["tasks"])]
                for j in range(config["features"])
            ]
        )
        image = axis.imshow(matrix, cmap="viridis", vmin=0, vmax=1, aspect="auto")
        axis.set_xticks(range(0, config["tasks"], 3), range(1, config["tasks"] + 1, 3))
        axis.set_yticks(range(config["features"]), range(1, config["features"] + 1))
        axis.set_title(f"{name}\ncloser {record.of(panel, name, 'closer').mean():.2f}", fontsize=8)
        axis.set_xlabel("task")
    axes[0].set_ylabel("feature")
    figure.colorbar(image, ax=axes, shrink=0.8)
    figure.suptitle(config["title"], fontsize=10)
    figure.savefig(path, dpi=130)
    plt.close(figure)
