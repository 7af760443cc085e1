"""What peers are given in benchmarks/peers.py: fair settings, and steps that are what they say."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

SIDES = Path(__file__).parents[2] / "benchmarks" / "peers_sides"
if not SIDES.exists():
    pytest.skip("an installed wheel has no benchmarks", allow_module_level=True)


@pytest.fixture(scope="module")
def side():
    spec = importlib.util.spec_from_file_location("peers_side", SIDES / "side.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["peers_side"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["peers_side"]


def test_no_setting_lies_at_its_grids_edge():
    kept = json.loads((SIDES / "tuned.json").read_text(encoding="utf-8"))
    assert kept
    for peer, methods in kept.items():
        for method, levels in methods.items():
            for level, found in levels.items():
                assert not found["edges"], f"{peer}, {method}, ε = {level}: extend its grid"


def test_steps_at_home_are_gradient_steps(side):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(9, 12))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y, centre, start = rng.normal(size=9), rng.normal(size=12), rng.normal(size=12)
    expected = start.copy()
    for _ in range(17):
        expected -= X.T @ (X @ expected - y) / 9 + 0.3 * (expected - centre)
    assert side.Home(X, y).stepped(start, 17, centre, 0.3) == pytest.approx(expected)


def test_the_walk_finds_the_best_of_a_bent_valley_and_tells_an_edge(side):
    class Toy(side.Method):
        def errors(self, splits, epsilon, choice):
            a, b = choice["a"], choice["b"]
            return [1 + (a - b) ** 2 + 0.1 * (a + b - epsilon) ** 2]

    grid = {"a": range(2, 12), "b": range(2, 12)}
    found = Toy(None, "", grid, reach=2).tuned([], 8.0)
    assert found["best"] == {"a": 4, "b": 4}
    assert found["edges"] == []
    assert Toy(None, "", grid, reach=1).tuned([], 8.0)["best"] != found["best"]
    assert Toy(None, "", grid, reach=2).tuned([], 40.0)["edges"] == ["a", "b"]
