"""A shared part in a low-dimensional subspace plus a sparse part of each task's own."""

from __future__ import annotations

from os import PathLike
from typing import Any, ClassVar

from tacit import _check
from tacit.estimators._constraints import Constraints, anything, rule
from tacit.estimators._kinds import MultiTaskClassifier, MultiTaskRegressor
from tacit.estimators._private import Sizes
from tacit.estimators._structured import PUBLISHED, StructuredEstimator
from tacit.joint.decomposed import choose_decomposed_strengths, fit_decomposed
from tacit.joint.structured import StructuredFit
from tacit.penalties import OWN_PENALTIES, SHARED_PENALTIES
from tacit.privacy.ledger import Ledger
from tacit.protocols.decomposed import DecomposedProtocol, ProximalDecomposedProtocol
from tacit.protocols.protocol import Protocol
from tacit.tasks import TaskSet

__all__ = ["LowRankSparseClassifier", "LowRankSparseRegressor"]


class _LowRankSparse(StructuredEstimator):
    _parameter_constraints: ClassVar[Constraints] = {
        "shared": [rule(_check.one_of, choices=tuple(SHARED_PENALTIES))],
        "own": [rule(_check.one_of, choices=tuple(OWN_PENALTIES))],
        "own_alpha": ["auto", rule(_check.positive, remedy='use "auto" or a strength')],
        "mechanism": [anything],  # which there are depends on what is shared
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        shared: str = "low-rank",
        own: str = "entries",
        own_alpha: float | str = "auto",
        delta: float | str = "auto",
        alpha: float | str = "auto",
        mechanism: str = "auto",
        clip: float | str = "auto",
        n_rounds: int | str = "auto",
        update: str = "fit",
        shrinkage: str = "optimal",
        iterate: str = "last",
        accelerated: bool = True,
        strong_convexity: float = 0.0,
        allocation: float | str = "auto",
        allocation_ratio: float | None = None,
        fit_intercept: bool = True,
        epsilon_rows: float | None = None,
        row_norm: float = 1.0,
        target_bound: float | None = None,
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
            alpha=alpha,
            mechanism=mechanism,
            clip=clip,
            n_rounds=n_rounds,
            update=update,
            shrinkage=shrinkage,
            iterate=iterate,
            accelerated=accelerated,
            strong_convexity=strong_convexity,
            allocation=allocation,
            allocation_ratio=allocation_ratio,
            fit_intercept=fit_intercept,
            epsilon_rows=epsilon_rows,
            row_norm=row_norm,
            target_bound=target_bound,
            ledger=ledger,
            data=data,
            random_state=random_state,
            engine=engine,
            progress=progress,
            unknown_task=unknown_task,
        )
        self.shared = shared
        self.own = own
        self.own_alpha = own_alpha

    @property
    def _pattern(self) -> str:  # type: ignore[override]
        return self.shared

    def _check_parameters(self) -> None:
        super()._check_parameters()
        pure = "two-sided-wishart" if self.shared == "low-rank" else "laplace"
        _check.one_of("mechanism", self.mechanism, ("auto", "gaussian", pure, PUBLISHED))

    @property
    def _asked_for_moments(self) -> bool:
        return super()._asked_for_moments or self.own_alpha != "auto" or self.own != "entries"

    def _protocol(self, sizes: Sizes) -> Protocol[Any, Any]:
        if not self._asked_for_moments:
            return super()._protocol(sizes)
        settings = self._settings(sizes)
        if self.update == "fit":
            return DecomposedProtocol(**settings, rows=self._row_protection(sizes), sparse=self.own)
        strength = 0.1 if self.own_alpha == "auto" else float(self.own_alpha)
        return ProximalDecomposedProtocol(
            **settings,
            **self._proximal_settings(sizes),
            sparse=self.own,
            sparse_strength=strength,
        )

    def _open_fit(self, tasks: TaskSet) -> StructuredFit:
        strengths: tuple[float, float]
        if self.alpha == "auto" or self.own_alpha == "auto":
            strengths = choose_decomposed_strengths(
                tasks, self._loss, self.shared, self.own, fit_intercept=self.fit_intercept
            )
            if self.alpha != "auto":
                strengths = (float(self.alpha), strengths[1])
            if self.own_alpha != "auto":
                strengths = (strengths[0], float(self.own_alpha))
        else:
            strengths = (float(self.alpha), float(self.own_alpha))
        return fit_decomposed(
            tasks, self._loss, self.shared, self.own, strengths, fit_intercept=self.fit_intercept
        )


class LowRankSparseRegressor(MultiTaskRegressor, _LowRankSparse):
    """Regressions w_i = p_i + q_i: p_i in a shared subspace, q_i the task's own and sparse.

    Private fits are by default those of the shared part's pattern; what is a task's own is then a
    deviation from it in any direction, as large as the tasks' evidence says. A number of rounds,
    ``own``, ``own_alpha`` or another parameter of releases asks for a separate, sparse q_i.

    Parameters
    ----------
    shared : "low-rank" or "group-sparse"
        What the shared parts have in common.
    own : "entries", "tasks" or "ridge"
        Penalty of the own part: ℓ1, the ℓ2 norm of the whole vector (outlier tasks), or a ridge.
    own_alpha : "auto" or float
        Its strength at ``epsilon=inf``, and in the rounds of ``update="proximal"`` ("auto": 0.1).
        Where models end with a fit at home (always but with "soft-threshold"), a task finds the
        strength itself, and may set the own part, or sharing, aside.

    Other parameters are those of :class:`~tacit.estimators.low_rank.LowRankRegressor`.

    Guarantee: that of :class:`~tacit.estimators.low_rank.LowRankRegressor`; q_i is never sent.
    """


class LowRankSparseClassifier(MultiTaskClassifier, _LowRankSparse):
    """Logistic regressions w_i = p_i + q_i: p_i shared in shape, q_i the task's own and sparse.

    Parameters and guarantee are those of :class:`LowRankSparseRegressor`.
    """
