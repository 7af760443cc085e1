"""How good answers are, in the numbers people ask for, each with an interval.

Intervals are percentiles of a bootstrap that draws whole tasks again where there are ten or more,
else single rows: rows of a task resemble each other, and drawing rows alone would promise too much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit._types import AnyArray, Array, IntArray

__all__ = ["Answers", "Measure", "Resampled", "measured"]

_MOST_DRAWS, _FEWEST_DRAWS = 400, 60
_NUMBERS = 20_000_000  # weights of rows held by one measure at most
_FEW_TASKS = 10
_BINS = 10
_LEAST = 1e-15  # a probability of zero costs this much, not infinity


@dataclass(frozen=True)
class Answers:
    """What one method answers on the rows: numbers, or codes of classes and their probabilities."""

    predicted: AnyArray
    shares: Array | None = None  # (n, k)


@dataclass(frozen=True)
class Measure:
    """One number a method, with the ends of its 95 % interval."""

    name: str
    values: Array
    low: Array
    high: Array
    percent: bool = False
    note: str = ""


class Resampled:
    """Weights of rows: all ones first, then draws with replacement of tasks or of rows."""

    def __init__(self, task_of_row: IntArray) -> None:
        n_tasks, n_rows = int(task_of_row.max()) + 1, len(task_of_row)
        self.by_task = n_tasks >= _FEW_TASKS
        self._unit = task_of_row if self.by_task else np.arange(n_rows)
        self._n_units = n_tasks if self.by_task else n_rows
        draws = int(np.clip(_NUMBERS // max(n_rows, 1), _FEWEST_DRAWS, _MOST_DRAWS))
        random = np.random.default_rng(0)  # a page of the same rows is the same page
        even = np.full(self._n_units, 1 / self._n_units)
        drawn = random.multinomial(self._n_units, even, size=draws)
        self._weights = np.vstack([np.ones(self._n_units), drawn])

    def sums(self, values: Array) -> Array:
        """Return weighted sums of ``values`` (n,) or (n, k), one row a draw."""
        columns = values if values.ndim == 2 else values[:, None]
        by_unit = np.stack(
            [np.bincount(self._unit, column, minlength=self._n_units) for column in columns.T], 1
        )
        found: Array = self._weights @ by_unit
        return found if values.ndim == 2 else found[:, 0]

    def means(self, values: Array) -> Array:
        """Return weighted means, one a draw."""
        return self.sums(values) / self.sums(np.ones(len(values)))

    def areas(self, scores: Array, positive: AnyArray) -> Array:
        """Return the area under the ROC curve, one a draw; ties count half."""
        order = np.argsort(scores, kind="stable")
        values = scores[order]
        last = np.flatnonzero(np.append(values[1:] != values[:-1], True))
        hit, unit = positive[order].astype(float), self._unit[order]
        found = np.empty(len(self._weights))
        for number, weights in enumerate(self._weights):
            each = weights[unit]
            up = np.diff(np.cumsum(each * hit)[last], prepend=0.0)
            down = np.diff(np.cumsum(each * (1 - hit))[last], prepend=0.0)
            pairs = up.sum() * down.sum()
            below = np.cumsum(down) - 0.5 * down
            found[number] = (up * below).sum() / pairs if pairs > 0 else np.nan
        return found


def _interval(draws: Array) -> tuple[float, float, float]:
    value, rest = draws[0], draws[1:][np.isfinite(draws[1:])]
    if not rest.size or not np.isfinite(value):
        return float(value), np.nan, np.nan
    low, high = np.percentile(rest, [2.5, 97.5])
    return float(value), float(low), float(high)


def _measure(
    name: str, draws: Sequence[Array], *, percent: bool = False, note: str = ""
) -> Measure:
    values, low, high = np.array([_interval(one) for one in draws]).T
    return Measure(name, values, low, high, percent, note)


def measured(
    y: AnyArray, answers: Sequence[Answers], rows: Resampled
) -> tuple[tuple[Measure, ...], Array | None]:
    """Return the measures of every method, and draws of how much less error than the second.

    ``y`` are numbers, or codes of classes where answers have probabilities or are codes.
    """
    classes = answers[0].predicted.dtype.kind in "iu"
    if classes:
        errors = [rows.means((one.predicted != y).astype(float)) for one in answers]
        found = [_measure("Wrong answers", errors, percent=True)]
        if all(one.shares is not None for one in answers):
            found += _of_probabilities(y, answers, rows)
    else:
        errors, found = _of_numbers(y, answers, rows)
    if len(answers) < 2:
        return tuple(found), None
    with np.errstate(all="ignore"):
        return tuple(found), 1 - errors[0] / errors[1]


def _of_numbers(
    y: AnyArray, answers: Sequence[Answers], rows: Resampled
) -> tuple[list[Array], list[Measure]]:
    values = y.astype(float)
    gaps = [one.predicted.astype(float) - values for one in answers]
    errors = [np.sqrt(rows.means(gap**2)) for gap in gaps]
    centred = values - values.mean()
    variance = rows.means(centred**2) - rows.means(centred) ** 2
    with np.errstate(all="ignore"):
        explained = [1 - error**2 / np.where(variance > 0, variance, np.nan) for error in errors]
    return errors, [
        _measure("RMSE", errors, note="root mean squared error"),
        _measure("MAE", [rows.means(np.abs(gap)) for gap in gaps], note="mean absolute error"),
        _measure("R²", explained, note="share of the variance explained"),
    ]


def _of_probabilities(y: AnyArray, answers: Sequence[Answers], rows: Resampled) -> list[Measure]:
    every = [np.asarray(one.shares) for one in answers]
    row = np.arange(len(y))
    losses = [
        rows.means(-np.log(np.maximum(np.where(y < 0, 0.0, shares[row, y]), _LEAST)))
        for shares in every
    ]
    k = every[0].shape[1]
    tested = (1,) if k == 2 else range(k)
    areas = [
        _mean_of_known(np.stack([rows.areas(shares[:, c], y == c) for c in tested]))
        for shares in every
    ]
    gaps = [
        _calibration_error(shares, y, one.predicted, rows)
        for shares, one in zip(every, answers, strict=True)
    ]
    return [
        _measure("AUC", areas, note="chance that a row of a class scores above one of another"),
        _measure("Log loss", losses, note="of the probability given to what happened"),
        _measure("Calibration error", gaps, percent=True, note="mean gap, probability to share"),
    ]


def _mean_of_known(values: Array) -> Array:
    """Return the mean over axis 0 of what is known; NaN where nothing is."""
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.divide(total, known.sum(axis=0), out=np.full_like(total, np.nan), where=known.any(0))


def confidence(shares: Array, y: AnyArray, predicted: AnyArray) -> tuple[Array, Array]:
    """Return what was expected with which probability, and whether it happened.

    Of two classes it is the second; of more, the answer that was given.
    """
    if shares.shape[1] == 2:
        return shares[:, 1], (y == 1).astype(float)
    return shares[np.arange(len(y)), predicted], (predicted == y).astype(float)


def bins_of(expected: Array) -> IntArray:
    """Return the tenth that each probability falls into."""
    return np.minimum((expected * _BINS).astype(np.int64), _BINS - 1)


def _calibration_error(shares: Array, y: AnyArray, predicted: AnyArray, rows: Resampled) -> Array:
    expected, happened = confidence(shares, y, predicted)
    spread = np.zeros((len(y), _BINS))
    spread[np.arange(len(y)), bins_of(expected)] = expected - happened
    return np.abs(rows.sums(spread)).sum(axis=1) / rows.sums(np.ones(len(y)))
