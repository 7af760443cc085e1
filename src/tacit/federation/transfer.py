"""Transfer as a run: sources release their models once, targets continue from them at home."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit._files import whole_folder
from tacit.engines import Batches
from tacit.estimators._private import Sizes
from tacit.estimators.transfer import SourceRequest
from tacit.federation.errors import Refused
from tacit.federation.seat import Seat, Speaker
from tacit.federation.terms import Terms
from tacit.federation.unfailing import Unfailing
from tacit.privacy.ledger import Ledger
from tacit.tasks import TaskSet
from tacit.transfer.package import SourcePackage

__all__ = ["Source", "Target"]


def _packages(seat: Seat, public: Any) -> dict[str, SourcePackage]:
    """Return every source's package, from what everybody can read; who was missing has none."""
    terms, staged = seat.terms, seat.staged
    wanted = (len(terms.speakers), *staged.schedule.rounds[0].shape)
    if public.shape != wanted or not np.isfinite(public).all():
        raise Refused(f"{seat.name}: what was released are no models of {terms.method}")
    found = {}
    for number, name in enumerate(terms.speakers):
        released, n_rows = public[[number]], (terms.counts or ())[number]
        if not released.any():  # in place of a message that never came
            continue
        alone = replace(staged.sizes, n_tasks=1, n_rows=n_rows, counts=(n_rows,))
        stated = staged.estimator._statements(staged.schedule, seat.board, alone)["privacy_"]
        found[name] = staged.estimator._packed(
            staged.protocol, released, n_rows, terms.features, stated
        )
    return found


def _saved(package: SourcePackage, place: Path) -> None:
    with whole_folder(place) as stage:
        package.save(stage)


class Source(Speaker):
    """A site whose private models others continue from.

    Guarantee: that of `Speaker`. Its one message is its release: (ε, δ)-DP for one replaced row,
    with the noise of `tacit.privacy.objective` added here; whatever targets do with it costs this
    site nothing more.
    """

    def _made_homes(self, rows: TaskSet) -> Batches:
        entropy = self._kept.entropy(self.terms.settings.get("random_state"))
        alone = entropy.child("source", self._position).child("homes")
        protocol = Unfailing(self.staged.protocol, rows)
        return Batches(protocol, rows, entropy=alone, homes=self._kept.homes)

    def learned(self) -> SourcePackage:
        """Return this site's own package, the very one that targets have."""
        packages = _packages(self, self._at_the_end())
        self._settle()
        if self.name not in packages:
            raise Refused(f"{self.name}: was missing, and has no package in this run")
        return packages[self.name]

    def finish(self, place: Path) -> None:
        """Write the package."""
        _saved(self.learned(), place)


class Target(Seat):
    """A site that continues from the sources' models, and sends nothing.

    Guarantee: nothing of its rows leaves, not even how many there are. The model that it finds is
    (ε, δ)-DP for one replaced row, so that it may be shown; the site's own ledger sets that budget
    aside when the site agrees, and is charged before there is a model.
    """

    def __init__(
        self, folder: Path, terms: Terms, name: str, rows: TaskSet, ledger: Ledger
    ) -> None:
        super().__init__(folder, terms, name)
        self._rows, self._ledger = rows, ledger
        estimator, outputs = self.staged.estimator, self.staged.sizes.n_outputs
        n_groups = self.staged.protocol.learner.design.n_groups  # type: ignore[attr-defined]
        estimator._check_size(rows.n_rows, n_groups, name)
        sizes = Sizes.of(rows, outputs)
        if not ledger.knows(self._kept.run):
            _, schedule = estimator._staged(sizes)
            estimator._reserved(ledger, schedule, sizes, self._kept.run)

    def finish(self, place: Path) -> None:
        """Write the sources' packages, then the site's own model and report."""
        sources = place.with_name("sources")
        sources.mkdir(mode=0o700, exist_ok=True)
        for name, package in _packages(self, self._at_the_end()).items():
            _saved(package, sources / name)
        super().finish(place)

    def learned(self) -> Any:
        """Return the site's own fitted estimator, from its rows and the sources' releases."""
        estimator, public = self.staged.estimator, self._at_the_end()
        packages = tuple(_packages(self, public).values())
        estimator._checkpoint, estimator.ledger = self._kept, self._ledger
        estimator._sources = SourceRequest(packages)
        self._taken(estimator._converse(self._rows, self.staged.sizes.n_outputs))
        return estimator
