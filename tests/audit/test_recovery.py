"""Unprotected messages give rows and models away; protected ones do not."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.audit.recovery import model_behind, recover_rows, recovery
from tacit.privacy.noise.perturb import SeededEntropy
from tacit.privacy.schedule import Schedule
from tacit.protocols.model_protected import Moment, moment_bound, moment_rounds
from tacit.protocols.proximal_protected import SharedMap


@pytest.mark.parametrize("seed", range(3))
def test_gradients_at_chosen_models_give_every_row_away(seed):
    assert recovery(protected=False, seed=seed).share == 1.0


def test_noised_gradients_give_no_row_away():
    assert recovery(protected=True, epsilon=1.0).share == 0.0


def test_the_attack_itself_would_see_rows_through_hardly_any_noise():
    # Otherwise the line above proves nothing: noise that is no noise must not stop it.
    assert recovery(protected=True, epsilon=1e12, n_rows=8).share > 0.9


def test_recovered_rows_are_a_node_s_own_up_to_sign():
    X = np.array([[1.0, 0.0, 0.2], [-0.3, 0.5, 0.1]])
    rows = recover_rows(lambda w: ((X @ w > 0) - np.array([1.0, 0.0])) @ X / 2, 2, 3)
    assert len(rows) == 2
    for row in X:
        assert (
            min(np.abs(rows - row).sum(axis=1).min(), np.abs(rows + row).sum(axis=1).min()) < 1e-9
        )


def test_nine_tasks_learn_the_tenth_s_model_from_a_map_without_noise_only():
    rng = np.random.default_rng(1)
    W = rng.uniform(size=(10, 5))
    W[-1] *= 100
    unit = W[-1] / np.linalg.norm(W[-1])
    bound = moment_bound(100 * np.sqrt(5), diagonal=False)
    moment = bound.aggregate(bound(W))
    leaking = SharedMap.soft_threshold(moment, 50.0, 0.0)
    assert abs(model_behind(W[:9], leaking(W[:9])) @ unit) > 0.9999
    schedule = Schedule.calibrate(moment_rounds((1.0,), 5, 1, bound), epsilon=0.1, delta=0.04)
    (noise,) = schedule.mechanisms
    release = noise.release(moment, SeededEntropy(0)).value
    shape = Moment().plus(release, noise, n_tasks=10, trace=None).shape
    assert shape is None or shape.flat  # nothing stands out: nobody's model changes
