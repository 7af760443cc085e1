"""Data and runs of the asynchronous paper's figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit._types import Array
from tacit.datasets import load_har, load_parkinsons, load_vehicle
from tacit.engines import Clock
from tacit.estimators import SingleTaskClassifier, SingleTaskRegressor
from tacit.losses import LogisticLoss, Loss, SquaredLoss
from tacit.penalties import Nuclear, Ridge
from tacit.privacy import SeededEntropy
from tacit.privacy.mechanisms import Exact, GammaVector, Mechanism
from tacit.privacy.published import AsynchronousPerIterationPublished
from tacit.privacy.schedule import Schedule
from tacit.privacy.unit import Unit
from tacit.protocols.asynchronous import AsynchronousProtocol, Design
from tacit.protocols.asynchronous_published import PublishedAsynchronousProtocol
from tacit.tasks import TaskSet

__all__ = ["N_TASKS", "Course", "Data", "alone", "course", "load"]

Options = Mapping[str, float]
N_TASKS = 20
# Public ranges of the voice measurements; the targets are scores between 0 and 60.
_PARKINSONS = np.array(
    [100, 1, 220, 0.1, 5e-4, 0.06, 0.07, 0.18, 0.27, 2.2, 0.17, 0.17, 0.28, 0.5, 0.75, 40, 1, 1, 1]
)


@dataclass(frozen=True)
class Data:
    """Training and test rows of 20 tasks, with the loss and public bounds."""

    loss: Loss
    train: TaskSet
    test: TaskSet
    row_norm: float


def load(name: str, seed: int) -> Data:
    """Return a data set, 30 % of every task for training."""
    if name.startswith("synthetic"):
        loss: Loss = LogisticLoss() if name.endswith("classification") else SquaredLoss()
        tasks, norm = _synthetic(loss, seed), np.sqrt(28.0)
    elif name == "vehicle":
        loss, tasks, norm = LogisticLoss(), load_vehicle().taskset(), 10.0
    elif name == "har":  # lying down against everything else
        tasks = load_har().taskset()
        loss, norm = LogisticLoss(), np.sqrt(tasks.n_features)
        tasks = tasks.replace(y=(np.asarray(tasks.y) == np.asarray(tasks.y).max()).astype(float))
    else:
        tasks = load_parkinsons().taskset()
        loss, norm = SquaredLoss(), np.sqrt(tasks.n_features)
        scaled = np.asarray(tasks.y, dtype=float) / 30 - 1
        tasks = tasks.replace(X=tasks.X.astype(float) / _PARKINSONS, y=scaled)
    tasks = tasks.take_tasks(np.arange(N_TASKS))
    train, test = tasks.split(0.7, random_state=seed)
    return Data(loss, train, test, float(norm))


def _synthetic(loss: Loss, seed: int) -> TaskSet:
    """Return the paper's 20 tasks of 200 rows and 28 features, with models of rank 3."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(N_TASKS), 200)
    X = rng.standard_normal((len(task), 28))
    W = rng.standard_normal((N_TASKS, 3)) @ rng.standard_normal((3, 28)) / 5
    y = np.einsum("nd,nd->n", X, W[task]) + 0.5 * rng.standard_normal(len(task))
    squared = loss.name == "squared"
    return TaskSet.from_arrays(X, np.clip(y / 5, -1, 1) if squared else (y > 0) * 1.0, task)


@dataclass(frozen=True)
class Course:
    """A run: after every turn of all tasks the objective, the rank of P, and each task's error."""

    epsilon: float  # of the whole run
    objective: Array
    rank: Array
    errors: Array  # (turns, tasks)


