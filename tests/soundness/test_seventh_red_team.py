"""A seventh attack with fresh eyes, on a task's own word and on threads: what it found, mended."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tacit
from tacit.estimators._private import Sizes
from tacit.numerics.threads import parallel_map, quiet_arithmetic
from tacit.privacy import SeededEntropy
from tacit.protocols.protocol import Call
from tacit.tasks import TaskSet

N_TASKS, N_FEATURES = 6, 20


def _talked(declared):
    """Return protocol, rows, the homes after all calls and what is public at the end."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(N_TASKS), 12)
    X = rng.normal(size=(len(task), N_FEATURES))
    y = X @ rng.normal(size=N_FEATURES) + rng.normal(size=len(task))
    tasks = TaskSet.from_arrays(X, y, task)
    estimator = tacit.SharedPriorRegressor(1e4)
    estimator._check_parameters()
    protocol, schedule = estimator._staged(Sizes(declared, N_FEATURES, 1))
    home, public = protocol.start(tasks, np.arange(N_TASKS)), protocol.opening()
    number, entropy = 0, SeededEntropy(1)
    for place, (round, mechanism) in enumerate(
        zip(protocol.rounds(), schedule.mechanisms, strict=True)
    ):
        for turn in range(round.turns):
            call = Call(number, place, None, turn)
            home, said = protocol.speak(home, public, call, None)
            total = round.bound.aggregate(round.bound(said))
            noised = mechanism.release(total, entropy.child("call", number)).value
            others = total * (declared / N_TASKS - 1)  # who is declared and not here says the same
            public = protocol.read(public, noised + others, call, mechanism)
            number += 1
    assert not public.closed
    return protocol, tasks, home, public


@pytest.mark.parametrize("declared", [N_TASKS, 20_000 // N_FEATURES + 1])
def test_models_are_the_same_to_the_bit_where_a_home_forgot_its_scores(declared):
    with quiet_arithmetic():
        protocol, tasks, home, public = _talked(declared)
        kept = protocol.finish(home, public)
        anew = protocol.finish(protocol.start(tasks, np.arange(N_TASKS)), public)
    assert_array_equal(kept, anew)


def test_a_stranger_among_tasks_that_spoke_keeps_nobody_s_word_in():
    with quiet_arithmetic():
        protocol, tasks, home, public = _talked(N_TASKS)
        spoke = protocol.finish(home, public)
        places = np.r_[np.arange(N_TASKS - 1), -1]
        mixed = protocol.finish(protocol.start(tasks, places), public)
        late = protocol.finish(protocol.start(tasks, np.full(N_TASKS, -1)), public)
    assert_array_equal(mixed[:-1], spoke[:-1])
    assert_array_equal(mixed[-1], late[-1])
    assert np.abs(spoke - late).max() > 1e-6


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers that interrupt")
def test_an_interrupted_map_leaves_its_thread_where_it_may_run():
    allowed = getattr(os, "sched_getaffinity", lambda _: None)(0)

    def interrupted(item):
        if item == 3:
            raise KeyboardInterrupt
        return item

    for _ in range(50):
        with pytest.raises(KeyboardInterrupt):
            parallel_map(interrupted, range(8))
    assert getattr(os, "sched_getaffinity", lambda _: None)(0) == allowed
