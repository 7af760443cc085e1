"""A cluster of real processes says, releases and learns what one machine does, whoever dies."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.engines import Batches, Ray, conduct
from tacit.engines.ray import _connected, _cuts
from tacit.errors import InvalidInput, PrivacyLeak
from tacit.losses import LogisticLoss, SquaredLoss
from tacit.privacy import Billboard, SeededEntropy
from tacit.tasks import TaskSet

from .conftest import staged, tasks_of

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def ray():
    if importlib.util.find_spec("ray") is None:
        pytest.skip("no Ray here: pip install 'tacit[cluster]'")
    _connected(None)  # a cluster of its own, as users get it
    import ray

    yield ray
    ray.shutdown()


def run(engine, protocol, schedule, tasks, *, seed=3):
    entropy = SeededEntropy(seed)
    homes = entropy.child("homes")
    if engine is None:
        parties = Batches(protocol, tasks, entropy=homes)
    else:
        parties = engine.parties(protocol, tasks, entropy=homes)
    board = Billboard()
    outcome = conduct(protocol, schedule, parties, board, entropy=entropy.child("curator"))
    return np.concatenate(list(parties.finish(outcome.public))), board, parties


@pytest.mark.parametrize(
    "name", ["hierarchical", "updates", "relationships", "low rank and rows", "decomposed rounds"]
)
@pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss()], ids=lambda loss: loss.name)
def test_partitions_release_and_learn_the_same_bits(ray, name, loss):
    protocol, schedule = staged(name, loss)
    tasks = tasks_of(loss)
    models, board, _ = run(None, protocol, schedule, tasks)
    again, other, _ = run(Ray(workers=2), protocol, schedule, tasks)
    assert other.head == board.head
    assert np.array_equal(again, models)


def listening(process):
    """Return the addresses at which a process listens, as /proc shows them."""
    held = set()
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(OSError):
            held.add(str(descriptor.readlink()))
    sockets = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/{process}/net/{table}").read_text().splitlines()[1:]
    ]
    return [row[1] for row in sockets if row[3] == "0A" and f"socket:[{row[9]}]" in held]


def test_a_cluster_of_its_own_listens_on_the_loopback_address_only(ray):
    assert ray.get_runtime_context().gcs_address.startswith("127.0.0.1:")
    own = [
        int(place.parent.name)
        for place in Path("/proc").glob("[0-9]*/stat")
        if _parent(place) == os.getpid()
    ]
    found = [address for process in own for address in listening(process)]
    assert found
    loopback = (
        "0100007F:",
        "00000000000000000000000001000000:",
        "0000000000000000FFFF00000100007F:",
    )
    assert all(address.startswith(loopback) for address in found), found


def _parent(stat):
    with contextlib.suppress(OSError):
        return int(stat.read_text().rsplit(")", 1)[1].split()[1])
    return None


def kill(ray, parties, number):
    """Kill a partition's process, and wait until it is gone."""
    actor = parties._actors[number]
    process = ray.get(actor.__ray_call__.remote(lambda _: os.getpid()))
    os.kill(process, signal.SIGKILL)
    while os.path.exists(f"/proc/{process}") and not _is_dead(process):
        time.sleep(0.01)


def _is_dead(process):
    with open(f"/proc/{process}/stat") as file:
        return file.read().split(")")[1].split()[0] in "ZX"


