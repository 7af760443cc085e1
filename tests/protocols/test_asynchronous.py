"""The asynchronous conversation: where it converges, and that nothing but gradients leaves."""

from dataclasses import replace

import numpy as np
import pytest

from tacit.engines import Away, Batches, Clock, Delay, conduct
from tacit.errors import InvalidInput
from tacit.losses import LogisticLoss, SquaredLoss
from tacit.numerics.columns import GroupSparseColumns, LowRankColumns
from tacit.penalties import OWN_PENALTIES, SHARED_PENALTIES, FeatureGroup, Nuclear
from tacit.privacy import Billboard, SeededEntropy
from tacit.privacy.mechanisms import Exact
from tacit.privacy.schedule import Call, Schedule
from tacit.protocols.asynchronous import AsynchronousProtocol, Design
from tacit.tasks import TaskSet

N_TASKS, N_ROWS, N_FEATURES = 6, 25, 4
STRUCTURES = {
    "dirty model": ("group-sparse", "entries"),
    "alternating structure": ("low-rank", "ridge"),
    "robust feature learning": ("group-sparse", "tasks"),
    "robust multi-task learning": ("low-rank", "tasks"),
}
LOSSES = [SquaredLoss(), LogisticLoss()]


def tasks_of(loss, seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(N_TASKS), N_ROWS)
    X = rng.standard_normal((len(task), N_FEATURES))
    W = rng.standard_normal(N_FEATURES) + 0.4 * rng.standard_normal((N_TASKS, N_FEATURES))
    y = np.einsum("nd,nd->n", X, W[task]) + 0.3 * rng.standard_normal(len(task))
    return TaskSet.from_arrays(X, y / 6 if loss.name == "squared" else (y > 0) * 1.0, task)


def talk(loss, **options):
    defaults = {
        "shared_strength": 0.01 * loss.curvature,
        "own_strength": 0.1 * loss.curvature,
        "step": 1.5 / loss.curvature,
        "clip": np.inf,
    }
    return AsynchronousProtocol(
        loss, N_FEATURES, (N_ROWS,) * N_TASKS, Design(2.0, 1.0), **{**defaults, **options}
    )


def objective(protocol, home, public):
    shared, own = protocol.parts(public)
    models = np.repeat(shared + own, home.outputs[0].counts, axis=0)
    score = np.einsum("nd,nkd->nk", home.rows, models)
    shared, own = (part.reshape(-1, N_FEATURES + 1) for part in (shared, own))
    return (
        protocol.loss.value(score, home.answers).sum() / N_ROWS
        + SHARED_PENALTIES[protocol.shared](protocol.shared_strength).value(shared)
        + OWN_PENALTIES[protocol.own](protocol.own_strength).value(own)
    )


def ended(protocol, tasks, clock):
    """Return the objective at the end of a run without noise."""
    home, public = protocol.start(tasks, np.arange(N_TASKS)), protocol.opening()
    bound = protocol.rounds()[0].bound
    line = clock.timeline(protocol.rounds(), N_TASKS, burst=protocol.local_steps)
    # Until the first has taken all its turns: who goes on alone goes nowhere.
    last = [line.time[line.tasks == task].max(initial=0.0) for task in range(N_TASKS)]
    until = np.inf if clock.synchronous else min(last)
    for call in line.calls[: line.within(until)]:
        asked = None if call.task is None else np.arange(N_TASKS) == call.task
        sums = bound.by_task(protocol.speak(home, public, call, asked)[1])
        public = protocol.read(public, sums if asked is None else sums[0], call, Exact())
    return objective(protocol, home, public)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize(
    "structure",
    [
        pytest.param(name, marks=() if name == "dirty model" else pytest.mark.slow)
        for name in STRUCTURES
    ],
)
def test_without_noise_every_structure_reaches_the_synchronous_optimum(structure, loss):
    shared, own = STRUCTURES[structure]
    strength = 0.02 if own != "ridge" else 0.1
    options = {"shared": shared, "own": own, "step": 2.2 / loss.curvature}
    strengths = {"shared_strength": 0.03, "own_strength": strength}
    protocol = talk(loss, **options, **strengths, turns=1500 if own == "tasks" else 500)
    best = ended(replace(protocol, turns=3000), tasks_of(loss), Clock(synchronous=True))
    assert abs(ended(protocol, tasks_of(loss), Clock()) - best) <= 1e-6 * best


