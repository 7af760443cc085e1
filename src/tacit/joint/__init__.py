"""Joint solvers without privacy: what ε = ∞ uses, and the open baselines."""