@pytest.mark.parametrize("kept", [False, True], ids=["said again", "checkpoints"])
@pytest.mark.parametrize("name", ["hierarchical", "low rank and rows"])
def test_workers_that_are_killed_in_any_round_change_no_bit(ray, tmp_path, name, kept):
    protocol, schedule = staged(name, SquaredLoss())
    tasks = tasks_of(SquaredLoss())
    models, board, _ = run(None, protocol, schedule, tasks)
    engine = Ray(workers=2, homes=tmp_path / "homes" if kept else None)
    entropy = SeededEntropy(3)
    parties = engine.parties(protocol, tasks, entropy=entropy.child("homes"))
    other = Billboard()

    def die(made, total):
        if made in (1, total // 2):
            kill(ray, parties, made % 2)
        if made == total:
            kill(ray, parties, 0)  # before the models are made

    outcome = conduct(
        protocol, schedule, parties, other, entropy=entropy.child("curator"), progress=die
    )
    again = np.concatenate(list(parties.finish(outcome.public)))
    assert parties._deaths >= 2
    assert other.head == board.head
    assert np.array_equal(again, models)


def test_a_worker_killed_while_it_computes_is_replaced(ray):
    protocol, schedule = staged("hierarchical", LogisticLoss())
    tasks = tasks_of(LogisticLoss())
    models, board, _ = run(None, protocol, schedule, tasks)
    engine, entropy = Ray(workers=2), SeededEntropy(3)
    parties = engine.parties(protocol, tasks, entropy=entropy.child("homes"))
    process = ray.get(parties._actors[1].__ray_call__.remote(lambda _: os.getpid()))
    threading.Timer(0.2, os.kill, (process, signal.SIGKILL)).start()
    other = Billboard()
    outcome = conduct(protocol, schedule, parties, other, entropy=entropy.child("curator"))
    again = np.concatenate(list(parties.finish(outcome.public)))
    assert other.head == board.head
    assert np.array_equal(again, models)


def test_too_many_deaths_end_the_run_with_a_remedy(ray):
    protocol, schedule = staged("averaged", SquaredLoss())
    engine = Ray(workers=2, deaths=0)
    parties = engine.parties(protocol, tasks_of(SquaredLoss()), entropy=SeededEntropy(3))
    kill(ray, parties, 1)
    with pytest.raises(InvalidInput, match="max_rows"):
        conduct(protocol, schedule, parties, Billboard(), entropy=SeededEntropy(4))


def test_what_a_task_computes_badly_is_its_own_affair(ray):
    protocol, schedule = staged("hierarchical", SquaredLoss())
    tasks = tasks_of(SquaredLoss())
    X = tasks.X.copy()
    X[tasks.offsets[3] : tasks.offsets[4]] *= 1e160
    wild = TaskSet(X, tasks.y, tasks.offsets, tasks.names, tasks.order)
    models, board, _ = run(None, protocol, schedule, wild)
    again, other, _ = run(Ray(workers=3), protocol, schedule, wild)
    assert other.head == board.head
    assert np.array_equal(again, models)


def test_an_error_at_a_partition_comes_back_as_itself(ray):
    protocol, schedule = staged("updates", SquaredLoss())
    wrong, _ = staged("low rank and rows", SquaredLoss())
    parties = Ray(workers=2).parties(wrong, tasks_of(SquaredLoss()), entropy=SeededEntropy(3))
    with pytest.raises(PrivacyLeak):
        conduct(protocol, schedule, parties, Billboard(), entropy=SeededEntropy(4))


@pytest.mark.parametrize("kept", [False, True], ids=["", "checkpoints"])
@pytest.mark.parametrize("kind", [tacit.SharedPriorRegressor, tacit.SharedMomentsRegressor])
def test_an_estimator_learns_the_same_from_a_file_that_its_workers_read(ray, tmp_path, kind, kept):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(120), rng.integers(4, 20, 120))
    X = rng.uniform(-1, 1, (len(task), 3))
    y = X @ [1.0, -1.0, 0.5] + 0.1 * rng.standard_normal(len(task))
    table = pa.table({"site": task, **{f"x{j}": X[:, j] for j in range(3)}, "y": y})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=97)
    options = {"tasks": "site", "target": "y"}
    here = kind(epsilon=20.0, random_state=1)
    here.fit_parquet(tmp_path / "rows.parquet", **options)
    engine = Ray(workers=3, max_rows=200, homes=tmp_path / "homes" if kept else None)
    there = kind(epsilon=20.0, random_state=1, engine=engine)
    there.fit_parquet(tmp_path / "rows.parquet", **options)
    assert there.privacy_.n_releases > 0
    assert there.billboard_.head == here.billboard_.head
    assert np.array_equal(there.coef_, here.coef_)


