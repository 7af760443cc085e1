"""Designs, public defaults, halves, stacking and source packages."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.errors import InvalidInput, ModelFileError, PrivacyLeak
from tacit.privacy.noise.perturb import SeededEntropy
from tacit.privacy.statement import Statement
from tacit.transfer.learning import (
    Budget,
    Design,
    Learner,
    combined_centre,
    default_strength,
    equal_groups,
    halves,
    learn_stack,
    stack_learner,
    stack_prior,
    stack_rows,
    trust,
)
from tacit.transfer.package import SourcePackage

DESIGN = Design(((0, 2), (1, 3, 4)), (0.4, 0.6), 1.5, "normalise", 0.3)


@given(
    arrays(np.float64, (6, 5), elements=st.floats(-1e6, 1e6)),
    st.sampled_from(["normalise", "clip"]),
)
def test_every_bounded_row_stays_within_the_reach(X, rows):
    design = dataclasses.replace(DESIGN, rows=rows)
    for part in design.bounded(X):
        assert np.linalg.norm(part, axis=1).max() <= design.reach


def test_a_bounded_row_depends_on_that_row_alone():
    X = np.random.default_rng(0).standard_normal((8, 5))
    other = X.copy()
    other[3] *= -7
    for part, changed in zip(DESIGN.bounded(X), DESIGN.bounded(other), strict=True):
        np.testing.assert_array_equal(np.delete(part, 3, 0), np.delete(changed, 3, 0))


def test_rows_beyond_the_norm_are_counted_once():
    X = np.array([[0.1] * 5, [9, 9, 9, 9, 9], [0, 9, 0, 0, 0]])
    assert DESIGN.longer(X) == 2


def test_groups_by_importance_hold_every_column_once_and_their_shares_sum_to_one():
    importance = np.array([0.05, 0.4, 0.1, 0.3, 0.15])
    groups, shares = equal_groups(importance, 2, np.argsort(-importance))
    assert groups == ((1, 3, 4), (0, 2))
    assert shares == pytest.approx((0.85, 0.15))


def test_a_group_of_no_importance_is_refused():
    with pytest.raises(InvalidInput, match="importance 0"):
        equal_groups(np.array([1.0, 0.0]), 2, np.arange(2))


def test_more_groups_than_features_are_refused():
    with pytest.raises(InvalidInput, match="between 1 and the 2 features"):
        equal_groups(np.full(2, 0.5), 3, np.arange(2))


@given(st.integers(2, 200), st.integers(0, 100))
def test_halves_share_no_row_and_miss_none(n_rows, seed):
    first, second = halves(n_rows, SeededEntropy(seed))
    assert sorted([*first, *second]) == list(range(n_rows))
    assert len(first) == n_rows // 2


def test_strength_and_trust_grow_with_the_noise_and_look_at_no_row():
    assert default_strength(0.0, 100, 2.0) == 4.0
    assert default_strength(10.0, 100, 1.0) < default_strength(20.0, 100, 1.0)
    assert trust(0.0) == 0.0
    assert 0.9 < trust(20.0) < 1.0


def test_sources_are_averaged_by_precision():
    sources = [[np.array([[1.0]])], [np.array([[4.0]])]]
    (centre,) = combined_centre(sources, [[1.0], [2.0]], [0.5])
    assert centre[0, 0] == pytest.approx(0.5 * (1.0 * 0.8 + 4.0 * 0.2))


def test_a_strong_pull_leaves_the_source_and_a_weak_one_the_own_rows():
    X = np.random.default_rng(0).standard_normal((50, 5))
    y = (X[:, :1] > 0).astype(float)
    centres = [np.ones((1, DESIGN.dimension(k))) for k in range(2)]
    entropy = SeededEntropy(0)
    strong = Learner(DESIGN, Budget(np.inf), 1, 50, alpha=1e9).learn(X, y, entropy, centres)
    weak = Learner(DESIGN, Budget(np.inf), 1, 50, alpha=1e-3).learn(X, y, entropy, centres)
    assert np.abs(strong[0] - 1).max() < 1e-6
    assert weak[0][0, 0] > 2


def test_the_budget_of_a_design_is_spent_once_over_groups_and_outputs():
    learner = Learner(DESIGN, Budget(1.2), 3, 100)
    assert sum(learner.mechanism._parts) <= 1
    assert len(learner.mechanism.strengths) == 6
    assert learner.mechanism.event.epsilon == 1.2


def test_level_one_rows_have_norm_at_most_one_whatever_the_models_say():
    X = np.random.default_rng(0).standard_normal((20, 5))
    models = [1e6 * np.ones((1, DESIGN.dimension(k))) for k in range(2)]
    rows = stack_rows(DESIGN.bounded(X), models, 0)
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12


def test_the_stack_finds_the_group_that_knows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5))
    y = (X[:, 0] + X[:, 2] > 0).astype(float)[:, None]
    models = [np.array([[3.0, 3.0, 0.0]]), np.array([[1.0, -1.0, 1.0, 0.0]])]
    learner = stack_learner(2, 0.3, Budget(np.inf), 1, 400)
    prior = stack_prior((0.5, 0.5), learner.design.dimension(0))
    stack = learn_stack(learner, DESIGN.bounded(X), models, y, prior, SeededEntropy(0))
    assert stack[0, 0] > 5 * abs(stack[0, 1])


@pytest.fixture
def package():
    return SourcePackage(
        design=DESIGN,
        models=(np.arange(3.0)[None], np.arange(4.0)[None]),
        uncertainties=(0.1, 0.2),
        classes=np.array(["no", "yes"]),
        feature_names=("a", "b", "c", "d", "e"),
        statement=Statement.non_private(unit="row"),
    )


def test_a_package_comes_back_from_its_folder_exactly(package, tmp_path):
    package.save(tmp_path / "package")
    back = SourcePackage.load(tmp_path / "package", digest=package.digest)
    assert back.design == package.design
    assert back.statement == package.statement
    assert back.classes.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(back.models[1], package.models[1])


def test_a_package_with_an_edited_statement_is_refused(package):
    claimed = Statement(
        unit="row",
        definition="differential privacy",
        adjacency="replace-one",
        epsilon=0.01,
        delta=0.0,
        accountant="optimal",
    )
    with pytest.raises(PrivacyLeak, match="changed after it was made"):
        dataclasses.replace(package, statement=claimed).verify()
    with pytest.raises(PrivacyLeak):
        dataclasses.replace(package, models=(package.models[0] + 1, package.models[1])).verify()


def test_a_package_file_edited_by_hand_is_refused(package, tmp_path):
    package.save(tmp_path / "package")
    file = tmp_path / "package" / "manifest.json"
    file.write_text(file.read_text().replace("normalise", "clip"))
    with pytest.raises(ModelFileError, match="changed after it was saved"):
        SourcePackage.load(tmp_path / "package")


def test_a_package_saved_again_after_editing_does_not_fit_the_digest_told(package, tmp_path):
    forged = dataclasses.replace(package, uncertainties=(0.1, 0.1), digest="")
    forged.save(tmp_path / "package")
    with pytest.raises(PrivacyLeak):
        SourcePackage.load(tmp_path / "package", digest=package.digest)


def test_another_folder_is_no_package(package, tmp_path):
    package.save(tmp_path / "package")
    file = tmp_path / "package" / "manifest.json"
    body = json.loads(file.read_text())
    body["format"] = "other"
    file.write_text(json.dumps(body))
    with pytest.raises(ModelFileError):
        SourcePackage.load(tmp_path / "package")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"groups": ((0, 1), (2, 3, 4))}, "feature groups that differ"),
        ({"shares": (0.5, 0.5)}, "feature groups that differ"),
        ({"row_norm": 2.0}, "row_norm=1.5"),
        ({"rows": "clip"}, "rows='normalise'"),
        ({"groups": ((0, 2), (1, 3))}, "5 features, X has 4"),
    ],
)
def test_a_target_of_another_design_is_refused(package, change, message):
    with pytest.raises(InvalidInput, match=message):
        package.check_fits(dataclasses.replace(DESIGN, **change), None)


def test_a_target_with_other_feature_names_is_refused(package):
    with pytest.raises(InvalidInput, match="same columns in the same order"):
        package.check_fits(DESIGN, ("a", "b", "c", "e", "d"))


def test_source_scores_refuse_rows_of_another_width(package):
    with pytest.raises(InvalidInput, match="n_rows, 5"):
        package.decision_function(np.zeros((2, 4)))
    proba = package.predict_proba(np.ones((2, 5)))
    np.testing.assert_allclose(proba.sum(axis=1), 1)
