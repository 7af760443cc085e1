"""The mutation table: every planted leak is caught, and its sound original is not.

The first half of this file are deliberately broken copies of protocols, mechanisms and estimators.
Each is caught by replay (a declaration that does not hold), by an audit (a refuted claim) or by one
of the four standing attacks (something goes past the noise).
"""

import dataclasses
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from dp_accounting import dp_event

import tacit
from tacit.audit import attacks, audit_mechanism, canary_pairs, replace_task, replay
from tacit.audit.replay import Staged
from tacit.audit.specimens import calibrated
from tacit.errors import PrivacyLeak
from tacit.losses import SquaredLoss
from tacit.privacy.accounting import epsilon_of
from tacit.privacy.bounds import SecondMoment, VectorClip
from tacit.privacy.mechanisms import Gaussian, SymmetricGaussian, TwoSidedWishart
from tacit.privacy.noise.entropy import bernoulli
from tacit.privacy.schedule import Schedule
from tacit.privacy.unit import Adjacency
from tacit.protocols.mean_regularized import MeanRegularizedProtocol
from tacit.protocols.model_protected import ModelProtectedProtocol
from tacit.tasks import TaskSet

CLIP, NOISE, ROUNDS = 1.0, 3.0, 2


def staged(protocol, mechanism):
    return Staged(protocol, Schedule(protocol.rounds(), (mechanism,) * len(protocol.rounds())))


def mean_protocol(tasks, kind=MeanRegularizedProtocol, *, n_turns=ROUNDS, noise=NOISE, **extra):
    sizes = (tasks.n_tasks, tasks.n_features)
    protocol = kind(SquaredLoss(), *sizes, n_turns=n_turns, clip=CLIP, **extra)
    return staged(protocol, Gaussian(protocol.rounds()[0].sensitivity("l2", "replace-one"), noise))


def moment_protocol(tasks, kind=ModelProtectedProtocol, *, mechanism=SymmetricGaussian, **extra):
    sizes = (tasks.n_tasks, tasks.n_features)
    protocol = kind(SquaredLoss(), *sizes, shares=(1.0,) * ROUNDS, clip=CLIP, **extra)
    return staged(
        protocol,
        mechanism.of_round(protocol.rounds()[0], NOISE, Adjacency.REPLACE_ONE),
    )


def bounded_by(bound, protocol=MeanRegularizedProtocol, **changes):
    """Return the kind of protocol whose rounds have another bound."""

    class Mutant(protocol):
        def rounds(self):
            return tuple(replace(one, bound=bound, **changes) for one in super().rounds())

    return Mutant


class WrongClip(VectorClip):
    """Clips every coordinate to K instead of the vector."""

    def __call__(self, messages):
        return np.clip(messages, -self.radius, self.radius)


@dataclass(frozen=True)
class WeightedByRows(VectorClip):
    """Weights messages by n_k / n̄, with the sensitivity of the plain sum."""

    weights: np.ndarray = field(default=None, kw_only=True, compare=False)

    def aggregate(self, messages):
        return np.einsum("m,m...->...", self.weights, messages)


class HalfOfIt(VectorClip):
    """Counts a replaced message as one length instead of two."""

    def sensitivity(self, *arguments, **options):
        return super().sensitivity(*arguments, **options) / 2


class PooledScale(VectorClip):
    """Scales all messages by the longest one instead of clipping."""

    def __call__(self, messages):
        return self.radius * messages / np.linalg.norm(messages, axis=(1, 2)).max()


class UnnoisedListening(MeanRegularizedProtocol):
    """Moves the centre by the exact mean of the messages besides the release."""

    def speak(self, home, public, call, joined):
        _, said = super().speak(home, public, call, joined)
        heard = replace(public, value=public.value + said.mean(axis=0), informative=True)
        return super().speak(home, heard, call, joined)


class InitialMean(MeanRegularizedProtocol):
    """Starts from the mean of the initial models, which nobody paid for."""

    def speak(self, home, public, call, joined):
        initial = self.finish(home, self.opening()).mean(axis=0)
        return super().speak(home, replace(public, value=initial, informative=True), call, joined)


class MissingReclip(SecondMoment):
    """Adds noise to each model after the clip, and forms Σ without clipping again."""

    def __call__(self, messages):
        rng = np.random.default_rng(0)
        return super().__call__(messages) + rng.standard_normal(messages.shape)


