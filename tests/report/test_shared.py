"""What the page shows of releases is what the protocol reads: structure is found, noise is not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput
from tacit.losses import SquaredLoss
from tacit.privacy.mechanisms import Exact, mechanism
from tacit.privacy.schedule import Call
from tacit.protocols._bordered_moment import border
from tacit.protocols.mean_regularized import MeanRegularizedProtocol
from tacit.protocols.model_protected import ModelProtectedProtocol
from tacit.protocols.shared_prior import SharedPriorProtocol
from tacit.protocols.task_relationship import RelationshipProtocol
from tacit.report.releases import read_shared

FIRST = Call(0, 0)


def _symmetric_noise(random, d, scale):
    noise = random.normal(size=(d, d)) * scale / np.sqrt(2)
    upper = np.triu(noise, 1)
    return upper + upper.T + np.diag(random.normal(size=d) * scale)


def _moment(random, m, d, rank):
    """Return a moment of m unit models; ``rank`` directions or all of space."""
    models = random.normal(size=(m, rank)) @ np.linalg.qr(random.normal(size=(d, rank)))[0].T
    models /= np.linalg.norm(models, axis=1, keepdims=True)
    return models.T @ models


def _gaussian(name, scale):
    return mechanism(name, sensitivity=1.0, noise_multiplier=scale)


def _plain(value):
    return vars(value) if dataclasses.is_dataclass(value) else value


def _shown(protocol, release, noise):
    return protocol.shown(protocol.read(protocol.opening(), release, FIRST, noise))


@pytest.mark.parametrize(("rank", "expected"), [(2, 2), (10, 0)])
def test_directions_stand_out_only_where_models_share_them(rank, expected):
    random = np.random.default_rng(0)
    m, d, scale = 2000, 10, 20.0
    release = _moment(random, m, d, rank) + _symmetric_noise(random, d, scale)
    noise = _gaussian("symmetric-gaussian", scale)
    shared = _shown(ModelProtectedProtocol(SquaredLoss(), m, d), release, noise)
    assert shared.spectrum.n_standing_out == expected
    np.testing.assert_allclose(shared.spectrum.values, np.linalg.eigvalsh(release)[::-1])
    low, high = shared.spectrum.band
    assert high - low == pytest.approx(2 * noise.spectrum(d).edge)
    assert shared.task_map is None
    assert not shared.per_task


def test_groups_of_tasks_are_apart_on_the_map():
    random = np.random.default_rng(1)
    centres = np.eye(6)[:2]
    models = centres[np.repeat([0, 1], 20)] + 0.1 * random.normal(size=(40, 6))
    protocol = RelationshipProtocol(SquaredLoss(), 40, 6)
    cosines = _shown(protocol, models, _gaussian("gaussian", 0.1)).task_map.similarity(range(40))
    assert cosines[:20, :20].min() > 0.8
    assert abs(cosines[:20, 20:]).max() < 0.5


def test_noise_alone_makes_no_map():
    noise = 5.0 * np.random.default_rng(2).normal(size=(40, 6))
    protocol = RelationshipProtocol(SquaredLoss(), 40, 6)
    shared = _shown(protocol, noise, _gaussian("gaussian", 5.0))
    assert shared.per_task
    assert shared.task_map is None


def test_the_border_of_a_moment_is_the_mean_model():
    models = np.tile([[0.6, 0.8, 0.0]], (50, 1))[:, None, :]
    bordered = border(models).reshape(50, -1)
    shared = _shown(
        SharedPriorProtocol(SquaredLoss(), 50, 3, clip=1.0), bordered.T @ bordered, Exact()
    )
    np.testing.assert_allclose(shared.mean_model, [[0.6, 0.8, 0.0]], atol=1e-9)
    assert shared.spectrum.band is None


def test_features_in_use_exceed_the_noise():
    norms = np.array([500.0, 480.0, 20.0, 1.0, -5.0, 4.0])
    protocol = ModelProtectedProtocol(SquaredLoss(), 1000, 6, diagonal=True)
    shared = _shown(protocol, norms, _gaussian("gaussian", 10.0))
    np.testing.assert_array_equal(norms > shared.feature_threshold, [1, 1, 0, 0, 0, 0])


def test_after_three_clipped_updates_the_centre_is_shown_and_not_the_last_update():
    protocol = MeanRegularizedProtocol(SquaredLoss(), 10, 2, clip=1.0, n_turns=3)
    public, updates = protocol.opening(), np.arange(9.0).reshape(3, 1, 3)
    for turn, update in enumerate(updates):
        public = protocol.read(public, update, Call(turn, 0, turn=turn), Exact())
    np.testing.assert_allclose(protocol.shown(public).mean_model, updates.sum(axis=0)[:, :-1] / 10)


@pytest.mark.parametrize(
    "kind",
    [
        tacit.SharedPriorRegressor,
        tacit.LowRankRegressor,
        tacit.GroupSparseRegressor,
        tacit.MeanRegularizedRegressor,
        tacit.AveragedRegressor,
        tacit.TaskRelationshipRegressor,
    ],
)
def test_a_model_from_files_shows_what_the_fitted_one_does(kind, tmp_path):
    random = np.random.default_rng(4)
    X, tasks = random.normal(size=(200, 4)), np.repeat(range(20), 10)
    model = kind(epsilon=5.0).fit(X, X @ [1.0, 2.0, 0.0, 0.0], tasks=tasks)
    model.save(tmp_path / "own", task=3)
    again = tacit.load(tmp_path / "own")
    ours = read_shared(model, model.billboard_)
    theirs = read_shared(again, again.billboard_)
    assert any(value is not None for value in vars(ours).values())
    for name, value in vars(ours).items():
        np.testing.assert_equal(_plain(getattr(theirs, name)), _plain(value))


def test_the_releases_of_another_model_are_refused():
    random = np.random.default_rng(5)
    X, tasks = random.normal(size=(60, 3)), np.repeat(range(10), 6)
    one, other = (
        tacit.LowRankRegressor(epsilon=e).fit(X, X[:, 0], tasks=tasks) for e in (1.0, 2.0)
    )
    with pytest.raises(InvalidInput, match="not those of this model"):
        read_shared(one, other.billboard_)
