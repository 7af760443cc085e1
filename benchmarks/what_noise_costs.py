"""What the noise of each round costs: the hierarchical prior with some of its rounds noiseless.

``python benchmarks/what_noise_costs.py`` learns the shared prior on generated tasks, as
`how_many_tasks` draws them, with the noise that ε asks for, and again with rounds whose noise is
left out: oracles that are no private methods. A cell is the test error over that of posterior means
under the true prior, mean of ``--repeats`` draws. What is left in the last line is the cost of
learning the prior from so many tasks at all.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np

from how_many_tasks import RELATIONS, draw, oracle
from tacit.estimators._private import default_delta
from tacit.losses import SquaredLoss
from tacit.privacy.accounting.gaussian import gaussian_mu
from tacit.privacy.noise.entropy import SeededEntropy
from tacit.privacy.schedule import Schedule, in_turn
from tacit.protocols.hierarchical import HierarchicalProtocol, Loudness

FRAME = ("scale", "magnitude", "centre", "length")
SILENT: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "frame": FRAME,
    "mean": ("scores",),
    "shape": ("moment",),
    "strengths": ("evidence",),
    "everything": (*FRAME, "scores", "moment", "evidence"),
}


def error(data: Any, epsilon: float, silent: tuple[str, ...], seed: int) -> float:
    """Return the test error of the shared prior whose ``silent`` rounds have no noise."""
    train, test = data.train, data.test
    m, delta = train.n_tasks, default_delta(train.n_tasks)
    loudness = Loudness(2 / (gaussian_mu(epsilon, delta) * m))
    protocol = HierarchicalProtocol(SquaredLoss(), m, train.n_features, loudness=loudness)
    rounds, entropy = protocol.rounds(), SeededEntropy(seed)
    schedule = Schedule.calibrate(rounds, epsilon=epsilon, delta=delta)
    public, home = protocol.opening(), protocol.start(train, np.arange(m))
    for call in in_turn(rounds):
        asked = rounds[call.round]
        noise: Any = schedule.mechanisms[call.round]
        home, said = protocol.speak(home, public, call, None)
        if asked.name in silent:
            noise = replace(noise, noise_multiplier=1e-9)
        heard = noise.perturbed(asked.bound.total(said), entropy)
        public = protocol.read(public, heard, call, noise)
    models = protocol.finish(home, public)[test.task_of_row, 0]
    predicted = np.einsum("nd,nd->n", test.X, models[:, :-1]) + models[:, -1]
    return float(np.mean((predicted - np.asarray(test.y)) ** 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--first", type=int, default=1000, help="seed of the first draw")
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.repeats)
    for relation, n_groups in RELATIONS.items():
        draws = [draw(chosen.tasks, n_groups, seed) for seed in seeds]
        print(f"{relation}: {chosen.tasks} tasks, ε = {chosen.epsilon:g}, error ÷ oracle's")
        for name, silent in SILENT.items():
            found = [
                error(data, chosen.epsilon, silent, seed) / oracle(data)
                for data, seed in zip(draws, seeds, strict=True)
            ]
            print(f"  noiseless: {name:12s} {np.mean(found):.3f}", flush=True)


if __name__ == "__main__":
    main()
