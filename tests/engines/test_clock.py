"""The clock: an order that delays decide, nobody's rows, and that is the same every time."""

import math

import numpy as np
import pytest

from tacit.engines import Away, Clock, Delay, conduct
from tacit.errors import InvalidInput
from tacit.privacy import Billboard, SeededEntropy
from tacit.privacy.unit import Unit

from .test_parallel_charging import N_TASKS, TURNS, protocol_of, schedule_of, stated, tasks_of


def timeline(clock, *, n_tasks=N_TASKS, **options):
    protocol = protocol_of(**options)
    return clock.timeline(protocol.rounds(), n_tasks, burst=protocol.local_steps)


@pytest.mark.parametrize(
    "delay", [Delay("fixed", high=3.0), Delay("uniform", 1.0, 9.0), Delay("heavy", 1.0)], ids=str
)
def test_everybody_takes_every_turn_once_in_order(delay):
    line = timeline(Clock(delay))
    assert np.all(np.diff(line.time) >= 0)
    assert np.array_equal(line.messages(), [TURNS] * N_TASKS)
    for task in range(N_TASKS):
        assert [c.turn for c in line.calls if c.task == task] == list(range(TURNS))
    assert [call.number for call in line.calls] == list(range(N_TASKS * TURNS))
    again = timeline(Clock(delay))
    assert again.calls == line.calls
    assert np.array_equal(again.time, line.time)


def test_fixed_delays_are_round_robin_and_seeds_change_the_others():
    line = timeline(Clock(Delay("fixed", high=3.0)))
    assert [call.task for call in line.calls] == list(range(N_TASKS)) * TURNS
    assert np.array_equal(line.staleness[N_TASKS:], [N_TASKS - 1] * N_TASKS * (TURNS - 1))
    assert timeline(Clock(seed=0)).calls != timeline(Clock(seed=1)).calls


def test_a_straggler_holds_up_everybody_in_step_and_nobody_out_of_step():
    slow = {0: 10.0}
    apart = timeline(Clock(Delay("fixed", high=1.0), stragglers=slow))
    together = timeline(Clock(Delay("fixed", high=1.0), stragglers=slow, synchronous=True))
    assert together.time[-1] == 10.0 * TURNS
    others = apart.tasks != 0
    assert apart.time[others][-1] == TURNS
    assert apart.messages(until=TURNS + 0.5)[0] == 0
    assert apart.staleness[apart.tasks == 0][0] == (N_TASKS - 1) * TURNS
    assert [call.task for call in together.calls] == [None] * TURNS


def test_local_steps_wait_once_for_the_slowest_in_step_too():
    delay = Delay("fixed", high=1.0)
    line = timeline(Clock(delay, stragglers={0: 10.0}, synchronous=True), local_steps=2)
    assert np.array_equal(line.time, [10.0 * (1 + turn // 2) for turn in range(TURNS)])


def test_who_is_away_sends_nothing_and_goes_on_when_back():
    away = {1: Away(2.5, 50.0), 2: Away(3.5)}
    line = timeline(Clock(Delay("fixed", high=1.0), away=away))
    times = {task: line.time[line.tasks == task] for task in range(N_TASKS)}
    assert np.array_equal(times[1], [1.0, 2.0, 50.0, 51.0, 52.0])
    assert np.array_equal(times[2], [1.0, 2.0, 3.0])
    assert line.messages()[2] == 3
    assert line.messages()[0] == TURNS


def test_budgets_are_spent_by_node_as_they_speak():
    schedule = schedule_of(protocol_of())
    line = timeline(Clock(Delay("fixed", high=1.0), stragglers={0: 10.0}))
    course = schedule.course(Unit.ROW, 1e-5)
    early = line.spent(course, until=2.5)
    assert early[0] == 0.0
    assert np.array_equal(early[1:], [course[1][1]] * (N_TASKS - 1))
    assert np.array_equal(line.spent(course), [course[-1][1]] * N_TASKS)


def test_the_rest_goes_on_and_is_charged_for_the_one_who_spoke_most():
    protocol = protocol_of()
    schedule = schedule_of(protocol)
    clock = Clock(Delay("fixed", high=1.0), away={0: Away(1.5), 1: Away(2.5)})
    entropy = SeededEntropy(0)
    board = Billboard()
    parties = clock.parties(protocol, tasks_of(), entropy=entropy)
    outcome = conduct(protocol, schedule, parties, board, entropy=entropy)
    assert len(board) == 1 + 2 + 2 * TURNS
    assert len(board.events) == TURNS
    assert stated(board, schedule).epsilon == schedule.cost(Unit.ROW, 1e-5).epsilon
    models = np.concatenate(list(parties.finish(outcome.public)))  # absent tasks listen on
    assert np.isfinite(models).all()
    assert models.shape[0] == N_TASKS


def test_local_steps_are_sent_in_one_go():
    line = timeline(Clock(Delay("fixed", high=1.0)), local_steps=5)
    assert [call.task for call in line.calls[:5]] == [0] * 5
    assert np.array_equal(line.staleness[1:5], [0] * 4)
    assert line.time[4] == 1.0


def test_bad_clocks_are_refused_by_name():
    with pytest.raises(InvalidInput, match="low"):
        Delay("uniform", 5.0, 1.0)
    with pytest.raises(InvalidInput, match="law"):
        Delay("normal")
    with pytest.raises(InvalidInput, match="shortest delay"):
        Delay("heavy")
    with pytest.raises(InvalidInput, match="in this order"):
        Away(3.0, 1.0)
    with pytest.raises(InvalidInput, match="stragglers"):
        Clock(stragglers={0: -1.0})
    with pytest.raises(InvalidInput, match="would stop everybody"):
        Clock(away={0: Away(1.0)}, synchronous=True)
    with pytest.raises(InvalidInput, match="counted from 0"):
        Clock(stragglers={N_TASKS: 2.0}).parties(
            protocol_of(), tasks_of(), entropy=SeededEntropy(0)
        )


def test_heavy_tails_are_heavy():
    drawn = Delay("heavy", 1.0, tail=1.5).draw(np.random.default_rng(0), 100_000)
    assert drawn.min() >= 1.0
    # P(X > 100) = 100^(−1.5) = 10⁻³; six standard errors.
    assert abs(np.mean(drawn > 100) - 1e-3) < 6 * math.sqrt(1e-3 / 100_000)
