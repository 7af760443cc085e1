"""Objective: both kernels compute every task's gradient, whatever the sizes of tasks."""

import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tacit.errors import InvalidInput
from tacit.losses import LogisticLoss, SquaredLoss
from tacit.numerics import Objective, kernels, objective, objectives

SIZES = {
    "ragged": [1, 7, 3, 66, 2, 64, 65, 128, 4, 5],
    "one": [30],
    "long": [9000, 3, 20000],
    "ones": [1] * 40,
}
loss_kinds = pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss()], ids=lambda x: x.name)
kernel_kinds = pytest.mark.parametrize("kernel", ["numpy", "fused"])


@loss_kinds
@kernel_kinds
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("d", [1, 5, 18])
def test_gradients_equal_those_of_each_task_alone(ragged, by_task, loss, kernel, sizes, d):
    tasks = ragged(sizes, d, labels=True)
    W = np.random.default_rng(1).standard_normal((len(sizes), d))
    expected = [
        X.T @ loss.derivative(X @ w, y) / len(y)
        for w, (X, y) in zip(W, by_task(tasks), strict=True)
    ]
    assert_allclose(Objective(tasks, loss, kernel=kernel).gradient(W), expected, atol=1e-12)


@loss_kinds
@kernel_kinds
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_a_step_is_the_models_minus_the_step_times_the_gradient(ragged, loss, kernel, sizes):
    tasks = ragged(sizes, 6, labels=True)
    W = np.random.default_rng(2).standard_normal((len(sizes), 6))
    target = Objective(tasks, loss, kernel=kernel)
    steps = np.linspace(0.1, 2, len(sizes))
    expected = W - steps[:, None] * target.gradient(W)
    assert_allclose(target.step(W, steps), expected, atol=1e-12)
    assert_allclose(target.step(W, 0.3), W - 0.3 * target.gradient(W), atol=1e-12)


@loss_kinds
def test_the_gradient_is_the_derivative_of_the_value(ragged, loss):
    target = Objective(ragged([4, 9, 1], 3, labels=True), loss)
    rng = np.random.default_rng(3)
    W, direction = rng.standard_normal((2, 3, 3))
    h = 1e-6
    slope = (target.value(W + h * direction) - target.value(W - h * direction)) / (2 * h)
    assert_allclose(np.sum(target.gradient(W) * direction, axis=1), slope, atol=1e-8)


@kernel_kinds
@loss_kinds
def test_single_precision_gives_single_precision_close_to_double(ragged, loss, kernel):
    single = ragged([5, 70, 33], 8, labels=True, dtype=np.float32)
    double = single.replace(X=single.X.astype(np.float64))
    W = np.random.default_rng(4).standard_normal((3, 8))
    found = Objective(single, loss, kernel=kernel).gradient(W)
    assert found.dtype == np.float32
    assert_allclose(found, Objective(double, loss).gradient(W), atol=1e-5)


@kernel_kinds
def test_logistic_gradients_are_finite_and_right_at_huge_predictions(ragged, kernel):
    tasks = ragged([40, 40], 4, labels=True)
    W = 1e4 * np.random.default_rng(5).standard_normal((2, 4))
    expected = Objective(tasks, LogisticLoss(), kernel="numpy").gradient(W)
    found = Objective(tasks, LogisticLoss(), kernel=kernel).gradient(W)
    assert np.isfinite(found).all()
    assert_allclose(found, expected, atol=1e-14)


@kernel_kinds
@loss_kinds
def test_a_model_that_is_not_a_number_shows_in_its_own_gradient_only(ragged, loss, kernel):
    W = np.ones((3, 4))
    W[1, 2] = np.nan
    found = Objective(ragged([5, 9, 70], 4, labels=True), loss, kernel=kernel).gradient(W)
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[[0, 2]]).all()


