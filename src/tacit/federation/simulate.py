"""The whole federation in one process: the same coordinator and sites, no network."""

from __future__ import annotations

import collections
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit._types import AnyArray, Array
from tacit.federation.consent import Policy
from tacit.federation.coordinator import Coordinator, Outcome
from tacit.federation.errors import Refused
from tacit.federation.keys import make_identities
from tacit.federation.site import Site
from tacit.federation.sites import Answer
from tacit.federation.terms import Terms

__all__ = ["InProcess", "Simulated", "simulate"]


class InProcess:
    """A post that calls sites directly, one after the other."""

    def __init__(self, sites: Mapping[str, Site]) -> None:
        self._sites = dict(sites)
        self._sent: collections.deque[tuple[str, str, bytes]] = collections.deque()

    def ask(
        self,
        task: str,
        requests: dict[str, bytes],
        seconds: float,  # noqa: ARG002 - nobody is late here
    ) -> Iterator[tuple[str, Answer]]:
        """Yield every site's answer."""
        for name, request in requests.items():
            yield name, self._answer(task, name, request)

    def _answer(self, task: str, name: str, request: bytes) -> Answer:
        try:
            return self._sites[name].answer(task, request)
        except Refused as refusal:
            return refusal

    def send(self, task: str, site: str, request: bytes) -> None:
        """Keep one request until `receive`."""
        self._sent.append((task, site, request))

    def receive(self, seconds: float) -> tuple[str, Answer] | None:  # noqa: ARG002
        """Return the answer to the request that waits longest."""
        if not self._sent:
            return None
        task, site, request = self._sent.popleft()
        return site, self._answer(task, site, request)


@dataclass(frozen=True)
class Simulated:
    """A finished run and every site's own model (a source's package), as each finds it at home."""

    outcome: Outcome
    models: dict[str, Any]


def simulate(
    terms: Terms,
    rows: Mapping[str, tuple[Array, AnyArray]],
    folder: str | os.PathLike[str],
    *,
    policy: Policy | None = None,
) -> Simulated:
    """Run ``terms`` with sites in this process; files are written as they would be by each party.

    Parameters
    ----------
    rows
        X and y of every site.
    policy
        Rules of every site; by default they allow what the terms ask.
    """
    from tacit.estimators import load
    from tacit.transfer.package import SourcePackage

    place = Path(folder)
    allowed = policy or Policy(
        float(terms.settings.get("epsilon", 1.0)), max_delta=0.5, allow_seeded=True
    )
    identities = make_identities(terms.sites) if needs_keys(terms) else {}
    sites = {
        name: Site(
            name,
            place / "sites" / name,
            lambda _, name=name: rows[name],  # type: ignore[misc]
            allowed,
            identity=identities.get(name),
        )
        for name in terms.sites
    }
    try:
        outcome = Coordinator(place / "coordinator", InProcess(sites), terms=terms).run()
        models = {
            name: SourcePackage.load(place) if name in terms.sources else load(place)
            for name, place in ((name, site.model(terms.run)) for name, site in sites.items())
        }
    finally:
        for site in sites.values():
            site.close()
    return Simulated(outcome, models)


def needs_keys(terms: Terms) -> bool:
    """Whether rounds of these terms are secure sums."""
    staged = terms.supposing(1000).staged()
    return any(round.distributed for round in staged.protocol.rounds())