class GramMatrix(SecondMoment):
    """Sums up W Wᵀ between tasks (m x m) with the sensitivity of the d x d moment."""

    def aggregate(self, messages):
        flat = messages.reshape(len(messages), -1)
        return flat @ flat.T


class OneOutputAtATime(SecondMoment):
    """Clips the k vectors of a message one by one instead of together."""

    def __call__(self, messages):
        flat = messages.reshape(-1, messages.shape[-1])
        return super().__call__(flat).reshape(messages.shape)


def gram_protocol(tasks):
    """Release W Wᵀ, and let nobody read it."""
    kind = bounded_by(GramMatrix(CLIP), ModelProtectedProtocol, shape=(tasks.n_tasks,) * 2)
    kind.read = lambda self, public, release, call, noise: public
    return moment_protocol(tasks, kind, mechanism=TwoSidedWishart)


def noise_by_row_count(tasks):
    """Divide the noise by a count of private rows."""
    return mean_protocol(tasks, noise=NOISE * 10 / tasks.n_rows)


def noise_by_active_count(tasks):
    """Divide the noise by how many tasks have anything to say."""
    active = sum(
        np.ptp(tasks.y[a:b]) > 0 for a, b in zip(tasks.offsets[:-1], tasks.offsets[1:], strict=True)
    )
    return mean_protocol(tasks, noise=NOISE / active)


def stop_when_fitted(tasks):
    """Run until the pooled targets look small: the number of rounds depends on the data."""
    return mean_protocol(tasks, n_turns=1 + int(np.std(tasks.y) > 10))


class FixedSizeAsPoisson(Gaussian):
    """One member of ten is drawn and known to the others; accounted for as if Poisson-sampled.

    The last entry of a release is what the others, pooled, know: whether the canary was chosen.
    """

    @property
    def event(self):
        return dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(self.noise_multiplier))

    def perturbed(self, value, entropy):
        joined = bernoulli(0.1, len(value), entropy)  # the canary's share of fixed-size draws
        released = super().perturbed(value * joined[:, None], entropy)
        released[:, -1] = joined
        return released


class WrongOffDiagonal(SymmetricGaussian):
    """Draws all d² entries and averages with the transpose, halving twice off the diagonal."""

    def perturbed(self, value, entropy):
        noisy = super().perturbed(value, entropy)
        d = np.shape(value)[-1]
        return np.where(np.eye(d, dtype=bool), noisy, value + (noisy - value) / np.sqrt(2))


class OffTheGrid(Gaussian):
    """Adds noise on a grid to a sum that is not on it: the last bits are the data's."""

    def perturbed(self, value, entropy):
        return value + super().perturbed(np.zeros(np.shape(value)), entropy)


class GridOfTheData(Gaussian):
    """Rounds to a grid as fine as the sum is small."""

    def perturbed(self, value, entropy):
        step = 2.0 ** (np.ceil(np.log2(np.abs(value).max())) - 10)
        return step * np.round(super().perturbed(value, entropy) / step)


class NoNoiseOnZeros(Gaussian):
    """Spares the entries that nobody has anything in: a zero stays a zero."""

    def perturbed(self, value, entropy):
        value = np.asarray(value, dtype=float)
        return np.where(value == value.min(), 0.0, super().perturbed(value, entropy))


class SignedZeros(Gaussian):
    """Keeps the sign of the sum where the noisy sum is rounded to zero."""

    def perturbed(self, value, entropy):
        step = 2.0**-2 * self.scale
        return np.copysign(step * np.round(super().perturbed(value, entropy) / step), value)


class OneSided(Gaussian):
    """Adds noise upwards only."""

    def perturbed(self, value, entropy):
        return value + np.abs(super().perturbed(value, entropy) - value)


class RaisesForEverybody(tacit.MeanRegularizedRegressor):
    """Refuses the whole run because one task has a constant target."""

    def _learn(self, tasks, targets):
        ends = zip(tasks.offsets[:-1], tasks.offsets[1:], strict=True)
        if any(np.ptp(tasks.y[a:b]) == 0 for a, b in ends):
            raise ValueError("a target is constant")
        return super()._learn(tasks, targets)


