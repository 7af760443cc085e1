"""Losses: gradients, curvature, tails and row-gradient bounds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from tacit.errors import InvalidInput
from tacit.losses import LOSSES, LogisticLoss, SquaredLoss, loss_by_name

predictions = st.floats(-30, 30)
losses = pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss()], ids=lambda x: x.name)


@losses
@settings(deadline=None)
@given(z=predictions, y=st.sampled_from([0.0, 1.0]))
def test_derivatives_agree_with_central_differences(loss, z, y):
    h = 1e-5
    below, at, above = (np.array([z + shift]) for shift in (-h, 0.0, h))
    target = np.array([y])
    slope = (loss.value(above, target) - loss.value(below, target)) / (2 * h)
    bend = (loss.derivative(above, target) - loss.derivative(below, target)) / (2 * h)
    assert_allclose(loss.derivative(at, target), slope, atol=1e-7 * (1 + abs(z)) ** 2)
    assert_allclose(loss.second_derivative(at, target), bend, atol=1e-8 * (1 + abs(z)))


@losses
@settings(deadline=None)
@given(z=predictions, y=st.sampled_from([0.0, 1.0]))
def test_the_second_derivative_never_exceeds_the_curvature(loss, z, y):
    assert 0 <= loss.second_derivative(np.array([z]), np.array([y]))[0] <= loss.curvature


def test_the_logistic_curvature_is_attained_at_zero():
    assert LogisticLoss().second_derivative(np.zeros(1), np.zeros(1))[0] == 0.25


def test_the_logistic_loss_keeps_its_precision_in_both_tails():
    loss, z = LogisticLoss(), np.array([-800.0, -300.0, 300.0, 800.0])
    right, wrong = (z > 0).astype(float), (z < 0).astype(float)
    assert_allclose(loss.value(z, right), np.exp(-np.abs(z)), rtol=1e-14)
    assert_allclose(loss.value(z, wrong), np.abs(z), rtol=1e-14)
    assert_allclose(np.abs(loss.derivative(z, right)), np.exp(-np.abs(z)), rtol=1e-14)
    assert_allclose(np.abs(loss.derivative(z, wrong)), 1.0, rtol=1e-14)


@losses
def test_single_precision_stays_single(loss):
    z = np.linspace(-5, 5, 11, dtype=np.float32)
    y = np.ones(11, dtype=np.float32)
    for function in (loss.value, loss.derivative, loss.second_derivative):
        assert function(z, y).dtype == np.float32


@settings(deadline=None)
@given(w=st.lists(predictions, min_size=3, max_size=3), norm=st.floats(0.01, 10))
def test_no_logistic_row_gradient_exceeds_its_bound(w, norm):
    loss = LogisticLoss()
    rows = np.random.default_rng(0).standard_normal((50, 3))
    rows *= norm / np.linalg.norm(rows, axis=1, keepdims=True)
    for label in (0.0, 1.0):
        slopes = loss.derivative(rows @ np.array(w), np.full(50, label))
        gradients = np.linalg.norm(slopes[:, None] * rows, axis=1)
        assert gradients.max() <= loss.row_gradient_bound(norm) * (1 + 1e-12)


def test_a_squared_row_gradient_is_bounded_only_with_a_residual_bound():
    assert math.isinf(SquaredLoss().row_gradient_bound(1.0))
    assert SquaredLoss(residual_bound=2.0).row_gradient_bound(3.0) == 6.0
    assert SquaredLoss().row_gradient_bound(0.0) == 0.0


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, "1"])
def test_a_residual_bound_that_is_not_positive_is_refused(bound):
    with pytest.raises(InvalidInput, match="residual_bound"):
        SquaredLoss(residual_bound=bound)


def test_losses_are_found_by_name_and_unknown_names_are_listed():
    assert {loss_by_name(name).name for name in LOSSES} == {"squared", "logistic"}
    with pytest.raises(InvalidInput, match="'logistic', 'squared'"):
        loss_by_name("hinge")
