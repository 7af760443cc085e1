"""What all estimators of cohorts share: parameters, the conversation, predictions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import optax
from sklearn.utils.validation import check_is_fitted

from tacit import _check
from tacit._types import AnyArray, Array
from tacit.errors import InvalidInput
from tacit.estimators import _input
from tacit.estimators._base import Found
from tacit.estimators._constraints import Constraints, rule
from tacit.estimators._private import Conversation, PrivateEstimator, Sizes
from tacit.neural._outputs import outputs_of
from tacit.neural.cohort import LocalTraining
from tacit.neural.finetune import FINE_TUNING
from tacit.neural.losses import cross_entropy, squared_error
from tacit.neural.models import Model, image_cnn, mlp, multinomial_logistic, sensor_cnn
from tacit.neural.protocol import Centre, CohortProtocol, Ending
from tacit.neural.pulls import NoPull, Pull, Quadratic
from tacit.neural.radius import FixedRadius, QuantileRadius
from tacit.neural.relations import Relations
from tacit.neural.theory import suggested
from tacit.penalties import GraphLaplacian
from tacit.privacy.accounting.composition import compose
from tacit.privacy.billboard import Billboard
from tacit.privacy.ledger import Ledger
from tacit.privacy.plan import Plan
from tacit.privacy.schedule import Cohort, Everyone, FixedSize, Poisson, Schedule
from tacit.tasks import TaskSet

__all__ = ["Cohorts", "Pulled", "cohort_from"]

_MODELS = ("logistic", "mlp", "cnn", "cnn1d")
_SERVERS = ("plain", "momentum", "adam")
_CLIP = 'give a public radius, or "quantile"'
_DESCENT = 15  # steps on all rows in a turn of a linear model
_RATE, _STRENGTH = 0.1, 0.01  # of a network
_HIDDEN = (
    "who took part in a round is known to the curator, and to each task about itself alone: no "
    "size and no member of a cohort is released"
)
_FREE = (
    "what tasks do after the last release reads their own rows and the releases only, and costs "
    "nothing"
)


_RELATIONS = (GraphLaplacian, Sequence, np.ndarray)
_RELATED = "None, a public cluster label for every task, or a tacit.penalties.GraphLaplacian"
_WHOLE = rule(_check.positive_integer, remedy="give a whole number ≥ 1")


def cohort_from(name: str, given: Any) -> Cohort:
    """Return who takes part in a round."""
    remedy = (
        '"everyone", the probability to join a round (a float below 1) or the number of members'
    )
    if isinstance(given, str | bool):
        if given != "everyone":
            raise InvalidInput(f"{name}={given!r}: must be {remedy}")
        return Everyone()
    if isinstance(given, int | np.integer):
        return FixedSize(_check.positive_integer(name, given, remedy=f"give {remedy}"))
    return Poisson(_check.fraction(name, given, remedy=f"give {remedy}"))


class Cohorts(PrivateEstimator):
    """Rounds in which a cohort trains a model and the curator releases the noisy mean update."""

    mechanism = "auto"
    _parameter_constraints: ClassVar[Constraints] = {
        "model": [rule(_check.one_of, choices=_MODELS, kinds=(Model,))],
        "n_rounds": [_WHOLE],
        "cohort": [cohort_from],
        "local_epochs": [_WHOLE],
        "local_steps": [None, rule(_check.positive_integer, remedy="None counts epochs")],
        "batch_size": [_WHOLE],
        "learning_rate": ["auto", rule(_check.positive, remedy='0.1 is usual, or "auto"')],
        "clip": ["quantile", rule(_check.positive, allow_inf=True, remedy=_CLIP)],
        "server": [rule(_check.one_of, choices=_SERVERS, kinds=(optax.GradientTransformation,))],
        "server_rate": [rule(_check.positive, remedy="1.0 is usual")],
        "fine_tune": [None, rule(_check.one_of, choices=("auto", *FINE_TUNING))],
        "fine_tune_epochs": [_WHOLE],
        "relations": [None, rule(_check.instance, kinds=_RELATIONS, wanted=_RELATED)],
    }
    _pull: Pull = NoPull()
    _personal: bool = False
    _task_arrays = ("models_",)
    _public_arrays = ("shared_model_",)
    _given_again: ClassVar[tuple[str, ...]] = ("model",)
    _classifies: bool = True
    models_: AnyArray
    shared_model_: AnyArray

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | str = "auto",
        model: str | Model = "logistic",
        n_rounds: int = 10,
        cohort: str | float = "everyone",
        local_epochs: int = 1,
        local_steps: int | None = None,
        batch_size: int = 10,
        learning_rate: float | str = "auto",
        clip: float | str = 1.0,
        server: Any = "plain",
        server_rate: float = 1.0,
        fine_tune: str | None = "auto",
        fine_tune_epochs: int = 20,
        relations: Any = None,
        ledger: Ledger | str | PathLike[str] | None = None,
        data: str | None = None,
        random_state: Any = None,
        engine: Any = "local",
        progress: Any = None,
        unknown_task: str = "error",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.model = model
        self.n_rounds = n_rounds
        self.cohort = cohort
        self.local_epochs = local_epochs
        self.local_steps = local_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.clip = clip
        self.server = server
        self.server_rate = server_rate
        self.fine_tune = fine_tune
        self.fine_tune_epochs = fine_tune_epochs
        self.relations = relations
        self.ledger = ledger
        self.data = data
        self.random_state = random_state
        self.engine = engine
        self.progress = progress
        self.unknown_task = unknown_task

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self._private and self.clip != "quantile":
            _check.positive("clip", self.clip, remedy=_CLIP)
        if self.fine_tune == "kl" and not self._classifies:
            raise InvalidInput("fine_tune='kl': compares predicted classes; a regressor has none")

    def _strength(self, training: LocalTraining) -> float | None:  # noqa: ARG002
        """Return λ of the pull; None: found by every task for itself."""
        return 0.0

    def _server(self) -> optax.GradientTransformation:
        if isinstance(self.server, optax.GradientTransformation):
            return self.server
        if self.server == "adam":
            return optax.adam(self.server_rate)
        return optax.sgd(self.server_rate, momentum=0.9 if self.server == "momentum" else None)

    def _network(self, sizes: Sizes) -> Model:
        """Return the model for public sizes; a classifier has one output a class."""
        d, k = sizes.n_features, sizes.n_outputs
        k = 2 if self._classifies and k == 1 else k
        if isinstance(self.model, Model):
            return self.model
        if self.model is None:
            raise InvalidInput(
                "model=None: this model was saved with functions of your own, which no file holds; "
                "give them again with set_params(model=…)"
            )
        if self.model == "cnn":
            if math.isqrt(d) ** 2 != d:
                raise InvalidInput(
                    f"model='cnn': {d} features are no square image; use 'cnn1d', or give a Model "
                    "such as tacit.neural.image_cnn(n_outputs, size, n_channels)"
                )
            return image_cnn(k, math.isqrt(d))
        if self.model == "cnn1d":
            return sensor_cnn(k, d)
        return mlp(d, k) if self.model == "mlp" else multinomial_logistic(d, k)

    def _training(self, sizes: Sizes) -> LocalTraining:
        steps = None if self.local_steps is None else int(self.local_steps)
        training = LocalTraining(
            self._network(sizes),
            cross_entropy if self._classifies else squared_error,
            self._pull,
            batch_size=int(self.batch_size),
            epochs=int(self.local_epochs),
            steps=steps,
        )
        if training.linear and self.learning_rate == "auto":
            return replace(training, full_batch=True, steps=_DESCENT if steps is None else steps)
        return training

    def _protocol(self, sizes: Sizes) -> CohortProtocol:
        training = self._training(sizes)
        strength = self._strength(training)
        rate = _RATE if isinstance(self.learning_rate, str) else float(self.learning_rate)
        cohort = cohort_from("cohort", self.cohort)
        if isinstance(cohort, FixedSize) and cohort.size > sizes.n_tasks:
            raise InvalidInput(f"cohort={cohort.size}: there are only {sizes.n_tasks} tasks")
        return CohortProtocol(
            training,
            sizes.n_tasks,
            int(self.n_rounds),
            QuantileRadius() if isinstance(self.clip, str) else FixedRadius(float(self.clip)),
            self._server(),
            cohort=cohort,
            strength=strength,
            learning_rate=rate,
            # Who ends anew from the centre needs no model between turns, and an update trained from
            # there says more than the distance of a model that has long been its own.
            personal=self._personal and self.fine_tune != "auto",
            ending=Ending(
                self.fine_tune,
                int(self.fine_tune_epochs),
                strength or _STRENGTH,  # of the ending's own pull, though rounds may have none
                rate,
            ),
            classes=self._classifies,
            seed=0 if self.random_state is None else int(self.random_state),
            relations=None
            if self.relations is None
            else Relations.of(self.relations, sizes.n_tasks),
        )

    def _found(self, run: Conversation, sizes: Sizes) -> Found:
        public: Centre = run.public
        statements = dict(run.statements)
        return Found(
            statement=statements.pop("privacy_"),
            history=self._priced(run, sizes),
            billboard=run.billboard,
            extra={
                "models_": run.models,
                "shared_model_": self._protocol(sizes).shared(public),
                **statements,
            },
        )

    def _priced(self, run: Conversation, sizes: Sizes) -> tuple[dict[str, Any], ...]:
        """Add to every row of the history what the run had cost by then."""
        if not self._private:
            return run.history
        events, stated = run.billboard.events, run.statements["privacy_"]
        delta = self._run_delta(sizes)
        return tuple(
            {
                **row,
                "epsilon": compose(
                    events[: number + 1], delta=delta, adjacency=stated.adjacency
                ).epsilon,
            }
            for number, row in enumerate(run.history)
        )

    def _statements(self, schedule: Schedule, billboard: Billboard, sizes: Sizes) -> dict[str, Any]:
        statements = super()._statements(schedule, billboard, sizes)
        stated = statements["privacy_"]
        said = [_HIDDEN] if isinstance(schedule.rounds[0].cohort, Poisson) else []
        said += [_FREE] if self.fine_tune is not None else []
        if stated.private:
            statements["privacy_"] = replace(stated, assumptions=(*stated.assumptions, *said))
        return statements

    def plan(
        self, n_tasks: int, n_features: int, *, n_outputs: int = 1, n_rows: int | None = None
    ) -> Plan:
        """Return what a fit would release and cost, without data; see `PrivateEstimator.plan`.

        Beside it: rounds and λ that the paper's Theorems 3 and 5 suggest for the budget, where
        δ > 0; they are about Gaussian noise.
        """
        plan = super().plan(n_tasks, n_features, n_outputs=n_outputs, n_rows=n_rows)
        if not (self._private and plan.delta):
            return plan
        n_parameters = self._protocol(Sizes(n_tasks, n_features, n_outputs)).layout.size
        best = suggested(n_tasks, n_parameters, epsilon=self.epsilon, delta=plan.delta)
        pulled = not isinstance(self._pull, NoPull)
        return replace(
            plan,
            suggested_rounds=best.n_rounds,
            suggested_pull=best.pull if pulled else None,
        )

    @property
    def _has_shared(self) -> bool:
        return True

    def _append(self, models: Array) -> None:
        self.models_ = np.concatenate([self.models_, models])

    def _scores(self, X: Any, tasks: Any) -> Array:
        """Return (n_rows, k) outputs; of two classes the difference, (n_rows, 1)."""
        check_is_fitted(self)
        X, tasks = _input.without_task_column(X, tasks)
        rows = _input.features(self, X, reset=False)
        TaskSet.from_arrays(rows)  # refuses NaN and inf, with row and column named
        index = self._index_of_tasks(tasks, len(rows))
        if self._sizes is None:
            raise InvalidInput("this model's folder lacks its sizes; save it again")
        if not self.models_.shape[1]:
            index = np.full_like(index, -1)
        used, place = np.unique(index, return_inverse=True)
        models = np.empty((len(used), len(self.shared_model_)), np.float32)
        models[used >= 0] = self.models_[used[used >= 0]] if (used >= 0).any() else 0
        models[used < 0] = self.shared_model_
        protocol = self._protocol(self._sizes)
        network = protocol.training.model
        outputs = outputs_of(network, protocol.layout.tree(models), rows, place)
        return outputs[:, 1:] - outputs[:, :1] if self._two_classes else outputs

    @property
    def _two_classes(self) -> bool:
        return self._classifies and len(getattr(self, "classes_", ())) == 2


class Pulled(Cohorts):
    """Local training under the pull (λ/2)‖w − w̃‖², in force at every step."""

    _pull: Pull = Quadratic()
    _parameter_constraints: ClassVar[Constraints] = {
        "strength": ["auto", rule(_check.positive, remedy='0.01 to 1 is usual, or "auto"')],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | str = "auto",
        model: str | Model = "logistic",
        n_rounds: int = 10,
        cohort: str | float = "everyone",
        local_epochs: int = 1,
        local_steps: int | None = None,
        batch_size: int = 10,
        learning_rate: float | str = "auto",
        strength: float | str = "auto",
        clip: float | str = 1.0,
        server: Any = "plain",
        server_rate: float = 1.0,
        fine_tune: str | None = "auto",
        fine_tune_epochs: int = 20,
        relations: Any = None,
        ledger: Ledger | str | PathLike[str] | None = None,
        data: str | None = None,
        random_state: Any = None,
        engine: Any = "local",
        progress: Any = None,
        unknown_task: str = "error",
    ) -> None:
        super().__init__(
            epsilon,
            delta=delta,
            model=model,
            n_rounds=n_rounds,
            cohort=cohort,
            local_epochs=local_epochs,
            local_steps=local_steps,
            batch_size=batch_size,
            learning_rate=learning_rate,
            clip=clip,
            server=server,
            server_rate=server_rate,
            fine_tune=fine_tune,
            fine_tune_epochs=fine_tune_epochs,
            relations=relations,
            ledger=ledger,
            data=data,
            random_state=random_state,
            engine=engine,
            progress=progress,
            unknown_task=unknown_task,
        )
        self.strength = strength

    def _strength(self, training: LocalTraining) -> float | None:
        if isinstance(self.strength, str):
            return None if training.full_batch else _STRENGTH
        return float(self.strength)
