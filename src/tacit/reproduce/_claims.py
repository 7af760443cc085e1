"""What a paper claims about a figure, as conditions on its results.

A claim has the paper's words, our verdict on it, and the conditions on the measured numbers that
the verdict stands on. A run that does not meet them contradicts the verdict, whichever it is: a
claim that is *not reproduced* has conditions too, which say how far off it is. Conditions are tight
(a method that became 20 % worse fails them), so a verdict cannot outlive the figures it came from.

Errors are compared, and lower is better: an AUC counts as 1 − AUC, and of a logarithm it is the
number itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

from tacit._check import one_of
from tacit._types import Array
from tacit.errors import InvalidInput
from tacit.reproduce._record import Record

__all__ = ["VERDICTS", "Claim", "Condition", "Finding", "judge", "with_published"]

VERDICTS = ("reproduced", "not reproduced", "rests on the leak")
_WORDS = {
    "reproduced": "reproduced",
    "not reproduced": "not reproduced, because {because}",
    "rests on the leak": "cannot be: the claim rests on the leak ({because})",
}


@dataclass(frozen=True)
class Condition:
    """One comparison of mean errors.

    ``method`` at ``x`` against ``than`` (the best of them, if several; the same method, if only
    ``than_x`` is given), as a ratio of errors; without any of those, the mean itself. ``test`` asks
    that the difference be significant at ``p`` besides: "paired" (t), or "ranks" (Mann–Whitney).
    """

    panel: str
    method: str
    x: Any = "all"
    than: tuple[str, ...] = ()
    than_x: Any = None
    at_most: float | None = None
    at_least: float | None = None
    test: str | None = None
    p: float = 0.05

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> tuple[Condition, ...]:
        """Return the condition at each of its levels, as a TOML file has it."""
        fields = dict(given)
        than = fields.pop("than", ())
        fields["than"] = (than,) if isinstance(than, str) else tuple(than)
        if fields.get("at_most") is None and fields.get("at_least") is None:
            raise InvalidInput(f"claim: {given} needs at_most or at_least")
        if fields.get("test") is not None:
            one_of("test", fields["test"], ("paired", "ranks"))
        levels = fields.pop("x", "all")
        return tuple(cls(**fields, x=x) for x in (levels if isinstance(levels, list) else [levels]))

    def levels(self) -> set[str]:
        """Return the levels it looks at."""
        return {str(x) for x in (self.x, self.than_x) if x is not None} - {"all"}

    def look(self, record: Record, metric: str) -> tuple[bool, str]:
        """Return whether it holds, and what was seen."""
        own = record.of(self.panel, self.method, self.x)
        if not own.size:
            return False, f"{self.method} at {self.x}: not measured"
        shown = f"{self.method}{_at(self.x)} {own.mean():.4g}"
        if not self.than and self.than_x is None:
            return self._within(float(own.mean())), shown
        other, name = self._other(record, metric)
        if not other.size:
            return False, f"{name}: not measured"
        base = float(_errors(other, metric).mean())
        ratio = float(_errors(own, metric).mean()) / base if base else np.inf
        shown += f" against {name} {other.mean():.4g}"
        holds = self._within(ratio)
        if self.test is not None:
            p = self._significance(_errors(own, metric), _errors(other, metric))
            shown += f" (p = {p:.2g})"
            holds = holds and p < self.p
        return holds, shown

    def _other(self, record: Record, metric: str) -> tuple[Array, str]:
        x = self.x if self.than_x is None else self.than_x
        found = {name: record.of(self.panel, name, x) for name in self.than or (self.method,)}
        found = {name: values for name, values in found.items() if values.size}
        if not found:
            return np.zeros(0), " / ".join(self.than)
        best = min(found, key=lambda name: float(_errors(found[name], metric).mean()))
        where = "" if self.than_x is None else _at(x)
        return found[best], best + where

    def _within(self, value: float) -> bool:
        low = -np.inf if self.at_least is None else self.at_least
        high = np.inf if self.at_most is None else self.at_most
        return bool(low <= value <= high)

    def _significance(self, own: Array, other: Array) -> float:
        side: Literal["less", "greater"] = "less" if self.at_most is not None else "greater"
        if self.test == "paired":
            return float(stats.ttest_rel(own, other, alternative=side).pvalue)
        return float(stats.mannwhitneyu(own, other, alternative=side).pvalue)


def _at(x: Any) -> str:
    return "" if x == "all" else f" at {x}"


def _errors(values: Array, metric: str) -> Array:
    if metric == "log10":
        return np.asarray(10.0**values)
    return 1 - values if metric == "auc" else values


@dataclass(frozen=True)
class Claim:
    """A paper's claim: its name, where it stands, what we say of it, and why we may."""

    name: str
    where: str
    says: str
    verdict: str
    conditions: tuple[Condition, ...]
    because: str = ""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Claim:
        """Return the claim as a TOML file has it."""
        fields = dict(given)
        holds: Sequence[Mapping[str, Any]] = fields.pop("holds")
        one_of("verdict", fields["verdict"], VERDICTS)
        if fields["verdict"] != "reproduced" and not fields.get("because"):
            raise InvalidInput(f"claim {fields['name']!r}: {fields['verdict']!r} needs a because")
        conditions = tuple(c for condition in holds for c in Condition.of(condition))
        return cls(**fields, conditions=conditions)

    @property
    def words(self) -> str:
        """The verdict as a sentence."""
        return _WORDS[self.verdict].format(because=self.because)


@dataclass(frozen=True)
class Finding:
    """A claim beside the run: ``upheld`` says whether the numbers support our verdict."""

    claim: Claim
    upheld: bool
    ours: str


def with_published(config: Mapping[str, Any], record: Record) -> Record:
    """Return the record with the paper's printed numbers beside ours, as "published …"."""
    values = dict(record.values)
    for row in config.get("published", ()):
        for x, number in zip(config["x"], row["values"], strict=True):
            values[(row["panel"], f"published {row['method']}", str(x))] = {0: float(number)}
    return Record(values)


def judge(config: Mapping[str, Any], record: Record) -> list[Finding]:
    """Judge a figure's claims; a quick run leaves out levels and panels that it did not run."""
    metrics = {panel["name"]: panel.get("metric", "") for panel in config["panel"]}
    measured = {str(x) for x in config.get("levels", config["x"])}
    swept = {str(x) for x in config["x"]}
    left_out, findings = set(config.get("left_out", ())), []
    for claim in map(Claim.of, config.get("claim", ())):
        asked = [
            c
            for c in claim.conditions
            if c.panel not in left_out and not (c.levels() & swept) - measured
        ]
        if asked:
            looks = [condition.look(record, metrics[condition.panel]) for condition in asked]
            ours = "; ".join(dict.fromkeys(shown for _, shown in looks))
            findings.append(Finding(claim, all(held for held, _ in looks), ours))
    return findings
