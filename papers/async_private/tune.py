"""Choose steps for the paper's scheme and for the sound one: the best of a grid, on other draws.

    python papers/async_private/tune.py [DATA …]

The objective at the end of a run decides, on a draw that no figure uses. A choice at an
edge of the grid is printed; then the grid is too short.
"""

from __future__ import annotations

import json
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np

from tacit.errors import PrivacyWarning

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from async_private.experiments import course, load  # noqa: E402 - the folder is no installed package

STEPS = tuple(float(f"{10.0 ** (k / 2):.2g}") for k in range(-8, 5))  # 0.0001 … 100
DRAWS = (100,)


def main(names: list[str]) -> None:
    """Tune every scheme of every file, or of those named, and write tuned.json."""
    warnings.simplefilter("ignore", PrivacyWarning)
    for file in sorted(HERE.glob("*.toml")):
        config = tomllib.loads(file.read_text(encoding="utf-8"))
        data = config["panel"][0]["data"]
        if names and data not in names:
            continue
        for method in config["method"]:
            if method["scheme"] in ("printed", "sound"):
                chosen = _best(config, data, method["scheme"], float(method["epsilon"]))
                _keep(method["scheme"], data, f"{method['epsilon']:g}", chosen)
                print(data, method["name"], chosen, flush=True)


def _keep(scheme: str, data: str, level: str, chosen: dict) -> None:
    path = HERE / "tuned.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    found.setdefault(scheme, {}).setdefault(data, {})[level] = chosen
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _best(config: dict, data: str, scheme: str, epsilon: float) -> dict:
    """Walk from the middle of the grid downhill; neighbours of the choice are always measured."""
    measured: dict[int, float] = {}

    def score(place: int) -> float:
        if place not in measured:
            options = {**config["options"], "step": STEPS[place]}
            ends = [
                course(
                    load(data, draw),
                    scheme,
                    epsilon,
                    turns=config["turns"],
                    options=options,
                    seed=draw,
                ).objective[-1]
                for draw in DRAWS
            ]
            measured[place] = float(np.nan_to_num(np.mean(ends), nan=np.inf))
        return measured[place]

    place = len(STEPS) // 2
    while True:
        near = [other for other in (place - 1, place, place + 1) if 0 <= other < len(STEPS)]
        best = min(near, key=score)
        if best == place:
            break
        place = best
    # The shortest step is no edge: in so few turns it learns nothing, and shorter ones less.
    edges = ["step"] if place == len(STEPS) - 1 else []
    return {"step": STEPS[place], "objective": round(score(place), 4), "edges": edges}


if __name__ == "__main__":
    main(sys.argv[1:])
