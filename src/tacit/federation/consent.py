"""Consent: what a site would send, read off the schedule, and what it lets itself in for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tacit.federation.errors import Refused
from tacit.federation.terms import Staged, Terms
from tacit.privacy.accounting.composition import compose
from tacit.privacy.schedule import AtTask, Distributed, Round

__all__ = ["Policy", "consent", "described"]


@dataclass(frozen=True)
class Policy:
    """A site's own rules; nobody else can change them.

    Parameters
    ----------
    max_epsilon, max_delta
        Most of one run. What is ever sent from these rows is limited by their ledger's total, which
        is the same unless the rows had a ledger before.
    methods, features
        Names that may occur in terms; None for any.
    charter
        `Terms.charter` of what this site agreed to when it joined; None for any.
    sites
        Those with whom it agreed to take part; a run may go without some, never with others, and a
        secure sum of fewer must stand as many dishonest ones. None for any.
    allow_seeded
        Whether runs with repeatable noise, which protect nobody, are for this site: tests only.
    """

    max_epsilon: float
    max_delta: float = 1e-5
    methods: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    allow_seeded: bool = False
    charter: str | None = None
    sites: tuple[str, ...] | None = None

    def check(self, terms: Terms, name: str) -> None:
        """Raise `Refused`, with the reason, for terms that are not for this site."""
        if name not in terms.sites:
            raise Refused(f"{name}: is not among the sites of the run ({', '.join(terms.sites)})")
        strangers = [] if self.sites is None else sorted(set(terms.sites) - {*self.sites})
        if strangers:
            raise Refused(
                f"{name}: {strangers[0]!r} was not among the sites when it joined; it agreed to "
                f"{', '.join(self.sites or ())}"
            )
        if self.methods is not None and terms.method not in self.methods:
            raise Refused(
                f"{name}: the method {terms.method!r} is not allowed here; allowed are "
                f"{', '.join(self.methods)}"
            )
        strange = [] if self.features is None else sorted(set(terms.features) - {*self.features})
        if strange:
            raise Refused(f"{name}: the feature {strange[0]!r} is not allowed here")
        if self.charter is not None and terms.charter != self.charter:
            raise Refused(f"{name}: these are not the terms that it agreed to when it joined")
        if terms.seeded and not self.allow_seeded:
            raise Refused(f"{name}: random_state makes noise repeatable; leave it out")

    def check_cost(self, staged: Staged, name: str) -> None:
        """Raise `Refused` if the whole run costs a unit more than this site gives."""
        if not staged.schedule.sound:
            raise Refused(f"{name}: the noise is of a published mechanism that leaks")
        cost = staged.schedule.cost(staged.unit, staged.delta)
        if cost.epsilon > self.max_epsilon * (1 + 1e-9) or cost.delta > self.max_delta:
            raise Refused(
                f"{name}: the run costs ε = {cost.epsilon:.4g} at δ = {cost.delta:.2g}, and this "
                f"site gives ε = {self.max_epsilon:.4g} at δ = {self.max_delta:.2g} at most"
            )
        self._check_honest(staged, name)

    def _check_honest(self, staged: Staged, name: str) -> None:
        """Raise `Refused` if fewer dishonest sites undo a secure sum than was agreed on.

        Whoever chooses a roster could else leave one site alone with those who share what they
        know: of four, noise is cut for three honest ones, of two for two.
        """
        n_sites, agreed = staged.sizes.n_tasks, len(self.sites or ())
        for round in staged.schedule.rounds:
            if self.sites is None or not isinstance(round.noise, Distributed):
                continue
            stands, stood = (count - round.noise.honest(count) for count in (n_sites, agreed))
            if stands < stood:
                raise Refused(
                    f"{name}: the sum of {n_sites} sites stands {stands} dishonest among them, and "
                    f"this site agreed to {stood} of {agreed}; begin a federation of these sites"
                )


def consent(terms: Terms) -> dict[str, Any]:
    """Return what one site would send in the whole run, and what it costs; no row is looked at."""
    staged = terms.staged()
    schedule, delta = staged.schedule, staged.delta
    rounds = []
    for round, mechanism in zip(schedule.rounds, schedule.mechanisms, strict=True):
        alone = compose([mechanism.event], delta=delta, adjacency=schedule.adjacency)
        rounds.append(
            {
                "round": round.name,
                "times": round.turns,
                "shape": list(round.shape),
                "numbers": math.prod(round.shape),
                "bound": float(round.bound.radius),
                "noise": _place(round),
                "mechanism": mechanism.name,
                "scale": float(mechanism.scale),
                "epsilon": alone.epsilon,
            }
        )
    total = schedule.cost(staged.unit, delta)
    return {
        "method": terms.method,
        "features": list(terms.features),
        "sites": list(terms.sites),
        "sources": list(terms.speakers) if terms.sources else [],
        "unit": str(staged.unit),
        "missing": (terms.intake or {}).get("missing"),
        "marks": list((terms.intake or {}).get("marks", ())),
        "rows_public": terms.counted,
        "rows": list(terms.counts or ()),
        "rounds": rounds,
        "epsilon": total.epsilon,
        "delta": total.delta,
        "curator": schedule.trust(staged.unit),
        "late": terms.late,
        "deadline": terms.deadline,
    }


def _place(round: Round) -> str:
    if isinstance(round.noise, AtTask):
        return "here, before anything leaves"
    if isinstance(round.noise, Distributed):
        return "in shares, a part of it here; only the sum of all sites is seen"
    return "at the coordinator, who sees this site's bounded message"


def _listening(found: dict[str, Any], name: str) -> list[str]:
    """Return what a target lets itself in for: nothing leaves."""
    return [
        f"- nothing of its rows leaves; it reads the models of {', '.join(found['sources'])}",
        "- its own model is learned here, with noise, so that it may be shown to others",
        f"that model costs ε = {found['epsilon']:.4g} at δ = {found['delta']:.2g} for each "
        f"{found['unit']}, and the ledger here is charged for it",
        f"open to all: that {name} takes part",
    ]


def _gaps(found: dict[str, Any]) -> list[str]:
    """Return what becomes of missing values here, if the terms say how a file is read."""
    rule = found["missing"]
    if rule is None:
        return []
    becomes = {
        "drop": "its row is left out",
        "task-mean": "it is filled with the mean of the rows here",
        "error": "the run ends here",
    }.get(rule, f"{rule} is put there")
    words = "".join(f", or has {word!r}," for word in found["marks"])
    return [f"where a cell is empty{words} {becomes}"]


def described(found: dict[str, Any], name: str) -> str:
    """Return the consent of `consent` as lines of text for whoever decides."""
    lines = [
        f"{name} would take part in: {found['method']} with {', '.join(found['sites'])}",
        f"features: {', '.join(found['features'])}",
        *_gaps(found),
    ]
    if found["sources"] and name not in found["sources"]:
        return "\n".join([*lines, *_listening(found, name)])
    for part in found["rounds"]:
        often = f"{part['times']} × " if part["times"] > 1 else ""
        lines += [
            f"- {part['round']}: {often}{part['numbers']} numbers {part['shape']}, one unit's part "
            f"bounded by {part['bound']:.4g}",
            f"  noise {part['noise']} ({part['mechanism']}, scale {part['scale']:.4g}); "
            f"alone ε = {part['epsilon']:.4g}",
        ]
    if not found["rounds"]:
        lines.append("- nothing: public numbers say that sharing cannot help, every site is alone")
    against = {
        "trusted": "all other sites and readers; the coordinator is trusted with the messages",
        "untrusted": "everybody else, the coordinator included",
        "secure sums": "everybody else, the coordinator included, while enough sites are honest",
        "none": "everybody",
    }[found["curator"]]
    shown = ""
    if found["rows_public"]:
        shown = " and the number of rows"
        lines.append(f"(with {', '.join(map(str, found['rows']))} rows at the sites)")
    lines += [
        f"in total ε = {found['epsilon']:.4g} at δ = {found['delta']:.2g} for each {found['unit']}",
        f"against {against}",
        f"open to all: that {name} takes part{shown}",
        f"a round waits {found['deadline']:g} s for its last site, then the run "
        + ("goes on without it" if found["late"] == "go on" else "stops and tries again"),
    ]
    return "\n".join(lines)
