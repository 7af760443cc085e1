"""Private transfer: logistic models per feature group, at a source and then at a target.

One party learns K private models, one for each group of features (`learn`); another continues from
them on half of its rows and stacks their answers with the other half (`learn` with a centre, then
`stack`). K = 1 without stacking is plain private logistic regression, and with a centre SimComb.

Message sizes: a source hands over d (+ K intercepts) numbers per output once; nothing comes back.

Everything here that is chosen, is chosen from public numbers: the budget, how many rows and
features there are, and the importances. With one row as unit, a choice that looks at the rows would
have to be paid for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from tacit._types import Array, IntArray
from tacit.errors import InvalidInput
from tacit.privacy.bounds import RowClip, RowNormalise
from tacit.privacy.noise.entropy import Entropy, sample_without_replacement
from tacit.privacy.objective import ObjectivePerturbation, Problem, noise_norm

__all__ = [
    "Budget",
    "Design",
    "Learner",
    "combined_centre",
    "default_strength",
    "equal_groups",
    "halves",
    "learn_stack",
    "stack_learner",
    "stack_prior",
    "stack_rows",
    "trust",
]

# Public rules, set on Fashion-MNIST pairs (papers/private_transfer/defaults.py, and the docs page):
# α = R²(1 + β/10 + 4β²/n), β = E‖b‖/R; at level 1 at least 2·E‖b‖.
_LINEAR, _QUADRATIC = 0.1, 4.0
_STACK = 2.0


@dataclass(frozen=True)
class Budget:
    """What one party spends on one row: ε (inf: no privacy) and δ (0: pure ε)."""

    epsilon: float
    delta: float = 0.0


@dataclass(frozen=True)
class Design:
    """The public shape of a private model: feature groups, their importances, the row bound.

    Attributes
    ----------
    groups : tuple of tuples of int
        Columns of each group; a column belongs to exactly one group.
    shares : tuple of float
        Importance q_k of each group; they sum to 1 and divide the budget.
    row_norm : float
        Public bound of a row's norm within a group.
    rows : "normalise" or "clip"
    intercept : float
        Value of the constant column, relative to ``row_norm``; 0 for none.
    """

    groups: tuple[tuple[int, ...], ...]
    shares: tuple[float, ...]
    row_norm: float = 1.0
    rows: str = "normalise"
    intercept: float = 0.0

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return sum(len(group) for group in self.groups)

    @property
    def n_groups(self) -> int:
        """K."""
        return len(self.groups)

    @property
    def reach(self) -> float:
        """Bound R of a row of any group, the constant column included."""
        return self.row_norm * math.sqrt(1 + self.intercept**2) * (1 + 2.0**-50)

    def dimension(self, k: int) -> int:
        """Number of coefficients of group ``k``."""
        return len(self.groups[k]) + (self.intercept > 0)

    def bounded(self, X: Array) -> list[Array]:
        """Return the rows of each group, bounded to ``row_norm``, with the constant column.

        Guarantee: every returned row has norm at most `reach`, and depends on that row only.
        """
        bound = (RowNormalise if self.rows == "normalise" else RowClip)(self.row_norm)
        parts = [bound(part) for part in self._parts(X)]
        if self.intercept > 0:
            constant = np.full((len(X), 1), self.intercept * self.row_norm)
            parts = [np.hstack([part, constant]) for part in parts]
        return parts

    def longer(self, X: Array) -> int:
        """Return how many rows exceed ``row_norm`` in some group (a private number)."""
        limit = (self.row_norm * (1 + 1e-9)) ** 2
        squares = [np.einsum("ij,ij->i", part, part) for part in self._parts(X)]
        return int((np.max(squares, axis=0) > limit).sum())

    def _parts(self, X: Array) -> list[Array]:
        if self.groups == (tuple(range(X.shape[1])),):
            return [X]
        return [X[:, list(group)] for group in self.groups]


def equal_groups(
    importance: Array, n_groups: int, order: IntArray
) -> tuple[tuple[tuple[int, ...], ...], tuple[float, ...]]:
    """Cut ``order`` into groups of (nearly) equal size; return them with their importances."""
    if not 1 <= n_groups <= len(importance):
        raise InvalidInput(
            f"n_groups={n_groups}: must be between 1 and the {len(importance)} features"
        )
    groups = tuple(
        tuple(sorted(int(column) for column in part)) for part in np.array_split(order, n_groups)
    )
    raw = [math.fsum(float(importance[column]) for column in group) for group in groups]
    if min(raw) <= 0:
        raise InvalidInput(
            "importance: a whole group has importance 0 and would get no budget; "
            "use fewer groups or drop the features of no importance"
        )
    total = math.fsum(raw)
    return groups, tuple(value / total for value in raw)


def default_strength(noise: float, n_rows: int, reach: float) -> float:
    """Return the ridge strength for noise of expected norm ``noise``: it grows with the noise."""
    relative = noise / reach
    return reach**2 * (1 + relative * (_LINEAR + _QUADRATIC * relative / n_rows))


def trust(uncertainty: float) -> float:
    """Return 1 − η, how far a target's models are pulled to the source's rather than to zero."""
    return uncertainty / (1 + uncertainty)


@dataclass(frozen=True)
class Learner:
    """Private logistic models for every output and group of a `Design`, jointly within a budget.

    Guarantee: `learn` is (ε, δ)-DP for one replaced row, by `ObjectivePerturbation`: every row of
    every group is bounded to the design's `reach`, and strengths, noise and grids follow from
    public numbers only.
    """

    design: Design
    budget: Budget
    n_outputs: int
    n_rows: int
    alpha: float | None = None

    @property
    def _noise(self) -> tuple[float, ...]:
        """Expected noise norm of each group's model (the same for every output)."""
        shares = [share / self.n_outputs for share in self.design.shares]
        length = math.sqrt(self.n_outputs) * math.hypot(*shares)
        return tuple(
            noise_norm(
                self.budget.epsilon,
                self.budget.delta,
                share,
                share / length,
                self.design.reach,
                self.design.dimension(k),
            )
            for k, share in enumerate(shares)
        )

    @property
    def mechanism(self) -> ObjectivePerturbation:
        """The mechanism of all models together, outputs outermost."""
        strengths = [
            default_strength(noise, self.n_rows, self.design.reach)
            if self.alpha is None
            else self.alpha
            for noise in self._noise
        ]
        shares = [share / self.n_outputs for share in self.design.shares]
        return ObjectivePerturbation(
            epsilon=self.budget.epsilon,
            delta=self.budget.delta,
            strengths=tuple(strengths) * self.n_outputs,
            row_norm=self.design.reach,
            shares=tuple(shares) * self.n_outputs,
        )

    @property
    def uncertainties(self) -> tuple[float, ...]:
        """Public size of each group's error: noise over signal, plus 2/√n for the sample."""
        return tuple(
            noise / (self.design.reach * self.n_rows) + 2 / math.sqrt(self.n_rows)
            for noise in self._noise
        )

    def learn(
        self, X: Array, targets: Array, entropy: Entropy, centres: Sequence[Array] | None = None
    ) -> list[Array]:
        """Return the K models, (n_outputs, dimension) each; ``centres`` likewise, or zero."""
        parts = self.design.bounded(X)
        problems = []
        for output in range(self.n_outputs):
            for k, rows in enumerate(parts):
                centre = np.zeros(rows.shape[1]) if centres is None else centres[k][output]
                problems.append(Problem(rows, targets[:, output], centre))
        solved = self.mechanism.solve(problems, entropy)
        K = self.design.n_groups
        return [np.stack(solved[k::K]) for k in range(K)]


