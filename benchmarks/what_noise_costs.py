"""What the noise of each round costs: the hierarchical prior with some of its rounds noiseless.

``python benchmarks/what_noise_costs.py`` learns the shared prior on generated tasks, as
`how_many_tasks` draws them, with the noise that ε asks for, and again with rounds whose noise is
left out: oracles that are no private methods. A cell is the test error over that of posterior means
under the true prior, mean of ``--repeats`` draws. What is left in the last line is the cost of
learning the prior from so many tasks at all.

``--data school chem97 landmine low-rank`` does the same on the sets of `accuracy.py`, with their
splits and measures (nMSE, 1 − AUC): "everything" is what the estimator reaches if it is given the
prior that all tasks settle without noise, "all but mean" if noise is on the mean alone. A bar below
the line "everything" no budget can reach.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from accuracy import SETTINGS
from how_many_tasks import RELATIONS, draw, oracle
from tacit.estimators._private import default_delta
from tacit.losses import LogisticLoss, Loss, SquaredLoss
from tacit.numerics.local_fit import local_fit
from tacit.privacy.accounting.gaussian import gaussian_mu
from tacit.privacy.noise.entropy import SeededEntropy
from tacit.privacy.schedule import Schedule, in_turn
from tacit.protocols.hierarchical import HierarchicalProtocol, Loudness
from tacit.tasks import TaskSet

FRAME = ("scale", "magnitude", "level", "centre", "length")
SILENT: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "frame": FRAME,
    "mean": ("scores",),
    "shape": ("moment",),
    "strengths": ("evidence",),
    "all but mean": (*FRAME, "moment", "evidence"),
    "all but shape": (*FRAME, "scores", "evidence"),
    "everything": (*FRAME, "scores", "moment", "evidence"),
}


def learned(
    train: TaskSet,
    epsilon: float,
    silent: tuple[str, ...],
    seed: int,
    *,
    loss: Loss | None = None,
    delta: float | str = "auto",
    intercept: bool = True,
) -> Any:
    """Return models (m, d + 1) under the shared prior whose ``silent`` rounds have no noise."""
    m = train.n_tasks
    delta = default_delta(m) if isinstance(delta, str) else delta
    loudness = Loudness(2 / (gaussian_mu(epsilon, delta) * m))
    protocol = HierarchicalProtocol(
        loss or SquaredLoss(), m, train.n_features, loudness=loudness, fit_intercept=intercept
    )
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
    return protocol.finish(home, public)[:, 0]


@dataclass(frozen=True)
class Linear:
    """Models of tasks, as `accuracy.Setting.score` asks for them."""

    models: Any

    def decision_function(self, X: Any, tasks: Any) -> Any:
        """Return every row's prediction by its task's model."""
        models = self.models[tasks]
        return np.einsum("nd,nd->n", X, models[:, :-1]) + models[:, -1]

    predict = decision_function


def error(data: Any, epsilon: float, silent: tuple[str, ...], seed: int) -> float:
    """Return the test error of the shared prior whose ``silent`` rounds have no noise."""
    test = data.test
    model = Linear(learned(data.train, epsilon, silent, seed))
    return float(np.mean((model.predict(test.X, test.task_of_row) - np.asarray(test.y)) ** 2))


def on_data(name: str, epsilon: float, seeds: range) -> None:
    """Print a data set's errors with some rounds noiseless, and of each task alone."""
    setting = SETTINGS[name]()
    loss = SquaredLoss() if setting.kind == "Regressor" else LogisticLoss()
    measure = "nMSE" if setting.kind == "Regressor" else f"1 - {setting.metric}"
    splits = [setting.split(seed) for seed in seeds]

    def say(label: str, models: list[Any]) -> None:
        scores = [setting.score(Linear(m), s[1]) for m, s in zip(models, splits, strict=True)]
        found = np.array(scores) if measure == "nMSE" else 1 - np.array(scores)
        error = found.std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
        print(f"  {label:24s} {found.mean():.4f} ± {error:.4f}", flush=True)

    print(f"{name}: ε = {epsilon:g}, {measure}, {len(seeds)} draws ± standard error")
    alone = [local_fit(s[0], loss, intercept=setting.fit_intercept) for s in splits]
    say("single-task", [np.column_stack([fit.coef, fit.intercept]) for fit in alone])
    how = {"loss": loss, "delta": setting.delta, "intercept": setting.fit_intercept}
    for label, silent in SILENT.items():
        pairs = zip(splits, seeds, strict=True)
        models = [learned(s[0], epsilon, silent, seed, **how) for s, seed in pairs]
        say(f"noiseless: {label}", models)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--first", type=int, default=1000, help="seed of the first draw")
    parser.add_argument("--data", nargs="+", default=[], choices=list(SETTINGS))
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.repeats)
    for name in chosen.data:
        on_data(name, chosen.epsilon, seeds)
    if chosen.data:
        return
    for relation, n_groups in RELATIONS.items():
        draws = [draw(chosen.tasks, n_groups, seed) for seed in seeds]
        print(f"{relation}: {chosen.tasks} tasks, ε = {chosen.epsilon:g}, error ÷ oracle's")
        for name, silent in SILENT.items():
            found = [
                error(data, chosen.epsilon, silent, seed) / oracle(data)
                for data, seed in zip(draws, seeds, strict=True)
            ]
            print(f"  noiseless: {name:14s} {np.mean(found):.3f}", flush=True)


if __name__ == "__main__":
    main()
