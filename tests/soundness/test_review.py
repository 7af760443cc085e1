"""The sixteen breaks that an outside review found, one test each, through public names only.

The file needs nothing of this folder, so that it runs against any commit:

    git worktree add OLD 7b0831a
    PYTHONPATH=OLD/src python -m pytest --noconftest tests/soundness/test_review.py

There every test fails, for the reason that its name gives; here none does. Each break has more
tests, and the attacks that would have found it, in the other files.
"""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import dp_event
from scipy.special import expit
from threadpoolctl import threadpool_limits

import tacit
from tacit.errors import BudgetExceeded, InvalidInput
from tacit.privacy import (
    Billboard,
    Entropy,
    Ledger,
    SeededEntropy,
    VectorClip,
    compose,
    mechanism,
)
from tacit.tasks import TaskSet
from tacit.tuning import PrivateSearch

COMMAND = "import sys; from tacit.cli import main; sys.argv[0] = 'tacit'; main()"


def some_tasks(sizes, d=4, seed=0, *, labels=False):
    """Return rows, targets and task labels; a task's own rows do not depend on others' sizes."""
    parts = []
    for task, size in enumerate(sizes):
        own = np.random.default_rng([seed, task])
        X = own.normal(size=(size, d))
        z = X @ np.linspace(1, 2, d) + own.normal(size=size)
        parts.append((X, (z > 0).astype(int) if labels else z))
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    return X, y, np.repeat(np.arange(len(sizes)), sizes)


