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
from tacit.privacy.noise.entropy import SeededEntropy
from tacit.privacy.statement import Statement
from tacit.transfer.design import Design, LabelledRows, equal_groups
from tacit.transfer.learning import Budget, Learner, combined_centre, default_strength, trust
from tacit.transfer.package import SourcePackage
from tacit.transfer.stacking import StackedPerturbation, halves, stack_learner, stack_rows

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
    assert default_strength(0.0, 2.0).at(100) == 4.0
    assert default_strength(10.0, 1.0).at(100) == pytest.approx(1 + 10 * (0.1 + 4 * 10 / 100))
    assert default_strength(10.0, 1.0).at(100) < default_strength(20.0, 1.0).at(100)
    assert trust(0.0) == 0.0
    assert 0.9 < trust(20.0) < 1.0


def test_sources_are_averaged_by_precision():
    sources = [[np.array([[1.0]])], [np.array([[4.0]])]]
    (centre,) = combined_centre(sources, [[1.0], [2.0]], [0.5])
    assert centre[0, 0] == pytest.approx(0.5 * (1.0 * 0.8 + 4.0 * 0.2))


def _problems(design, X, y, centres):
    """Return the bounded problems of one task, as an engine hands them to the mechanism."""
    rows = LabelledRows(X, np.array([0, len(X)]), y, (tuple(centres),))
    return design.bound.by_task(rows)


def test_a_strong_pull_leaves_the_source_and_a_weak_one_the_own_rows():
    X = np.random.default_rng(0).standard_normal((50, 5))
    y = (X[:, :1] > 0).astype(float)
    (problems,) = _problems(DESIGN, X, y, [np.ones((1, size)) for size in DESIGN.dimensions])

    def models(alpha):
        mechanism = Learner(DESIGN, Budget(np.inf), 1, alpha).mechanism
        return mechanism.solve(problems, SeededEntropy(0))

    assert np.abs(models(1e9)[0] - 1).max() < 1e-6
    assert models(1e-3)[0][0] > 2


def test_labels_and_rows_of_any_kind_become_rows_within_reach_and_labels_zero_or_one():
    X = np.array([[1e300] * 5, [np.nan] * 5, [0.1] * 5])
    y = np.array([[7.0], [np.nan], [-3.0]])
    (problems,) = _problems(DESIGN, X, y, [np.zeros((1, size)) for size in DESIGN.dimensions])
    for problem in problems:
        assert np.linalg.norm(problem.rows, axis=1).max() <= DESIGN.reach
        assert problem.labels.tolist() == [1.0, 0.0, 0.0]


def test_the_budget_of_a_design_is_spent_once_over_groups_and_outputs():
    learner = Learner(DESIGN, Budget(1.2), 3)
    assert sum(learner.mechanism._parts) <= 1
    assert len(learner.mechanism.strengths) == 6
    assert learner.mechanism.event.epsilon == 1.2


def test_level_one_rows_have_norm_at_most_one_whatever_the_models_say():
    X = np.random.default_rng(0).standard_normal((20, 5))
    models = [1e6 * np.ones(size) for size in DESIGN.dimensions]
    rows = stack_rows(DESIGN.bounded(X), models)
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12


def test_the_stack_finds_the_group_that_knows():
    X = np.random.default_rng(0).standard_normal((800, 5))
    y = (X[:, 0] + X[:, 2] > 0).astype(float)[:, None]
    mechanism = StackedPerturbation(Learner(DESIGN, Budget(np.inf), 1))
    problems = _problems(DESIGN, X, y, [np.zeros((1, size)) for size in DESIGN.dimensions])
    (released,) = mechanism.release(problems, SeededEntropy(0)).value
    knows, other, _ = released[sum(DESIGN.dimensions) :]
    assert knows > 5 * abs(other)


def test_both_levels_of_a_stack_cost_one_event_as_no_row_is_in_both_halves():
    base = Learner(DESIGN, Budget(1.2, 1e-6), 2)
    first, second = StackedPerturbation(base).levels
    assert first.event == second.event == StackedPerturbation(base).event
    assert stack_learner(base).design.reach == pytest.approx(np.sqrt(1 + 0.3**2))


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
