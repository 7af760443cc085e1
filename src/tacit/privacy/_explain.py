"""A statement in plain English, for a reader who decides about privacy and does not compute it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tacit.privacy.unit import Adjacency, Unit

if TYPE_CHECKING:
    from tacit.privacy.statement import Statement

__all__ = ["explain"]

_CHANGE = {
    Adjacency.REPLACE_ONE: "were exchanged for any other data",
    Adjacency.ADD_OR_REMOVE: "were left out, or added",
    Adjacency.ZERO_OUT: "were replaced by a blank contribution",
}
_ACCOUNTANT = {
    "gdp": "exact Gaussian composition",
    "optimal": "optimal composition of pure-ε steps",
    "pld": "privacy loss distributions",
    "rdp": "Rényi accounting",
    "zcdp": "zero-concentrated accounting",
    "basic": "adding up",
}
# e^20 is half a milliard: whoever held two possibilities for equally likely may be certain.
_NOTHING_BOUNDED = 20.0


def _who(statement: Statement) -> str:
    if statement.unit is Unit.TASK:
        return "each task (one party's whole data set and model)"
    return "each single row of a task's data"


def _against(statement: Statement) -> str:
    if statement.definition == "joint differential privacy":
        others = "all other parties together, and anyone who reads what was published"
    else:
        others = "anyone who reads what was published, the resulting model included"
    if statement.curator == "untrusted":
        return f"{others}, the coordinating server included"
    if statement.curator == "trusted":
        return f"{others}; the coordinating server sees the messages and is trusted with them"
    if statement.curator == "secure sums":
        return f"{others}; the coordinating server sees sums of all parties’ messages, with noise"
    return others


def _reading(statement: Statement) -> str:
    """Say what ε means for a guess: prior odds 1 : 1 become at most e^ε : 1."""
    epsilon, delta = statement.epsilon, statement.delta
    if epsilon > _NOTHING_BOUNDED:
        return (
            f"ε = {epsilon:.4g} bounds nothing in practice: read it as no protection beyond the "
            "noise itself."
        )
    limit = 1 / (1 + math.exp(-epsilon))
    factor = math.exp(epsilon)
    change = _CHANGE[Adjacency(str(statement.adjacency))]
    text = (
        f"Nothing that was published becomes more than {factor:.3g} times as likely or unlikely "
        f"if one such unit's data {change}; somebody who held two possibilities about it for "
        f"equally likely can be at most {100 * limit:.1f} % sure afterwards"
    )
    if limit > 0.95:
        text += " (so close to certainty that this is weak protection)"
    return f"{text}, except with probability about {delta:.2g}." if delta else f"{text}."


def _listed(intro: str, items: tuple[str, ...]) -> str:
    return f" {intro} {'; '.join(items)}." if items else ""


def explain(statement: Statement) -> str:
    """Return the paragraph; the worst news comes first."""
    tail = (
        _listed("Assumed:", statement.assumptions)
        + _listed("Not protected:", statement.not_protected)
        + _listed("Warning:", statement.warnings)
    )
    if not statement.private:
        return (
            "NOT PRIVATE: this run adds no noise, and nothing limits what parties learn about "
            "each other from what they exchange." + tail
        )
    if statement.n_releases == 0 and statement.epsilon == 0:
        return f"PRIVATE BY SILENCE: nothing left any task, so nobody learnt anything.{tail}"
    claim = f"ε = {statement.epsilon:.4g}, δ = {statement.delta:.2g}"
    head = ""
    if not statement.sound:
        head += (
            f"THIS LEAKS: a mechanism used here is published but does not give the privacy it "
            f"claims ({claim}); keep the results as if they were not protected at all. "
        )
    if statement.seeded:
        head += (
            "NOT PRIVATE: the noise came from a fixed seed, and whoever knows or guesses the seed "
            f"can remove it; the budget below ({claim}) would hold only with secret noise. "
        )
    noise = ", ".join(statement.mechanisms) or "noise"
    releases = f"{statement.n_releases} release{'' if statement.n_releases == 1 else 's'}"
    verb = "would protect" if head else "protects"
    return (
        f"{head}This run {verb} {_who(statement)} against {_against(statement)}, by "
        f"{statement.definition} with {claim} ({statement.adjacency} neighbours). "
        f"{_reading(statement)} {releases} ({noise}), accounted by "
        f"{_ACCOUNTANT.get(statement.accountant, statement.accountant)}.{tail}"
    )
