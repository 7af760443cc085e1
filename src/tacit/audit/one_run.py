"""Auditing in one run: many canary tasks, each present or silent by its own coin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._check import fraction, positive_integer
from tacit._types import AnyArray, Array
from tacit.audit.bounds import one_run_epsilon
from tacit.audit.canary import is_binary, pulling, quiet
from tacit.audit.estimator import fit_on
from tacit.audit.neighbours import replace_task
from tacit.audit.result import AuditResult
from tacit.errors import InvalidInput
from tacit.tasks import TaskSet

__all__ = ["audit_in_one_run"]


def audit_in_one_run(
    estimator: Any,
    tasks: TaskSet,
    *,
    n_canaries: int | None = None,
    n_guesses: int | None = None,
    confidence: float = 0.999,
    random_state: int | None = None,
) -> AuditResult:
    """Bound ε from below with a single fit (Steinke, Nasr, Jagielski 2023).

    The first ``n_canaries`` tasks become canaries, each with a direction of its own; a fair coin
    decides for each whether its model stands at the clip or is zero. The adversary reads the
    billboard (what every task sees), decodes how strongly each direction is present, and guesses
    "present" for the highest scores and "silent" for the lowest, abstaining in between.

    Parameters
    ----------
    estimator
        An estimator of tacit whose statement protects whole tasks.
    tasks
        Task set to hide the canaries in; gives the sizes of the canary tasks.
    n_canaries
        All tasks by default.
    n_guesses
        How many canaries to speak about, fixed beforehand; half of them by default.

    Guarantee: coins are independent of everything, so Theorem 5.2 of the paper applies to any
    adversary: ``epsilon_lower`` exceeds the true ε with probability at most 1 − ``confidence``. One
    run sees less than many: canaries drown each other out where the release has few dimensions.
    """
    n_canaries = tasks.n_tasks if n_canaries is None else n_canaries
    positive_integer("n_canaries", n_canaries, remedy="hide at least one canary")
    if n_canaries > tasks.n_tasks:
        raise InvalidInput(f"n_canaries={n_canaries}: there are only {tasks.n_tasks} tasks")
    n_guesses = max(n_canaries // 2, 1) if n_guesses is None else n_guesses
    positive_integer("n_guesses", n_guesses, remedy="guess at least once")
    if n_guesses > n_canaries:
        raise InvalidInput(f"n_guesses={n_guesses}: must be at most n_canaries={n_canaries}")
    fraction("confidence", confidence, remedy="use for example confidence=0.999")
    rng = np.random.default_rng(random_state)
    directions = rng.standard_normal((n_canaries, tasks.n_features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    present = rng.random(n_canaries) < 0.5
    noise_seed = None if random_state is None else int(rng.integers(2**31))
    model = fit_on(estimator, hide(tasks, directions, present), noise_seed)
    scores = decode(model, directions)
    n_correct = _correct(scores, present, n_guesses)
    statement = model.privacy_
    bound = one_run_epsilon(
        n_canaries, n_guesses, n_correct, delta=statement.delta, confidence=confidence
    )
    return AuditResult(
        target=type(estimator).__name__,
        epsilon_lower=bound,
        claimed_epsilon=statement.epsilon,
        delta=statement.delta,
        delta_lower=0.0,
        confidence=confidence,
        n_trials=n_canaries,
        violated=bound > statement.epsilon,
        event=f"{n_correct} of {n_guesses} guesses right",
        pair="each canary task at the clip or silent",
        epsilon_direct=bound,
        method="one-run",
    )


def hide(tasks: TaskSet, directions: Array, present: AnyArray) -> TaskSet:
    """Return ``tasks`` with the first ones replaced by present or silent canaries."""
    if tasks.y is None:
        raise InvalidInput("tasks: has no targets; build the task set with y")
    binary = is_binary(tasks)
    row_norm = float(np.sqrt(np.mean(np.sum(tasks.X.astype(float) ** 2, axis=1)))) or 1.0
    reach = 1e3 * (float(np.std(tasks.y)) or 1.0)
    for task, (direction, loud) in enumerate(zip(directions, present, strict=True)):
        n_rows = int(tasks.offsets[task + 1] - tasks.offsets[task])
        X, y = (
            pulling(n_rows, direction, row_norm=row_norm, reach=reach, binary=binary)
            if loud
            else quiet(n_rows, direction, row_norm=row_norm, binary=binary)
        )
        tasks = replace_task(tasks, task, X, y)
    return tasks


def decode(model: Any, directions: Array) -> Array:
    """Return one score a canary: how strongly its direction is present in the releases.

    Each release is read as noise plus a sum of the present canaries' patterns, and decoded by the
    linear estimate that is best for independent coins. A pattern is w, w wᵀ or, in a stack with the
    task on axis 0, the task's own row; how strong it is against the noise follows from the event.
    """
    scores = np.zeros(len(directions))
    for posting in model.billboard_ or ():
        release = np.asarray(posting.value, dtype=float)
        if release.ndim == 2 and release.shape[0] == release.shape[1] > directions.shape[1]:
            release = release[: directions.shape[1], : directions.shape[1]]  # without its border
        patterns = _patterns(release.shape, directions)
        if patterns is None:
            scores += _own_rows(release, directions)
            continue
        moment = release.size == directions.shape[1] ** 2
        noise = _noise_to_message(posting.event) * (math.sqrt(2) if moment else 2.0)
        flat = (release if moment else release[..., : directions.shape[1]]).ravel()
        everyone = patterns.sum(axis=0)
        expected = (flat @ everyone) / (everyone @ everyone) * everyone
        spread = patterns.T @ patterns / 4 + noise**2 * np.eye(patterns.shape[1])
        scores += patterns @ np.linalg.solve(spread, flat - expected)
    return scores


def _noise_to_message(event: Any) -> float:
    """Return the noise's standard deviation over the sensitivity, roughly, from an event."""
    if hasattr(event, "noise_multiplier"):
        return float(event.noise_multiplier)
    return 1.0 / float(event.epsilon) if hasattr(event, "epsilon") else 1.0


def _patterns(shape: tuple[int, ...], directions: Array) -> Array | None:
    n, d = directions.shape
    if shape == (d, d):
        return np.einsum("ni,nj->nij", directions, directions).reshape(n, -1)
    if shape in ((d,), (1, d), (d + 1,), (1, d + 1)):
        return directions
    return None


def _own_rows(release: Array, directions: Array) -> Array:
    n, d = directions.shape
    if release.ndim < 2 or release.shape[-1] not in (d, d + 1) or len(release) < n:
        return np.zeros(n)
    own = release[:n, ..., :d].reshape(n, -1, d).sum(axis=1)
    return np.einsum("nd,nd->n", own, directions)


def _correct(scores: Array, present: AnyArray, n_guesses: int) -> int:
    """Count right guesses: 'present' for the top half of the guesses, 'silent' for the bottom."""
    order = np.argsort(scores)
    n_silent = n_guesses // 2
    silent, loud = order[:n_silent], order[len(order) - (n_guesses - n_silent) :]
    return int(np.sum(~present[silent]) + np.sum(present[loud]))