class StopsEarly(tacit.MeanRegularizedRegressor):
    """Takes one round less when all rows are small."""

    def _learn(self, tasks, targets):
        self.n_rounds = 2 if np.abs(tasks.X).max() > 5 else 1
        return super()._learn(tasks, targets)


class LastBit(tacit.MeanRegularizedRegressor):
    """Adds up the rows of all tasks in one go, and lets the rounding of that sum through."""

    def _learn(self, tasks, targets):
        learned = super()._learn(tasks, targets)
        total = float(tasks.X.sum())
        return dataclasses.replace(
            learned, coef=learned.coef * (1 + (total - round(total)) * 1e-15)
        )


class CountsOthers(tacit.MeanRegularizedRegressor):
    """Tells everybody how many rows there are in all."""

    def _learn(self, tasks, targets):
        learned = super()._learn(tasks, targets)
        return dataclasses.replace(learned, extra={**learned.extra, "n_rows_": tasks.n_rows})


class ChargesOnce(tacit.MeanRegularizedRegressor):
    """Takes a second fit on the same ledger for a repetition that is already paid."""

    def _learn(self, tasks, targets):
        if self.ledger is not None and self.ledger.lines():
            self.ledger = None
        return super()._learn(tasks, targets)


class ChargesHalf(tacit.MeanRegularizedRegressor):
    """Reserves with half of the budget and publishes with all of it."""

    def _learn(self, tasks, targets):
        self.epsilon /= 2
        learned = super()._learn(tasks, targets)
        self.epsilon *= 2
        statement = dataclasses.replace(learned.statement, epsilon=self.epsilon)
        return dataclasses.replace(learned, statement=statement)


def row_weights(tasks):
    return tasks.counts / tasks.counts.mean()


MUTANTS = {
    "clip by coordinate": lambda tasks: mean_protocol(tasks, bounded_by(WrongClip(CLIP))),
    "weights by n_k": lambda tasks: mean_protocol(
        tasks, bounded_by(WeightedByRows(CLIP, weights=row_weights(tasks)))
    ),
    "sensitivity 2K counted as K": lambda tasks: mean_protocol(tasks, bounded_by(HalfOfIt(CLIP))),
    "messages scaled by the longest": lambda tasks: mean_protocol(
        tasks, bounded_by(PooledScale(CLIP))
    ),
    "unnoised release in listen": lambda tasks: mean_protocol(tasks, UnnoisedListening),
    "mean of initial models as start": lambda tasks: mean_protocol(tasks, InitialMean),
    "noise divided by a private count": noise_by_active_count,
    "data-dependent number of rounds": stop_when_fitted,
    "re-clip missing after instance noise": lambda tasks: moment_protocol(
        tasks, bounded_by(MissingReclip(CLIP), ModelProtectedProtocol)
    ),
    "W'W with the sensitivity of WW'": gram_protocol,
}


def worst(factory, tasks):
    results = [replay(factory, pair.first, pair.second) for pair in canary_pairs(tasks)]
    return max(results, key=lambda result: (bool(result.leaks), result.worst))


@pytest.mark.parametrize("name", MUTANTS)
def test_replay_catches(name, tasks):
    result = worst(MUTANTS[name], tasks)
    assert result.violated
    with pytest.raises(PrivacyLeak):
        result.check()


@pytest.mark.parametrize("factory", [mean_protocol, moment_protocol])
def test_replay_passes_the_originals(factory, tasks):
    result = worst(factory, tasks)
    assert not result.violated, result.leaks
    result.check()
    assert result.worst > 0.9


def test_replay_catches_noise_divided_by_the_number_of_rows(tasks):
    fewer = TaskSet.from_arrays(tasks.X[1:], tasks.y[1:], tasks.task_of_row[1:])
    result = replay(noise_by_row_count, tasks, fewer)
    assert any("mechanism depends on the data" in leak for leak in result.leaks)


def test_replay_catches_outputs_clipped_one_by_one(tasks):
    # Labels of three classes: the k models of a task are one message, clipped together.
    three = tasks.replace(y=np.digitize(tasks.y, [-1.0, 1.0]).astype(float))
    classes = np.arange(int(tasks.counts[0])) % 3
    neighbour = replace_task(three, 0, 0.01 * np.eye(4)[classes], classes.astype(float))
    sound = replay(lambda data: moment_protocol(data, n_outputs=3), three, neighbour)
    broken = replay(
        lambda data: moment_protocol(
            data, bounded_by(OneOutputAtATime(CLIP), ModelProtectedProtocol), n_outputs=3
        ),
        three,
        neighbour,
    )
    assert not sound.violated
    assert broken.worst > 1.1


