"""One loop for every protocol: in a stack, in batches, on machines of their own, taken up again."""

import dataclasses

import numpy as np
import pytest

from tacit.engines import Batches, conduct, fold
from tacit.errors import BudgetExceeded, InvalidInput, PrivacyLeak
from tacit.losses import SquaredLoss
from tacit.privacy import Billboard, Ledger, SeededEntropy
from tacit.privacy.bounds import VectorClip
from tacit.privacy.noise.entropy import KeyedEntropy
from tacit.privacy.schedule import Call, Poisson, Round, Schedule, in_turn
from tacit.privacy.unit import Unit
from tacit.tasks import ParquetTasks

from .conftest import N_TASKS, staged, tasks_of


def run(protocol, schedule, tasks, *, billboard=None, max_rows=None, seed=3):
    entropy = SeededEntropy(seed)
    billboard = Billboard() if billboard is None else billboard
    parties = Batches(protocol, tasks, entropy=entropy.child("homes"), max_rows=max_rows)
    outcome = conduct(protocol, schedule, parties, billboard, entropy=entropy.child("curator"))
    return np.concatenate(list(parties.finish(outcome.public))), billboard, outcome


@pytest.mark.parametrize("sizes", [(4, 1), (20, 1), (5, 3)], ids=str)
def test_batches_say_and_learn_the_same_bits_as_the_stack(conversation, loss, sizes):
    wanted = dict(zip(("n_features", "n_outputs"), sizes, strict=True))
    if loss.name == "squared" and sizes[1] > 1:
        pytest.skip("several outputs are classes")
    protocol, schedule = staged(conversation, loss, **wanted)
    tasks = tasks_of(loss, **wanted)
    stacked, board, _ = run(protocol, schedule, tasks)
    for max_rows in (30, 1):  # a few batches; every task on its own
        models, other, _ = run(protocol, schedule, tasks, max_rows=max_rows)
        assert other.head == board.head
        assert np.array_equal(models, stacked)


def test_a_run_taken_up_again_goes_on_with_the_same_bits(conversation):
    protocol, schedule = staged(conversation, SquaredLoss())
    tasks = tasks_of(SquaredLoss())
    models, board, _ = run(protocol, schedule, tasks)
    for kept in range(len(board)):
        begun = Billboard()
        for posting in list(board)[:kept]:
            facts = {name: getattr(posting, name) for name in ("label", "unit", "call", "seeded")}
            begun.post(posting.value, posting.event, **facts)
        again, other, _ = run(protocol, schedule, tasks, billboard=begun)
        assert other.head == board.head
        assert np.array_equal(again, models)


def test_anybody_reads_the_public_state_off_the_billboard(conversation):
    protocol, schedule = staged(conversation, SquaredLoss())
    tasks = tasks_of(SquaredLoss())
    models, board, _ = run(protocol, schedule, tasks)
    public = fold(protocol, schedule, board)
    home = Batches(protocol, tasks, entropy=SeededEntropy(0))
    late = np.concatenate(list(home.finish(public)))  # homes that never spoke
    if conversation != "low rank and rows":
        assert np.array_equal(late, models)
    assert np.isfinite(late).all()


def test_a_stranger_learns_from_the_billboard_alone(conversation):
    protocol, schedule = staged(conversation, SquaredLoss())
    tasks = tasks_of(SquaredLoss())
    _, board, _ = run(protocol, schedule, tasks)
    public = fold(protocol, schedule, board)
    stranger = tasks.take_tasks(np.array([2]))
    model = protocol.finish(protocol.start(stranger, np.array([-1])), public)
    assert model.shape == (1, 1, tasks.n_features + 1)
    assert np.isfinite(model).all()


def test_every_release_is_charged_before_it_is_read(conversation):
    protocol, schedule = staged(conversation, SquaredLoss(), epsilon=1.0)
    ledger = Ledger(":memory:", epsilon=1.0, delta=1e-5)
    rows = schedule.events(Unit.ROW)
    with ledger.reserve(
        schedule.events(Unit.TASK),
        unit=Unit.TASK,
        adjacency=schedule.adjacency,
        delta=1e-5,
        rows=rows or None,
        rows_delta=1e-5 if rows else None,
    ) as reservation:
        board = Billboard(reservation)
        run(protocol, schedule, tasks_of(SquaredLoss()), billboard=board)
        assert not any(sum(left.values()) for left in reservation.left.values() if left) or not rows
        with pytest.raises(BudgetExceeded):
            board.post(np.zeros(1), schedule.events(Unit.TASK)[0])


def test_a_billboard_of_another_run_is_refused():
    protocol, schedule = staged("directions", SquaredLoss())
    _, board, _ = run(protocol, schedule, tasks_of(SquaredLoss()))
    other, fewer = staged("averaged", SquaredLoss())
    with pytest.raises(PrivacyLeak, match="none of this schedule's"):
        run(other, fewer, tasks_of(SquaredLoss()), billboard=board)