@pytest.fixture
def tacit_command(tmp_path, monkeypatch):
    """Run a command in a process of its own, in an empty folder and with a register of its own."""
    monkeypatch.setenv("TACIT_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("TACIT_LEDGER", raising=False)

    def run(*arguments):
        command = [sys.executable, "-c", COMMAND, *map(str, arguments)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
def rows_csv(tmp_path):
    """Write rows of four parties."""
    X, y, tasks = some_tasks((9, 12, 15, 10), d=2)
    lines = ["party,x0,x1,outcome"]
    lines += [f"P{t},{a:.3f},{b:.3f},{c:.3f}" for (a, b), c, t in zip(X, y, tasks, strict=True)]
    path = tmp_path / "data.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


GIVEN = ("--task", "party", "--target", "outcome", "--quiet")


def test_01_a_model_is_on_no_grid_that_only_one_data_set_explains():
    """b(w) = −Σ(σ(z) − y)x − αw of the true rows lay on a grid of powers of two."""
    rng = np.random.default_rng(5)
    alpha, constant, steps = 128.0, 0.25, 2.0 ** np.arange(-34, 6)
    X = np.round(2.0**6 * rng.uniform(-0.49, 0.49, (6, 4))) / 2.0**6
    X[-1] = 0.453125
    other = np.concatenate([X[:-1], -X[-1:]])
    y = np.arange(6) % 2

    def distance(w, rows):
        rows = np.hstack([rows, np.full((6, 1), constant)])
        b = -(expit(rows @ w) - y) @ rows - alpha * w
        fine = steps[steps < np.abs(b).max() / 64][:, None]
        return np.abs(b / fine - np.rint(b / fine)).max(axis=1).min()

    right = 0
    for seed, truth in enumerate(rng.integers(2, size=60)):
        options = {"alpha": alpha, "rows": "clip", "intercept_scaling": constant}
        model = tacit.PrivateLogisticRegression(0.1, 0.0, random_state=seed, **options)
        model.fit((X, other)[truth], y)
        w = np.append(model.coef_[0], model.intercept_[0] / constant)
        right += int(distance(w, other) < distance(w, X)) == truth
    assert right <= 44  # of 60: a fair coin is above that once in 30 000


def test_02_one_tasks_huge_rows_stop_nobodys_fit():
    X, y, tasks = some_tasks((9, 10, 11, 12))
    X[tasks == 2] *= 1e160
    y[tasks == 2] *= 1e200
    model = tacit.LowRankRegressor(1.0, random_state=0).fit(X, y, tasks=tasks)
    assert np.isfinite(model.coef_).all()


def test_03_a_huge_message_switches_no_other_messages_norm():
    """Replacing one of many copies by a huge one moved the sum by more than the sensitivity."""
    numbers = ("0x1.a9141698b14acp+1", "0x1.5365baa6b623fp+0")  # found among 10⁷
    message = np.array([float.fromhex(number) for number in numbers])
    bound = VectorClip(1.0)
    copies = np.broadcast_to(message, (20_000, 2))
    sums = [
        bound.aggregate(bound(np.vstack([copies, last[None]])))
        for last in (message, -message * 2.0**400)
    ]
    moved = sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(*sums, strict=True))
    assert moved <= Fraction(bound.sensitivity("l2", "replace-one")) ** 2


class _TinyNoise(Entropy):
    """Words at the ends and in the middle of their range: noise next to nothing."""

    system = False

    def __init__(self, seed):
        self._choices = SeededEntropy(seed)

    def words(self, count):
        ends = np.array([2**64 - 1, 2**63, 2**64 - 2**42], dtype=np.uint64)
        return ends[self._choices.words(count) % np.uint64(3)]


def test_04_no_zero_is_released_with_a_sign():
    laplace = mechanism("laplace", sensitivity_l1=1.0, epsilon=1.0)
    released = [laplace.release(np.full(30, -0.0), _TinyNoise(seed)).value for seed in range(8)]
    zeros = np.concatenate(released)
    zeros = zeros[zeros == 0]
    assert len(zeros) > 10
    assert not np.signbit(zeros).any()


def test_05_one_budget_does_not_pay_for_four_fits_of_the_same_rows(tmp_path):
    X, y, tasks = some_tasks((30,) * 8, labels=True)
    accepted = 0
    with Ledger(tmp_path / "ledger.db", 1.0, 0.0) as ledger:
        transfer = tacit.TransferClassifier(1.0, 0.0, ledger=ledger)
        for fit in (
            lambda: tacit.PrivateLogisticRegression(1.0, 0.0, ledger=ledger).fit(X, y),
            lambda: transfer.fit_source(X, y),
            lambda: transfer.fit(X, y),
            lambda: tacit.LowRankClassifier(1.0, delta=0.0, ledger=ledger).fit(X, y, tasks=tasks),
        ):
            try:
                fit()
                accepted += 1
            except BudgetExceeded:
                pass
    assert accepted == 1


def test_06_no_bit_of_others_moves_with_one_tasks_number_of_rows(monkeypatch):
    """One product over all tasks' rows rounded everybody's by the number of one task's rows."""
    post = Billboard.post
    models = (
        tacit.LowRankSparseRegressor(200.0, random_state=0),
        tacit.AveragedRegressor(200.0, random_state=0),
    )
    others = (17, 23, 29, 6, 13, 28, 9, 20, 1)
    moved = 0
    for model in models:
        for size in (40, 80):
            found, releases = [], []
            for sizes in ((8, 11, *others), (8, size, *others)):
                X, y, tasks = some_tasks(sizes, 25)

                def frozen(self, value, event, _heard=tuple(releases), **facts):
                    posting = post(self, value, event, **facts)
                    if not _heard:
                        return posting
                    return dataclasses.replace(posting, value=_heard[posting.number])

                monkeypatch.setattr(Billboard, "post", frozen)
                fitted = model.fit(X, y, tasks=tasks)
                releases = releases or [posting.value for posting in fitted.billboard_]
                found.append(np.delete(fitted.coef_, 1, axis=0))
            moved += not np.array_equal(*found)
    assert moved == 0


def test_07_one_row_changes_no_models_shape_once_classes_are_declared():
    X, y, tasks = some_tasks((12, 12, 12), labels=True)
    strange = y.copy()
    strange[0] = 2
    shapes = [
        tacit.SingleTaskClassifier(classes=(0, 1)).fit(X, labels, tasks=tasks).coef_.shape
        for labels in (y, strange)
    ]
    assert shapes[0] == shapes[1]


def test_08_more_messages_than_add_up_exactly_are_refused():
    with pytest.raises(InvalidInput):
        VectorClip(1.0).aggregate(np.zeros((2**23 + 1, 1)))


def test_09_the_ledger_is_nowhere_below_the_composition():
    below = 0
    for noise in (5.0, 3.7306, 7.1, 0.9):
        event = dp_event.GaussianDpEvent(noise)
        for cuts in ([1] * 14, [12, 11], [12, 12, 4], [7] * 8, [1, 2, 3, 4, 5, 6, 7]):
            ledger = Ledger(":memory:", 1e4, 1e-6)
            for count in cuts:
                line = {"unit": "task", "adjacency": "replace-one"}
                with ledger.reserve([event] * count, **line) as reservation:
                    for _ in range(count):
                        reservation.charge(event)
            below += ledger.spent().epsilon < compose([event] * sum(cuts), delta=1e-6).epsilon
    assert below == 0


def test_10_which_rows_a_party_holds_out_tells_nothing_of_the_rows_before():
    held = []
    for before in (7, 8, 40):
        place = np.concatenate([np.arange(before), np.arange(20)]).astype(float)
        labels = np.repeat(["a", "b"], [before, 20])
        test = TaskSet.from_arrays(place[:, None], tasks=labels).split(0.3, random_state=0)[1]
        held.append(test.X[test.offsets[1] : test.offsets[2], 0].tolist())
    assert held[0] == held[1] == held[2]


def test_11_a_search_does_not_draw_row_noise_again_uncounted():
    X, y, tasks = some_tasks((30,) * 8, labels=True)
    model = tacit.LowRankClassifier(epsilon_rows=1.0)
    with pytest.raises(InvalidInput):
        PrivateSearch(model, {"n_rounds": [1, 2]}, mean_runs=2.0).fit(X, y, tasks=tasks)


def test_12_a_refused_run_spends_nothing():
    X, y, tasks = some_tasks((30,) * 8, labels=True)
    ledger = Ledger(":memory:", 1.0, 1e-3)
    with pytest.raises(BudgetExceeded):
        tacit.LowRankClassifier(2.0, epsilon_rows=0.5, ledger=ledger).fit(X, y, tasks=tasks)
    assert list(ledger.lines()) == []


def test_13_a_lone_size_gets_no_more_threads_than_many():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(1900, 60)), rng.normal(size=1900)
    y = (X[:, 0] + z > 0).astype(int)
    with threadpool_limits(2, user_api="blas"):
        found = [
            tacit.SingleTaskClassifier()
            .fit(X[:n], y[:n], tasks=np.repeat([0, 1], [800, n - 800]))
            .coef_[0]
            for n in (1600, 1900)
        ]
    np.testing.assert_array_equal(*found)


def test_14_no_mean_of_rows_is_kept_where_none_was_missing(tacit_command, rows_csv, tmp_path):
    done = tacit_command("fit", rows_csv, *GIVEN, "--method", "single-task", "--out", "run")
    assert done.returncode == 0, done.stderr
    for file in (tmp_path / "run" / "intake").glob("*.npz"):
        with np.load(file) as arrays:
            assert np.isnan(arrays["fill"]).all()


def test_15_an_export_onto_its_own_run_loses_nobodys_model(tacit_command, rows_csv, tmp_path):
    tacit_command("fit", rows_csv, *GIVEN, "--method", "single-task", "--out", "run")
    tacit_command("export", "run", "--party", "P2", "--out", "run", "--force")
    assert len(tacit.load(tmp_path / "run").task_names_) == 4


def test_16_a_page_without_a_guarantee_does_not_say_that_its_numbers_were_released(
    tacit_command, rows_csv, tmp_path
):
    done = tacit_command("fit", rows_csv, *GIVEN, "--method", "pooled", "--out", "run")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Not private" in page
    assert "was released" not in page[page.index("<footer>") :]
