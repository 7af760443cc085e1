"""The public shape of private models: feature groups, importances, and the bound of their rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.errors import InvalidInput
from tacit.privacy.bounds import Bound, RowClip, RowMessages, RowNormalise
from tacit.privacy.objective import Problem
from tacit.privacy.unit import Unit

__all__ = ["Design", "DesignedRows", "LabelledRows", "equal_groups"]


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

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Number of coefficients of each group."""
        return tuple(len(group) + (self.intercept > 0) for group in self.groups)

    @property
    def bound(self) -> DesignedRows:
        """The bound of a round that learns from rows of this design."""
        return DesignedRows(self.reach, self)

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


@dataclass(frozen=True, eq=False)
class LabelledRows(RowMessages):
    """Rows as they are, (N, d), with labels (N, k) and each task's public centres.

    ``centres[i]`` holds, for task i, an array (k, dimension) for every group.
    """

    labels: Array
    centres: tuple[tuple[Array, ...], ...]


@dataclass(frozen=True)
class DesignedRows(Bound):
    """Bound the rows of every task's problems; nothing is added up.

    Guarantee: what a task learns from are rows of norm at most ``radius`` with labels 0 or 1,
    whatever they were, one row's a function of that row alone. A NaN or infinite row counts as
    zero.
    """

    design: Design
    unit: ClassVar[Unit] = Unit.ROW

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radius != self.design.reach:
            raise InvalidInput(
                f"radius={self.radius!r}: must equal reach={self.design.reach!r} of the design"
            )

    @property
    def kind(self) -> str:
        """Rows, which every task learns from itself."""
        return "rows"

    def by_task(self, rows: RowMessages) -> AnyArray:
        """Return every task's problems, outputs outermost: a list of `Problem` for each task."""
        if not isinstance(rows, LabelledRows):
            raise InvalidInput("messages: must be LabelledRows, from which every task learns")
        labels = (rows.labels > 0.5).astype(np.float64)
        tasks = np.empty(len(rows.centres), dtype=object)
        for task, centres in enumerate(rows.centres):
            mine = slice(int(rows.offsets[task]), int(rows.offsets[task + 1]))
            parts = self.design.bounded(rows.values[mine])
            tasks[task] = [
                Problem(part, labels[mine, output], centre[output])
                for output in range(labels.shape[1])
                for part, centre in zip(parts, centres, strict=True)
            ]
        return tasks


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
