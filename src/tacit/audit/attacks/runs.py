"""Runs of an estimator on data made for an attack, with its releases recorded or frozen."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._types import Array
from tacit.audit.estimator import fit_on
from tacit.errors import PrivacyLeak
from tacit.privacy.billboard import Billboard
from tacit.tasks import TaskSet

__all__ = ["Recorded", "Run", "example_tasks", "fitted", "frozen", "name_of", "watched"]


@dataclass(frozen=True)
class Recorded:
    """One release as it passed the billboard."""

    value: Array
    event: Any


@dataclass(frozen=True)
class Run:
    """A fitted model and everything it released."""

    model: Any
    releases: tuple[Recorded, ...]

    def public(self, task: int) -> dict[str, Any]:
        """Return the fitted attributes by name, without the part that is task number ``task``'s.

        An array with one entry a task on its first axis is personal; all else is for everybody.
        """
        n_tasks = len(self.model.task_names_)
        found: dict[str, Any] = {}
        for name, value in vars(self.model).items():
            if name.startswith("_") or not name.endswith("_") or name in _AT_HOME:
                continue
            if isinstance(value, np.ndarray):
                personal = value.ndim > 0 and len(value) == n_tasks and name not in _COMMON
                found[name] = np.delete(value, task, axis=0) if personal else value
            elif name != "billboard_":
                found[name] = repr(value)
        return found


# Counted from private rows, and documented to stay with their owner.
_AT_HOME = ("n_clipped_rows_", "n_strangers_")
_SIZES = (5, 24, 200, 1000)
_COMMON = ("classes_", "feature_names_in_", "shared_coef_", "shared_intercept_", "groups_")


def name_of(estimator: Any) -> str:
    """Return an estimator in short: its class and what was set."""
    changed = {
        name: value
        for name, value in estimator.get_params(deep=False).items()
        if repr(value) != repr(inspect.signature(type(estimator)).parameters[name].default)
    }
    return f"{type(estimator).__name__}({', '.join(f'{k}={v!r}' for k, v in changed.items())})"


def example_tasks(
    estimator: Any,
    *,
    n_tasks: int | None = None,
    n_features: int = 4,
    n_rows: int = 6,
    seed: int = 0,
) -> TaskSet:
    """Return ordinary tasks of unequal sizes, with labels 0 and 1 for a classifier.

    By default as few as are asked anything: where sharing cannot help, a method spends nothing, and
    there would be nothing to attack.
    """
    from sklearn.base import is_classifier

    if n_tasks is None:
        n_tasks = _fewest_asked(estimator, n_features, n_rows)
    rng = np.random.default_rng(seed)
    counts = n_rows + rng.integers(0, n_rows + 1, n_tasks)
    task = np.repeat(np.arange(n_tasks), counts)
    X = rng.standard_normal((len(task), n_features))
    W = rng.standard_normal((n_tasks, n_features)) + 1.0
    y = np.einsum("nd,nd->n", X, W[task]) + 0.3 * rng.standard_normal(len(task))
    return TaskSet.from_arrays(X, (y > 0).astype(float) if is_classifier(estimator) else y, task)


def _fewest_asked(estimator: Any, n_features: int, n_rows: int) -> int:
    if not hasattr(estimator, "plan"):
        return _SIZES[0]
    asked = (m for m in _SIZES if estimator.plan(m, n_features, n_rows=n_rows * m).releases)
    return next(asked, _SIZES[0])


@contextmanager
def watched() -> Iterator[list[Recorded]]:
    """Yield a list that fills with every release any billboard gets meanwhile.

    Not for use in several threads at once: it replaces `Billboard.post`.
    """
    heard: list[Recorded] = []
    post = Billboard.post

    def listening(self: Billboard, value: Any, event: Any, **facts: Any) -> Any:
        heard.append(Recorded(np.array(value), event))
        return post(self, value, event, **facts)

    Billboard.post = listening  # type: ignore[method-assign]
    try:
        yield heard
    finally:
        Billboard.post = post  # type: ignore[method-assign]


@contextmanager
def frozen(releases: tuple[Recorded, ...]) -> Iterator[None]:
    """Post the recorded releases, one after the other, in place of whatever a run would release.

    Raises `PrivacyLeak` where the run would release another number, shape or event than recorded,
    or infinities: these are seen whatever the noise.
    """
    left = list(releases)
    post = Billboard.post

    def posting(self: Billboard, value: Any, event: Any, **facts: Any) -> Any:
        if not left:
            raise PrivacyLeak("releases more often than on the other data")
        old = left.pop(0)
        if np.shape(value) != old.value.shape or event != old.event:
            raise PrivacyLeak(
                f"releases shape {np.shape(value)} as {event}, not {old.value.shape} as {old.event}"
            )
        if not np.isfinite(value).all():
            raise PrivacyLeak("releases what is not finite")
        return post(self, old.value, event, **facts)

    Billboard.post = posting  # type: ignore[method-assign]
    try:
        yield
        if left:
            raise PrivacyLeak(f"makes {len(left)} release(s) less than on the other data")
    finally:
        Billboard.post = post  # type: ignore[method-assign]


def fitted(estimator: Any, tasks: TaskSet, seed: int = 0) -> Run:
    """Fit a copy of ``estimator``; warnings are errors, since a user may have made them so."""
    with warnings.catch_warnings(), watched() as heard:
        warnings.simplefilter("error")
        model = fit_on(estimator, tasks, seed)
    return Run(model, tuple(heard))
