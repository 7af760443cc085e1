"""Whether a run can help anybody, said before it spends: from the plan, that is without data."""

from __future__ import annotations

import math
import sys
from typing import Any

import typer

from tacit.cli._output import current
from tacit.errors import InvalidInput
from tacit.methods import plan as plan_of
from tacit.privacy.plan import Plan, least_epsilon
from tacit.privacy.unit import Unit

__all__ = ["agree", "outlook"]

_ROW_METHOD = "shared-moments"


def outlook(estimator: Any, plan: Plan, n_outputs: int) -> str | None:
    """Return why nobody can gain from the run, and what would help; None if somebody may.

    Guarantee: read off public numbers only, like the plan itself.
    """
    ratio, epsilon = plan.drowned, getattr(estimator, "epsilon", math.inf)
    if not math.isfinite(epsilon) or ratio <= 1:
        return None
    who = f"{plan.n_tasks} {'party' if plan.n_tasks == 1 else 'parties'} at ε = {epsilon:.4g}"
    if plan.releases:
        what = (
            f"{who}: the noise is {ratio:.3g} times as large as all messages "
            "together could be at best, so what is released teaches nobody anything"
        )
    else:
        what = (
            f"{who}: nothing will be shared, for it would drown in noise; "
            "everybody learns alone, and nothing is spent"
        )
    remedies = [
        part for part in (_larger(estimator, plan, n_outputs), _rows(plan, epsilon)) if part
    ]
    return f"{what}. " + ("; ".join(remedies) or "More parties would help")


def _larger(estimator: Any, plan: Plan, n_outputs: int) -> str:
    """Return the ε from which on something could be told from noise."""
    sizes = {"n_outputs": n_outputs, "n_rows": plan.n_rows}

    def planned(epsilon: float) -> Plan:
        trial = type(estimator)(**{**estimator.get_params(deep=False), "epsilon": epsilon})
        found: Plan = trial.plan(plan.n_tasks, plan.n_features, **sizes)
        return found

    least = least_epsilon(planned)
    if least is None:
        return ""
    return f"ε ≥ {math.ceil(10 * least) / 10:g} would let something through"


def _rows(plan: Plan, epsilon: float) -> str:
    if plan.unit is not Unit.TASK or plan.n_rows is None:
        return ""
    sizes = plan.n_tasks, plan.n_features
    rows = plan_of(_ROW_METHOD, *sizes, n_rows=plan.n_rows, epsilon=epsilon)
    if rows.drowned > 1:
        return ""
    return (
        f"--method {_ROW_METHOD} protects single rows in place of whole parties, and could help at "
        "this ε"
    )


def agree(found: str | None, *, yes: bool) -> None:
    """Ask whether to go on all the same; without a terminal --yes must say so."""
    if found is None:
        return
    if yes:
        current().warn(found)
        return
    output = current()
    if sys.stdin.isatty() and sys.stderr.isatty() and not (output.quiet or output.as_json):
        output.warn(found)
        if typer.confirm("Fit all the same?", default=False, err=True):
            return
        raise InvalidInput("not fitted; nothing was spent, nothing was written")
    raise InvalidInput(f"{found}. Nothing was spent; say --yes to fit all the same")
