"""The asynchronous conversation: does it converge, how fast is its server, what does a release buy?

    python benchmarks/asynchronous.py server       # proximal step against a full SVD
    python benchmarks/asynchronous.py converge     # no noise: gap to the synchronous optimum, time
    python benchmarks/asynchronous.py releases     # one release a step against two, equal total ε
    python benchmarks/asynchronous.py gain         # real sets: difference to single-task learning

Times are simulated milliseconds but for ``server``, whose ratios are taken in one run.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.engines import Clock
from tacit.losses import LogisticLoss, Loss, SquaredLoss
from tacit.numerics.columns import LowRankColumns
from tacit.penalties import OWN_PENALTIES, SHARED_PENALTIES
from tacit.privacy import SeededEntropy
from tacit.privacy.mechanisms import Exact, Mechanism
from tacit.privacy.schedule import Call, Schedule
from tacit.protocols.asynchronous import AsynchronousProtocol, AsynchronousPublic, Design
from tacit.tasks import TaskSet

N_TASKS, N_FEATURES, RANK = 20, 28, 3
NOISE = 0.5  # standard deviation of answers about their models, which spread by 1.8: R² is 0.93
NOISES = {0.93: NOISE, 0.5: 1.8, 0.2: 3.7}  # by R²
# Strengths of the shared and own penalties, of raw rows, that leave the shared parts a rank of two
# to four: the paper sets its own so that it is 3 "in most time". The rank is printed.
LOW_RANK = {"squared": (0.3, 0.2), "logistic": (0.2, 0.2)}
STEP = 4.0  # rows spread over 28 directions: their curvature is below 1/7 of the bound


def tasks_of(loss: Loss, n_rows: int, seed: int, noise: float = NOISE) -> TaskSet:
    """Return the paper's synthetic tasks: 20 of 28 features, models of rank 3."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(N_TASKS), n_rows)
    X = rng.standard_normal((len(task), N_FEATURES))
    W = rng.standard_normal((N_TASKS, RANK)) @ rng.standard_normal((RANK, N_FEATURES)) / 5
    y = np.einsum("nd,nd->n", X, W[task]) + noise * rng.standard_normal(len(task))
    answers = (y > 0).astype(float) if loss.name == "logistic" else np.clip(y / 5, -1, 1)
    return TaskSet.from_arrays(X, answers, task)


def paper_tasks(loss: Loss, seed: int) -> TaskSet:
    """Return 20 tasks with 30 % of 200 rows: models of rank 3, a tenth of whose entries differ."""
    rng, n_rows = np.random.default_rng(seed), 60
    W = rng.standard_normal((N_FEATURES, RANK)) @ rng.standard_normal((RANK, N_TASKS))
    own = rng.random((N_FEATURES, N_TASKS)) < 0.1
    W = W / np.sqrt(RANK) + own * rng.standard_normal((N_FEATURES, N_TASKS))
    W /= np.sqrt(np.sum(W**2, axis=0).mean())
    task = np.repeat(np.arange(N_TASKS), n_rows)
    X = rng.standard_normal((len(task), N_FEATURES))
    y = np.einsum("nd,dn->n", X, W[:, task]) + 0.3 * rng.standard_normal(len(task))
    return TaskSet.from_arrays(X, (y > 0).astype(float) if loss.name == "logistic" else y, task)


def paper_talk(loss: Loss, tasks: TaskSet, turns: int) -> AsynchronousProtocol:
    """Return their conversation: nothing is clipped, steps are half of what always converges."""
    X, squared = np.asarray(tasks.X), loss.name == "squared"
    norm = float(np.linalg.norm(X, axis=1).max())
    bound = float(np.abs(tasks.y).max()) if squared else 1.0
    largest = max(
        float(np.linalg.eigvalsh(rows.T @ rows / len(rows))[-1])
        for rows in np.split(X / norm, tasks.offsets[1:-1])
    )
    shared, own = LOW_RANK[loss.name]
    return AsynchronousProtocol(
        loss,
        N_FEATURES,
        tuple(int(count) for count in tasks.counts),
        Design(norm, bound, fit_intercept=False),
        shared_strength=shared / (norm * bound),
        own_strength=own / norm**2,
        step=0.5 / (loss.curvature * largest),
        clip=np.inf,
        turns=turns,
    )


def talk(loss: Loss, n_rows: int, **options: Any) -> AsynchronousProtocol:
    """Return the conversation of these tasks."""
    defaults: dict[str, Any] = {
        "shared_strength": 2e-2 if loss.name == "logistic" else 1e-3,
        "own_strength": 0.1,
        "step": STEP / loss.curvature,
        "clip": np.inf,
    }
    return AsynchronousProtocol(
        loss,
        N_FEATURES,
        (n_rows,) * N_TASKS,
        Design(np.sqrt(N_FEATURES), 1.0),
        **{**defaults, **options},
    )