def test_heavy_tailed_delays_do_not_keep_it_from_the_optimum():
    protocol = talk(SquaredLoss(), turns=900)
    best = ended(replace(protocol, turns=1500), tasks_of(SquaredLoss()), Clock(synchronous=True))
    found = ended(protocol, tasks_of(SquaredLoss()), Clock(Delay("heavy", 1.0), seed=2))
    assert abs(found - best) <= 1e-6 * best


@pytest.mark.parametrize(
    "options",
    [{"relaxation": 1.4}, {"relaxation": 0.6}, {"local_steps": 3}, {"step": 2.5}],
    ids=str,
)
def test_relaxation_and_local_steps_end_at_the_same_optimum(options):
    loss = SquaredLoss()
    protocol = talk(loss, **{"turns": 900, **options})
    best = ended(talk(loss, turns=1500), tasks_of(loss), Clock(synchronous=True))
    assert abs(ended(protocol, tasks_of(loss), Clock()) - best) <= 1e-6 * best


def test_a_straggler_and_one_who_leaves_for_a_while_do_not_keep_it_from_the_optimum():
    loss = SquaredLoss()
    best = ended(talk(loss, turns=1500), tasks_of(loss), Clock(synchronous=True))
    clock = Clock(stragglers={1: 3.0}, away={2: Away(500.0, 1500.0)})
    assert abs(ended(talk(loss, turns=900), tasks_of(loss), clock) - best) <= 1e-6 * best


def neighbours(seed=0):
    """Return tasks that differ in the most telling way in one row of task 2."""
    tasks = tasks_of(SquaredLoss(), seed)
    other_X, other_y = tasks.X.copy(), tasks.y.copy()
    row = tasks.offsets[2] + 3
    other_X[row], other_y[row] = 50.0, -40.0
    mine_X, mine_y = tasks.X.copy(), tasks.y.copy()
    mine_X[row], mine_y[row] = 50.0, 40.0
    return tasks.replace(X=mine_X, y=mine_y), tasks.replace(X=other_X, y=other_y)


