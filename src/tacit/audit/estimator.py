"""Attacking a whole estimator: refit it on neighbouring data and look at what the others see."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tacit._check import fraction, positive_integer
from tacit._types import Array
from tacit.audit.attack import Claim, Contest, attack
from tacit.audit.canary import CanaryPair, canary_pairs
from tacit.audit.distinguishers import LinearDiscriminant, Quadratic, TrainedClassifier
from tacit.audit.neighbours import changed_task
from tacit.audit.result import AuditResult
from tacit.errors import InvalidInput
from tacit.privacy.unit import Unit
from tacit.tasks import TaskSet

__all__ = ["audit_estimator", "fit_on", "seen_by_others", "telling"]

View = Callable[[Any, CanaryPair], Array]

_MOST_NUMBERS = 16


def fit_on(
    estimator: Any,
    tasks: TaskSet,
    random_state: int | None,
    *,
    prepare: Callable[[Any], None] | None = None,
) -> Any:
    """Return a fresh copy of ``estimator`` fitted on ``tasks`` (with this noise seed, if given).

    ``prepare`` sees the copy before it is fitted.
    """
    from sklearn.base import clone

    model = clone(estimator)
    if random_state is not None and "random_state" in model.get_params():
        model.set_params(random_state=random_state)
    if prepare is not None:
        prepare(model)
    if "tasks" not in inspect.signature(model.fit).parameters:
        return model.fit(tasks.X, tasks.y)
    labels = [tasks.names[index] for index in tasks.task_of_row]
    return model.fit(tasks.X, tasks.y, tasks=labels)


def seen_by_others(model: Any, task: int | None) -> list[Array]:
    """Return everything that may depend on the canary and is not its own: the adversary's view.

    All postings of the billboard in order and, last, the models of all other tasks (of every task
    if ``task`` is None: then the guarantee is plain differential privacy of the models).
    """
    board = getattr(model, "billboard_", None)
    releases = [] if board is None else [np.asarray(posting.value) for posting in board]
    coef = np.atleast_2d(model.coef_)
    coef = coef.reshape(len(coef), -1)
    intercept = np.asarray(model.intercept_, dtype=float).reshape(len(coef), -1)
    models = np.concatenate([coef, intercept], axis=1)
    return [*releases, models if task is None else np.delete(models, task, axis=0)]


def _is_moment(shape: tuple[int, ...], d: int) -> bool:
    """Return whether this is the shape of a d x d second moment, perhaps bordered by a mean."""
    return len(shape) == 2 and shape[0] == shape[1] and shape[0] >= d > 1


def telling(release: Array, directions: Array, task: int, n_tasks: int) -> list[float]:
    """Return the few numbers of one release in which a canary along ``directions`` shows.

    A square matrix is read as a second moment, with its border if it has one; a stack with the
    task on axis 0 in the canary's own entry; anything else whose last axis holds the features (and
    perhaps an intercept) along the directions. Every release is read by its norm too.
    """
    d = directions.shape[1]
    numbers = [float(np.linalg.norm(release))]
    if _is_moment(release.shape, d):
        numbers += [float(u @ release[:d, :d] @ u) for u in directions]
        border = release[:d, d:].T @ directions.T
        return numbers + [float(number) for number in border.ravel()[:_MOST_NUMBERS]]
    if release.ndim and release.shape[-1] in (d, d + 1):
        own = release[task] if release.ndim > 1 and len(release) == n_tasks else release
        along = own[..., :d].reshape(-1, d) @ directions.T
        numbers += [float(number) for number in along.ravel()[:_MOST_NUMBERS]]
    if release.shape == (d,):
        numbers += [float(u**2 @ release) for u in directions]
    return numbers


def _default_view(model: Any, pair: CanaryPair) -> Array:
    joint = model.privacy_.definition == "joint differential privacy"
    *releases, models = seen_by_others(model, pair.task if joint else None)
    numbers: list[float] = []
    for release in releases:
        numbers += telling(release, pair.directions, pair.task, pair.first.n_tasks)
    along = models[:, : pair.directions.shape[1]] @ pair.directions.T
    numbers += [*along.mean(axis=0), *np.mean(along**2, axis=0), float(models[:, -1].mean())]
    return np.asarray(numbers, dtype=float)


def _fit_many(
    estimator: Any, pair: CanaryPair, which: int, seeds: list[int | None], view: View
) -> Array:
    data = pair.second if which else pair.first
    return np.stack([view(fit_on(estimator, data, seed), pair) for seed in seeds])


def audit_estimator(
    estimator: Any,
    tasks: TaskSet,
    *,
    task: int = 0,
    pair: tuple[TaskSet, TaskSet] | None = None,
    n_trials: int = 1000,
    confidence: float = 0.999,
    view: Callable[[Any], Array] | None = None,
    n_jobs: int | None = None,
    random_state: int | None = None,
) -> AuditResult:
    """Bound from below the ε an estimator really spends, end to end.

    Parameters
    ----------
    estimator
        Any estimator of tacit, not fitted; it is copied for every fit.
    tasks
        The other tasks' data. Task number ``task`` is replaced by canaries.
    pair
        Two neighbouring task sets to use in place of the built-in canaries.
    n_trials
        Fits on each of the two neighbours: ``2 * n_trials`` in all.
    view
        From a fitted estimator to the numbers the adversary looks at. By default the telling
        summaries of every billboard posting and of all *other* tasks' models (all models if the
        statement says plain differential privacy).
    n_jobs
        Processes to fit in, as in scikit-learn.
    random_state
        Makes the audit repeatable by seeding every fit; None fits with the system's entropy.

    Guarantee: `AuditResult`'s. The claim attacked is the one in ``privacy_`` of a fit; where all
    releases are Gaussian, the Gaussian curve they were accounted with.
    """
    positive_integer("n_trials", n_trials, remedy="use at least a few hundred fits a side")
    fraction("confidence", confidence, remedy="use for example confidence=0.999")
    seeds = _seeds(random_state)
    probe = fit_on(estimator, tasks, next(seeds))
    statement = probe.privacy_
    if not np.isfinite(statement.epsilon):
        raise InvalidInput(
            f"estimator={estimator!r}: claims no privacy; nothing to audit at epsilon=inf"
        )
    unit = Unit(statement.unit)
    pairs = _pairs(tasks, task, pair, unit)
    look = _default_view if view is None else _Custom(view)
    claim = Claim(
        type(estimator).__name__, statement.epsilon, statement.delta, _all_gaussian(probe)
    )
    rivals = (LinearDiscriminant(), Quadratic(_itself), TrainedClassifier(_itself))
    contests = [
        Contest(one.description, _drawer(estimator, one, seeds, look, n_jobs), rivals)
        for one in pairs
    ]
    return attack(contests, claim, n_trials=n_trials, confidence=confidence)


class _Custom:
    """A caller's view, in the form of the built-in one (a class, so that processes can send it)."""

    def __init__(self, view: Callable[[Any], Array]) -> None:
        self._view = view

    def __call__(self, model: Any, pair: CanaryPair) -> Array:  # noqa: ARG002 - the View signature
        return np.ravel(np.asarray(self._view(model), dtype=float))