def objective(protocol: AsynchronousProtocol, home: Any, public: AsynchronousPublic) -> float:
    """Return Σ losses / max n + λ r(P) + τ g(Q) of the public parts on the raw rows."""
    shared, own = protocol.parts(public)
    models = np.repeat(shared + own, home.outputs[0].counts, axis=0)
    score = np.einsum("nd,nkd->nk", home.rows, models)
    together = SHARED_PENALTIES[protocol.shared](protocol.shared_strength)
    alone = OWN_PENALTIES[protocol.own](protocol.own_strength)
    flat = shared.shape[-1]
    losses = protocol.loss.value(score, home.answers).sum() / max(protocol.counts)
    return float(
        losses + together.value(shared.reshape(-1, flat)) + alone.value(own.reshape(-1, flat))
    )


def course(
    protocol: AsynchronousProtocol,
    tasks: TaskSet,
    clock: Clock,
    *,
    noise: Mechanism | None = None,
    until: float = np.inf,
    every: int = N_TASKS,
    seed: int = 0,
) -> list[tuple[float, float]]:
    """Return (time, objective) along a run."""
    noise, entropy = noise or Exact(), SeededEntropy(seed)
    line = clock.timeline(protocol.rounds(), N_TASKS, burst=protocol.local_steps)
    home, public = protocol.start(tasks, np.arange(N_TASKS)), protocol.opening()
    bound = protocol.rounds()[0].bound
    found = []
    for number, call in enumerate(line.calls):
        if line.time[number] > until:
            break
        asked = None if call.task is None else np.arange(N_TASKS) == call.task
        _, said = protocol.speak(home, public, call, asked)
        sums = bound.by_task(said)
        value = noise.release(sums, entropy.child("call", number)).value
        public = protocol.read(public, value if call.task is None else value[0], call, noise)
        if call.task is None or number % every == 0:
            found.append((float(line.time[number]), objective(protocol, home, public)))
    return [*found, (float(line.time[number]), objective(protocol, home, public))]


def server() -> None:
    """Print the time of the server's step at d = 250 and 1 000 tasks, and how exact it is."""
    rng = np.random.default_rng(0)
    n_tasks, d, rank = 1000, 250, 20
    signal = rng.standard_normal((n_tasks, rank)) @ rng.standard_normal((rank, d)) / np.sqrt(rank)
    columns = LowRankColumns.of(signal + 0.3 * rng.standard_normal((n_tasks, d)))
    threshold = 0.33 * (np.sqrt(n_tasks) + np.sqrt(d))
    _, columns = columns.shrunk(threshold, np.array([0]))
    warm, full, error = [], [], 0.0
    for number in range(300):
        at = np.array([rng.integers(n_tasks)])
        new = signal[at] + 0.3 * rng.standard_normal((1, d))
        began = time.process_time()
        columns = columns.replaced(at, new)
        answer, columns = columns.shrunk(threshold, at)
        warm.append(time.process_time() - began)
        if number % 15 == 0:
            began = time.process_time()
            left, values, right = np.linalg.svd(columns.vectors, full_matrices=False)
            whole = (left * np.maximum(values - threshold, 0)) @ right
            full.append(time.process_time() - began)
            error = max(error, float(np.abs(answer - whole[at]).max()))
    one, all_of_it = np.median(warm), np.median(full)
    print(
        f"server step {1e3 * one:.2f} ms, full SVD {1e3 * all_of_it:.1f} ms: "
        f"{all_of_it / one:.1f} times faster; answers within {error:.1e}"
    )


def converge(losses: tuple[Loss, ...] = (SquaredLoss(), LogisticLoss())) -> None:
    """Print gaps to the synchronous optimum, and simulated times to a gap of 1 %."""
    for loss in losses:
        tasks = tasks_of(loss, 100, seed=0)
        best = course(talk(loss, 100, turns=1500), tasks, Clock(synchronous=True))[-1][1]
        for name, clock, until, turns in (
            ("delays 0-15 ms", Clock(), np.inf, 600),
            ("20x straggler", Clock(stragglers={3: 20.0}), 45_000.0, 6500),
        ):
            found = course(talk(loss, 100, turns=turns), tasks, clock, until=until, every=2000)
            gap = (found[-1][1] - best) / best
            print(f"{loss.name}, {name}: relative gap {gap:.1e}", flush=True)
        tasks = paper_tasks(loss, 0)
        _straggler(f"{loss.name}, low rank", paper_talk(loss, tasks, 1500), tasks)
        for share, noise in NOISES.items():
            tasks = tasks_of(loss, 100, 0, noise)
            _straggler(f"{loss.name}, R² {share:g}", talk(loss, 100, turns=1500), tasks)


