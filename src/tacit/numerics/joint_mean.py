"""All tasks' models together with the mean they are drawn to, solved exactly.

Minimises over W and w̃

    Σ_i [ Σ_r ℓ(x_rᵀ w_i, y_r) + (α/2)‖w_i − w̃‖² ] + (α ρ/2)‖w̃‖²,  ρ = 0.01.

Given w̃ the tasks are apart, and their minima are affine in w̃, so for the squared loss w̃ solves one
d × d system; other losses repeat that with Newton's quadratic model (iteratively reweighted least
squares, halving the step while the objective rises). The small ρ keeps w̃ finite when tasks are few
or features collinear; with one task the method is a ridge regression.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit._types import Array
from tacit.losses import Loss
from tacit.numerics.buckets import Bucket, size_buckets
from tacit.numerics.objective import Objective
from tacit.numerics.stacks import inv
from tacit.tasks import TaskSet

__all__ = ["JointMean", "joint_mean", "select_alpha"]

_SHARED_RIDGE = 0.01
_MAX_NEWTON = 50
_HALVINGS = 20
_TUNING_TASKS = 1000  # enough to choose one number; the fit itself uses all tasks


@dataclass(frozen=True)
class JointMean:
    """Every task's model (m, d) and the mean w̃ (d,) they are drawn to."""

    W: Array
    mean: Array

    def objective(self, objective: Objective, alpha: float) -> float:
        """Return the value that `joint_mean` minimises."""
        losses = objective.value(self.W) * objective.tasks.counts
        spread = np.sum((self.W - self.mean) ** 2) + _SHARED_RIDGE * np.sum(self.mean**2)
        return float(losses.sum() + 0.5 * alpha * spread)


def joint_mean(
    tasks: TaskSet, loss: Loss, alpha: float, *, start: JointMean | None = None
) -> JointMean:
    """Solve for all models and their mean at one ``alpha``; ``start`` warms the iteration."""
    objective = Objective(tasks, loss)
    d = tasks.n_features
    now = start or JointMean(np.zeros((tasks.n_tasks, d)), np.zeros(d))
    value = now.objective(objective, alpha)
    for _ in range(_MAX_NEWTON):
        target = _newton_target(tasks, loss, objective, now, alpha)
        step = 1.0
        for _ in range(_HALVINGS):
            trial = JointMean(
                now.W + step * (target.W - now.W), now.mean + step * (target.mean - now.mean)
            )
            trial_value = trial.objective(objective, alpha)
            if trial_value <= value + 1e-12 * abs(value):
                break
            step /= 2
        gain, now, value = value - trial_value, trial, trial_value
        if loss.name == "squared" or gain <= 1e-10 * max(1.0, abs(value)):
            break
    return now


def _newton_target(
    tasks: TaskSet, loss: Loss, objective: Objective, now: JointMean, alpha: float
) -> JointMean:
    """Return the minimiser of the quadratic model around ``now``."""
    d = tasks.n_features
    z = objective.predict(now.W)
    y = np.asarray(tasks.y, dtype=np.float64)
    weights = loss.second_derivative(z, y)
    working = weights * z - loss.derivative(z, y)
    eye = np.eye(d)

    def responses(bucket: Bucket) -> tuple[Array, Array]:
        """Return (H_i + αI)⁻¹ and X_iᵀ working_i."""
        rows = bucket.stack(tasks.X)
        flipped = rows.transpose(0, 2, 1)
        hessian = flipped @ (rows * bucket.stack(weights)[..., None])
        return inv(hessian + alpha * eye), np.einsum("bij,bj->bi", flipped, bucket.stack(working))

    normal = alpha * (tasks.n_tasks + _SHARED_RIDGE) * eye
    right = np.zeros(d)
    for bucket in size_buckets(tasks.offsets, d):
        inverse, pull = responses(bucket)
        normal -= alpha**2 * inverse.sum(axis=0)
        right += alpha * np.einsum("bij,bj->bi", inverse, pull).sum(axis=0)
    mean = np.linalg.solve(normal, right)
    W = np.empty_like(now.W)
    for bucket in size_buckets(tasks.offsets, d):
        inverse, pull = responses(bucket)
        W[bucket.tasks] = np.einsum("bij,bj->bi", inverse, pull + alpha * mean)
    return JointMean(W, mean)


def select_alpha(tasks: TaskSet, loss: Loss, alphas: Array, *, n_folds: int = 5) -> float:
    """Return the ``alpha`` with the smallest held-out loss over folds within tasks.

    Not private: it is for ``epsilon=inf``. At most 1000 tasks are used, picked evenly.
    """
    if tasks.n_tasks > _TUNING_TASKS:
        tasks = tasks.take_tasks(np.linspace(0, tasks.n_tasks - 1, _TUNING_TASKS).astype(int))
    n_folds = min(n_folds, int(tasks.counts.max()))
    if n_folds < 2:  # one row a task: nothing to hold out, so lean on the mean
        return float(np.max(alphas))
    held_out = np.zeros(len(alphas))
    for train, test in tasks.kfold(n_folds, random_state=0):
        position = {name: index for index, name in enumerate(train.names)}
        rows = np.array([position[name] for name in test.names])[test.task_of_row]
        fit: JointMean | None = None
        for index in np.argsort(alphas)[::-1]:
            fit = joint_mean(train, loss, float(alphas[index]), start=fit)
            z = np.einsum("nd,nd->n", test.X, fit.W[rows])
            held_out[index] += loss.value(z, np.asarray(test.y)).sum()
    return float(alphas[int(np.argmin(held_out))])
