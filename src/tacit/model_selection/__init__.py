"""Choosing between models: splits and scores that know tasks, and what looking costs.

`TaskKFold` and `TaskShuffleSplit` are scikit-learn splitters, `task_scorer` makes scikit-learn
scorers: both ask for ``tasks`` by metadata routing and go wherever scikit-learn takes one.
`cross_validate` and `GridSearch` do without routing, fit through one ledger, in one process or in
many, and state what all their fits cost together. None of them protects a *choice* that is made by
its scores; `tacit.tuning.PrivateSearch` does.
"""

from tacit.model_selection.scores import TaskScorer, task_scorer
from tacit.model_selection.search import GridSearch
from tacit.model_selection.splits import TaskKFold, TaskShuffleSplit
from tacit.model_selection.validation import cross_validate

__all__ = [
    "GridSearch",
    "TaskKFold",
    "TaskScorer",
    "TaskShuffleSplit",
    "cross_validate",
    "task_scorer",
]
