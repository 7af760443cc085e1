"""The first half page: what it brought, to whom, at what cost, for a reader with one minute."""

from __future__ import annotations

import math

import numpy as np

from tacit._types import IntArray
from tacit.report.baselines import THESE_ROWS
from tacit.report.evaluation import Evaluation
from tacit.report.markup import Markup, join, number, percent, plural, shortened, tag, whole
from tacit.report.visible import Facts

__all__ = ["compared", "summary_section"]

_LEVEL = 0.01  # of the baseline's error: closer than this, nobody gains or loses
_NAMED = 4
_UNIT = {"task": "each party’s whole data set", "row": "each single row"}


def compared(facts: Facts) -> str | None:
    """Return the comparison with the first baseline in one sentence, None without one."""
    evaluation = facts.evaluation
    if evaluation is None or evaluation.gain is None or facts.seen:
        return None
    name = evaluation.methods[1]
    mine, other = (float(value) for value in evaluation.total[:2])
    how = "level with"
    if abs(other - mine) >= 0.005 * other:
        change = f"{percent(abs(other - mine) / other)} " if other > 0 else ""
        how = f"{change}{'below' if mine < other else 'above'}"
    text = f"Error is {how} {name}"
    n_tasks = len(evaluation.names)
    if n_tasks == 1:
        return f"{text}."
    better, worse = int((evaluation.gain > 0).sum()), int((evaluation.gain < 0).sum())
    if not better and not worse:
        return f"For every task, this model does exactly as well as {name}."
    counts = f"lower for {whole(better)} and higher for {whole(worse)}"
    return f"{text}: {counts} of {plural(n_tasks, 'task')}."


def summary_section(facts: Facts) -> tuple[str, str, Markup] | None:
    """Return the half page; nothing on it goes beyond what the sections below may show."""
    points = [
        ("Worth", _worth(facts)),
        ("Who gains", None if facts.seen else _who(facts.evaluation)),
        ("Protected", _protected(facts)),
        ("Budget", _budget(facts)),
        ("Next", _next(facts)),
    ]
    items = [
        tag("div", tag("dt", name), tag("dd", text)) for name, text in points if text is not None
    ]
    return "summary", "In short", tag("dl", join(items), class_="brief")


def _worth(facts: Facts) -> str:
    evaluation = facts.evaluation
    if evaluation is None:
        return (
            "How well the models do is not on this page: only the parties’ own rows can tell. "
            "Hand in rows that were kept out of the fit to see it."
        )
    if evaluation.less is None:
        return f"{_headline_measure(evaluation)}. Nothing to compare it with was handed in."
    less, low, high = evaluation.less
    if (evaluation.errors[0] == evaluation.errors[1]).all():
        return f"{_headline_measure(evaluation)}: for every task exactly {evaluation.methods[1]}’s."
    if not math.isfinite(less):
        return f"{_headline_measure(evaluation)}; {evaluation.methods[1]} makes no error here."
    name, text = _baseline(evaluation), _headline_measure(evaluation)
    if facts.seen:
        return f"{text}, on rows that it may have learned from: that shows no worth on new ones."
    name += " learned from these rows" if evaluation.crossed else ""
    ends = ""
    if math.isfinite(low) and math.isfinite(high):
        ends = f" (95 % interval: {_change(low)} to {_change(high)})"
    sure = low > 0 or high < 0
    found = f"{percent(abs(less))} {'less' if less > 0 else 'more'} error than {name}{ends}"
    if abs(less) < 0.005:
        found = f"level with {name}{ends}"
    tail = "" if sure else "; the interval holds zero, so the difference may be chance"
    return f"{text}: {found}{tail}."


def _baseline(evaluation: Evaluation) -> str:
    return evaluation.methods[1].removesuffix(THESE_ROWS)


def _change(less: float) -> str:
    return f"{percent(abs(less))} {'less' if less >= 0 else 'more'}"


def _headline_measure(evaluation: Evaluation) -> str:
    total = float(evaluation.total[0])
    if evaluation.classification:
        return f"Wrong for {percent(total)} of {plural(int(evaluation.n_rows.sum()), 'row')}"
    return f"Root mean squared error {number(total)}"


def _who(evaluation: Evaluation | None) -> str | None:
    if evaluation is None or evaluation.gain is None or len(evaluation.names) < 2:
        return None
    scale = np.maximum(evaluation.errors[1], np.finfo(float).tiny)
    share = evaluation.gain / scale
    order = np.argsort(-share, kind="stable")
    gains = order[share[order] > _LEVEL]
    loses = order[::-1][share[order[::-1]] < -_LEVEL]
    level = len(order) - len(gains) - len(loses)
    text = f"On these rows {plural(len(gains), 'task')} gain"
    text += "s" if len(gains) == 1 else ""
    text += _named("most of all", evaluation, gains)
    text += f"; {whole(level)} stay level within {percent(_LEVEL)}"
    if not len(loses):
        return f"{text}; none did worse than with {_baseline(evaluation)}."
    lost = _named("most of all", evaluation, loses)
    return f"{text}; {whole(len(loses))} did better with {_baseline(evaluation)}{lost}."


def _named(intro: str, evaluation: Evaluation, order: IntArray) -> str:
    names = [shortened(evaluation.names[task]) for task in order[:_NAMED].tolist()]
    if not names:
        return ""
    return f" ({intro} {', '.join(names)})" if len(order) > _NAMED else f" ({', '.join(names)})"


def _protected(facts: Facts) -> str:
    statement = facts.statement
    if not statement.holds:
        return "Nobody: no guarantee holds for this run. See the warning above."
    if statement.n_releases == 0:
        return "Everybody, fully: nothing left any party."
    sure = 100 / (1 + math.exp(-min(statement.epsilon, 700)))
    return (
        f"{_UNIT[str(statement.unit)].capitalize()}, with ε = {number(statement.epsilon)}: whoever "
        f"held two possibilities about it for equally likely is at most {sure:.1f} % sure after "
        "reading everything that was published."
    )


def _budget(facts: Facts) -> str | None:
    account = facts.account
    if account is None or not account.lines:
        return None
    line = max(account.lines, key=lambda one: one.spent.epsilon)
    if math.isinf(account.epsilon):
        return f"{plural(line.n_reservations, 'run')} on the ledger spent ε = " + number(
            line.spent.epsilon
        )
    return (
        f"{plural(line.n_reservations, 'run')} spent ε = {number(line.spent.epsilon)} of "
        f"{number(account.epsilon)}; one more run may ask for ε = {number(line.left.epsilon)}."
    )


def _next(facts: Facts) -> str | None:
    evaluation = facts.evaluation
    if facts.party is not None or evaluation is None or evaluation.gain is None or facts.seen:
        return None
    if evaluation.less is not None and evaluation.less[2] < 0:
        return (
            f"Use {_baseline(evaluation)}: with this many parties and this budget, sharing costs "
            "more than it brings."
        )
    if facts.statement.holds and facts.statement.n_releases == 0:
        return (
            "Nothing was shared, so nothing was gained: noise would have drowned it. More parties, "
            "a larger ε, or a method that protects rows instead of parties would change that."
        )
    losers = int((evaluation.gain < -_LEVEL * evaluation.errors[1]).sum())
    if losers:
        return (
            f"A party that does worse may keep its {_baseline(evaluation)} model: the choice is "
            "made at home and costs nothing."
        )
    return "Hand every party its own folder (tacit export); nothing else needs to leave this place."