@pytest.mark.parametrize("options", [{}, {"shared": "group-sparse", "own": "entries"}], ids=str)
def test_over_a_thousand_steps_a_row_never_moves_a_sum_beyond_the_declared_sensitivity(options):
    protocol = talk(SquaredLoss(), turns=1000 // N_TASKS + 1, clip=0.3, **options)
    schedule = Schedule.calibrate(protocol.rounds(), epsilon=50.0, delta=1e-5)
    noise, source = schedule.mechanisms[0], SeededEntropy(1)
    pair = neighbours()
    homes = [protocol.start(one, np.arange(N_TASKS)) for one in pair]
    public, bound, worst = protocol.opening(), protocol.rounds()[0].bound, 0.0
    line = Clock(stragglers={4: 5.0}).timeline(protocol.rounds(), N_TASKS)
    for number, call in enumerate(line.calls[:1000]):
        asked = np.arange(N_TASKS) == call.task
        first, second = (
            bound.by_task(protocol.speak(home, public, call, asked)[1]) for home in homes
        )
        if call.task != 2:
            assert np.array_equal(first, second)
        worst = max(worst, float(np.linalg.norm(second - first)))
        released = noise.release(first, source.child("call", number)).value
        public = protocol.read(public, released[0], call, noise)
    assert 0.9 * noise.reach < worst <= noise.reach


def test_one_task_on_its_own_machine_says_and_learns_the_bits_of_the_stack():
    loss = SquaredLoss()
    protocol = talk(loss, turns=4, clip=0.5)
    schedule = Schedule.calibrate(protocol.rounds(), epsilon=20.0, delta=1e-5)
    boards, models = [], []
    for most in (None, 1):
        entropy, board = SeededEntropy(3), Billboard()
        parties = Batches(protocol, tasks_of(loss), entropy=entropy, max_rows=most)
        outcome = conduct(protocol, schedule, parties, board, entropy=entropy)
        boards.append(board.head)
        models.append(np.concatenate(list(parties.finish(outcome.public))))
    assert boards[0] == boards[1]
    assert np.array_equal(*models)


@pytest.mark.parametrize("said", [np.nan, np.inf, 1e300, -1e12], ids=str)
def test_a_hostile_release_moves_no_more_than_rows_and_noise_could(said):
    protocol = talk(SquaredLoss(), clip=0.5)
    noise = Schedule.calibrate(protocol.rounds(), epsilon=3.0, delta=1e-5).mechanisms[0]
    release = np.full((1, N_FEATURES + 1), said)
    public = protocol.read(protocol.opening(), release, Call(0, 0, 1, 0), noise)
    most = 0.5 * N_ROWS + 6 * noise.noise_norm((1, N_FEATURES + 1))
    assert np.isfinite(public.told).all()
    assert np.linalg.norm(public.server.vectors) <= protocol.step * most / N_ROWS * (1 + 1e-9)
    assert np.isfinite(
        protocol.finish(protocol.start(tasks_of(SquaredLoss()), np.arange(6)), public)
    ).all()


def test_two_tasks_at_one_place_are_refused():
    tasks = tasks_of(SquaredLoss()).take_tasks(np.array([0, 1]))
    with pytest.raises(InvalidInput, match="its own place"):
        talk(SquaredLoss()).start(tasks, np.array([3, 3]))
    with pytest.raises(InvalidInput, match="its own place"):
        talk(SquaredLoss()).start(tasks, np.array([0, N_TASKS]))


def test_a_node_is_told_its_own_column_only_when_it_spoke():
    protocol = talk(SquaredLoss())
    home, public = protocol.start(tasks_of(SquaredLoss()), np.arange(N_TASKS)), protocol.opening()
    bound = protocol.rounds()[0].bound
    for number, task in enumerate([0, 1, 0]):
        asked = np.arange(N_TASKS) == task
        call = Call(number, 0, task, number // 2)
        sums = bound.by_task(protocol.speak(home, public, call, asked)[1])
        before, public = public, protocol.read(public, sums[0], call, Exact())
        others = np.arange(N_TASKS) != task
        assert np.array_equal(before.told[others], public.told[others])
        assert not np.array_equal(before.told[task], public.told[task])


@pytest.mark.parametrize("shape", [(200, 30), (20, 90), (150, 80)], ids=str)
@pytest.mark.parametrize("kind", [LowRankColumns, GroupSparseColumns])
def test_answers_of_the_incremental_server_are_those_of_the_whole_proximal_point(kind, shape):
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((shape[0], 4)) @ rng.standard_normal((4, shape[1]))
    columns = kind.of(signal + 0.3 * rng.standard_normal(shape))
    penalty = Nuclear(1.0) if kind is LowRankColumns else FeatureGroup(1.0)
    for number in range(700):
        at = np.array([rng.integers(shape[0])])
        threshold = 9.0 if number % 50 else 12.0
        columns = columns.replaced(at, signal[at] + 0.3 * rng.standard_normal((1, shape[1])))
        answer, columns = columns.shrunk(threshold, at)
        if number % 70 == 0:
            whole = penalty.prox(columns.vectors, threshold)
            np.testing.assert_allclose(answer, whole[at], atol=1e-8)
            np.testing.assert_allclose(columns.shrunk(threshold)[0], whole, atol=1e-8)


def test_a_basis_that_misses_a_direction_is_found_out():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 90))
    columns = LowRankColumns.of(vectors + 0.01 * rng.standard_normal((300, 90)))
    _, columns = columns.shrunk(5.0, np.array([0]))
    # A basis without the second of the three directions, as a stale one would be.
    blind = replace(columns, basis=np.delete(columns.basis, -2, axis=1)[:, -6:])
    direction = columns.basis[:, -2]
    blind = replace(blind, basis=blind.basis - np.outer(direction, direction @ blind.basis))
    answer, _ = blind.shrunk(5.0, np.arange(10))
    np.testing.assert_allclose(answer, Nuclear(1.0).prox(columns.vectors, 5.0)[:10], atol=1e-8)


def test_thresholds_that_a_gram_matrix_does_not_resolve_take_the_singular_vectors():
    rng = np.random.default_rng(0)
    columns = LowRankColumns.of(rng.standard_normal((40, 6)) * np.array([1e7, 1, 1, 1, 1, 1]))
    answer, _ = columns.shrunk(0.5)
    np.testing.assert_allclose(answer, Nuclear(1.0).prox(columns.vectors, 0.5), rtol=1e-9)
