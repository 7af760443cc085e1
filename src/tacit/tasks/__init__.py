"""Ragged tasks as contiguous arrays: the way data comes in, is split and is prepared.

A `TaskSet` holds the rows of all tasks in one array sorted by task; `ParquetTasks` hands out
such sets in batches when the rows do not fit in memory.
"""

from tacit.tasks._labels import group_labels, match_labels
from tacit.tasks._local import Centring
from tacit.tasks._outputs import one_vs_rest, within_range
from tacit.tasks._parquet import ParquetTasks
from tacit.tasks._parquet_sort import sort_parquet
from tacit.tasks._taskset import TaskSet

__all__ = [
    "Centring",
    "ParquetTasks",
    "TaskSet",
    "group_labels",
    "match_labels",
    "one_vs_rest",
    "sort_parquet",
    "within_range",
]