def combined_centre(
    sources: Sequence[Sequence[Array]],
    uncertainties: Sequence[Sequence[float]],
    shrinkage: Sequence[float],
) -> list[Array]:
    """Return one centre per group: sources averaged by 1/uncertainty², times ``shrinkage``."""
    centres: list[Array] = []
    for k, factor in enumerate(shrinkage):
        weights = np.array([1.0 / own[k] ** 2 for own in uncertainties])
        weights /= weights.sum()
        mean = sum(w * models[k] for w, models in zip(weights, sources, strict=True))
        centres.append(factor * np.asarray(mean))
    return centres


def halves(n_rows: int, entropy: Entropy) -> tuple[IntArray, IntArray]:
    """Return two random halves of the rows, drawn without looking at them.

    Guarantee: one replaced row lies in one half only, so what is learned from one half and what is
    learned from the other cost the larger of the two budgets, not their sum (parallel composition).
    """
    first = sample_without_replacement(n_rows, n_rows // 2, entropy)
    second = np.setdiff1d(np.arange(n_rows), first)
    return first, second


def stack_learner(
    n_groups: int, intercept: float, budget: Budget, n_outputs: int, n_rows: int
) -> Learner:
    """Return the learner of the level-1 model: K answers in one row of norm at most 1.

    Its strength is such that the noise moves the model by at most a share of its prior's length, 1:
    with answers near zero (level 0 is shrunk under noise) it would else decide the signs.
    """
    design = Design((tuple(range(n_groups)),), (1.0,), 1.0, "clip", intercept)
    learner = Learner(design, budget, n_outputs, n_rows)
    (noise,) = learner._noise
    return replace(
        learner, alpha=max(_STACK * noise, default_strength(noise, n_rows, design.reach))
    )


def stack_rows(parts: Sequence[Array], models: Sequence[Array], output: int) -> Array:
    """Return level-1 rows (n, K): every group's answer 2p − 1 ∈ (−1, 1), divided by √K."""
    scores = np.stack([part @ model[output] for part, model in zip(parts, models, strict=True)], 1)
    rows: Array = (2 * expit(scores) - 1) / math.sqrt(len(parts))
    return rows


def learn_stack(
    learner: Learner,
    parts: Sequence[Array],
    models: Sequence[Array],
    targets: Array,
    prior: Array,
    entropy: Entropy,
) -> Array:
    """Return level-1 models (n_outputs, K (+ 1)) from rows that level 0 has not seen.

    Guarantee: as `Learner.learn`, for the rows given; the level-0 models are public here.
    """
    problems = []
    for output in range(learner.n_outputs):
        (rows,) = learner.design.bounded(stack_rows(parts, models, output))
        problems.append(Problem(rows, targets[:, output], prior))
    return np.stack(learner.mechanism.solve(problems, entropy))


def stack_prior(shares: Sequence[float], dimension: int) -> Array:
    """Return the public centre of the level-1 model: the groups' importances, scaled to length 1.

    Where noise drowns the held rows, this average is what is left.
    """
    centre = np.zeros(dimension)
    centre[: len(shares)] = np.asarray(shares) / math.hypot(*shares)
    return centre