def _straggler(label: str, protocol: AsynchronousProtocol, tasks: TaskSet) -> None:
    """Print the simulated times to a gap of 1 % with one task ten times as slow, in both orders."""
    best, shared = _optimum(protocol, tasks)
    values = np.linalg.svd(shared[:, 0], compute_uv=False)
    rank = int(np.sum(values > 1e-6 * max(values[0], 1e-300)))
    reached = {}
    for name, together in (("asynchronous", False), ("synchronous", True)):
        clock = Clock(stragglers={3: 10.0}, synchronous=together)
        until = np.inf if together else 3500.0
        found = course(replace(protocol, turns=500), tasks, clock, until=until)
        reached[name] = next((at for at, value in found if value <= 1.01 * best), np.inf)
    print(
        f"{label}, shared parts of rank {rank}, one 10x straggler: 1 % after "
        f"{reached['asynchronous']:.0f} ms asynchronous, {reached['synchronous']:.0f} ms "
        f"synchronous: {reached['synchronous'] / reached['asynchronous']:.1f} times",
        flush=True,
    )


def _optimum(protocol: AsynchronousProtocol, tasks: TaskSet) -> tuple[float, np.ndarray]:
    """Return the objective and the shared parts where the synchronous order ends."""
    home, public = protocol.start(tasks, np.arange(N_TASKS)), protocol.opening()
    bound, noise = protocol.rounds()[0].bound, Exact()
    for turn in range(protocol.turns):
        call = Call(turn, 0, None, turn)
        _, said = protocol.speak(home, public, call, None)
        public = protocol.read(public, bound.by_task(said), call, noise)
    return objective(protocol, home, public), protocol.parts(public)[0]


class TwoReleases(AsynchronousProtocol):
    """The printed scheme made sound: one release for the own part, another for the shared."""

    def read(
        self, public: AsynchronousPublic, release: Any, call: Call, noise: Mechanism
    ) -> AsynchronousPublic:
        """Move the own part at even turns, the shared one at odd ones."""
        after = super().read(public, release, call, noise)
        return after if call.turn % 2 == 0 else replace(after, own=public.own)


SCHEMES: dict[str, tuple[type[AsynchronousProtocol], dict[str, int]]] = {
    "one": (AsynchronousProtocol, {"turns": 20}),
    "two": (TwoReleases, {"turns": 40, "local_steps": 2}),
}


def releases(seeds: int) -> None:
    """Print the final objective of 20 steps with one release each and with two, at equal ε."""
    for loss in (SquaredLoss(), LogisticLoss()):
        for n_rows in (200, 2000):
            for epsilon in (1.0, 3.0, 10.0):
                found = [_objectives(loss, n_rows, epsilon, seed) for seed in range(seeds)]
                one, two = np.mean(found, axis=0)
                print(
                    f"{loss.name}, n = {n_rows}, ε = {epsilon:g}: one release {one:.4f}, two "
                    f"{two:.4f}: {'lower' if one < two else 'NOT LOWER'}",
                    flush=True,
                )


def _objectives(loss: Loss, n_rows: int, epsilon: float, seed: int) -> list[float]:
    """Return the final objectives of both schemes, of the same strengths, on the same rows."""
    tasks, strength, found = tasks_of(loss, n_rows, seed), None, []
    for kind, options in SCHEMES.values():
        base = talk(loss, n_rows, clip=0.5, step=1 / loss.curvature, **options)
        schedule = Schedule.calibrate(base.rounds(), epsilon=epsilon, delta=1e-5)
        noise = schedule.mechanisms[0]
        strength = strength or max(base.shared_strength, base.noise_edge(noise))
        protocol = kind(**{**vars(base), "shared_strength": strength})
        found.append(course(protocol, tasks, Clock(), noise=noise, seed=seed, every=10**9)[-1][1])
    return found


def gain(names: list[str], seeds: int) -> None:
    """Print the paired difference to single-task learning on real sets, at two budgets."""
    import moments
    from tacit import AsynchronousClassifier, AsynchronousRegressor

    for name in names:
        classes = moments.SETS[name][2]
        found: dict[float, list[float]] = {1.0: [], 10.0: []}
        for seed in range(seeds):
            (X, y, task), test = moments.data_of(name, seed)
            alone = moments.scored(moments.alone(classes).fit(X, y, tasks=task), *test)
            for epsilon, values in found.items():
                options: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-5, "row_norm": 1.0}
                model = (
                    AsynchronousClassifier(classes=(0, 1), random_state=seed, **options)
                    if classes
                    else AsynchronousRegressor(random_state=seed, **options)
                )
                values.append(moments.scored(model.fit(X, y, tasks=task), *test) - alone)
        for epsilon, values in found.items():
            error = np.std(values, ddof=1) / np.sqrt(seeds) if seeds > 1 else np.nan
            print(f"{name}, ε = {epsilon:g}: {np.mean(values):+.4f} ± {error:.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("server", "converge", "releases", "gain"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", nargs="*", default=["school", "heart_disease"])
    asked = parser.parse_args()
    if asked.what == "server":
        server()
    elif asked.what == "converge":
        converge()
    elif asked.what == "releases":
        releases(asked.seeds)
    else:
        gain(asked.data, asked.seeds)