def course(
    data: Data, scheme: str, epsilon: float, *, turns: int, options: Options, seed: int
) -> Course:
    """Return a run of ``scheme``: "printed" (ε₁ = ε₂ = ε an iteration), "sound" (ε in all), "open".

    The sound scheme has one release a step, of pure noise, as the paper's claim is one of pure ε.
    """
    protocol, noise, spent = _staged(data, scheme, epsilon, turns, options, seed)
    line = Clock(seed=seed).timeline(protocol.rounds(), N_TASKS)  # 0 to 15 ms
    home, public = protocol.start(data.train, np.arange(N_TASKS)), protocol.opening()
    entropy, bound = SeededEntropy(seed), protocol.rounds()[0].bound
    asked = replace(protocol, shared_strength=options["shared_strength"])  # the paper's objective
    seen: list[tuple[float, int, Array]] = []
    for number, call in enumerate(line.calls):
        speaks = np.arange(N_TASKS) == call.task
        home, said = protocol.speak(home, public, call, speaks)
        released = noise.release(bound.by_task(said), entropy.child("call", number)).value
        public = protocol.read(public, released[0], call, noise)
        if (number + 1) % N_TASKS == 0:
            shared, own = protocol.parts(public)
            own = getattr(home, "own", own)
            rank = int(np.linalg.matrix_rank(shared[:, 0], tol=1e-6))
            seen.append(
                (_objective(asked, home, shared, own), rank, errors(data, asked, shared + own))
            )
    objective, rank, wrong = zip(*seen, strict=True)
    return Course(spent, np.array(objective), np.array(rank), np.array(wrong))


def _staged(
    data: Data, scheme: str, epsilon: float, turns: int, options: Options, seed: int
) -> tuple[AsynchronousProtocol, Mechanism, float]:
    """Return the conversation, its noise, and the ε of the whole run."""
    counts = tuple(int(count) for count in data.train.counts)
    clip = 1.0 if data.loss.name == "logistic" else options["clip"]
    protocol = AsynchronousProtocol(
        data.loss,
        data.train.n_features,
        counts,
        Design(data.row_norm, 1.0),
        turns=turns,
        clip=clip if scheme != "open" else np.inf,
        step=options["step"],
        shared_strength=options["shared_strength"],
        own_strength=options["own_strength"],
    )
    if scheme == "open":
        return protocol, Exact(), np.inf
    if scheme == "sound":
        plan = Schedule.calibrate(protocol.rounds(), epsilon=epsilon, delta=0.0)
        _, total = plan.course(Unit.ROW, 0.0)[-1]
        noise = plan.mechanisms[0]
        if not isinstance(noise, GammaVector):
            raise TypeError(f"pure ε needs gamma-vector noise, not {noise.name}")
        edge = protocol.noise_edge(noise)
        strength = max(protocol.shared_strength, edge)
        return replace(protocol, shared_strength=strength), noise, total
    own_noise = protocol.step * 2 * clip / max(counts) / epsilon
    fields = {**vars(protocol), "own_noise": own_noise, "random_state": seed}
    noise = AsynchronousPerIterationPublished(
        2 * epsilon, row_norm=clip, derivative_bound=1.0, n_rows=1, share=0.5
    )
    return PublishedAsynchronousProtocol(**fields), noise, 2 * epsilon * turns


def _objective(protocol: AsynchronousProtocol, home: Any, shared: Any, own: Any) -> float:
    models = np.repeat(shared + own, home.outputs[0].counts, axis=0)
    score = np.einsum("nd,nkd->nk", home.rows, models)
    losses = protocol.loss.value(score, home.answers).sum() / max(protocol.counts)
    flat = shared.shape[-1]
    return float(
        losses
        + Nuclear(protocol.shared_strength).value(shared.reshape(-1, flat))
        + Ridge(protocol.own_strength).value(own.reshape(-1, flat))
    )


def errors(data: Data, protocol: AsynchronousProtocol, models: Any) -> Array:
    """Return every task's error rate (mean squared error) on its test rows."""
    home = protocol.start(data.test, np.arange(N_TASKS))
    score = np.einsum("nd,nkd->nk", home.rows, np.repeat(models, data.test.counts, axis=0))[:, 0]
    return wrong_of(data, score)


def alone(data: Data) -> Array:
    """Return every task's error when it learns alone, at home."""
    logistic = data.loss.name == "logistic"
    model = (SingleTaskClassifier if logistic else SingleTaskRegressor)()
    model.fit(data.train.X, data.train.y, tasks=data.train.task_of_row)
    asked = {"X": data.test.X, "tasks": data.test.task_of_row}
    if logistic:
        return wrong_of(data, np.where(model.predict(**asked) > 0.5, 1.0, -1.0))
    return wrong_of(data, model.predict(**asked))


def wrong_of(data: Data, score: Array) -> Array:
    """Return every task's error, given the scores of all test rows."""
    answers = np.asarray(data.test.y, dtype=float)
    wrong = (score - answers) ** 2
    if data.loss.name == "logistic":
        wrong = ((score > 0) != (answers > 0.5)).astype(float)
    return np.asarray(data.test.task_sums(wrong) / data.test.counts)
