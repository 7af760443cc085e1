"""Several public means: clusters, graphs; the same noise, nobody in another's block."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the extra neural")

import tacit
from tacit.errors import InvalidInput
from tacit.neural import Relations
from tacit.penalties import GraphLaplacian
from tacit.privacy.schedule import Call
from tacit.tasks import TaskSet

M, ROWS, D = 12, 24, 4
LABELS = ["a", "b"] * (M // 2)
PATH = np.diag(np.full(M, 2.0)) - np.eye(M, k=1) - np.eye(M, k=-1)
PATH[0, 0] = PATH[-1, -1] = 1.0


def two_kinds(seed=0):
    """Return rows of tasks of which every second answers the other way round."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(M), ROWS)
    X = rng.standard_normal((M * ROWS, D)).astype(np.float32)
    return X, ((X[:, 0] > 0) ^ (task % 2 == 1)).astype(int), task


def fitted(change=None, *, averaged=False, **options):
    X, y, task = two_kinds()
    if change is not None:
        X[task == change] *= -3
    options = {"epsilon": 200.0, "n_rounds": 3, "random_state": 0, "classes": (0, 1)} | options
    kind = tacit.PrivateFedAvgClassifier if averaged else tacit.NeuralMeanRegularizedClassifier
    return kind(**options).fit(X, y, tasks=task)


def errors(model, seed=1):
    X, y, task = two_kinds(seed)
    return float((model.predict(X, tasks=task) != y).mean())


def test_clusters_learn_what_one_mean_cannot():
    together = errors(fitted(averaged=True, fine_tune=None))
    apart = errors(fitted(averaged=True, fine_tune=None, relations=LABELS))
    assert apart < 0.1
    assert together > 0.3


def test_clusters_cost_what_one_mean_costs():
    one, several = fitted(), fitted(relations=LABELS)
    assert several.privacy_.epsilon == one.privacy_.epsilon
    assert several.history_[0]["scale"] == one.history_[0]["scale"]
    assert several.billboard_.events == one.billboard_.events


def test_a_message_stands_in_its_own_block_alone():
    model = fitted(relations=LABELS)
    protocol, _ = model._public_state(model.billboard_)
    X, y, task = two_kinds()
    home = protocol.start(TaskSet.from_arrays(X, y, task), np.arange(M))
    _, said = protocol.speak(home, protocol.opening(), Call(0, 0), None)
    blocks = said.reshape(M, 2, -1)
    for place in range(M):
        assert np.any(blocks[place, place % 2])
        assert not np.any(blocks[place, 1 - place % 2])


def test_one_cluster_is_one_mean_to_the_bit():
    one, all_in = fitted(), fitted(relations=["same"] * M)
    np.testing.assert_array_equal(one.models_, all_in.models_)
    np.testing.assert_array_equal(one.shared_model_, all_in.shared_model_)


def test_a_task_changes_nothing_of_another_cluster_s_release():
    plain, changed = (fitted(change, relations=LABELS) for change in (None, 0))
    for before, after in zip(plain.billboard_, changed.billboard_, strict=True):
        ours, theirs = (np.asarray(posting.value).reshape(2, -1) for posting in (before, after))
        assert np.any(ours[0] != theirs[0])
        np.testing.assert_array_equal(ours[1], theirs[1])


def test_a_laplacian_draws_to_neighbours():
    found = Relations.graph(GraphLaplacian(strength=0.5, laplacian=PATH))
    np.testing.assert_allclose(found.weights[0], np.eye(M)[1])
    np.testing.assert_allclose(found.weights[3], (np.eye(M)[2] + np.eye(M)[4]) / 2)
    np.testing.assert_allclose(found.factor, 0.5 * np.diag(PATH))
    np.testing.assert_array_equal(found.block, np.arange(M))
    # λ L_kk (w_k − c_k) is the gradient of ½ λ tr(Wᵀ L W).
    W = np.random.default_rng(0).standard_normal((M, 3))
    pulled = found.factor[:, None] * (W - found.weights @ W)
    np.testing.assert_allclose(pulled, 0.5 * PATH @ W, atol=1e-12)


@pytest.mark.parametrize("ending", ["auto", None])
def test_a_graph_of_equals_learns(ending):
    joined = np.array([[float(a == b) for b in LABELS] for a in LABELS]) - np.eye(M)
    laplacian = np.diag(joined.sum(axis=1)) - joined
    relations = GraphLaplacian(strength=0.05, laplacian=laplacian)
    model = fitted(relations=relations, fine_tune=ending, strength=0.1, epsilon=2000.0)
    assert errors(model) < 0.2


def test_wrong_relations_are_refused_by_name():
    with pytest.raises(InvalidInput, match="relations: of 3 tasks"):
        fitted(relations=["a", "b", "c"])
    with pytest.raises(InvalidInput, match="relations=7"):
        fitted(relations=7)
    positive = np.array([[1.0, 1.0], [1.0, 1.0]])
    with pytest.raises(InvalidInput, match="no positive entry"):
        Relations.graph(GraphLaplacian(strength=1.0, laplacian=positive))


def test_a_saved_model_keeps_its_clusters_and_asks_for_its_graph_again(tmp_path):
    X, y, task = two_kinds()
    own = X[task == 0], y[task == 0]
    model = fitted(relations=LABELS)
    model.save(tmp_path / "clusters")
    again = tacit.load(tmp_path / "clusters").fit_task(*own, name="later")
    assert np.isfinite(again.models_).all()
    laplacian = GraphLaplacian(strength=0.05, laplacian=PATH)
    fitted(relations=laplacian).save(tmp_path / "graph")
    with pytest.raises(InvalidInput, match="relations"):
        tacit.load(tmp_path / "graph").fit_task(*own, name="later")
