"""Tasks that speak one by one: a turn is charged once, and nobody takes it twice."""

import math

import numpy as np
import pytest

from tacit.engines import Batches, Local, conduct, fold
from tacit.errors import InvalidInput, PrivacyLeak
from tacit.losses import SquaredLoss
from tacit.privacy import Billboard, Ledger, SeededEntropy, Statement
from tacit.privacy.bounds import RowGradientClip
from tacit.privacy.noise.entropy import KeyedEntropy
from tacit.privacy.schedule import AtTask, Call, Poisson, Round, Schedule, in_turn
from tacit.privacy.unit import Adjacency, Unit
from tacit.protocols.asynchronous import AsynchronousProtocol, Design
from tacit.tasks import TaskSet

N_TASKS, N_ROWS, N_FEATURES, TURNS = 4, 12, 3, 5


def protocol_of(**options):
    options = {"turns": TURNS, "shared_strength": 1e-3, **options}
    return AsynchronousProtocol(
        SquaredLoss(), N_FEATURES, (N_ROWS,) * N_TASKS, Design(2.0, 3.0), **options
    )


def tasks_of(seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(N_TASKS), N_ROWS)
    X = rng.standard_normal((len(task), N_FEATURES))
    return TaskSet.from_arrays(X, X @ np.arange(1.0, N_FEATURES + 1), task)


def schedule_of(protocol, epsilon=2.0):
    return Schedule.calibrate(protocol.rounds(), epsilon=epsilon, delta=1e-5)


def reserved(schedule, ledger):
    return ledger.reserve(
        schedule.events(Unit.ROW), unit=Unit.ROW, adjacency=schedule.adjacency, delta=1e-5
    )


def run(protocol, schedule, board, *, order=None, entropy=None, tasks=None):
    entropy = entropy or SeededEntropy(1)
    tasks = tasks or tasks_of()
    parties = Batches(protocol, tasks, entropy=entropy.child("homes"))
    return conduct(protocol, schedule, parties, board, entropy=entropy.child("c"), order=order)


def stated(board, schedule):
    return Statement.of_run(board, unit=Unit.ROW, adjacency=schedule.adjacency, delta=1e-5)


@pytest.mark.parametrize("order", ["round robin", "bursts", "together", "mixed"])
def test_planned_charged_and_stated_agree_in_any_order(order):
    protocol = protocol_of()
    schedule = schedule_of(protocol)
    robin = in_turn(protocol.rounds(), N_TASKS)
    pairs = {
        "round robin": [(call.task, call.turn) for call in robin],
        "bursts": [(task, turn) for task in range(N_TASKS) for turn in range(TURNS)],
        "together": [(None, turn) for turn in range(TURNS)],
        "mixed": [(None, 0), *((t, k) for k in range(1, TURNS) for t in (2, 0, 3, 1))],
    }[order]
    calls = [Call(number, 0, *pair) for number, pair in enumerate(pairs)]
    ledger = Ledger(":memory:", epsilon=2.0, delta=1e-5)
    with reserved(schedule, ledger) as reservation:
        board = Billboard(reservation)
        run(protocol, schedule, board, order=calls)
        assert sum(reservation.left[Unit.ROW].values()) == 0
    assert len(board) == len(pairs)
    assert list(board.events) == schedule.events(Unit.ROW)
    statement = stated(board, schedule)
    assert statement.epsilon == schedule.cost(Unit.ROW, 1e-5).epsilon
    assert statement.n_releases == TURNS
    assert ledger.spent().epsilon <= 2.0


def test_a_task_that_speaks_less_makes_the_others_cost_no_less():
    protocol = protocol_of()
    schedule = schedule_of(protocol)
    board = Billboard()
    calls = [Call(0, 0, 1, 0), Call(1, 0, 2, 0), Call(2, 0, 2, 1), Call(3, 0, 2, 2)]
    run(protocol, schedule, board, order=calls)
    assert len(board.events) == 3  # task 2 spoke three times
    assert stated(board, schedule).epsilon < schedule.cost(Unit.ROW, 1e-5).epsilon


@pytest.mark.parametrize("again", [Call(1, 0, 1, 0), Call(1, 0, None, 0)], ids=["task", "all"])
def test_nobody_takes_a_turn_twice(again):
    protocol = protocol_of()
    schedule = schedule_of(protocol)
    board = Billboard()
    with pytest.raises(PrivacyLeak, match="takes its next turn"):
        run(protocol, schedule, board, order=[Call(0, 0, 1, 0), again])
    assert len(board) == 1


def test_one_turn_has_one_event():
    protocol = protocol_of()
    cheap, dear = schedule_of(protocol, 1.0), schedule_of(protocol, 3.0)
    board = Billboard()
    run(protocol, cheap, board, order=[Call(0, 0, 1, 0)])
    with pytest.raises(PrivacyLeak, match="all tasks' noise of one turn must be alike"):
        board.post(
            np.zeros((1, 4)),
            dear.mechanisms[0].event,
            unit=Unit.ROW,
            call=Call(1, 0, 2, 0).to_json(),
        )


def test_a_sum_is_never_asked_of_one_task():
    bound = RowGradientClip(1.0)
    with pytest.raises(InvalidInput, match="no part that one task could release"):
        Round("sum", bound, (1, 4), unit=Unit.ROW, apart=True)

    class Summed(AsynchronousProtocol):
        def rounds(self):
            return (Round("sum", bound, (1, 4), turns=TURNS, unit=Unit.ROW),)

    protocol = Summed(SquaredLoss(), N_FEATURES, (N_ROWS,) * N_TASKS, Design(2.0, 3.0))
    board = Billboard()
    with pytest.raises(PrivacyLeak, match="was asked alone"):
        run(protocol, schedule_of(protocol), board, order=[Call(0, 0, 1, 0)])
    assert not len(board)


