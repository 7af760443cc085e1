"""What tasks say of their own rows in the conversation about a hierarchical prior.

Guarantee: row i of every message is a function of task i's rows and of public arguments; the
round's bound limits it, whatever it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tacit._types import AnyArray, Array
from tacit.losses import Loss
from tacit.numerics.evidence import TasksUnderPriors
from tacit.numerics.hierarchical import Candidates, Frame, ScoreForm, SquaredTasks
from tacit.numerics.hierarchical_logistic import LogisticTasks, evidence_of_each, scores_of_each
from tacit.numerics.local_fit import LocalFit
from tacit.protocols._hierarchical_plan import SPREAD_WEIGHT
from tacit.protocols._hierarchical_public import HierarchicalPublic, known
from tacit.protocols._hierarchical_reading import cast_levels, cast_votes
from tacit.protocols._home import Outputs
from tacit.tasks import TaskSet

__all__ = [
    "HierarchicalHome",
    "centres",
    "evidence",
    "levels",
    "magnitudes",
    "scores",
    "spreads",
    "without_own_word",
]


@dataclass(frozen=True)
class HierarchicalHome:
    """What a stack of tasks keeps: rows by output, own fits, and rows in the public frame."""

    outputs: Outputs  # none where a call is answered from ``kept`` alone
    own: tuple[LocalFit, ...]
    framed: tuple[TasksUnderPriors, ...] = ()
    forms: tuple[ScoreForm, ...] = ()  # of the scores, for the squared loss
    kept: dict[str, Array] = field(default_factory=dict)  # what is remembered between calls
    strangers: AnyArray | None = None  # (m,), who came when all had been said; None: nobody

    @classmethod
    def of(
        cls, outputs: Outputs, own: tuple[LocalFit, ...], *, strangers: AnyArray
    ) -> HierarchicalHome:
        """Return the home of tasks with these own fits."""
        kept = {
            "coef": np.stack([fit.coef for fit in own], axis=1),
            "intercept": np.stack([fit.intercept for fit in own], axis=1),
        }
        return cls(outputs, own, kept=kept, strangers=strangers)

    @classmethod
    def remembering(cls, kept: dict[str, Array], outputs: Outputs = ()) -> HierarchicalHome:
        """Return the home that ``kept`` is of."""
        coef, intercept = kept["coef"], kept["intercept"]
        own = tuple(LocalFit(coef[:, c], intercept[:, c]) for c in range(coef.shape[1]))
        forms: tuple[ScoreForm, ...] = ()
        if "pull" in kept:
            forms = tuple(
                ScoreForm(kept["pull"][:, c], kept[f"keep_{c}"], kept["deviations"][0])
                for c in range(coef.shape[1])
            )
        return cls(outputs, own, forms=forms, kept=kept)

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.kept["coef"])

    def scored(self, slope: float, level: float) -> HierarchicalHome:
        """Return the home that has its scores ready for any mean, where they are linear in it."""
        if self.forms or not all(isinstance(rows, SquaredTasks) for rows in self.framed):
            return self
        forms = tuple(
            rows.score_form(slope, level) for rows in self.framed if isinstance(rows, SquaredTasks)
        )
        kept = {
            **self.kept,
            "pull": np.stack([form.pull for form in forms], axis=1),
            "deviations": np.tile(forms[0].deviations, (self.n_tasks, 1)),
            **{f"keep_{c}": form.keep for c, form in enumerate(forms)},
        }
        return replace(self, forms=forms, kept=kept)

    def under(self, frame: Frame, loss: Loss) -> HierarchicalHome:
        """Return the home whose rows are in the coordinates of ``frame``."""
        if self.framed and self.framed[0].frame is frame:
            return self
        squared = loss.name == "squared"
        framed: tuple[TasksUnderPriors, ...] = tuple(
            SquaredTasks.of(rows, frame) if squared else LogisticTasks(frame, rows)
            for rows in self.outputs
        )
        return replace(self, framed=framed)


def _features(rows: TaskSet) -> Array:
    return rows.X.astype(np.float64, copy=False)


def _sums(rows: TaskSet, values: Array) -> Array:
    """Return sums (m, …) of ``values`` (N, …) within tasks, each row counting for its weight."""
    weighted = values if rows.weights is None else (values.T * rows.weights).T
    found: Array = rows.task_sums(weighted)
    return found


def _means(rows: TaskSet, values: Array) -> Array:
    return (_sums(rows, values).T / rows.amounts).T


def spreads(rows: TaskSet, *, intercept: bool) -> Array:
    """Return (m, 33 + d): a vote on the features' typical deviation, and their relative ones.

    Deviations are about the task's own mean if there is an intercept to take it up; a single row
    has none, and its task says nothing.
    """
    X, counts = _features(rows), rows.amounts[:, None]
    degrees = np.maximum(counts - intercept, 1)
    if intercept:
        X = X - _means(rows, X)[rows.task_of_row]
    squares = _sums(rows, X * X)
    if intercept:
        squares = squares * (counts > 1)
    typical = np.sqrt((squares / degrees).mean(axis=1))
    each = np.sqrt(squares)
    length = np.sqrt((each * each).sum(axis=1, keepdims=True))
    return np.concatenate(
        [cast_votes(typical), SPREAD_WEIGHT * each / np.maximum(length, 1e-300)], axis=1
    )


def magnitudes(rows: TaskSet) -> Array:
    """Return votes (m, 33) on the root mean square of the targets."""
    y = np.asarray(rows.y, dtype=np.float64)
    return cast_votes(np.sqrt(_means(rows, y * y)))


def levels(rows: TaskSet, magnitude: float) -> Array:
    """Return votes (m, 33) on the mean of the targets."""
    return cast_levels(_means(rows, np.asarray(rows.y, dtype=np.float64)) / magnitude)


def centres(rows: TaskSet, scale: Array, far: float) -> Array:
    """Return means of features (m, d), about 1 long where they lie ``far`` deviations off zero."""
    return _means(rows, _features(rows)) / (far * scale * np.sqrt(scale.size))


def scores(home: HierarchicalHome, means: Array, slope: float, level: float) -> Array:
    """Return whitened scores (m, k, p) of the outputs' means (k, p)."""
    labelled = [rows for rows in home.framed if isinstance(rows, LogisticTasks)]
    if labelled:
        return scores_of_each(labelled, means, slope, level)
    found = (rows.scores(mean, slope, level) for rows, mean in zip(home.framed, means, strict=True))
    return np.stack(list(found), axis=1)


