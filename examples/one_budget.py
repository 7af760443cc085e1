"""A ledger that outlives the program: three fits, one budget, and a refusal before any data."""

import tempfile
from pathlib import Path

import tacit
from tacit.datasets import load_hospitals
from tacit.privacy import Ledger

data = load_hospitals()
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "hospitals.db"
    Ledger(path, epsilon=1.0, delta=1e-5)
    for method in (tacit.LowRankRegressor, tacit.GroupSparseRegressor, tacit.SharedPriorRegressor):
        model = method(epsilon=0.6, ledger=path, data="stays 2026")
        try:
            model.fit(data.X, data.y, tasks=data.tasks)
        except tacit.errors.BudgetExceeded as refusal:
            print(f"{method.__name__}: refused; {refusal}")
        else:
            spent = Ledger(path).spent(unit="task")
            print(f"{method.__name__}: epsilon spent so far {spent.epsilon:.3f} of 1")
