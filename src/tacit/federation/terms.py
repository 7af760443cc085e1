"""The terms of a run: all that is agreed on before anybody speaks, as one JSON file.

Everything that is accounted follows from them: both sides build the same estimator, protocol and
schedule, so a site needs nobody's word for what it is going to send.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tacit import _check
from tacit._files import write_whole
from tacit.errors import InvalidInput
from tacit.estimators._private import PrivateEstimator, Sizes
from tacit.estimators.feature_split import FeatureSplitTransferClassifier
from tacit.estimators.transfer import TransferClassifier, TransferEstimator
from tacit.methods import estimator_class
from tacit.privacy.schedule import Everyone, Schedule
from tacit.privacy.statement import ROWS_LEFT_OUT
from tacit.privacy.unit import Unit
from tacit.protocols.protocol import Protocol

__all__ = ["KINDS", "LATE", "TRANSFERS", "Staged", "Terms", "check_name"]

SCHEMA = 2
KINDS = ("regression", "classification")
LATE = ("go on", "stop")
TRANSFERS: dict[str, type[TransferEstimator]] = {
    "transfer": TransferClassifier,
    "feature-split-transfer": FeatureSplitTransferClassifier,
}
# Not for the coordinator to set: a new name of the data would be a new budget at every site.
_OURS = ("ledger", "data", "engine", "progress", "classes")


_PLAIN = re.compile(r"[^\W_][^/\\\x00-\x1f\x7f]{0,99}")


def check_name(what: str, name: str) -> None:
    """Refuse a name that others give and that could not be the name of a folder, or would be odd.

    It begins with a letter or digit, so that it is no way up, and has no separator in it.
    """
    if not _PLAIN.fullmatch(name):
        raise InvalidInput(
            f"{what}={name!r}: must begin with a letter or digit, have 100 characters at most, and "
            "none of / and \\; choose a plain name"
        )


@dataclass(frozen=True)
class Staged:
    """What the terms lead to."""

    estimator: Any
    sizes: Sizes
    protocol: Protocol[Any, Any]
    schedule: Schedule

    @property
    def unit(self) -> Unit:
        """What is protected."""
        return Unit(self.estimator._unit)

    @property
    def delta(self) -> float:
        """The run's δ."""
        return float(self.estimator._run_delta(self.sizes))