def test_a_cohort_appears_nowhere():
    protocol, _ = staged("updates", SquaredLoss())

    @dataclasses.dataclass(frozen=True)
    class Cohorts(type(protocol)):
        def rounds(self):
            bound = VectorClip(2.0)
            return (Round("mean", bound, (1, 5), turns=3, cohort=Poisson(0.5)),)

        def speak(self, home, public, call, joined):
            home, messages = super().speak(home, public, call, None)
            return home, messages[joined]

    sampled = Cohorts(**{f.name: getattr(protocol, f.name) for f in dataclasses.fields(protocol)})
    plan = Schedule.calibrate(sampled.rounds(), epsilon=8.0, delta=1e-5)
    models, board, outcome = run(sampled, plan, tasks_of(SquaredLoss()))
    assert models.shape[0] == N_TASKS
    told = repr([posting.call for posting in board]) + repr(outcome.history) + repr(outcome.public)
    assert "joined" not in told
    assert "True" not in repr(outcome.history)
    again = run(sampled, plan, tasks_of(SquaredLoss()))
    other = run(sampled, plan, tasks_of(SquaredLoss()), seed=4)
    assert again[1].head == board.head
    assert other[1].head != board.head


def test_noise_added_at_home_is_repeated_by_its_key_and_by_nobody_else():
    key = KeyedEntropy.new()
    words = KeyedEntropy(key).child("run", 3).words(5)
    assert np.array_equal(KeyedEntropy(key).child("run", 3).words(5), words)
    assert not np.array_equal(KeyedEntropy(key).child("run", 4).words(5), words)
    assert not np.array_equal(KeyedEntropy(KeyedEntropy.new()).child("run", 3).words(5), words)
    stream = KeyedEntropy(key)
    assert np.array_equal(
        np.concatenate([stream.words(700), stream.words(900)]), KeyedEntropy(key).words(1600)
    )


def test_messages_asked_for_in_parts_are_counted_once(conversation, monkeypatch):
    protocol, schedule = staged(conversation, SquaredLoss())
    tasks = tasks_of(SquaredLoss())
    _, whole, _ = run(protocol, schedule, tasks)
    monkeypatch.setattr("tacit.engines.batches._MESSAGE_NUMBERS", 12)
    _, parts, _ = run(protocol, schedule, tasks)
    assert parts.head == whole.head


def test_only_members_of_a_cohort_are_heard(conversation):
    protocol, schedule = staged(conversation, SquaredLoss())
    tasks = tasks_of(SquaredLoss())
    round, mechanism = schedule.rounds[0], schedule.mechanisms[0]
    if round.at_task:
        pytest.skip("noise at the task has no cohort")
    sums = []
    for members in ([1, 4], [1], [4]):
        joined = np.isin(np.arange(N_TASKS), members)
        parties = Batches(protocol, tasks, entropy=SeededEntropy(0))
        sums.append(sum(parties.ask(Call(0, 0), protocol.opening(), round, mechanism, joined)))
    assert np.array_equal(sums[0], sums[1] + sums[2])


class _TwoParts:
    """Two streamed halves of one file, whose homes remember in one folder."""

    def __init__(self, protocol, file, entropy, homes, cut):
        ends = [(0, cut), (cut, file.n_tasks)]
        self.n_tasks = file.n_tasks
        self._parts = [
            Batches(
                protocol, file.part(*end), entropy=entropy, homes=homes, max_rows=15, first=end[0]
            )
            for end in ends
        ]

    def order(self, rounds):
        return in_turn(rounds, self.n_tasks)

    def ask(self, *asked):
        for part in self._parts:
            yield from part.ask(*asked)

    def tell(self, call, public):
        pass

    def finish(self, public):
        for part in self._parts:
            yield from part.finish(public)


@pytest.mark.parametrize("name", ["hierarchical", "low rank", "updates"])
def test_parts_of_a_file_that_remember_in_one_folder_say_the_same_bits(tmp_path, name):
    pl = pytest.importorskip("polars")
    protocol, schedule = staged(name, SquaredLoss())
    tasks = tasks_of(SquaredLoss())
    columns = {f"x{j}": tasks.X[:, j] for j in range(tasks.n_features)}
    table = pl.DataFrame({"task": tasks.task_of_row, **columns, "y": np.asarray(tasks.y)})
    table.write_parquet(tmp_path / "rows.parquet", row_group_size=9)
    models, board, _ = run(protocol, schedule, tasks)
    file = ParquetTasks(tmp_path / "rows.parquet", tasks="task", target="y")
    entropy, other = SeededEntropy(3), Billboard()
    parties = _TwoParts(protocol, file, entropy.child("homes"), tmp_path / "homes", 4)
    outcome = conduct(protocol, schedule, parties, other, entropy=entropy.child("curator"))
    assert other.head == board.head
    assert np.array_equal(np.concatenate(list(parties.finish(outcome.public))), models)


def test_checkpoints_of_another_run_are_refused(tmp_path):
    tasks = tasks_of(SquaredLoss())
    protocol, _ = staged("low rank", SquaredLoss())
    Batches(protocol, tasks, entropy=SeededEntropy(0), homes=tmp_path)
    Batches(protocol, tasks, entropy=SeededEntropy(0), homes=tmp_path)  # the same goes on
    other, _ = staged("updates", SquaredLoss())
    for kind, rows in [(other, tasks), (protocol, tasks.take_tasks(slice(0, 5)))]:
        with pytest.raises(InvalidInput, match="give an empty folder"):
            Batches(kind, rows, entropy=SeededEntropy(0), homes=tmp_path)