def test_asynchronous_tasks_are_answered_as_they_arrive(ray):
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(6), 40)
    X = rng.uniform(-1, 1, (len(task), 3))
    y = X @ [1.0, -1.0, 0.5] + 0.1 * rng.standard_normal(len(task))
    options = {"epsilon": float("inf"), "n_rounds": 12, "random_state": 1}
    robin = tacit.AsynchronousRegressor(**options, engine=Ray(workers=2)).fit(X, y, tasks=task)
    local = tacit.AsynchronousRegressor(**options).fit(X, y, tasks=task)
    assert np.array_equal(robin.coef_, local.coef_)
    engine = Ray(workers=2, arrivals=True)
    free = tacit.AsynchronousRegressor(**options, engine=engine).fit(X, y, tasks=task)
    assert len(free.history_) == len(local.history_)
    by_task = np.bincount([row["task"] for row in free.history_])
    assert (by_task == by_task[0]).all()
    np.testing.assert_allclose(free.coef_, local.coef_, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("arrivals", [False, True])
def test_a_run_finds_nothing_that_another_run_remembered(ray, tmp_path, arrivals):
    """Where tasks take turns apart, the first call is for one partition alone."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(6), 20)
    X, homes, seen = rng.uniform(-1, 1, (len(task), 3)), tmp_path / "homes", []

    def fit(y, **options):
        engine = Ray(workers=2, homes=homes, arrivals=arrivals)
        tacit.AsynchronousRegressor(n_rounds=3, engine=engine, **options).fit(X, y, tasks=task)

    def written():
        found = {}
        for place in homes.glob("[0-9]*-*"):
            with contextlib.suppress(FileNotFoundError):  # a worker has just replaced it
                found[place.name] = place.stat().st_mtime_ns
        return found

    fit(X[:, 0])
    before = written()
    fit(X[:, 1], progress=lambda *_: seen.append(written()))
    assert any(name.startswith("3-") for name in before)
    for now in seen:
        assert not before.items() & now.items()


def test_noise_is_the_systems_own_and_the_statement_private(ray):
    tasks = tasks_of(SquaredLoss())
    names = np.repeat(np.arange(tasks.n_tasks), tasks.counts)
    first, second = (
        tacit.AveragedRegressor(epsilon=5.0, engine=Ray(workers=2)).fit(
            tasks.X, tasks.y, tasks=names
        )
        for _ in range(2)
    )
    assert first.privacy_.private
    assert not np.array_equal(first.billboard_[0].value, second.billboard_[0].value)


def write_rows(folder):
    """Write a file of 150 sites; each folder has ledgers and a register of its own."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(150), 8)
    X = rng.uniform(-1, 1, (len(task), 2))
    y = X @ [1.0, -1.0] + 0.1 * rng.standard_normal(len(task))
    lines = [f"{t},{a:.6f},{b:.6f},{c:.6f}" for t, (a, b), c in zip(task, X, y, strict=True)]
    (folder / "rows.csv").write_text("\n".join(["site,a,b,y", *lines]) + "\n")


def tacit_fit(folder, *options):
    command = [sys.executable, "-c", "from tacit.cli import main; main()", "fit"]
    return subprocess.Popen(
        [*command, *map(str, options)],
        cwd=folder,
        env={**os.environ, "TACIT_STATE": str(folder / "state")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_command_fits_on_a_cluster_and_goes_on_after_a_kill(ray, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    asked = ["rows.csv", "--task", "site", "--target", "y", "--epsilon", 5, "--seed", 1]
    write_rows(here)
    first = tacit_fit(here, *asked)
    assert first.wait(300) == 0, first.stdout.read()
    write_rows(there)
    address = ray.get_runtime_context().gcs_address
    second = tacit_fit(there, *asked, "--engine", f"ray://{address}")
    while second.poll() is None and not list(there.glob("run/unfinished/**/releases/*")):
        time.sleep(0.01)
    second.kill()
    second.wait()
    assert (there / "run" / "unfinished").exists()
    again = tacit_fit(there, "--resume", "run")
    assert again.wait(300) == 0, again.stdout.read()
    one, other = (tacit.load(folder / "run") for folder in (here, there))
    assert np.array_equal(one.coef_, other.coef_)
    assert one.billboard_.head == other.billboard_.head


def test_partitions_of_another_run_are_refused(tmp_path):
    tasks = tasks_of(SquaredLoss())
    assert _cuts(tasks, 2, tmp_path, by_rows=True) == _cuts(tasks, 3, tmp_path, by_rows=True)
    with pytest.raises(InvalidInput, match="give an empty folder"):
        _cuts(tasks.take_tasks(slice(0, 5)), 2, tmp_path, by_rows=True)
