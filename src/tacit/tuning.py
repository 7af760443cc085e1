"""Choosing hyper-parameters without an unpaid look at private data.

*Free local tuning.* With the task as unit, whatever a task does with its own rows for its own use
costs nothing: strengths, fall-backs and weights that estimators settle by leave-one-out at each
task are of this kind, and need nothing from this module.

*Accounted selection.* A choice that all tasks must make together (a clip, a number of rounds, a
method) reads everybody's data. `PrivateSearch` runs the estimator a random number of times with
random candidates, scores each run by a noisy mean of bounded scores, publishes the best run alone,
and charges for all of it as one release (Papernot & Steinke, *Hyperparameter tuning with Rényi
differential privacy*, 2022). Ordinary cross-validation over g candidates would have to be charged
as g runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from tacit import _check
from tacit._types import AnyArray, Array
from tacit.engines import Checkpoint, Unkept
from tacit.errors import InvalidInput, PrivacyLeak
from tacit.estimators import _input
from tacit.estimators._constraints import Constraints, rule, validate
from tacit.estimators._private import PrivateEstimator, Sizes, default_delta, open_ledger
from tacit.privacy.accounting import compose, epsilon_of, gaussian_epsilon
from tacit.privacy.billboard import Billboard
from tacit.privacy.ledger import Ledger, Reservation, refuse_other_ledger
from tacit.privacy.mechanisms import Gaussian
from tacit.privacy.noise.entropy import Entropy
from tacit.privacy.statement import Statement
from tacit.privacy.unit import Adjacency, Unit
from tacit.tasks import TaskSet
from tacit.tasks._labels import group_labels

__all__ = ["PrivateSearch", "repetitions", "selection_event", "selection_noise"]

_COMMON = PrivateEstimator._parameter_constraints
_ESTIMATOR = (
    "a private estimator such as SharedPriorRegressor(); others can be tuned locally for free"
)
_ROWS = "epsilon_rows"
_STEPS = 2.0**30
_PAYS = "score: repeat-and-select"


def _log_decay(mean: float) -> float:
    """Return log(1/γ) of the logarithmic distribution with this mean, (1/γ − 1)/log(1/γ)."""
    low, high = 1e-9, 700.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.expm1(middle) / middle < mean else (low, middle)
    return low


def repetitions(mean: float, entropy: Entropy) -> int:
    """Draw the number of runs: P[K = k] ∝ (1 − γ)^k / k, k ≥ 1, with the given mean.

    The 64-bit uniform behind the draw makes the distribution exact to 2⁻⁶⁴ in total.
    """
    decay = _log_decay(mean)
    log_keep = math.log1p(-math.exp(-decay))
    left, count = (entropy.integer(1) + 0.5) / 2.0**64, 0
    while left > 0:
        count += 1
        left -= math.exp(count * log_keep - math.log(count * decay))
        if count > 10_000 * mean:
            break
    return count


def selection_event(noise_multiplier: float, mean: float) -> Any:
    """Return the event of publishing the best of a random number of Gaussian runs."""
    from dp_accounting import dp_event

    inner = dp_event.GaussianDpEvent(noise_multiplier)
    return dp_event.RepeatAndSelectDpEvent(inner, mean=mean, shape=0.0)


def selection_noise(epsilon: float, delta: float, mean: float) -> float:
    """Return the smallest noise multiplier of a run with which the selection is within (ε, δ).

    Guarantee: `epsilon_of` of `selection_event` at the returned value is at most ε; the search
    ends on the side of more noise.
    """
    low, high = 1e-2, 1.0
    while epsilon_of(selection_event(high, mean), delta) > epsilon:
        low, high = high, 2 * high
        if high > 1e9:
            raise InvalidInput(f"epsilon={epsilon!r}: too small for a selection at δ = {delta:g}")
    while high / low > 1.0001:
        middle = math.sqrt(low * high)
        cost = epsilon_of(selection_event(middle, mean), delta)
        low, high = (low, middle) if cost <= epsilon else (middle, high)
    return high


def _classifies(search: PrivateSearch) -> bool:
    return hasattr(search.estimator, "predict_proba")


class PrivateSearch(MetaEstimatorMixin, BaseEstimator):
    """The best of randomly drawn candidates, with the search itself paid for.

    Parameters
    ----------
    estimator : private estimator with Gaussian releases
        Its own ``epsilon`` and ``delta`` are set by the search, whose ``ledger`` is charged.
    parameters : mapping of names to lists of values
        Candidates are all combinations; each run draws one uniformly.
    epsilon : float, default 1.0
        Budget of the whole search, with the published model.
    delta : "auto" or float
    mean_runs : float, default 10.0
        Mean of the random number of runs.
    score_share : float, default 0.2
        Share of each run's budget (in μ²) that its score gets.
    test_size : float, default 0.3
        Share of every task's rows that its model is scored on.
    ledger : Ledger, path or None
    data : str or None
        The ledger's name for these rows; None counts on every line. See `Ledger`.
    random_state : int or None
        For tests only: marks the statement as not private.

    Attributes
    ----------
    best_estimator_, best_params_, best_score_ : the published run; the score is noisy
    privacy_, billboard_ : statement and releases of the whole search

    Guarantee: joint DP, unit task, replace-one. One run releases the estimator's Gaussian
    aggregates (together μ_r-GDP) and the noisy mean over tasks of scores clipped to [0, 1] (each
    task moves the sum by at most 1), so it is the Gaussian event with μ² = μ_r² + μ_s². The number
    of runs is logarithmic and independent of the data, only the run with the best noisy score is
    published, and Papernot & Steinke (2022), Theorem 2 with η = 0, bounds the Rényi divergence of
    that. Runs that are not published never leave the process. A run whose releases cost more than
    planned raises `PrivacyLeak`. Row noise (``epsilon_rows``) is refused: each repetition would
    draw it anew, and the scores use the rows as they are.
    """

    def __init__(
        self,
        estimator: PrivateEstimator,
        parameters: Mapping[str, Sequence[Any]],
        *,
        epsilon: float = 1.0,
        delta: float | str = "auto",
        mean_runs: float = 10.0,
        score_share: float = 0.2,
        test_size: float = 0.3,
        ledger: Ledger | str | PathLike[str] | None = None,
        data: str | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.parameters = parameters
        self.epsilon = epsilon
        self.delta = delta
        self.mean_runs = mean_runs
        self.score_share = score_share
        self.test_size = test_size
        self.ledger = ledger
        self.data = data
        self.random_state = random_state

    _parameter_constraints: ClassVar[Constraints] = {
        "estimator": [rule(_check.instance, kinds=(PrivateEstimator,), wanted=_ESTIMATOR)],
        "parameters": [rule(_check.instance, kinds=(Mapping,), wanted="values by parameter")],
        "epsilon": [rule(_check.positive, remedy="use GridSearchCV if nothing is private")],
        "delta": ["auto", rule(_check.fraction, remedy='use "auto"; a search has no pure ε')],
        "mean_runs": [rule(_check.above, limit=1, remedy="use 10")],
        "score_share": [rule(_check.fraction, remedy="0.2 is a good start")],
        "test_size": [rule(_check.fraction, remedy="0.3 is a good start")],
        **{name: _COMMON[name] for name in ("ledger", "data", "random_state")},
    }

    _checkpoint: Unkept | Checkpoint = Unkept()

    def _check_parameters(self) -> list[dict[str, Any]]:
        validate(self)
        refuse_other_ledger(self.estimator.ledger, self.ledger)
        names, known = tuple(self.parameters), set(self.estimator.get_params())
        reserved = {"epsilon", "delta", "ledger", "data", "random_state"} & set(names)
        if not names or reserved or not set(names) <= known:
            wrong = sorted(reserved or set(names) - known)
            raise InvalidInput(
                f"parameters={list(names)}: must name parameters of the estimator other than its "
                f"budget, ledger and seed; {wrong or 'none'} cannot be searched"
            )
        values = [list(self.parameters[name]) for name in names]
        if not all(values):
            raise InvalidInput("parameters: every name needs at least one value")
        asked = [getattr(self.estimator, "epsilon_rows", None), *self.parameters.get(_ROWS, ())]
        protected = [value for value in asked if value is not None]
        if protected:
            raise InvalidInput(
                f"epsilon_rows={protected[0]!r}: a search draws row noise again for every run and "
                "scores it on unprotected rows, so rows would not be protected; fit without a "
                "search, or leave out epsilon_rows"
            )
        if self.estimator._unit is not Unit.TASK:
            raise InvalidInput(
                f"estimator={type(self.estimator).__name__}: protects rows, and a search scores "
                "whole tasks on unprotected rows; choose its settings from public numbers or on "
                "other data"
            )
        return [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*values)]

    def fit(self, X: Any, y: Any = None, *, tasks: Any = None) -> Self:
        """Search, and keep the run that was published."""
        candidates = self._check_parameters()
        X, tasks = _input.without_task_column(X, tasks)
        values = self.estimator._target_values(y, len(X))
        labels = _input.labels_of_rows(tasks, len(X))
        task_set = TaskSet.from_arrays(X, tasks=labels)
        entropy = self._checkpoint.entropy(self.random_state)
        seed = entropy.integer(1) % 2**32
        test = task_set.held_out(self.test_size, random_state=seed)
        event, delta, held = self._held(task_set.n_tasks)
        names = np.empty(task_set.n_tasks, dtype=object)
        names[:] = list(task_set.names)
        parts = [
            (task_set.order[part], names[task_set.task_of_row[part]]) for part in (~test, test)
        ]
        with held as billboard:
            best: tuple[float, Any, dict[str, Any]] | None = None
            for number in range(repetitions(self.mean_runs, entropy)):
                chosen = candidates[entropy.integer(2) % len(candidates)]
                # A search that is taken up again must make every run again as it was.
                kept = Unkept(entropy.child("run", number) if entropy.system else None)
                model, score = self._run(chosen, event, delta, X, values, parts, entropy, kept)
                if best is None or score > best[0]:
                    best = (score, model, chosen)
            if best is None:
                raise PrivacyLeak("the search drew no run; fit again")
            self._publish(best, event, billboard, delta, task_set.n_tasks)
        return self

    def _held(self, n_tasks: int) -> tuple[Any, float, AbstractContextManager[Billboard]]:
        """Return the search's event, its δ, and the billboard whose budget is set aside first."""
        delta = default_delta(n_tasks) if self.delta == "auto" else float(self.delta)
        noise = selection_noise(self.epsilon, delta, self.mean_runs)
        event = selection_event(noise, self.mean_runs)
        ledger = open_ledger(self.ledger, self.epsilon, delta)

        def reserve(run: str | None) -> Reservation:
            return ledger.reserve(
                [event],
                unit=Unit.TASK,
                adjacency=Adjacency.REPLACE_ONE,
                data=self.data,
                delta=delta,
                label=f"PrivateSearch of {type(self.estimator).__name__}",
                run=run,
            )

        return event, delta, self._checkpoint.held(ledger, reserve)

    def _rehearse(self, sizes: Sizes) -> Statement:
        """Reserve and charge what a search would, without data, and return what it would state."""
        event, delta, held = self._held(sizes.n_tasks)
        with held as billboard:
            seeded = self.random_state is not None
            billboard.post(np.empty(0), event, label=_PAYS, seeded=seeded)
        return self._statement(self.estimator, billboard, delta, sizes.n_tasks)

    @staticmethod
    def _statement(model: Any, billboard: Billboard, delta: float, n_tasks: int) -> Statement:
        statement = Statement.of_run(
            billboard,
            unit=Unit.TASK,
            adjacency=Adjacency.REPLACE_ONE,
            delta=delta,
            n_units=n_tasks,
            assumptions=("the choice among the candidates was made by accounted selection",),
        )
        stated: Statement = model._stated(statement)
        return stated

    def _run(
        self,
        chosen: dict[str, Any],
        event: Any,
        delta: float,
        X: Any,
        values: AnyArray,
        parts: list[tuple[AnyArray, AnyArray]],
        entropy: Entropy,
        kept: Unkept,
    ) -> tuple[Any, float]:
        """Fit one candidate on the training rows and score it on the others, both with noise."""
        mu = 1 / event.event.noise_multiplier
        mu_score = mu * math.sqrt(self.score_share)
        budget = gaussian_epsilon(mu * math.sqrt(1 - self.score_share) * (1 - 1e-9), delta)
        seed = None if entropy.system else entropy.integer(1) % 2**32
        model = clone(self.estimator).set_params(
            **chosen, epsilon=budget, delta=delta, ledger=None, data=None, random_state=seed
        )
        model._checkpoint = kept
        (train, train_tasks), (test, test_tasks) = parts
        model.fit(_input.take_rows(X, train), values[train], tasks=train_tasks)
        spent = compose(list(model.billboard_.events), delta=delta, accountant="gdp")
        if spent.epsilon > gaussian_epsilon(mu * math.sqrt(1 - self.score_share), delta):
            raise PrivacyLeak(f"{type(model).__name__} spent more than its share of the search")
        # Tasks of one row each have no score, but a search that failed would tell of their rows.
        scores: Array = np.zeros(1)
        if test.size:
            scores = _bounded_scores(model, _input.take_rows(X, test), values[test], test_tasks)
        mechanism = Gaussian(sensitivity=1.0, noise_multiplier=1 / mu_score)
        # On a public step scores add up exactly, and one task moves the sum by 1 and no more.
        total = np.trunc(scores * _STEPS).sum() / _STEPS
        released = mechanism.release(np.array([total]), entropy)
        return model, float(released.value[0]) / max(1, len(model.task_names_))

    def _publish(
        self,
        best: tuple[float, Any, dict[str, Any]],
        event: Any,
        billboard: Billboard,
        delta: float,
        n_tasks: int,
    ) -> None:
        from dp_accounting import dp_event

        score, model, chosen = best
        # The first posting pays for everything; the rest of the published run comes with it.
        seeded = self.random_state is not None
        whole = Billboard()
        whole.post(np.array([score]), event, label=_PAYS, seeded=seeded)
        for posting in model.billboard_:
            free = dp_event.NoOpDpEvent()
            facts = {name: getattr(posting, name) for name in ("label", "sound", "seeded", "call")}
            whole.post(posting.value, free, **facts)
        _go_on(billboard, whole)
        self.best_score_, self.best_estimator_, self.best_params_ = score, model, chosen
        self.billboard_ = billboard
        self.privacy_ = self._statement(model, billboard, delta, n_tasks)
        model.privacy_, model.billboard_ = self.privacy_, billboard

    def predict(self, X: Any, *, tasks: Any = None) -> AnyArray:
        """Predict with the published run's models."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict(X, tasks=tasks)

    @available_if(_classifies)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, *, tasks: Any = None) -> Array:
        """Return class probabilities of the published run's models."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.predict_proba(X, tasks=tasks)

    def score(self, X: Any, y: Any, *, tasks: Any = None) -> float:
        """Return the published run's R² or accuracy."""
        check_is_fitted(self, "best_estimator_")
        return float(self.best_estimator_.score(X, y, tasks=tasks))