def without_own_word(
    home: HierarchicalHome, said: Array, public: HierarchicalPublic, n_tasks: int
) -> Array:
    """Return how far off the mean would be had a task kept silent, (m, k, p) in units of scores.

    The mean is about where the scores of all tasks add up to nothing. Each task has drawn it to
    itself, and finds it all the better for that: with few tasks so much better that even unrelated
    ones agree to share. A task knows what it ``said``, its score clipped to the released length,
    and how far the rounds followed a score (`MeanReading.reach`, public); without it the mean is
    score · reach/(m − 1) further off. With that mean a task compares and predicts: the prior is
    then of others alone, and what it says of its fit is as of rows that were left out. Who came
    when all had been said has nothing to take out.

    Guarantee: row i depends on task i's rows and on public values only. It enters personal models,
    and the evidence message, whose bound holds for whatever was computed.
    """
    length = np.sqrt((said * said).sum(axis=(1, 2), keepdims=True))
    heard = said * np.minimum(1.0, public.length / np.maximum(length, 1e-300))
    apart: Array = heard * (-known(public.reach) / (n_tasks - 1))
    return apart if home.strangers is None else np.where(home.strangers[:, None, None], 0.0, apart)


def evidence(
    home: HierarchicalHome, shared: tuple[Candidates, ...], alone: tuple[Candidates, ...]
) -> tuple[Array, Array]:
    """Return log-evidence (m, s, a, c) and (m, a'), added up over the outputs."""
    pulled, free = (sum(_evidence_of_each(home.framed, given)) for given in (shared, alone))
    return np.asarray(pulled).reshape(-1, *shared[0].shape), np.asarray(free)


def _evidence_of_each(
    framed: tuple[TasksUnderPriors, ...], candidates: tuple[Candidates, ...]
) -> Sequence[Array]:
    labelled = [rows for rows in framed if isinstance(rows, LogisticTasks)]
    if labelled:
        return evidence_of_each(labelled, candidates)
    return [rows.evidence(given) for rows, given in zip(framed, candidates, strict=True)]