def test_results_do_not_depend_on_the_number_of_threads(ragged, monkeypatch):
    tasks = ragged([9000, 3, 50, 20000, 8], 7)
    W = np.random.default_rng(6).standard_normal((5, 7))
    found = []
    for threads in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        found.append(Objective(tasks, SquaredLoss(), kernel="fused").gradient(W))
    assert_array_equal(found[0], found[1])


def test_the_compiled_kernel_is_taken_only_where_it_pays(ragged, monkeypatch):
    tasks = ragged([10, 20], 5)
    W = np.zeros((2, 5))
    assert isinstance(Objective(tasks, SquaredLoss())._kernel, kernels.NumpyKernel)
    monkeypatch.setattr(kernels, "FUSED_FROM", 10)
    large = Objective(tasks, SquaredLoss())
    assert isinstance(large._kernel, kernels.FusedKernel)
    assert_allclose(large.gradient(W), Objective(tasks, SquaredLoss(), kernel="numpy").gradient(W))


def test_a_small_fit_never_imports_the_compiler():
    program = (
        "import sys, numpy as np\n"
        "from tacit.tasks import TaskSet\n"
        "from tacit.losses import LogisticLoss\n"
        "from tacit.penalties import Nuclear\n"
        "from tacit.numerics import Objective, proximal_gradient\n"
        "tasks = TaskSet.from_arrays(np.eye(6), np.arange(6) % 2.0, np.arange(6) // 3)\n"
        "proximal_gradient(Objective(tasks, LogisticLoss()), Nuclear(0.1))\n"
        "assert 'numba' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@loss_kinds
def test_curvature_is_the_largest_eigenvalue_times_that_of_the_loss(ragged, by_task, loss):
    tasks = ragged([1, 3, 12, 40, 9], 6)
    expected = [
        loss.curvature * np.linalg.eigvalsh(X.T @ X / len(X))[-1] for X, _ in by_task(tasks)
    ]
    assert_allclose(Objective(tasks, loss).curvature(), expected, rtol=1e-10)


def test_the_fast_curvature_is_a_safe_and_tight_upper_bound(ragged, monkeypatch):
    tasks = ragged([1, 3, 12, 40, 9, 200], 20)
    exact = Objective(tasks, SquaredLoss()).curvature()
    monkeypatch.setattr(objective, "_EIGEN_WORK", 0)
    fast = Objective(tasks, SquaredLoss()).curvature()
    assert (fast >= exact * (1 - 1e-12)).all()
    assert (fast <= exact * 20 ** (1 / 16)).all()


def test_a_task_of_zero_rows_has_no_curvature_and_stays_finite(ragged, monkeypatch):
    tasks = ragged([4, 5], 3)
    tasks = tasks.replace(X=np.where(np.arange(9)[:, None] < 4, 0.0, tasks.X))
    assert Objective(tasks, SquaredLoss()).curvature()[0] == 0
    monkeypatch.setattr(objective, "_EIGEN_WORK", 0)
    assert Objective(tasks, SquaredLoss()).curvature()[0] == 0


def test_several_targets_make_several_objectives_that_share_curvature(ragged):
    tasks = ragged([6, 8], 3)
    targets = np.random.default_rng(7).random((14, 3))
    made = objectives(tasks, SquaredLoss(), targets)
    W = np.ones((2, 3))
    for column, one in zip(targets.T, made, strict=True):
        expected = Objective(tasks, SquaredLoss(), column).gradient(W)
        assert_allclose(one.gradient(W), expected)


def test_wrong_shapes_and_kernels_are_refused_by_name(ragged):
    tasks = ragged([6, 8], 3)
    with pytest.raises(InvalidInput, match=r"W of shape \(3, 2\)"):
        Objective(tasks, SquaredLoss()).gradient(np.ones((3, 2)))
    with pytest.raises(InvalidInput, match=r"targets of shape \(3,\)"):
        Objective(tasks, SquaredLoss(), np.ones(3))
    with pytest.raises(InvalidInput, match="kernel"):
        Objective(tasks, SquaredLoss(), kernel="gpu")
