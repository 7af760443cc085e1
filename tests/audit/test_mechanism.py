"""Auditing one release: names, objects, pairs, and input that is refused."""

import subprocess
import sys

import numpy as np
import pytest

from tacit.audit import AUDITABLE, audit_mechanism
from tacit.audit.__main__ import main
from tacit.audit.specimens import calibrated, pairs
from tacit.errors import InvalidInput
from tacit.privacy.accounting import epsilon_of
from tacit.privacy.mechanisms import MECHANISMS, Gaussian, Laplace
from tacit.privacy.published import PUBLISHED


@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_the_attack_has_teeth_at_200_000_draws(name):
    result = audit_mechanism(name, epsilon=1.0, n_trials=200_000, random_state=0)
    assert not result.violated
    assert result.tightness >= 0.8


def test_the_published_wishart_noise_is_refuted():
    result = audit_mechanism(
        "wishart-published", epsilon=1.0, delta=1e-5, n_features=5, n_trials=6000, random_state=0
    )
    assert result.violated
    assert result.delta_lower >= 0.57  # tends to 1 - 1/e; the statistical suite draws more
    assert result.epsilon_lower >= 3
    assert "smallest eigenvalue" in result.event


@pytest.mark.parametrize(
    "name", ["gamma-vector", "two-sided-wishart", "symmetric-gaussian", "fixed-size-gaussian"]
)
def test_sound_noise_is_not_refuted(name):
    result = audit_mechanism(name, epsilon=3.0, n_features=3, n_trials=4000, random_state=1)
    assert not result.violated
    assert result.epsilon_lower > 0.2


def test_a_poisson_cohort_is_drawn_for_every_release():
    poisson = MECHANISMS["poisson-gaussian"](1.0, noise_multiplier=0.4, sampling_rate=0.5)
    epsilon = epsilon_of(poisson.event, 1e-3)
    result = audit_mechanism(
        poisson, epsilon=epsilon, delta=1e-3, n_features=2, n_trials=20_000, random_state=0
    )
    assert not result.violated
    assert result.epsilon_lower > 0.3
    assert result.mu_lower is None


def test_gaussian_noise_by_name_is_claimed_at_a_delta_of_its_own():
    result = audit_mechanism("gaussian", epsilon=1.0, n_features=2, n_trials=2000, random_state=0)
    assert result.delta == 1e-5
    assert result.mu_lower is not None


def test_an_object_is_held_to_the_claim_made_for_it():
    too_little = Laplace(1.0, epsilon=4.0)
    options = {"n_features": 2, "n_trials": 20_000, "random_state": 0}
    assert audit_mechanism(too_little, epsilon=1.0, **options).violated
    assert not audit_mechanism(too_little, epsilon=4.0, **options).violated


def test_a_pair_can_be_given_or_named():
    zero, far = np.zeros(3), np.array([0.0, 2.0, 0.0])
    given = audit_mechanism("laplace", epsilon=2.0, pair=(zero, far), n_trials=4000, random_state=0)
    assert given.pair == "the given pair"
    name = "two opposite tasks at the clip"
    named = audit_mechanism("laplace", epsilon=2.0, pair=name, n_trials=4000, random_state=0)
    assert named.pair == name
    with pytest.raises(InvalidInput, match="two opposite tasks"):
        audit_mechanism("laplace", epsilon=2.0, pair="best")
    with pytest.raises(InvalidInput, match="differ"):
        audit_mechanism("laplace", epsilon=2.0, pair=(np.zeros(2), np.zeros(3)))


def test_a_seed_repeats_the_audit_and_none_does_not():
    options = {"epsilon": 1.0, "n_features": 2, "n_trials": 2000}
    assert audit_mechanism("laplace", **options, random_state=3) == audit_mechanism(
        "laplace", **options, random_state=3
    )
    fresh = [audit_mechanism("laplace", **options).event for _ in range(3)]
    assert len(set(fresh)) > 1


def test_every_mechanism_of_tacit_can_be_audited_by_name():
    # The asynchronous paper's noise leaks by its sensitivity, which replay shows.
    left_out = {"exact", "asynchronous-per-iteration-published"}
    assert set(AUDITABLE) >= (set(MECHANISMS) | set(PUBLISHED)) - left_out


@pytest.mark.parametrize("name", ["laplace", "gamma-vector", "two-sided-wishart", "gaussian"])
def test_built_in_pairs_reach_but_do_not_exceed_the_sensitivity(name):
    from tacit.audit.replay import change_in, declared_sensitivity

    target = calibrated(name, 1.0, 1e-5)
    norm, reach = declared_sensitivity(target)
    changes = [change_in(norm, b - a) for a, b in pairs(target, 4).values()]
    assert max(changes) == pytest.approx(reach)
    assert all(change <= reach * (1 + 1e-12) for change in changes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": -1.0}, "epsilon=-1.0"),
        ({"epsilon": float("inf")}, "epsilon=inf"),
        ({"delta": 1.0}, "delta=1.0"),
        ({"confidence": 1.0}, "confidence=1.0"),
        ({"n_trials": 10}, "n_trials=10"),
        ({"n_features": 0}, "n_features=0"),
        ({"mechanism": "wishart"}, "mechanism='wishart'"),
    ],
)
def test_bad_input_is_refused_by_name(options, message):
    arguments = {"mechanism": "laplace", "epsilon": 1.0, **options}
    with pytest.raises(InvalidInput, match=message):
        audit_mechanism(**arguments)


def test_the_module_runs_as_a_command_and_fails_on_a_violation(capsys):
    options = ["--epsilon", "1", "--seed", "0", "--features", "2", "--trials", "2000"]
    leaking = subprocess.run(
        [sys.executable, "-m", "tacit.audit", "wishart-published", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert leaking.returncode == 1
    assert "VIOLATED" in leaking.stdout
    assert main(["laplace", "--json", *options]) == 0
    assert '"violated": false' in capsys.readouterr().out


def test_gaussian_objects_keep_their_own_curve():
    result = audit_mechanism(
        Gaussian(1.0, 0.5), epsilon=5.0, delta=1e-5, n_features=1, n_trials=20_000, random_state=0
    )
    assert result.violated  # mu = 2 costs about 9.9 at this delta
    assert 7 < result.epsilon_lower < 9.9
