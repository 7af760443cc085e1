"""Stacking: models of feature groups from half of the rows, and their weights from the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import expit

from tacit._types import Array, IntArray
from tacit.errors import InvalidInput
from tacit.privacy.mechanisms.release import Floats, Mechanism
from tacit.privacy.noise.entropy import Entropy, sample_without_replacement
from tacit.privacy.objective import ObjectivePerturbation, Problem, check_rows
from tacit.privacy.unit import Adjacency, Norm
from tacit.transfer.design import Design, DesignedRows
from tacit.transfer.learning import Budget, Learner

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

    from tacit.privacy.schedule import Round

__all__ = ["StackedPerturbation", "halves", "stack_learner", "stack_prior", "stack_rows"]

_FIRMNESS = 2.0


def halves(n_rows: int, entropy: Entropy) -> tuple[IntArray, IntArray]:
    """Return two random halves of the rows, drawn without looking at them.

    Guarantee: one replaced row lies in one half only, so what is learned from one half and what is
    learned from the other cost the larger of the two budgets, not their sum (parallel composition).
    """
    first = sample_without_replacement(n_rows, n_rows // 2, entropy)
    second = np.setdiff1d(np.arange(n_rows), first)
    return first, second


def stack_learner(base: Learner) -> Learner:
    """Return the learner of the level-1 model: K answers in one row of norm at most 1.

    Its strength is such that the noise moves the model by at most a share of its prior's length, 1:
    with answers near zero (level 0 is shrunk under noise) it would else decide the signs.
    """
    groups = (tuple(range(base.design.n_groups)),)
    design = Design(groups, (1.0,), 1.0, "clip", base.design.intercept)
    return Learner(design, base.budget, base.n_outputs, firmness=_FIRMNESS)


def stack_rows(parts: Sequence[Array], models: Sequence[Array]) -> Array:
    """Return level-1 rows (n, K): every group's answer 2p − 1 ∈ (−1, 1), divided by √K."""
    scores = np.stack([part @ model for part, model in zip(parts, models, strict=True)], axis=1)
    rows: Array = (2 * expit(scores) - 1) / math.sqrt(len(parts))
    return rows


def stack_prior(shares: Sequence[float], dimension: int) -> Array:
    """Return the public centre of the level-1 model: the groups' importances, scaled to length 1.

    Where noise drowns the held rows, this average is what is left.
    """
    centre = np.zeros(dimension)
    centre[: len(shares)] = np.asarray(shares) / math.hypot(*shares)
    return centre


@dataclass(frozen=True)
class StackedPerturbation(Mechanism):
    """Group models from a random half of a task's rows, and a model of their answers on the rest.

    Parameters
    ----------
    base : Learner
        Of level 0; level 1 follows from it (`stack_learner`).

    Guarantee: (ε, δ)-DP for one replaced row, at the event of one level. A row lies in one half
    only, and which half is drawn without looking at it. If it is in the first, level 0 is its
    release and level 1 is made from that and other rows; if in the second, level 0 does not see it
    and level 1, whose rows are bounded by their own design, is its release.
    """

    base: Learner
    name: ClassVar[str] = ObjectivePerturbation.name
    family: ClassVar[str] = ObjectivePerturbation.family
    norm: ClassVar[Norm] = Norm.L2

    @classmethod
    def of_round(cls, round: Round, strength: float, adjacency: Adjacency) -> Mechanism:  # noqa: ARG003
        """Return the stack of a round's design for one output, at pure ε = ``strength``."""
        if not isinstance(round.bound, DesignedRows):
            raise InvalidInput(f"round {round.name!r}: {cls.name} needs a bound of designed rows")
        return cls(Learner(round.bound.design, Budget(strength), 1))

    @property
    def levels(self) -> tuple[ObjectivePerturbation, ObjectivePerturbation]:
        """The mechanisms of level 0 and level 1."""
        return self.base.mechanism, stack_learner(self.base).mechanism

    @property
    def event(self) -> DpEvent:
        """What one level costs."""
        return self.levels[0].event

    @property
    def reach(self) -> float:
        """That of level 0, which learns from rows as the round bounds them."""
        return self.levels[0].reach

    @property
    def scale(self) -> float:
        """The noise scale of level 0."""
        return self.levels[0].scale

    def check(self, round: Round, adjacency: Adjacency) -> None:
        """Raise `PrivacyLeak` if the round lets rows be longer than level 0 takes them to be."""
        check_rows(self.name, round, adjacency)
        super().check(round, adjacency)

    def noise_norm(self, shape: tuple[int, ...]) -> float:
        """Return √E‖b‖² of level 0, whose noise is what costs accuracy."""
        return self.levels[0].noise_norm(shape)

    def deviation(self, shape: tuple[int, ...]) -> float:
        """Return the root mean square of an entry of level 0's noise."""
        return self.levels[0].deviation(shape)

    def perturbed(self, value: Any, entropy: Entropy) -> Floats:
        """Return the models of every task: groups of every output, then level 1 of every output."""
        return np.stack([self._solved(problems, entropy) for problems in value])

    def _solved(self, problems: Sequence[Problem], entropy: Entropy) -> Floats:
        first, second = halves(len(problems[0].rows), entropy)
        groups, stack = self.levels
        models = groups.solve([_part(problem, first) for problem in problems], entropy)
        held = [_part(problem, second) for problem in problems]
        answers = stack.solve(self._level_one(held, models), entropy)
        return np.concatenate([*models, *answers])

    def _level_one(self, held: Sequence[Problem], models: Sequence[Array]) -> list[Problem]:
        design, K = stack_learner(self.base).design, self.base.design.n_groups
        prior = stack_prior(self.base.design.shares, design.dimensions[0])
        problems = []
        for start in range(0, len(held), K):
            parts = [problem.rows for problem in held[start : start + K]]
            (rows,) = design.bounded(stack_rows(parts, models[start : start + K]))
            problems.append(Problem(rows, held[start].labels, prior))
        return problems


def _part(problem: Problem, rows: IntArray) -> Problem:
    return Problem(problem.rows[rows], problem.labels[rows], problem.centre)
