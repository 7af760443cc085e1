"""Reading releases: planted structure is found, noise is not taken for structure."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.report.releases import Public, read_shared


def _symmetric_noise(random, d, scale):
    noise = random.normal(size=(d, d)) * scale / np.sqrt(2)
    upper = np.triu(noise, 1)
    return upper + upper.T + np.diag(random.normal(size=d) * scale)


def _moment(random, m, d, rank):
    """Return a moment of m unit models; ``rank`` directions or all of space."""
    models = random.normal(size=(m, rank)) @ np.linalg.qr(random.normal(size=(d, rank)))[0].T
    models /= np.linalg.norm(models, axis=1, keepdims=True)
    return models.T @ models


@pytest.mark.parametrize(("rank", "expected"), [(2, 2), (10, 0)])
def test_directions_stand_out_only_where_models_share_them(rank, expected):
    random = np.random.default_rng(0)
    m, d, scale = 2000, 10, 20.0
    release = _moment(random, m, d, rank) + _symmetric_noise(random, d, scale)
    history = [{"mechanism": "symmetric-gaussian", "scale": scale}]
    shared = read_shared([release], history, Public(m, d, 1, directions_sent=True))
    assert shared.spectrum.n_standing_out == expected
    assert shared.task_map is None
    assert not shared.per_task


def test_groups_of_tasks_are_apart_on_the_map():
    random = np.random.default_rng(1)
    centres = np.eye(6)[:2]
    models = centres[np.repeat([0, 1], 20)] + 0.1 * random.normal(size=(40, 6))
    history = [{"mechanism": "gaussian", "scale": 0.1}]
    shared = read_shared([models], history, Public(40, 6, 1, directions_sent=True))
    cosines = shared.task_map.similarity(range(40))
    assert cosines[:20, :20].min() > 0.8
    assert abs(cosines[:20, 20:]).max() < 0.5


def test_noise_alone_makes_no_map():
    random = np.random.default_rng(2)
    history = [{"mechanism": "gaussian", "scale": 5.0}]
    noise = 5.0 * random.normal(size=(40, 6))
    shared = read_shared([noise], history, Public(40, 6, 1, directions_sent=True))
    assert shared.per_task
    assert shared.task_map is None


def test_as_many_tasks_as_features_are_told_from_a_moment():
    random = np.random.default_rng(3)
    public, history = Public(5, 5, 1, directions_sent=True), [{"scale": 0.1}]
    square = random.normal(size=(5, 5))
    assert read_shared([square], history, public).per_task
    assert not read_shared([square + square.T], history, public).per_task


def test_the_border_of_a_moment_is_the_mean_model():
    from tacit.protocols._bordered_moment import border

    models = np.tile([[0.6, 0.8, 0.0]], (50, 1))[:, None, :]
    bordered = border(models).reshape(50, -1)
    history = [{"mechanism": "exact", "scale": 0.0}]
    public = Public(50, 3, 1, directions_sent=True)
    shared = read_shared([bordered.T @ bordered], history, public)
    np.testing.assert_allclose(shared.mean_model, [[0.6, 0.8, 0.0]])


def test_features_in_use_exceed_the_noise():
    norms = np.array([500.0, 480.0, 20.0, 1.0, -5.0, 4.0])
    history = [{"mechanism": "gaussian", "scale": 10.0}]
    shared = read_shared([norms], history, Public(1000, 6, 1, directions_sent=True))
    np.testing.assert_array_equal(norms > shared.feature_threshold, [1, 1, 0, 0, 0, 0])
