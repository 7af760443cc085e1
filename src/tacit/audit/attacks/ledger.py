"""The ledger attack: whatever is called on one data set, the ledger counts all of it.

Public calls are made one after the other with one ledger, on the same rows. What they cost in truth
follows from their statements: pure ε add up, and whoever protects a whole task protects each of its
rows at the same price. The line that counts for the unit has to hold at least that; and a ledger
with room for the first call alone has to refuse every further one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tacit.audit.attacks.result import AttackResult
from tacit.audit.attacks.runs import example_tasks, name_of
from tacit.audit.estimator import fit_on
from tacit.errors import BudgetExceeded
from tacit.privacy.ledger import Ledger
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.statement import Statement
from tacit.privacy.unit import Adjacency, Unit
from tacit.tasks import TaskSet

__all__ = ["ledger_attack", "ledger_attack_mechanism"]


def _calls(estimator: Any) -> list[str]:
    return ["fit", "fit_source"] if hasattr(estimator, "fit_source") else ["fit"]


def _spend(estimator: Any, call: str, tasks: TaskSet, ledger: Ledger) -> list[Statement]:
    """Make one public call that charges ``ledger`` and return what it claims."""
    from sklearn.base import clone

    estimator = clone(estimator).set_params(ledger=ledger)
    if call == "fit_source":
        return [estimator.fit_source(tasks.X, tasks.y).statement]
    model = fit_on(estimator, tasks, 0)
    rows = getattr(model, "row_privacy_", None)
    return [model.privacy_] if rows is None else [model.privacy_, rows]


def _owed(statements: Sequence[Statement], unit: Unit) -> float:
    """Return the ε that these statements together cost a unit, all pure.

    A row is part of a task, so every statement counts for rows. What is stated for removal counts
    twice when the unit is replaced.
    """
    counted = [one for one in statements if unit is Unit.ROW or one.unit == Unit.TASK]
    return math.fsum(
        one.epsilon * (1 if one.adjacency == Adjacency.REPLACE_ONE else 2) for one in counted
    )


def _counted(ledger: Ledger, unit: Unit) -> float:
    return float(ledger.spent(unit=unit).epsilon)


def ledger_attack(estimators: Any | Sequence[Any], *, epsilon: float = 1.0) -> AttackResult:
    """Make every public call of the estimators on one data set and read the ledger.

    Parameters
    ----------
    estimators
        One unfitted estimator, or several whose calls are made in turn. They are asked for pure ε,
        where what is owed is a plain sum.
    """
    sequence = list(estimators) if isinstance(estimators, list | tuple) else [estimators]
    sequence = [one.set_params(epsilon=epsilon, delta=0.0) for one in _copies(sequence)]
    target = " then ".join(name_of(one) for one in sequence)
    calls = [(one, call) for one in [*sequence, *sequence] for call in _calls(one)]
    ledger, stated = Ledger(":memory:", epsilon=math.inf, delta=0.0), list[Statement]()
    for one, call in calls:
        stated += _spend(one, call, example_tasks(one), ledger)
    findings = []
    for unit in (Unit.TASK, Unit.ROW):
        owed, counted = _owed(stated, unit), _counted(ledger, unit)
        if counted < owed:
            findings.append(
                f"{len(calls)} calls on the same data cost a {unit} ε = {owed:g}, the ledger "
                f"counts {counted:g}"
            )
    findings += _accepted(calls, epsilon)
    return AttackResult("ledger", target, tuple(findings), 2 * len(calls))


def _copies(estimators: Sequence[Any]) -> list[Any]:
    from sklearn.base import clone

    return [clone(one) for one in estimators]


def _accepted(calls: Sequence[tuple[Any, str]], epsilon: float) -> list[str]:
    """Return the calls that a ledger accepts although an earlier one took all there is.

    A call that releases nothing, because nothing could be told from its noise, costs nothing.
    """
    boundless = Ledger(":memory:", epsilon=math.inf, delta=0.0)
    calls = [
        (one, call)
        for one, call in calls
        if _owed(_spend(one, call, example_tasks(one), boundless), Unit.ROW) > 0
    ]
    if not calls:
        return []
    first, first_call = calls[0]
    probe = Ledger(":memory:", epsilon=math.inf, delta=0.0)
    _spend(first, first_call, example_tasks(first), probe)
    total = max(epsilon, _counted(probe, Unit.ROW), _counted(probe, Unit.TASK))
    ledger, found = Ledger(":memory:", epsilon=total, delta=0.0), []
    _spend(first, first_call, example_tasks(first), ledger)
    for one, call in calls[1:]:
        try:
            _spend(one, call, example_tasks(one), ledger)
        except BudgetExceeded:
            continue
        found.append(f"{name_of(one)}.{call} is accepted by a ledger that has nothing left")
    return found


def ledger_attack_mechanism(
    mechanism: Mechanism, *, counts: Sequence[int] = (1, 2, 14, 23), delta: float = 1e-5
) -> AttackResult:
    """Charge many releases and compare what the ledger says with their composition."""
    from tacit.privacy.accounting import compose

    adjacency = (
        Adjacency.ADD_OR_REMOVE if mechanism.name.startswith("poisson") else Adjacency.REPLACE_ONE
    )
    findings = []
    for count in counts:
        ledger = Ledger(":memory:", epsilon=1e6, delta=delta)
        events = [mechanism.event] * count
        with ledger.reserve(
            events, unit=Unit.TASK, adjacency=adjacency, delta=delta
        ) as reservation:
            for event in events:
                reservation.charge(event)
        spent = ledger.spent(unit=Unit.TASK)
        true = compose(events, delta=spent.delta, adjacency=adjacency)
        if spent.epsilon < true.epsilon:
            findings.append(f"{count} releases cost {true.epsilon!r}, counted {spent.epsilon!r}")
    return AttackResult("ledger", mechanism.name, tuple(findings), len(counts))
