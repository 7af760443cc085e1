"""Every protocol with a schedule, on a few small tasks."""

import numpy as np
import pytest

from tacit.losses import LogisticLoss, SquaredLoss
from tacit.privacy.schedule import Schedule
from tacit.privacy.unit import Unit
from tacit.protocols._row_protection import RowProtection
from tacit.protocols.averaged import AveragedProtocol
from tacit.protocols.decomposed import DecomposedProtocol, ProximalDecomposedProtocol
from tacit.protocols.hierarchical import HierarchicalProtocol
from tacit.protocols.mean_regularized import MeanRegularizedProtocol
from tacit.protocols.model_protected import ModelProtectedProtocol
from tacit.protocols.proximal_protected import ProximalProtocol
from tacit.protocols.shared_prior import SharedPriorProtocol
from tacit.protocols.task_relationship import RelationshipProtocol
from tacit.tasks import TaskSet

N_TASKS, N_FEATURES = 9, 4

CONVERSATIONS = {
    "directions": (MeanRegularizedProtocol, {"n_turns": 2}),
    "updates": (MeanRegularizedProtocol, {"clip": 2.0, "n_turns": 2}),
    "averaged": (AveragedProtocol, {}),
    "averaged, clipped": (AveragedProtocol, {"clip": 2.0}),
    "hierarchical": (HierarchicalProtocol, {}),
    "hierarchical, no intercept": (HierarchicalProtocol, {"fit_intercept": False}),
    "shared prior": (SharedPriorProtocol, {"clip": 3.0, "share_intercept": True}),
    "relationships": (RelationshipProtocol, {}),
    "low rank": (ModelProtectedProtocol, {"shares": (1.0, 2.0)}),
    "group sparse": (ModelProtectedProtocol, {"diagonal": True}),
    "low rank and rows": (ModelProtectedProtocol, {"rows": True}),
    "gradient rounds": (ProximalProtocol, {"shares": (1.0,) * 3}),
    "soft threshold": (ProximalProtocol, {"shares": (1.0,) * 3, "shrinkage": "soft-threshold"}),
    "decomposed": (DecomposedProtocol, {}),
    "decomposed rounds": (ProximalDecomposedProtocol, {"shares": (1.0,) * 2}),
}


def tasks_of(loss, *, n_features=N_FEATURES, n_outputs=1):
    rng = np.random.default_rng(0)
    counts = rng.integers(5, 12, N_TASKS)
    task = np.repeat(np.arange(N_TASKS), counts)
    X = rng.standard_normal((len(task), n_features))
    W = rng.standard_normal((N_TASKS, 2)) @ rng.standard_normal((2, n_features)) + 1.0
    y = np.einsum("nd,nd->n", X, W[task]) + 0.1 * rng.standard_normal(len(task))
    if n_outputs > 1:
        y = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_outputs + 1)[1:-1])).astype(float)
    elif loss.name != "squared":
        y = (y > 0).astype(float)
    return TaskSet.from_arrays(X, y, task)


def staged(name, loss, *, epsilon=2000.0, delta=1e-5, n_features=N_FEATURES, n_outputs=1):
    """Return a protocol and its schedule; at so large an ε something stands out of the noise."""
    kind, options = CONVERSATIONS[name]
    if "rows" in options:
        bound = 3.0 if loss.name == "squared" else None
        options = {**options, "rows": RowProtection(n_outputs, 1.0, bound)}
    protocol = kind(
        loss=loss, n_tasks=N_TASKS, n_features=n_features, n_outputs=n_outputs, **options
    )
    by_unit = [
        Schedule.calibrate(rounds, epsilon=epsilon, delta=delta)
        for unit in (Unit.ROW, Unit.TASK)
        if (rounds := [round for round in protocol.rounds() if round.unit is unit])
    ]
    return protocol, by_unit[0] if len(by_unit) == 1 else by_unit[0].joined(by_unit[1])


@pytest.fixture(params=[SquaredLoss(), LogisticLoss()], ids=lambda loss: loss.name)
def loss(request):
    return request.param


@pytest.fixture(params=CONVERSATIONS)
def conversation(request):
    return request.param
