"""Twenty hospitals learn how long patients stay, and none of them shows its patients.

Run it, then change ``epsilon``, the method, or the number of hospitals.
"""

import numpy as np

import tacit
from tacit.datasets import load_hospitals

data = load_hospitals()
train = np.arange(len(data.y)) % 2 == 0


def error(model: object) -> float:
    """Return the mean squared error on the other half of the patients, over the variance."""
    predicted = model.predict(data.X[~train], tasks=data.tasks[~train])
    return float(np.mean((predicted - data.y[~train]) ** 2) / data.y[~train].var())


alone = tacit.SingleTaskRegressor().fit(data.X[train], data.y[train], tasks=data.tasks[train])
print(f"each hospital alone      {error(alone):.3f}")
for epsilon in (1.0, 10.0, float("inf")):
    model = tacit.SharedPriorRegressor(epsilon=epsilon)
    model.fit(data.X[train], data.y[train], tasks=data.tasks[train])
    print(f"together, epsilon = {epsilon:<5g} {error(model):.3f}")
print()
print(tacit.SharedPriorRegressor(epsilon=1.0).plan(n_tasks=20, n_features=data.X.shape[1]))