def test_a_billboard_keeps_what_was_charged_through_its_file(tmp_path):
    protocol = protocol_of()
    schedule = schedule_of(protocol)
    board = Billboard()
    run(protocol, schedule, board)
    board.save(tmp_path / "board.npz")
    again = Billboard.load(tmp_path / "board.npz")
    assert again.events == board.events
    assert len(again) == N_TASKS * TURNS


def test_a_killed_run_goes_on_with_the_same_bytes_and_no_further_charge(tmp_path):
    protocol = protocol_of()
    schedule = schedule_of(protocol)
    key = KeyedEntropy.new()
    calls = in_turn(protocol.rounds(), N_TASKS)
    ledger = Ledger(tmp_path / "ledger.db", epsilon=2.0, delta=1e-5)
    reservation = reserved(schedule, ledger)
    (tmp_path / "board").mkdir()
    board = Billboard(reservation, tmp_path / "board")
    run(protocol, schedule, board, order=calls[:7], entropy=KeyedEntropy(key))
    # Charged (or noted) but not written: the process died in between.
    (tmp_path / "board" / "00000006.npz").unlink()
    taken = ledger.resume(reservation.run)
    resumed = Billboard.load(tmp_path / "board", taken)
    run(protocol, schedule, resumed, entropy=KeyedEntropy(key))
    assert len(resumed) == len(calls)
    assert resumed[6].hash == board[6].hash
    assert sum(taken.left[Unit.ROW].values()) == 0
    other = Billboard.load(tmp_path / "board", taken)
    assert other.verify() == len(calls)


def test_other_bytes_for_a_noted_release_are_refused(tmp_path):
    protocol = protocol_of()
    schedule = schedule_of(protocol)
    ledger = Ledger(tmp_path / "ledger.db", epsilon=2.0, delta=1e-5)
    reservation = reserved(schedule, ledger)
    (tmp_path / "board").mkdir()
    board = Billboard(reservation, tmp_path / "board")
    run(protocol, schedule, board, order=in_turn(protocol.rounds(), N_TASKS)[:3])
    (tmp_path / "board" / "00000002.npz").unlink()
    resumed = Billboard.load(tmp_path / "board", ledger.resume(reservation.run))
    with pytest.raises(PrivacyLeak, match="for other bytes"):
        run(protocol, schedule, resumed, entropy=SeededEntropy(9))


def test_a_run_that_settles_early_is_charged_in_full_and_can_be_read_again():
    protocol = protocol_of(tolerance=1e6)
    schedule = schedule_of(protocol)
    board = Billboard()
    outcome = run(protocol, schedule, board)
    assert len(board) == N_TASKS + TURNS - 1  # everybody once, then silence
    assert list(board.events) == schedule.events(Unit.ROW)
    assert all(not posting.value.size for posting in list(board)[N_TASKS:])
    public = fold(protocol, schedule, board)
    assert np.array_equal(public.told, outcome.public.told)
    again = run(protocol, schedule, board)
    assert np.array_equal(again.public.own, public.own)
    assert len(board) == N_TASKS + TURNS - 1


def test_rows_toss_their_coins_at_home():
    rate = 0.5
    protocol = protocol_of(sampling=rate, clip=0.7)
    schedule = schedule_of(protocol)
    assert schedule.adjacency is Adjacency.ZERO_OUT
    assert schedule.mechanisms[0].sampling_rate == rate
    plain = schedule_of(protocol_of(clip=0.7))
    assert schedule.mechanisms[0].noise_multiplier < plain.mechanisms[0].noise_multiplier

    class Loud(AsynchronousProtocol):
        def speak(self, home, public, call, joined):
            home, said = super().speak(home, public, call, joined)
            said.values[:] = np.array([1.0, 0.0, 0.0, 0.0]) * 0.7
            return home, said

    loud = Loud(
        SquaredLoss(), N_FEATURES, (N_ROWS,) * N_TASKS, Design(2.0, 3.0), sampling=rate, clip=0.7
    )
    quiet = Schedule.calibrate(loud.rounds(), epsilon=math.inf, delta=1e-5)
    parties = Batches(loud, tasks_of(), entropy=SeededEntropy(4))
    heard = []
    for number in range(200):
        call = Call(number, 0, 1, 0)
        (part,) = parties.ask(call, loud.opening(), loud.rounds()[0], quiet.mechanisms[0], None)
        heard.append(part[0, 0, 0] / 0.7)
    heard = np.round(heard, 6)
    assert len(np.unique(heard)) > 3
    # A binomial mean of 200 × 12 coins: six standard errors, a false alarm in 5·10⁸.
    assert abs(heard.mean() / N_ROWS - rate) < 6 * math.sqrt(rate * (1 - rate) / (200 * N_ROWS))


def test_a_sampled_round_has_no_pure_noise_and_no_cohort_of_tasks():
    protocol = protocol_of(sampling=0.5)
    with pytest.raises(InvalidInput, match="Gaussian noise only"):
        Schedule.calibrate(protocol.rounds(), epsilon=1.0, delta=0.0)
    with pytest.raises(InvalidInput, match="no cohort to hide in"):
        Round("g", RowGradientClip(1.0), (3,), noise=AtTask(), cohort=Poisson(0.5))


def test_the_local_engine_asks_tasks_round_robin():
    protocol = protocol_of()
    parties = Local().parties(protocol, tasks_of(), entropy=SeededEntropy(0))
    calls = parties.order(protocol.rounds())
    assert [call.task for call in calls[:6]] == [0, 1, 2, 3, 0, 1]
    assert [call.number for call in calls] == list(range(N_TASKS * TURNS))
