"""Published claims that fail, measured: the numbers of docs/errata.md.

    python benchmarks/errata.py [wishart] [gram] [algorithm5] [cohort] [weights] [asynchronous]
                                [scaling] [simulated] [recovery] [output]

Without names, all of them (a few minutes). Prints one line per measurement and writes
benchmarks/results/errata.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from dp_accounting import dp_event

import tacit
from tacit.audit import audit_mechanism, canary_pairs, replay, replay_estimator
from tacit.audit.errata import asynchronous_sensitivity
from tacit.audit.recovery import recovery as recover
from tacit.losses import SquaredLoss
from tacit.privacy.accounting import epsilon_of
from tacit.privacy.mechanisms import Gaussian
from tacit.privacy.noise.entropy import bernoulli
from tacit.protocols.mean_regularized import MeanRegularizedProtocol
from tacit.tasks import TaskSet

RESULTS = Path(__file__).parent / "results"


def some_tasks(n_tasks: int = 20, d: int = 5) -> TaskSet:
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(n_tasks), rng.integers(8, 16, n_tasks))
    X = rng.standard_normal((len(task), d))
    return TaskSet.from_arrays(X, X @ rng.standard_normal(d), task)


def worst_ratio(estimator: Any, tasks: TaskSet) -> float:
    """Return the largest true over declared sensitivity that the built-in canaries reach."""
    pairs = canary_pairs(tasks)
    return max(replay_estimator(estimator, one.first, one.second).worst for one in pairs)


def wishart() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for d in (5, 30):
        for epsilon in (0.1, 1.0, 3.0):
            pure = audit_mechanism(
                "wishart-published", epsilon=epsilon, n_features=d, random_state=0
            )
            found[f"printed d={d} epsilon={epsilon:g}"] = {
                "delta_lower": pure.delta_lower,
                "epsilon_lower": pure.epsilon_lower,
            }
        near = audit_mechanism(
            "wishart-published", epsilon=1.0, delta=1e-5, n_features=d, random_state=0
        )
        found[f"printed d={d} epsilon=1 delta=1e-5"] = {"epsilon_lower": near.epsilon_lower}
    for d in (2, 5):
        sound = audit_mechanism(
            "two-sided-wishart", epsilon=1.0, n_features=d, n_trials=100_000, random_state=0
        )
        found[f"two-sided d={d} epsilon=1"] = {"epsilon_lower": sound.epsilon_lower}
    return found


def gram() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for m in (2, 10, 100, 1000):
        W = np.zeros((m, 3))
        W[:, 0] = 1.0
        other = W.copy()
        other[0] *= -1.0
        change = other @ other.T - W @ W.T
        trace = float(np.abs(np.linalg.eigvalsh(change)).sum())
        found[f"trace-norm change at m={m}, in units of the printed K^2"] = trace
    found["TaskRelationshipRegressor, true over declared"] = worst_ratio(
        tacit.TaskRelationshipRegressor(), some_tasks()
    )
    return found


def algorithm5() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for epsilon in (0.1, 0.3, 1.0):
        for name in ("algorithm5-noise-published", "gamma-vector"):
            result = audit_mechanism(name, epsilon=epsilon, n_features=2, random_state=0)
            found[f"{name} epsilon={epsilon:g}"] = {"epsilon_lower": result.epsilon_lower}
    rng = np.random.default_rng(0)
    noised = [rng.standard_normal((2, 30)) + np.eye(30)[:2] for _ in range(1000)]
    moved = [np.linalg.norm(np.outer(a, a) - np.outer(b, b)) / np.sqrt(2) for a, b in noised]
    found["moment without a second clip, median change over sqrt(2) K^2"] = float(np.median(moved))
    both = tacit.LowRankRegressor(epsilon_rows=1.0, target_bound=5.0)
    found["LowRankRegressor(epsilon_rows=1), true over declared"] = worst_ratio(both, some_tasks())
    return found


class SeenCohort(Gaussian):
    """A tenth of the units is drawn; the others know whether this one was (last entry)."""

    @property
    def event(self) -> Any:
        """What is claimed: amplification by Poisson sampling."""
        return dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(self.noise_multiplier))

    def perturbed(self, value: Any, entropy: Any) -> Any:
        """Return releases of a stack, each with its own draw."""
        joined = bernoulli(0.1, len(value), entropy)
        released = super().perturbed(value * joined[:, None], entropy)
        released[:, -1] = joined
        return released


def cohort() -> dict[str, Any]:
    target, delta = SeenCohort(1.0, 1.0), 1e-3
    claimed = epsilon_of(target.event, delta)
    pair = (np.zeros(2), np.array([1.0, 0.0]))
    result = audit_mechanism(
        target, epsilon=claimed, delta=delta, pair=pair, n_trials=200_000, random_state=0
    )
    full = epsilon_of(dp_event.GaussianDpEvent(1.0), delta)
    sound = audit_mechanism(
        "fixed-size-gaussian", epsilon=full, delta=delta, n_features=2, random_state=0
    )
    return {
        "claimed with amplification": claimed,
        "epsilon_lower": result.epsilon_lower,
        "our price (the full Gaussian)": full,
        "epsilon_lower of fixed-size-gaussian": sound.epsilon_lower,
    }


class Weighted(MeanRegularizedProtocol):
    """Weights messages by the number of rows, as public code does."""

    def aggregate(self, messages: Any) -> Any:
        """Return the weighted sum."""
        return np.einsum("m,m...->...", self.weights, messages)  # type: ignore[attr-defined]


def weights() -> dict[str, Any]:
    tasks = some_tasks()
    shares = tasks.counts / tasks.counts.mean()

    def weighted(data: TaskSet) -> Any:
        protocol = Weighted(SquaredLoss(), data.n_tasks, (Gaussian(2.0, 3.0),), clip=1.0)
        object.__setattr__(protocol, "weights", shares)
        return protocol

    largest = int(np.argmax(shares))
    pairs = canary_pairs(tasks, task=largest)
    return {
        "weighted by n_k, true over declared": max(
            replay(weighted, one.first, one.second).worst for one in pairs
        ),
        "MeanRegularizedRegressor, true over declared": worst_ratio(
            tacit.MeanRegularizedRegressor(clip=1.0), tasks
        ),
    }


def asynchronous() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for seed in range(3):
        printed = asynchronous_sensitivity(sound=False, n_steps=1000, seed=seed).ratios[::2]
        sound = asynchronous_sensitivity(sound=True, n_steps=1000, seed=seed).ratios
        found[f"data {seed}"] = {
            "printed, true over claimed": {k: printed[k - 1] for k in (1, 10, 100, 1000)},
            "one release a step": {k: sound[k - 1] for k in (1, 10, 100, 1000)},
        }
    return found


def scaling() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 5))
    longer = X.copy()
    longer[0] *= 100.0
    scaled = [rows / np.linalg.norm(rows, axis=1).max() for rows in (X, longer)]
    moved = np.linalg.norm(scaled[1] - scaled[0], axis=1).sum()
    return {"sum of row changes over the declared 2 (200 rows, one made longer)": float(moved / 2)}


def simulated() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for epsilon in (0.1, 1.0):
        for pair in (
            "rows alike against one that differs",
            "rows that differ against one further out",
            "rows that differ against one of another loss",
        ):
            result = audit_mechanism(
                "simulated-sensitivity-laplace-published",
                epsilon=epsilon,
                pair=pair,
                n_trials=20_000,
                random_state=0,
            )
            found[f"epsilon={epsilon:g}, {pair}"] = {
                "epsilon_lower": result.epsilon_lower,
                "delta_lower": result.delta_lower,
            }
    return found


def recovery() -> dict[str, Any]:
    """Rows of a node recovered from gradients at chosen models (60 rows, 10 features)."""
    return {
        "no noise": [recover(protected=False, seed=seed).share for seed in range(5)],
        "sound, epsilon=1 a question": [recover(protected=True, seed=s).share for s in range(5)],
        "sound, epsilon=10 a question": [
            recover(protected=True, epsilon=10.0, seed=seed).share for seed in range(5)
        ],
    }


def output(n_draws: int = 16) -> dict[str, Any]:
    """The AUC that noise on the minimiser costs, Table 1 of the transfer paper, same b in both."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from papers.private_transfer.settings import auc, digits, fit

    from tacit.privacy.objective import output as release

    with_noise = release.perturb_gamma_vector

    def without_noise(model: Any, scale: float, entropy: Any, *, step: float) -> Any:
        with_noise(model, scale, entropy, step=step)  # the draws that follow are the same
        return model

    found: dict[str, Any] = {}
    for delta in (0.0, 1e-5):
        for epsilon in (0.5, 1.0, 2.0, 4.0, 8.0):
            for name in ("FS(W)", "SimComb", "SourceD", "Direct"):
                lost = []
                for draw in range(n_draws):
                    data = digits(3000 + draw)
                    scores = []
                    for perturb in (without_noise, with_noise):
                        release.perturb_gamma_vector = perturb
                        scores.append(auc(fit(name, data, epsilon, draw, delta=delta), data.test))
                    lost.append(scores[0] - scores[1])
                found[f"{name} epsilon={epsilon:g} delta={delta:g}"] = {
                    "auc_lost": float(np.mean(lost)),
                    "standard_error": float(np.std(lost) / np.sqrt(n_draws)),
                }
    worst = max(found.values(), key=lambda cell: cell["auc_lost"])
    return {"worst": worst, **found}


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    section.__name__: section
    for section in (
        wishart,
        gram,
        algorithm5,
        cohort,
        weights,
        asynchronous,
        scaling,
        simulated,
        recovery,
        output,
    )
}


def main() -> None:
    names = sys.argv[1:] or list(SECTIONS)
    path = RESULTS / "errata.json"
    RESULTS.mkdir(exist_ok=True)
    found = json.loads(path.read_text()) if path.exists() else {}
    for name in names:
        found[name] = SECTIONS[name]()
        print(json.dumps({name: found[name]}, indent=1), flush=True)
        path.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
