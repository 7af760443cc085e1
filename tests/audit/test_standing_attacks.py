"""The standing attacks on everything public: nothing here is listed by name.

A new estimator, mechanism, bound or protocol is attacked because it is there; one that cannot be
found or configured fails a test of this file instead of being left out. The default run attacks
every estimator's default in all four ways, and every variant of those that fit fast bit by bit; all
variants, sizes and thread counts are marked statistical.
"""

from __future__ import annotations

import functools
import inspect

import numpy as np
import pytest

import tacit.estimators
from tacit.audit import attacks
from tacit.audit.attacks.runs import example_tasks, fitted
from tacit.audit.specimens import AUDITABLE, calibrated
from tacit.privacy import bounds

NAMES = tuple(attacks.estimators())
PRIVATE = tuple(name for name in NAMES if attacks.is_private(attacks.estimators()[name]))
VARIANTS = [(name, variant) for name in NAMES for variant in attacks.variants(name)]
FAST = [
    (name, variant)
    for name, variant in VARIANTS
    if variant == "default" or not name.endswith("Classifier")
]
OTHERS = [(name, variant) for name, variant in VARIANTS if variant != "default"]
ROW_LEVEL = tuple(
    name for name in PRIVATE if "rows" in inspect.signature(attacks.estimators()[name]).parameters
)
BOUNDS = tuple(
    kind
    for _, kind in inspect.getmembers(bounds, inspect.isclass)
    if issubclass(kind, bounds.Bound) and kind is not bounds.Bound
)

mechanism = functools.cache(lambda name: calibrated(name, 1.0, 1e-5))


def estimator(name, variant="default", **options):
    return attacks.variants(name, **options)[variant]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("attack", [attacks.structure_attack, attacks.abort_attack])
def test_no_default_gives_away_bits_or_can_be_stopped(name, attack):
    attack(estimator(name)).check()


@pytest.mark.parametrize("name", PRIVATE)
def test_every_default_under_attack_releases_something(name):
    assert fitted(estimator(name), example_tasks(estimator(name))).releases


# A large budget, so that what is released is used and not fallen back from.
@pytest.mark.parametrize(("name", "variant"), FAST)
def test_others_get_the_same_bits_whatever_one_task_holds(name, variant):
    sizes = attacks.SIZES[:1] if name.endswith("Classifier") else attacks.SIZES
    attacks.bit_attack(estimator(name, variant, epsilon=200.0), sizes=sizes).check()


@pytest.mark.parametrize("name", PRIVATE)
def test_the_ledger_counts_every_call_on_the_same_data(name):
    attacks.ledger_attack(estimator(name)).check()


@pytest.mark.parametrize("name", PRIVATE)
def test_the_ledger_counts_calls_of_different_methods_on_the_same_data(name):
    rows = next(other for other in ROW_LEVEL if other != name)
    attacks.ledger_attack([estimator(name), estimator(rows)]).check()


@pytest.mark.parametrize("name", attacks.mechanisms())
@pytest.mark.parametrize("attack", [a for a in attacks.ATTACKS.values() if a.on_mechanism])
def test_no_mechanism_gives_away_bits_fails_or_is_under_counted(name, attack):
    attack.on_mechanism(mechanism(name)).check()


@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_a_sum_just_below_zero_never_becomes_a_negative_zero(name):
    attacks.ATTACKS["structure"].on_mechanism(mechanism(name), n_zeros=2**22).check()


@pytest.mark.parametrize("kind", BOUNDS)
def test_no_message_changes_what_a_bound_makes_of_the_others(kind):
    attacks.bit_attack_bound(kind(1.0)).check()


def test_the_structure_attack_refutes_the_published_wishart_noise():
    result = attacks.ATTACKS["structure"].on_mechanism(mechanism("wishart-published"))
    assert any("support moves" in finding for finding in result.findings)


def test_every_sound_mechanism_can_be_calibrated_by_name():
    assert set(attacks.mechanisms()) <= set(AUDITABLE)


def test_every_estimator_class_is_public_and_so_attacked():
    def below(kind):
        for child in kind.__subclasses__():
            yield child
            yield from below(child)

    concrete = {
        kind.__name__
        for kind in below(tacit.estimators.MultiTaskEstimator)
        if kind.__module__.startswith("tacit.")
        and not inspect.isabstract(kind)
        and not kind.__name__.startswith("_")
        and hasattr(kind, "predict")
    }
    bases = {
        "RowPrivateClassifier",
        "MultiTaskClassifier",
        "MultiTaskRegressor",
        "TransferEstimator",
    }
    assert concrete - bases <= set(NAMES)


def test_every_protocol_is_spoken_by_an_attacked_estimator(monkeypatch):
    # What leaks is asked for by its full name, and there to be refuted.
    sound = {k: v for k, v in attacks.protocols().items() if not k.startswith("Published")}
    silent = dict(sound)
    for kind in attacks.protocols().values():
        monkeypatch.setattr(kind, "speak", _noticed(kind.speak, silent))
    for name, variant in VARIANTS:
        if silent and not name.endswith("Classifier"):
            one = estimator(name, variant, epsilon=1e4)  # so much that everybody has a say
            fitted(one, example_tasks(one, n_tasks=3))
    assert not silent


def _noticed(speak, silent):
    def noticed(self, *arguments, **options):
        silent.pop(type(self).__name__, None)
        return speak(self, *arguments, **options)

    return noticed


def test_an_unknown_name_is_refused():
    with pytest.raises(tacit.errors.InvalidInput, match="neither a mechanism"):
        attacks.run_attack("NoSuchThing")


def test_a_result_says_what_was_found_and_raises_it():
    result = attacks.AttackResult("bit", "it", ("coef_ moves",), 3)
    assert result.violated
    assert "coef_ moves" in result.to_json()
    with pytest.raises(tacit.errors.PrivacyLeak, match="coef_ moves"):
        result.check()


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "variant"), OTHERS)
@pytest.mark.parametrize("attack", [attacks.structure_attack, attacks.abort_attack])
def test_no_variant_gives_away_bits_or_can_be_stopped(name, variant, attack):
    attack(estimator(name, variant)).check()


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_others_get_the_same_bits_at_every_size_and_thread_count(name, variant):
    for epsilon in (1.0, 200.0):
        attacks.bit_attack(
            estimator(name, variant, epsilon=epsilon), sizes=attacks.SIZES, threads=(1, 2)
        ).check()


@pytest.mark.statistical
@pytest.mark.parametrize("seed", range(10))
def test_the_ledger_counts_random_sequences_of_calls(seed):
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(PRIVATE), size=4, replace=False)
    attacks.ledger_attack([estimator(PRIVATE[index]) for index in chosen]).check()


def test_the_command_line_puts_an_attack_to_a_target_by_name():
    import json

    from typer.testing import CliRunner

    from tacit.cli._app import app

    sound = CliRunner().invoke(app, ["audit", "laplace", "--attack", "structure", "--json"])
    assert sound.exit_code == 0
    assert not json.loads(sound.stdout)["results"][0]["violated"]
    leaking = CliRunner().invoke(app, ["audit", "wishart-published", "--attack", "structure"])
    assert leaking.exit_code == 5
    assert "LEAKS" in leaking.stdout
