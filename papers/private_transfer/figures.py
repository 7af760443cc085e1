"""What the tables and figures of the transfer paper measure."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from tacit.reproduce import Record, draw_lines

from .centres import transfer_between
from .settings import Transfer, auc, digits, fit

__all__ = ["draw", "split_ratio", "value"]


def _data(panel: dict[str, Any], run: int) -> Transfer:
    if panel["data"] == "mnist":
        return digits(run + panel.get("first_seed", 0))
    return transfer_between(panel["data"], panel["source"], panel["target"], run)


def split_ratio(n_features: int, n_groups: int, share: float, failure: float = 0.05) -> float:
    """Return Proposition 4's ratio of sample complexities for a group of importance ``share``."""
    d, K = n_features, n_groups
    return math.log(d / (K * failure)) / (share * K * math.log(d / failure))


def value(
    config: dict[str, Any], panel: dict[str, Any], method: dict[str, Any], run: int, x: Any
) -> float:
    """Return the test AUC of a method on one draw, or Proposition 4's ratio for K groups."""
    data = _data(panel, run)
    if config["kind"] == "groups":
        if panel["measure"] == "ratio":
            return _ratio(method["name"], data, int(x))
        model = fit(method["name"], data, config["epsilon"], run, n_groups=int(x))
        return auc(model, data.test)
    if config["kind"] == "centres":
        model = fit(method["name"], data, config["epsilon"], run)
        return auc(model, data.test)
    model = fit(method["name"], data, float(x), run, delta=panel.get("delta", 0.0))
    return auc(model, data.test)


def _ratio(method: str, data: Transfer, n_groups: int) -> float:
    """Return the ratio for the most important group (W), or for a random one (R)."""
    d = len(data.importance)
    if method == "FS(R)":
        return split_ratio(d, n_groups, 1 / n_groups)
    size = math.ceil(d / n_groups)
    share = float(np.sort(data.importance)[::-1][:size].sum())
    return split_ratio(d, n_groups, share)


def draw(config: dict[str, Any], record: Record, path: Path) -> None:
    """Draw curves; a table of centres is drawn as bars."""
    if config["kind"] == "centres":
        _draw_centres(config, record, path)
    else:
        draw_lines(config, record, path)


def _draw_centres(config: dict[str, Any], record: Record, path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    panels, methods = config["panel"], [method["name"] for method in config["method"]]
    figure, axis = plt.subplots(figsize=(0.62 * len(panels) + 3, 4.2), layout="constrained")
    width = 0.8 / len(methods)
    for number, name in enumerate(methods):
        found = [record.of(panel["name"], name, "auc") for panel in panels]
        places = np.arange(len(panels)) + (number - (len(methods) - 1) / 2) * width
        axis.bar(
            places,
            [values.mean() for values in found],
            width,
            yerr=[values.std() / math.sqrt(values.size) for values in found],
            label=name,
            error_kw={"lw": 0.6},
        )
    axis.set_xticks(
        range(len(panels)), [p["name"] for p in panels], rotation=60, ha="right", fontsize=7
    )
    axis.set_ylim(0.4, 1.0)
    axis.set_ylabel("test AUC, ± standard error")
    axis.legend(ncols=len(methods), fontsize=8, loc="upper right")
    axis.grid(axis="y", alpha=0.3)
    axis.set_title(config["title"], fontsize=10)
    figure.savefig(path, dpi=130)
    plt.close(figure)