def test_an_audit_catches_a_fixed_size_cohort_accounted_as_poisson():
    mutant = FixedSizeAsPoisson(1.0, noise_multiplier=1.0)
    claimed = epsilon_of(mutant.event, 1e-3)
    pair = (np.zeros(2), np.array([1.0, 0.0]))
    result = audit_mechanism(
        mutant, epsilon=claimed, delta=1e-3, pair=pair, n_trials=100_000, random_state=0
    )
    assert result.violated
    assert result.epsilon_lower > 1.3 * claimed


def test_an_audit_catches_a_wrong_off_diagonal_scaling():
    sound = calibrated("symmetric-gaussian", 3.0, 1e-5)
    mutant = WrongOffDiagonal(sound.sensitivity, sound.noise_multiplier)
    options = {"epsilon": 3.0, "delta": 1e-5, "n_features": 3, "n_trials": 20_000}
    assert audit_mechanism(mutant, **options, random_state=0).violated
    assert not audit_mechanism(sound, **options, random_state=0).violated


@pytest.mark.parametrize("name", ["wishart-published", "algorithm5-noise-published"])
def test_an_audit_catches_the_published_noise(name):
    result = audit_mechanism(name, epsilon=1.0, n_features=3, n_trials=4000, random_state=0)
    assert result.violated
    assert result.epsilon_lower > 2


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (OffTheGrid, "on no grid"),
        (GridOfTheData, "grid moves with the data"),
        (NoNoiseOnZeros, "come again"),
        (SignedZeros, "-0.0"),
        (OneSided, "support moves"),
    ],
)
def test_the_structure_attack_catches_bits_that_give_the_data_away(kind, words):
    attack = attacks.ATTACKS["structure"].on_mechanism
    sound = calibrated("gaussian", 1.0, 1e-5)
    mutant = kind(sound.sensitivity, sound.noise_multiplier)
    assert any(words in finding for finding in attack(mutant).findings)
    assert not attack(sound).violated


@pytest.mark.parametrize("kind", [RaisesForEverybody, StopsEarly])
def test_the_abort_attack_catches_a_run_that_one_task_can_change(kind):
    kinds = ("constant", "empty", "wildly scaled")
    assert attacks.abort_attack(kind(n_rounds=1), kinds=kinds).violated
    assert not attacks.abort_attack(
        tacit.MeanRegularizedRegressor(n_rounds=1), kinds=kinds[:2]
    ).violated


@pytest.mark.parametrize("kind", [LastBit, CountsOthers])
def test_the_bit_attack_catches_what_goes_past_the_billboard(kind):
    sizes = attacks.SIZES[:1]
    assert attacks.bit_attack(kind(n_rounds=1), sizes=sizes).violated
    assert not attacks.bit_attack(tacit.MeanRegularizedRegressor(n_rounds=1), sizes=sizes).violated


@pytest.mark.parametrize("kind", [ChargesOnce, ChargesHalf])
def test_the_ledger_attack_catches_what_is_not_charged(kind):
    def owed_by_tasks(estimator):
        findings = attacks.ledger_attack(estimator).findings
        return [finding for finding in findings if "cost a task" in finding]

    assert owed_by_tasks(kind(n_rounds=1))
    assert not owed_by_tasks(tacit.MeanRegularizedRegressor(n_rounds=1))


def test_the_noise_of_the_mutants_is_the_noise_of_the_originals(tasks):
    # Mutants differ in the planted leak only: same mechanism, same rounds.
    original = mean_protocol(tasks).schedule
    mutant = mean_protocol(tasks, bounded_by(WrongClip(CLIP))).schedule
    assert mutant.mechanisms == original.mechanisms
    assert original.mechanisms[0].noise_multiplier == NOISE


def test_noise_for_half_of_the_sensitivity_makes_no_schedule(tasks):
    protocol = mean_protocol(tasks).protocol
    with pytest.raises(PrivacyLeak, match="mean update"):
        Schedule(protocol.rounds(), (Gaussian(CLIP, NOISE),))
