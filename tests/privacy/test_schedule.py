"""The schedule: what is accounted is one value, and a wrong one cannot exist."""

import math

import numpy as np
import pytest

from tacit.errors import InvalidInput, PrivacyLeak
from tacit.privacy import compose
from tacit.privacy.bounds import SecondMoment, VectorClip, VectorNormalise
from tacit.privacy.mechanisms import (
    Exact,
    FixedSizeGaussian,
    GammaVector,
    Gaussian,
    Laplace,
    PoissonGaussian,
    SymmetricGaussian,
    TwoSidedWishart,
)
from tacit.privacy.schedule import (
    AtTask,
    Call,
    Curator,
    FixedSize,
    Poisson,
    Round,
    Schedule,
    in_turn,
)
from tacit.privacy.unit import Adjacency, Unit

VECTOR = Round("mean", VectorNormalise(1.0), (4,))
MATRIX = Round("moment", SecondMoment(1.0), (4, 4), message=(4,), share=2.0)
COUNTS = Round("ballot", SecondMoment(1.0, diagonal=True), (4,), share=0.5)


def test_each_kind_of_aggregate_gets_the_mechanism_of_its_family():
    gaussian = Schedule.calibrate([VECTOR, MATRIX, COUNTS], epsilon=1.0, delta=1e-5).mechanisms
    pure = Schedule.calibrate([VECTOR, MATRIX, COUNTS], epsilon=1.0, delta=0.0).mechanisms
    assert [type(m) for m in gaussian] == [Gaussian, SymmetricGaussian, Gaussian]
    assert [type(m) for m in pure] == [GammaVector, TwoSidedWishart, Laplace]


@pytest.mark.parametrize("delta", [1e-5, 0.0])
@pytest.mark.parametrize("mechanism", ["auto", "two-sided-wishart"])
def test_all_turns_together_cost_no_more_than_the_budget_and_nearly_all_of_it(delta, mechanism):
    rounds = [VECTOR, Round("again", VectorClip(3.0), (2, 5), share=0.7, turns=4), MATRIX]
    schedule = Schedule.calibrate(rounds, epsilon=1.3, delta=delta, mechanism=mechanism)
    cost = compose(schedule.events(Unit.TASK), delta=delta)
    assert len(schedule.events(Unit.TASK)) == 6
    assert 0.99 * 1.3 <= cost.epsilon <= 1.3
    assert schedule.cost(Unit.TASK, delta) == cost


def test_noise_for_a_smaller_bound_is_refused():
    wide = Round("mean", VectorClip(100.0), (4,))
    noise = Schedule.calibrate([VECTOR], epsilon=1.0, delta=1e-5).mechanisms
    with pytest.raises(PrivacyLeak, match="covers changes up to 2"):
        Schedule((wide,), noise)


@pytest.mark.parametrize("made", [Laplace(1.9, 1.0), TwoSidedWishart(1.9, 1.0), Gaussian(1.4, 1.0)])
def test_a_mechanism_is_held_to_its_own_norm(made):
    round = MATRIX if isinstance(made, TwoSidedWishart) else COUNTS
    with pytest.raises(PrivacyLeak, match=made.name):
        Schedule((round,), (made,))


def test_poisson_cohorts_are_amplified_under_zero_out():
    round = Round("mean", VectorClip(1.0), (4,), turns=10, cohort=Poisson(0.1))
    schedule = Schedule.calibrate([round], epsilon=1.0, delta=1e-5)
    (noise,) = schedule.mechanisms
    assert isinstance(noise, PoissonGaussian)
    assert schedule.adjacency is Adjacency.ZERO_OUT
    assert noise.reach == 1.0
    assert 0.98 <= schedule.cost(Unit.TASK, 1e-5).epsilon <= 1.0
    full = Schedule.calibrate(
        [Round("mean", VectorClip(1.0), (4,), turns=10)], epsilon=1.0, delta=1e-5
    )
    assert noise.noise_multiplier < 0.5 * full.mechanisms[0].noise_multiplier


def test_a_cohort_of_fixed_size_is_charged_in_full():
    round = Round("mean", VectorClip(1.0), (4,), cohort=FixedSize(10))
    schedule = Schedule.calibrate([round], epsilon=1.0, delta=1e-5, n_tasks=1000)
    plain = Schedule.calibrate([Round("mean", VectorClip(1.0), (4,))], epsilon=1.0, delta=1e-5)
    assert isinstance(schedule.mechanisms[0], FixedSizeGaussian)
    assert schedule.events(Unit.TASK) == plain.events(Unit.TASK)


