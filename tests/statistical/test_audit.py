"""Audits at full strength.

False-alarm rate: every audit of a sound mechanism is at 99.9 % confidence, so a claim that is
exactly tight is refuted by chance at most once in a thousand audits; the bounds are conservative
(Clopper–Pearson, split over three events) and the seeds are fixed.
"""

import time

import numpy as np
import pytest

import tacit
from tacit.audit import attacks, audit_at_worst, audit_estimator, audit_in_one_run, audit_mechanism
from tacit.audit.attacks.runs import example_tasks
from tacit.audit.estimator import fit_on
from tacit.audit.specimens import calibrated
from tacit.tasks import TaskSet

pytestmark = pytest.mark.statistical

N_SEEDS = 20
PRIVATE = {name: kind for name, kind in attacks.estimators().items() if attacks.is_private(kind)}


@pytest.mark.parametrize("d", [5, 30])
def test_the_published_wishart_noise_has_a_delta_above_0_6_within_a_minute(d):
    started = time.process_time()
    pure = audit_mechanism("wishart-published", epsilon=1.0, n_features=d, random_state=0)
    spent = time.process_time() - started
    assert pure.violated
    assert pure.delta == 0
    assert pure.delta_lower >= 0.6
    assert spent < 60
    approximate = audit_mechanism(
        "wishart-published", epsilon=1.0, delta=1e-5, n_features=d, random_state=1
    )
    assert approximate.epsilon_lower >= 3


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize(
    ("name", "d", "n_trials"),
    [
        ("laplace", 10, 20_000),
        ("gaussian", 10, 20_000),
        ("gamma-vector", 10, 20_000),
        ("symmetric-gaussian", 4, 10_000),
        ("fixed-size-gaussian", 10, 20_000),
        ("poisson-gaussian", 10, 20_000),
        ("two-sided-wishart", 2, 4_000),
    ],
)
def test_sound_noise_is_never_refuted(name, d, n_trials, epsilon):
    target = calibrated(name, epsilon, 1e-5)
    delta = 1e-5 if "gaussian" in name else 0.0
    for seed in range(N_SEEDS):
        result = audit_mechanism(
            target, epsilon=epsilon, delta=delta, n_features=d, n_trials=n_trials, random_state=seed
        )
        assert not result.violated, result


@pytest.mark.parametrize("name", ["laplace", "gaussian", "symmetric-gaussian"])
def test_the_attack_reaches_four_fifths_of_the_claim(name):
    tightness = [
        audit_mechanism(
            name, epsilon=1.0, n_features=2, n_trials=200_000, random_state=seed
        ).tightness
        for seed in range(5)
    ]
    assert min(tightness) >= 0.8
    assert max(tightness) <= 1


@pytest.fixture(scope="module")
def twenty_tasks():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(20), 15)
    X = rng.standard_normal((len(task), 10))
    W = rng.standard_normal((20, 2)) @ rng.standard_normal((2, 10))
    y = np.einsum("nd,nd->n", X, W[task]) + 0.1 * rng.standard_normal(len(task))
    return TaskSet.from_arrays(X, y, task)


def test_two_thousand_low_rank_fits_are_audited_within_two_minutes_of_two_cores(twenty_tasks):
    estimator = tacit.LowRankRegressor(epsilon=10.0, n_rounds=5)
    fit_on(estimator, twenty_tasks, 0)
    # Processor time, so that the verdict does not depend on what else the machine is doing.
    started = time.process_time()
    for seed in range(20):
        fit_on(estimator, twenty_tasks, seed)
    assert (time.process_time() - started) / 20 * 2000 < 2 * 120
    result = audit_estimator(estimator, twenty_tasks, n_trials=1000, n_jobs=2, random_state=0)
    assert not result.violated
    assert result.epsilon_lower > 1


@pytest.mark.parametrize(
    "name", [name for name in PRIVATE if name.endswith("Regressor") and name != "LowRankRegressor"]
)
def test_no_estimator_is_refuted(name, twenty_tasks):
    estimator = getattr(tacit, name)(epsilon=10.0)
    result = audit_estimator(estimator, twenty_tasks, n_trials=300, n_jobs=2, random_state=0)
    assert not result.violated, result


@pytest.mark.parametrize("delta", ["auto", 0.0])
@pytest.mark.parametrize("name", PRIVATE)
def test_no_estimator_is_refuted_by_an_attacker_who_chooses_the_data(name, delta):
    estimator = PRIVATE[name](epsilon=3.0, delta=delta)
    n_tasks = 1 if "rows" in estimator.get_params() else 2
    tasks = example_tasks(estimator, n_tasks=n_tasks, n_features=2)
    result = audit_at_worst(estimator, [tasks], n_trials=400)
    assert not result.violated, result


def test_a_one_run_audit_of_many_tasks_is_not_refuted():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(400), 5)
    X = rng.standard_normal((len(task), 100))
    tasks = TaskSet.from_arrays(X, rng.standard_normal(len(task)), task)
    for seed in range(N_SEEDS):
        result = audit_in_one_run(
            tacit.TaskRelationshipRegressor(epsilon=8.0, clip=1.0), tasks, random_state=seed
        )
        assert not result.violated, result