@dataclass(frozen=True)
class Terms:
    """What is learned, by whom, at which price.

    Parameters
    ----------
    method, kind
        As on the command line, and "regression" or "classification".
    features
        Names of the columns of X, in order.
    sites
        Who takes part, in order of position.
    settings
        Parameters of the estimator, such as epsilon and delta.
    classes
        Public classes of a classifier.
    deadline
        Seconds that a round waits for its last site.
    late
        What happens then: "go on" without whoever is missing, with public divisors unchanged, or
        "stop" and try again later.
    intake
        How a site's file becomes features, where the command line reads it.
    sources
        In a transfer the sites that send; all others learn from what these sent. They stay the same
        in every run, whoever is in its roster.
    counts
        Rows of every speaker, where the method declares them public; known once sites have joined.
    run
        The run's identity.
    """

    method: str
    kind: str
    features: tuple[str, ...]
    sites: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    classes: tuple[Any, ...] | None = None
    deadline: float = 60.0
    late: str = "stop"
    intake: dict[str, Any] | None = None
    sources: tuple[str, ...] = ()
    counts: tuple[int, ...] | None = None
    run: str = field(default_factory=lambda: secrets.token_hex(16))

    def __post_init__(self) -> None:
        for name in ("features", "sites", "classes", "sources", "counts"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(value))
        _check.one_of("kind", self.kind, KINDS)
        _check.one_of("late", self.late, LATE)
        _check.positive("deadline", self.deadline, remedy="give seconds, 60 for a minute")
        for name in ("features", "sites"):
            values = getattr(self, name)
            texts = all(isinstance(part, str) and part for part in values)
            if not values or not texts or len(set(values)) != len(values):
                raise InvalidInput(f"{name}={values!r}: must be different names, one at least")
        for name in self.sites:
            check_name("sites", name)
        if self.kind == "classification" and self.classes is None:
            raise InvalidInput("classes=None: sites cannot compare labels; declare the classes")
        ours = sorted(set(self.settings) & set(_OURS))
        if ours:
            raise InvalidInput(f"settings: {ours[0]} is each party's own affair; leave it out")
        if self.sources and not 0 < len(self.speakers) < len(self.sites):
            raise InvalidInput(
                f"sources={self.sources!r}: a transfer goes from one site at least to another at "
                f"least, of {self.sites!r}"
            )
        if self.counts is not None and len(self.counts) != len(self.speakers):
            raise InvalidInput(f"counts: {len(self.counts)} for {len(self.speakers)} sites")

    @property
    def speakers(self) -> tuple[str, ...]:
        """Who sends messages, in order of position: the sources of a transfer, else every site."""
        return tuple(name for name in self.sites if not self.sources or name in self.sources)

    def _estimator_class(self) -> Any:
        if not self.sources and self.method not in TRANSFERS:
            return estimator_class(self.method, self.kind)
        if not self.sources or self.method not in TRANSFERS:
            raise InvalidInput(
                f"sources={self.sources!r}, method={self.method!r}: {' and '.join(TRANSFERS)} have "
                "sources, other methods have none"
            )
        if self.kind != "classification":
            raise InvalidInput(f"kind={self.kind!r}: {self.method} learns classes; declare them")
        return TRANSFERS[self.method]

    @cached_property
    def estimator(self) -> Any:
        """A fresh estimator with these settings, checked."""
        kind = self._estimator_class()
        known = kind._get_param_names()
        unknown = sorted(set(self.settings) - set(known))
        if unknown:
            raise InvalidInput(
                f"settings: {self.method} has no parameter {unknown[0]!r}; it has "
                f"{', '.join(name for name in known if name not in _OURS)}"
            )
        if not issubclass(kind, PrivateEstimator):
            raise InvalidInput(f"method={self.method!r}: sends nothing; run it at every site")
        classes = {} if self.classes is None else {"classes": self.classes}
        made = kind(**self.settings, **classes)
        made._check_parameters()
        if not made._private:
            raise InvalidInput("epsilon=inf: a federated run is private; give a finite epsilon")
        if made._protects_rows and (self.intake or {}).get("missing") == "drop":
            made._not_protected = (*made._not_protected, ROWS_LEFT_OUT)
        return made

    @property
    def counted(self) -> bool:
        """Whether the method declares the numbers of rows public."""
        return bool(self.estimator._unit is Unit.ROW)

    @property
    def seeded(self) -> bool:
        """Whether the noise can be repeated, so that nobody is protected."""
        return self.settings.get("random_state") is not None

    def staged(self) -> Staged:
        """Return estimator, protocol and schedule; counts must be known where they are public."""
        if self.counted and self.counts is None:
            raise InvalidInput("counts=None: the sites have not said how many rows they have")
        n_outputs = 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)
        counts = self.counts if self.counted else None
        sizes = Sizes(
            len(self.speakers),
            len(self.features),
            n_outputs,
            None if counts is None else sum(counts),
            counts,
        )
        stage = self.estimator._source_staged if self.sources else self.estimator._staged
        staged = Staged(self.estimator, sizes, *stage(sizes))
        for round in staged.schedule.rounds:
            if not isinstance(round.cohort, Everyone) and not round.by_row:
                raise InvalidInput(
                    f"round {round.name!r}: who is asked shows on the network, so that a cohort "
                    "hides nobody; let everybody join every round"
                )
        return staged

    def supposing(self, n_rows: int) -> Terms:
        """Return terms in which every speaker has ``n_rows`` rows, to show what they would mean."""
        return replace(self, counts=(n_rows,) * len(self.speakers)) if self.counted else self

    @cached_property
    def digest(self) -> str:
        """Hash of all of it, by which parties know that they speak of the same run."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @property
    def charter(self) -> str:
        """Hash of what stays the same from run to run: all but identity, roster and counts."""
        body = asdict(self)
        for name in ("run", "sites", "counts"):
            del body[name]
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> str:
        """Return the terms as canonical JSON."""
        body = {"schema": SCHEMA, **asdict(self)}
        return json.dumps(body, sort_keys=True, ensure_ascii=False, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Terms:
        """Return the terms that `to_json` wrote; anything else is refused."""
        try:
            body = json.loads(text)
        except ValueError as error:
            raise InvalidInput(f"terms: not JSON ({error})") from None
        if not isinstance(body, dict) or body.pop("schema", None) != SCHEMA:
            raise InvalidInput(f"terms: must be JSON of schema {SCHEMA}")
        unknown = set(body) ^ {part.name for part in fields(cls)}
        if unknown:
            raise InvalidInput(f"terms: unknown or missing fields {sorted(unknown)}")
        return cls(**body)

    def save(self, path: Path) -> None:
        """Write the terms, whole."""
        write_whole(path, self.to_json() + "\n")

    @classmethod
    def load(cls, path: Path) -> Terms:
        """Read the terms."""
        return cls.from_json(path.read_text(encoding="utf-8"))