@pytest.mark.parametrize(
    ("cohort", "noise", "adjacency"),
    [
        (FixedSize(10), PoissonGaussian(2.0, 1.0, 0.1), Adjacency.ZERO_OUT),
        (Poisson(0.2), PoissonGaussian(2.0, 1.0, 0.1), Adjacency.ZERO_OUT),
        (Poisson(0.1), PoissonGaussian(2.0, 1.0, 0.1), Adjacency.REPLACE_ONE),
        (
            FixedSize(10),
            FixedSizeGaussian(2.0, 1.0, 100, 10, observer="outside"),
            Adjacency.REPLACE_ONE,
        ),
    ],
)
def test_amplification_that_the_sampling_does_not_give_is_refused(cohort, noise, adjacency):
    round = Round("mean", VectorClip(1.0), (4,), cohort=cohort)
    with pytest.raises(PrivacyLeak, match="mean"):
        Schedule((round,), (noise,), adjacency)


def test_infinite_epsilon_has_no_noise():
    schedule = Schedule.calibrate([VECTOR, MATRIX], epsilon=math.inf, delta=1e-5)
    assert schedule.mechanisms == (Exact(), Exact())
    assert math.isinf(schedule.cost(Unit.TASK, 1e-5).epsilon)


def test_trust_follows_from_where_the_noise_is_added():
    home = Round("own", VectorClip(1.0), (4,), noise=AtTask())
    rows = Round("rows", VectorClip(1.0), (4,), noise=AtTask(), unit=Unit.ROW, posted=False)
    assert Schedule.calibrate([home], epsilon=1.0, delta=0.0).trust(Unit.TASK) == "untrusted"
    both = Schedule.calibrate([rows], epsilon=1.0, delta=0.0).joined(
        Schedule.calibrate([VECTOR], epsilon=2.0, delta=0.0)
    )
    assert both.trust(Unit.ROW) == AtTask.trust
    assert both.trust(Unit.TASK) == Curator.trust
    assert [len(both.events(unit)) for unit in (Unit.ROW, Unit.TASK)] == [1, 1]


def test_what_cannot_be_meant_is_refused_by_name():
    with pytest.raises(InvalidInput, match="names must differ"):
        Schedule.calibrate([VECTOR, VECTOR], epsilon=1.0, delta=1e-5)
    with pytest.raises(InvalidInput, match="no pure ε"):
        Schedule.calibrate([VECTOR], epsilon=1.0, delta=0.0, mechanism="gaussian")
    with pytest.raises(InvalidInput, match="mechanism='cauchy'"):
        Schedule.calibrate([VECTOR], epsilon=1.0, delta=0.0, mechanism="cauchy")
    with pytest.raises(InvalidInput, match="no cohort"):
        Round("own", VectorClip(1.0), (4,), noise=AtTask(), cohort=Poisson(0.5))
    with pytest.raises(InvalidInput, match="states no spectrum"):
        Gaussian(1.0, 1.0).spectrum(3)


def test_calls_come_in_turn_and_survive_json():
    calls = in_turn([VECTOR, Round("again", VectorClip(1.0), (2,), turns=2)])
    assert [(call.round, call.turn) for call in calls] == [(0, 0), (1, 0), (1, 1)]
    assert [Call.from_json(call.to_json()) for call in calls] == list(calls)


@pytest.mark.parametrize("kind", [VECTOR, MATRIX, COUNTS], ids=lambda r: r.name)
@pytest.mark.parametrize("delta", [1e-5, 0.0])
def test_a_mechanism_states_the_law_of_its_own_noise(kind, delta):
    from tacit.privacy import SeededEntropy

    (noise,) = Schedule.calibrate([kind], epsilon=1.0, delta=delta).mechanisms
    entropy = SeededEntropy(0)
    draws = np.array([noise.perturbed(np.zeros(kind.shape), entropy) for _ in range(4000)])
    free = draws if draws.ndim == 2 else draws[:, *np.triu_indices(4, 1)]
    # 4 000 draws: relative error of a variance below 10 % except once in 10⁶ (heavy tails: 15 %).
    assert np.sqrt(np.mean(free**2)) == pytest.approx(noise.deviation(kind.shape), rel=0.08)
    assert np.sqrt(np.mean(np.sum(draws**2, axis=tuple(range(1, draws.ndim))))) == pytest.approx(
        noise.noise_norm(kind.shape), rel=0.08
    )
    if draws.ndim == 3:
        lowest = np.linalg.eigvalsh(draws)[:, 0]
        assert lowest.min() > -noise.fall(4, 1)
    elif kind is COUNTS:
        assert draws.min() > -noise.fall(4, 1)