def _go_on(billboard: Billboard, whole: Billboard) -> None:
    """Post what ``whole`` holds and ``billboard``, taken up again, does not yet."""
    for posting in whole:
        if posting.number < len(billboard):
            if billboard[posting.number].hash != posting.hash:
                raise PrivacyLeak(
                    "the search comes out as another one than before it was interrupted; go on "
                    "with the same data, settings and version, or start anew"
                )
            continue
        facts = {name: getattr(posting, name) for name in ("label", "sound", "seeded", "call")}
        billboard.post(posting.value, posting.event, **facts)


def _bounded_scores(model: Any, rows: Any, values: AnyArray, names: AnyArray) -> Array:
    """Return one score in [0, 1] a task: accuracy, or R² against the task's own mean.

    Guarantee: clipped, so replacing one task moves the sum by at most 1; a task whose numbers
    overflow scores 0, and nobody is told.
    """
    predicted = model.predict(rows, tasks=names)
    index = group_labels(names)[0]
    count = np.bincount(index)
    if hasattr(model, "classes_"):
        return np.bincount(index, weights=(predicted == values).astype(float)) / count
    values = values.astype(float)
    with np.errstate(all="ignore"):
        mean = np.bincount(index, weights=values) / count
        error = np.bincount(index, weights=(predicted - values) ** 2)
        spread = np.bincount(index, weights=(values - mean[index]) ** 2)
        ratio = np.divide(error, spread, out=np.ones_like(error), where=spread > 0)
    return np.clip(1 - np.where(np.isfinite(ratio), ratio, 1.0), 0.0, 1.0)
