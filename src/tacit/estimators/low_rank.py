"""Models in a shared low-dimensional subspace."""

from __future__ import annotations

from tacit.estimators._kinds import MultiTaskClassifier, MultiTaskRegressor
from tacit.estimators._structured import StructuredEstimator

__all__ = ["LowRankClassifier", "LowRankRegressor"]


class LowRankRegressor(MultiTaskRegressor, StructuredEstimator):
    """Regressions whose models share a low-dimensional subspace.

    Parameters
    ----------
    epsilon : float, default 1.0
        Privacy budget for one whole task; ``float("inf")`` minimises the loss with a trace-norm
        penalty, without privacy.
    delta : "auto" or float
    alpha : "auto" or float
        At ``epsilon=inf`` the strength of the trace norm on the sum of the tasks' mean losses,
        features scaled to unit variance ("auto": cross-validation within tasks). With
        ``update="proximal"`` the public strength of the shared map; "theory" is the order of the
        paper's theorems, for "soft-threshold". With ``update="fit"`` every task finds the strength
        by its own leave-one-out errors.
    mechanism : "auto", "gaussian", "two-sided-wishart" or "wishart-published"
        "auto" is Gaussian, or two-sided Wishart if ``delta=0``. The published one leaks.
    clip : "auto" or float
        "auto" sends directions; a number is a public radius.
    n_rounds : "auto", "theory" or int
        Releases, 1 for ``update="fit"`` and 10 for "proximal"; the budget is divided. "theory":
        the paper's theorems (`tacit.protocols._theory`), for "proximal".
    update : "fit" or "proximal"
        Fit at home to the end under the released shape, or the paper's gradient rounds.
    shrinkage : "optimal" or "soft-threshold"
        How the noisy moment is read; "soft-threshold" is the paper's with a safe shift.
    iterate : "last" or "average"
        What "soft-threshold" rounds end with; the average is that of Theorems 3, 7 and 8.
    accelerated, strong_convexity : bool, float
        Momentum, and a ridge term μ/2‖w‖², of the gradient rounds.
    allocation, allocation_ratio : "auto" or float, float or None
        Budget of round t ∝ t^allocation, or allocation_ratio^(−t); "auto" is the paper's optimum.
    fit_intercept : bool, default True
        An unpenalised intercept, which stays with the task.
    epsilon_rows, row_norm, target_bound : float or None, float, float or None
        Protect every row as well (see `tacit.protocols._row_protection`): its budget, the public
        norm rows are clipped to, and the public bound |y| is clipped to.
    ledger, data, random_state, engine, progress, unknown_task
        See :class:`tacit.estimators.PrivateEstimator`.

    Guarantee: (ε, δ) joint differential privacy for every task under replace-one, against all other
    tasks together; the curator is trusted. Proof in
    :class:`tacit.protocols.model_protected.ModelProtectedProtocol`.
    """


class LowRankClassifier(MultiTaskClassifier, StructuredEstimator):
    """Logistic regressions whose models share a low-dimensional subspace.

    Parameters and guarantee are those of :class:`LowRankRegressor`; labels need no bound.
    """
