"""A message is bounded by itself alone, and what is added up is added up exactly or refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tacit.errors import InvalidInput
from tacit.losses import SquaredLoss
from tacit.privacy.bounds import RowGradientClip, VectorClip, VectorNormalise
from tacit.protocols._row_protection import RowProtection
from tacit.tasks import TaskSet

HUGE = [2.0**400, 1e300, 1.7e308]
# Messages that clipping to 1 cuts to another step if their norm is computed in another way (found
# among 10⁷ random ones).
UNSETTLED = np.array(
    [
        [float.fromhex("0x1.a9141698b14acp+1"), float.fromhex("0x1.5365baa6b623fp+0")],
        [float.fromhex("-0x1.8896990a0694cp+1"), float.fromhex("-0x1.b21d01ee209ccp-3")],
    ]
)


@pytest.mark.parametrize("huge", HUGE)
@pytest.mark.parametrize("bound", [VectorClip(1.0), VectorNormalise(1.0)])
def test_a_huge_message_moves_the_sum_by_no_more_than_the_sensitivity(bound, huge):
    for message in UNSETTLED:
        copies = np.broadcast_to(message, (20_000, 2))
        opposite = -message / np.abs(message).max() * huge
        both = [
            bound.aggregate(bound(np.vstack([copies, last[None]]))) for last in (message, opposite)
        ]
        moved = sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(*both, strict=True))
        assert moved <= Fraction(bound.sensitivity("l2", "replace-one")) ** 2


@pytest.mark.parametrize("tiny", [5e-324, 1e-200])
def test_a_tiny_message_changes_no_other(tiny):
    messages = np.random.default_rng(0).normal(size=(200, 6))
    alone = VectorNormalise(1.0)(messages)
    together = VectorNormalise(1.0)(np.vstack([messages, np.full((1, 6), tiny)]))
    np.testing.assert_array_equal(together[:-1], alone)


def test_more_messages_than_add_up_exactly_are_refused(monkeypatch):
    monkeypatch.setattr(VectorClip, "most_messages", 100)
    VectorClip(1.0).aggregate(np.zeros((100, 2)))
    with pytest.raises(InvalidInput, match="101"):
        VectorClip(1.0).aggregate(np.zeros((101, 2)))


def test_the_largest_sum_allowed_is_exact():
    # 2²³ messages of norm 1 are 2⁵³ steps: an odd step more or less still shows.
    message = VectorClip(1.0)(np.array([[1.0]]))[0, 0]
    total = VectorClip.most_messages * message
    assert Fraction(total) == VectorClip.most_messages * Fraction(message)
    step = 2.0**-29
    assert Fraction(total - step) == Fraction(total) - Fraction(step)


def _messages(X, y, target_bound=1.0):
    tasks = TaskSet.from_arrays(X, y)
    protection = RowProtection(1, 1.0, target_bound)
    said = protection.gradients((tasks,), SquaredLoss())
    return protection.round(X.shape[1]).bound.by_task(said)[0, 0]


def test_a_replaced_row_moves_a_tasks_sum_by_its_own_gradients_however_many_rows_there_are():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(70_000, 3)), rng.normal(size=70_000)  # above 2¹⁶
    other = X.copy()
    other[17] = -1e3 * X[17]
    own = slice(17, 18)
    for before, after, left, came in zip(
        _messages(X, y),
        _messages(other, y),
        _messages(X[own], y[own]),
        _messages(other[own], y[own]),
        strict=True,
    ):
        assert Fraction(before) - Fraction(after) == Fraction(left) - Fraction(came)


def test_a_task_of_too_many_rows_leaves_out_its_last_and_stops_nobody(monkeypatch):
    monkeypatch.setattr(RowGradientClip, "most_messages", 40)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    np.testing.assert_array_equal(_messages(X, y), _messages(X[:40], y[:40]))
