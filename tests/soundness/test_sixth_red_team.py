"""What a sixth attack found: cohorts without δ, endless sums, locks that outlive their holders."""

import os
import signal
import threading

import numpy as np
import pytest

from tacit.errors import InvalidInput
from tacit.privacy import FixedSize, Poisson, Round, Schedule, Unit, VectorClip
from tacit.privacy.bounds import SecondMoment
from tacit.privacy.clipped_sums import ClippedSum
from tacit.privacy.noise import reals
from tacit.privacy.rounds import Everyone

COHORTS = (Everyone(), FixedSize(5), Poisson(0.3))
BOUNDS = ((VectorClip(1.0), (3,)), (SecondMoment(1.0), (3, 3)))


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("mechanism", ["auto", "gaussian", "gamma-vector", "laplace"])
@pytest.mark.parametrize("cohort", COHORTS, ids=str)
@pytest.mark.parametrize("bounded", BOUNDS, ids=["vector", "moment"])
def test_what_is_calibrated_costs_what_was_asked_or_is_refused(cohort, bounded, mechanism, delta):
    rounds = [Round("a", *bounded, cohort=cohort), Round("b", VectorClip(2.0), (2,), cohort=cohort)]
    try:
        made = Schedule.calibrate(rounds, epsilon=1.0, delta=delta, n_tasks=10, mechanism=mechanism)
    except InvalidInput:
        assert not isinstance(cohort, Everyone) or mechanism != "auto"
        return
    assert made.cost(Unit.TASK, delta).epsilon <= 1.0 + 1e-9


def test_a_cohort_of_fixed_size_has_pure_noise_where_there_is_no_delta():
    (made,) = Schedule.calibrate(
        [Round("a", VectorClip(1.0), (3,), cohort=FixedSize(5))],
        epsilon=1.0, delta=0.0, n_tasks=10,
    ).mechanisms  # fmt: skip
    assert made.name == "gamma-vector"


def test_a_sum_refuses_more_messages_than_add_up_exactly_and_keeps_what_it_has():
    bound = VectorClip(1.0)
    total = ClippedSum(bound, [(1,)])
    total.add([np.ones((2, 1), np.float32)])
    before = total.value.copy()
    with pytest.raises(InvalidInput, match="add up exactly"):
        total.merge([np.ones(1)], bound.most_messages - 1)
    np.testing.assert_array_equal(total.value, before)
    assert total.count == 2
    total.clear()
    total.merge([np.ones(1)], bound.most_messages)
    with pytest.raises(InvalidInput, match="add up exactly"):
        total.add([np.ones((1, 1), np.float32)])


def test_a_process_forked_while_a_number_is_settled_goes_on():
    held, go = threading.Event(), threading.Event()

    def hold():
        with reals._settling:
            held.set()
            go.wait(30)

    threading.Thread(target=hold).start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        reals.settle(lambda bits: 1)
        os._exit(0)
    go.set()
    assert os.waitpid(child, 0)[1] == 0
