"""Private learning of neural models with the face of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit._types import Array
from tacit.estimators._kinds import MultiTaskClassifier, MultiTaskRegressor
from tacit.neural._cohorts import Cohorts, Pulled

__all__ = [
    "NeuralMeanRegularizedClassifier",
    "NeuralMeanRegularizedRegressor",
    "PrivateFedAvgClassifier",
    "PrivateFedAvgRegressor",
    "PrivateFedProxClassifier",
    "PrivateFedProxRegressor",
]


class _NeuralMeanRegularized(Pulled):
    _personal = True


class _SoftmaxClassifier(MultiTaskClassifier):
    def predict_proba(self, X: Any, *, tasks: Any = None) -> Array:
        """Return the probability of every class."""
        scores = self._scores(X, tasks)
        if scores.shape[1] == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        probabilities: Array = powers / powers.sum(axis=1, keepdims=True)
        return probabilities


class NeuralMeanRegularizedClassifier(_SoftmaxClassifier, _NeuralMeanRegularized):
    """Personal neural classifiers (softmax, any number of classes) drawn to a shared centre.

    Parameters
    ----------
    epsilon : float, default 1.0
        Privacy budget for one whole task; ``float("inf")`` is the same conversation without noise.
    delta : "auto" or float
    model : "logistic", "mlp", "cnn", "cnn1d" or tacit.neural.Model
        A ready model of the data's sizes, or pure functions of your own.
    n_rounds : int, default 10
        Releases; the budget is divided among them.
    cohort : "everyone", float or int
        Who takes part in a round: everybody; every task by its own secret coin of that probability
        (Poisson, amplified, zero-out adjacency); so many tasks, drawn at random (not amplified).
    local_epochs, local_steps, batch_size, learning_rate
        Passes (or steps) of stochastic gradient descent of one task in one round. With
        ``learning_rate="auto"`` the linear model is trained by 15 (or ``local_steps``) steps on
        all rows, as long as the task's own rows allow; networks take 0.1.
    strength : "auto" or float
        λ of the pull (λ/2)‖w − w̃‖², in force at every step. "auto": a task with the linear model
        finds it by the number and the length of its own rows; networks take 0.01.
    clip : float or "quantile", default 1.0
        γ, the public radius of an update; or the median of the updates' lengths, found privately
        on the way (3 % more noise).
    server : "plain", "momentum", "adam" or an optax optimiser
        What moves the centre, by ``server_rate``; reads releases only.
    fine_tune : "auto", None, "vanilla", "mean-regularized", "kl" or "ewc"
        What a task does after the last release, for ``fine_tune_epochs``. "auto" lets every task
        settle by its own rows how closely to follow the centre, or to learn alone, and trains every
        round from the centre; all others keep personal models between rounds, and None
        leaves them as the last round did, as printed in the paper.
    relations : None, sequence of n_tasks labels, or tacit.penalties.GraphLaplacian
        Fixed and public. None: one mean for all. Labels, in the order of the sorted task names: one
        mean a cluster. A Laplacian: every task is drawn to its neighbours, each of which then
        releases its own noisy model, so that noise is averaged over neighbours only.
    ledger, data, random_state, engine, progress, unknown_task
        See :class:`tacit.estimators.PrivateEstimator`. ``random_state`` is also the public seed of
        the first parameters and of the order of minibatches (0 if it is None).

    Fitted attributes: ``models_`` (n_tasks, n_parameters), personal, (n_tasks, 0) if everybody has
    the shared model; ``shared_model_`` (n_parameters,), the centre, from releases only;
    ``history_`` with ε so far in every row; ``task_names_``, ``privacy_``, ``billboard_``.

    Guarantee: (ε, δ) joint differential privacy for every task, against all other tasks together;
    replace-one, or zero-out with a Poisson cohort; the curator is trusted. Proof in
    :class:`tacit.neural.CohortProtocol`.
    """


class NeuralMeanRegularizedRegressor(MultiTaskRegressor, _NeuralMeanRegularized):
    """Personal neural regressors drawn to a shared centre; scale the target by a public constant.

    Parameters and guarantee are those of :class:`NeuralMeanRegularizedClassifier`.
    """

    _classifies = False


class PrivateFedAvgClassifier(_SoftmaxClassifier, Cohorts):
    """One global classifier by private federated averaging, then fine-tuned by every task.

    With ``fine_tune=None`` everybody has the global model, which is the usual baseline.

    Parameters and guarantee are those of :class:`NeuralMeanRegularizedClassifier`, without
    ``strength``.
    """


class PrivateFedAvgRegressor(MultiTaskRegressor, Cohorts):
    """One global regressor by private federated averaging, then fine-tuned by every task.

    Parameters and guarantee are those of :class:`PrivateFedAvgClassifier`.
    """

    _classifies = False


class PrivateFedProxClassifier(_SoftmaxClassifier, Pulled):
    """`PrivateFedAvgClassifier` with FedProx's proximal term of ``strength`` in local training.

    Parameters and guarantee are those of :class:`NeuralMeanRegularizedClassifier`.
    """


class PrivateFedProxRegressor(MultiTaskRegressor, Pulled):
    """`PrivateFedAvgRegressor` with FedProx's proximal term of ``strength`` in local training.

    Parameters and guarantee are those of :class:`NeuralMeanRegularizedClassifier`.
    """

    _classifies = False