def _itself(features: Array) -> Array:
    return features


def _seeds(random_state: int | None) -> Iterator[int | None]:
    if random_state is None:
        while True:
            yield None
    rng = np.random.default_rng(random_state)
    while True:
        yield int(rng.integers(2**31))


def _pairs(
    tasks: TaskSet, task: int, pair: tuple[TaskSet, TaskSet] | None, unit: Unit
) -> list[CanaryPair]:
    if pair is None:
        return canary_pairs(tasks, task=task, unit=unit)
    first, second = pair
    at = changed_task(first, second, row=unit is Unit.ROW)
    basis = np.eye(first.n_features)[: min(2, first.n_features)]
    return [CanaryPair("the given pair", first, second, at, basis)]


def _all_gaussian(model: Any) -> bool:
    """Return whether every release was accounted for as an unsampled Gaussian."""
    from dp_accounting import GaussianDpEvent

    board = getattr(model, "billboard_", None)
    events = [] if board is None else list(board.events)
    return bool(events) and all(isinstance(event, GaussianDpEvent) for event in events)


def _drawer(
    estimator: Any, pair: CanaryPair, seeds: Iterator[int | None], view: View, n_jobs: int | None
) -> Callable[[int, int], Array]:
    from joblib import Parallel, cpu_count, delayed

    workers = cpu_count() if n_jobs == -1 else n_jobs or 1

    def draw(which: int, n: int) -> Array:
        own = [next(seeds) for _ in range(n)]
        parts = [own[start :: 4 * workers] for start in range(4 * workers)]
        run = Parallel(n_jobs=n_jobs)
        done = run(delayed(_fit_many)(estimator, pair, which, part, view) for part in parts if part)
        return np.concatenate(list(done))

    return draw
