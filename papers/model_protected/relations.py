"""Fig. 3: do the learned models and their relationships look like the true ones?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tacit._types import Array
from tacit.datasets import make_low_rank
from tacit.reproduce import Record

from .experiments import load, train

__all__ = ["draw_relations", "relation_values"]


def _learned(
    config: dict[str, Any], panel: dict[str, Any], method: dict[str, Any], run: int
) -> Array:
    """Return the models (m, d) that a method learns, or the true ones."""
    if method.get("true"):
        return np.asarray(make_low_rank(random_state=run).W)
    rows, _ = load(panel["data"], run)
    model = train(method, rows, config["epsilon"], data=panel["data"], kind="Regressor", seed=run)
    return np.asarray(model.coef if hasattr(model, "coef") else model.coef_)


def _cosines(W: Array) -> Array:
    units = W / np.maximum(np.linalg.norm(W, axis=1, keepdims=True), 1e-300)
    return units @ units.T


def relation_values(
    config: dict[str, Any], panel: dict[str, Any], method: dict[str, Any], run: int
) -> dict[str, float]:
    """Return how far two pictures are from the true ones: 1 − correlation, and 1 − mean cosine."""
    true, W = _learned(config, panel, {"true": True}, run), _learned(config, panel, method, run)
    pairs = np.triu_indices(len(W), 1)
    alike = np.corrcoef(_cosines(W)[pairs], _cosines(true)[pairs])[0, 1]
    norms = np.linalg.norm(W, axis=1) * np.linalg.norm(true, axis=1)
    aligned = np.mean(np.einsum("md,md->m", W, true) / np.maximum(norms, 1e-300))
    return {"relationships": float(1 - alike), "models": float(1 - aligned)}


def draw_relations(config: dict[str, Any], record: Record, path: Path) -> None:
    """Draw relationship matrices above model matrices, from the first run."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    panel, methods = config["panel"][0], config["method"]
    figure, axes = plt.subplots(
        2, len(methods), figsize=(3 * len(methods), 5.4), layout="constrained"
    )
    for (above, below), method in zip(axes.T, methods, strict=True):
        W = _learned(config, panel, method, 0)
        far = {
            x: record.of(panel["name"], method["name"], x).mean()
            for x in ("relationships", "models")
        }
        above.imshow(_cosines(W), cmap="RdBu_r", vmin=-1, vmax=1)
        above.set_title(f"{method['name']}\n1 − r = {far['relationships']:.2f}", fontsize=8)
        scaled = W / np.maximum(np.abs(W).max(axis=1, keepdims=True), 1e-300)
        below.imshow(scaled.T, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
        below.set_title(f"1 − cosine = {far['models']:.2f}", fontsize=8)
        below.set_xlabel("task")
    axes[0, 0].set_ylabel("task (relationships)")
    axes[1, 0].set_ylabel("feature (models)")
    figure.suptitle(config["title"], fontsize=10)
    figure.savefig(path, dpi=120)
    plt.close(figure)
