"""Four standing attacks, run on every mechanism, protocol and estimator.

*structure*: the bits of a release. *abort*: hostile data in one task. *bit*: what others get while
the releases are frozen. *ledger*: what a sequence of calls costs against what was counted.

An audit with a lower bound on ε asks how well noise hides a value; these ask whether anything goes
past the noise. `run_attack` takes a name, so that nothing public can be left out of a list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tacit._check import one_of
from tacit.audit.attacks.abort import HOSTILE, abort_attack, abort_attack_mechanism
from tacit.audit.attacks.bits import SIZES, bit_attack, bit_attack_bound
from tacit.audit.attacks.ledger import ledger_attack, ledger_attack_mechanism
from tacit.audit.attacks.result import AttackResult
from tacit.audit.attacks.structure import structure_attack, structure_attack_mechanism
from tacit.audit.attacks.subjects import estimators, is_private, mechanisms, protocols, variants
from tacit.errors import InvalidInput

__all__ = [
    "ATTACKS",
    "HOSTILE",
    "SIZES",
    "Attack",
    "AttackResult",
    "abort_attack",
    "bit_attack",
    "bit_attack_bound",
    "estimators",
    "is_private",
    "ledger_attack",
    "mechanisms",
    "protocols",
    "run_attack",
    "structure_attack",
    "variants",
]


@dataclass(frozen=True)
class Attack:
    """One of the four: what it asks, and how it is put to an estimator and to a mechanism.

    The bit attack has no question for a single mechanism, which knows of no tasks; it is put to
    bounds instead (`bit_attack_bound`).
    """

    question: str
    on_estimator: Callable[[Any], AttackResult]
    on_mechanism: Callable[[Any], AttackResult] | None


ATTACKS: dict[str, Attack] = {
    "structure": Attack(
        "is what is released consistent with one data set only?",
        structure_attack,
        structure_attack_mechanism,
    ),
    "abort": Attack(
        "can one task's data stop or change anybody else's run?",
        abort_attack,
        abort_attack_mechanism,
    ),
    "bit": Attack("does anything but the releases reach the others?", bit_attack, None),
    "ledger": Attack(
        "can calls cost more than the ledger counts?", ledger_attack, ledger_attack_mechanism
    ),
}


def run_attack(target: str, attack: str = "all") -> list[AttackResult]:
    """Put one attack, or all, to a mechanism or to every variant of an estimator, by name.

    The ledger attack is left out where there is no budget to count.
    """
    one_of("attack", attack, ("all", *ATTACKS))
    chosen = ATTACKS if attack == "all" else {attack: ATTACKS[attack]}
    from tacit.audit.specimens import AUDITABLE, calibrated

    if target in AUDITABLE:
        mechanism = calibrated(target, 1.0, 1e-5)
        return [one.on_mechanism(mechanism) for one in chosen.values() if one.on_mechanism]
    if target not in estimators():
        raise InvalidInput(
            f"{target!r}: neither a mechanism ({', '.join(AUDITABLE)}) nor an estimator "
            f"({', '.join(estimators())})"
        )
    private = is_private(estimators()[target])
    return [
        one.on_estimator(estimator)
        for estimator in variants(target).values()
        for name, one in chosen.items()
        if private or name != "ledger"
    ]
