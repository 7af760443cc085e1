"""The statement: what a finished run guarantees, to whom, against whom, and what it does not."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from tacit import _check
from tacit.errors import InvalidInput
from tacit.privacy._chain import finite_or_text
from tacit.privacy.accounting.composition import ACCOUNTANTS, compose
from tacit.privacy.accounting.filters import RULES
from tacit.privacy.accounting.gaussian import check_delta
from tacit.privacy.unit import Adjacency, Unit

if TYPE_CHECKING:
    from tacit.privacy.billboard import Billboard

__all__ = ["ROWS_LEFT_OUT", "Statement"]

SCHEMA_VERSION = 1
DEFINITIONS = ("joint differential privacy", "differential privacy", "none")
CURATORS = ("trusted", "secure sums", "untrusted", "none")
ROWS_LEFT_OUT = (
    "whether a row has missing values: such rows are left out, and the number of rows is public; "
    "fill them with a public number to have that protected as well"
)
_TUNING = (
    "choices made by looking at the private data outside this run, such as tuning or choosing "
    "features, unless they are listed among the releases"
)


def _delta_warning(delta: float, n_units: int | None) -> tuple[str, ...]:
    if n_units is None or delta < 1 / n_units:
        return ()
    return (
        f"δ = {delta:.3g} is not below 1/{n_units}: a method that publishes one unit's data at "
        "random would meet it; use a δ below 1/m²",
    )


@dataclass(frozen=True)
class Statement:
    """What a finished run guarantees.

    Guarantee: none by itself; it repeats what billboard, ledger and accountant established. With
    ``sound=False`` or ``seeded=True`` it claims nothing, whatever ε says.
    """

    unit: Unit | str
    definition: str
    adjacency: Adjacency | str | None
    epsilon: float
    delta: float
    accountant: str
    mechanisms: tuple[str, ...] = ()
    n_releases: int = 0
    sound: bool = True
    seeded: bool = False
    curator: str = "trusted"
    assumptions: tuple[str, ...] = ()
    not_protected: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    n_units: int | None = None

    def __post_init__(self) -> None:
        """Check every field; texts become tuples, δ ≥ 1/n_units adds its warning."""
        _check.one_of("unit", str(self.unit), tuple(Unit))
        _check.one_of("definition", self.definition, DEFINITIONS)
        _check.one_of("curator", self.curator, CURATORS)
        _check.one_of("accountant", self.accountant, (*ACCOUNTANTS, *RULES, "none"))
        object.__setattr__(self, "unit", Unit(self.unit))
        if self.adjacency is not None:
            _check.one_of("adjacency", str(self.adjacency), tuple(Adjacency))
            object.__setattr__(self, "adjacency", Adjacency(self.adjacency))
        elif self.definition != "none":
            raise InvalidInput("adjacency=None: a private run must say which data are neighbours")
        if self.epsilon != math.inf:
            _check.non_negative("epsilon", self.epsilon, remedy='use float("inf") for no privacy')
        check_delta(self.delta)
        if (
            isinstance(self.n_releases, bool)
            or int(self.n_releases) != self.n_releases
            or self.n_releases < 0
        ):
            raise InvalidInput(f"n_releases={self.n_releases!r}: must be a whole number ≥ 0")
        if self.n_units is not None:
            _check.positive_integer("n_units", self.n_units, remedy="leave it out if unknown")
        for name in ("mechanisms", "assumptions", "not_protected", "warnings"):
            object.__setattr__(self, name, tuple(str(text) for text in getattr(self, name)))
        if self.private:
            new = [w for w in _delta_warning(self.delta, self.n_units) if w not in self.warnings]
            object.__setattr__(self, "warnings", (*self.warnings, *new))

    @property
    def private(self) -> bool:
        """Whether the run claims a finite ε under some definition."""
        return self.definition != "none" and math.isfinite(self.epsilon)

    @property
    def holds(self) -> bool:
        """Whether the claim can be relied on: private, sound, and with secret noise."""
        return self.private and self.sound and not self.seeded

    @classmethod
    def non_private(
        cls,
        *,
        unit: Unit | str = Unit.TASK,
        not_protected: Iterable[str] = (),
        assumptions: Iterable[str] = (),
        n_releases: int = 0,
        n_units: int | None = None,
    ) -> Statement:
        """Return the statement of a run that protects nobody."""
        return cls(
            unit=unit,
            definition="none",
            adjacency=None,
            epsilon=math.inf,
            delta=0.0,
            accountant="none",
            n_releases=n_releases,
            curator="none",
            assumptions=tuple(assumptions),
            not_protected=tuple(not_protected),
            n_units=n_units,
        )

    @classmethod
    def of_nothing(
        cls,
        unit: Unit | str,
        definition: str,
        adjacency: Adjacency | str,
        *,
        n_units: int | None = None,
    ) -> Statement:
        """Return the statement of a run in which nothing left a unit."""
        return cls(
            unit=unit,
            definition=definition,
            adjacency=adjacency,
            epsilon=0.0,
            delta=0.0,
            accountant="none",
            curator="none",
            n_units=n_units,
        )

    @classmethod
    def of_run(
        cls,
        billboard: Billboard,
        *,
        unit: Unit | str,
        adjacency: Adjacency | str,
        delta: float,
        definition: str = "auto",
        curator: str = "trusted",
        accountant: str = "auto",
        n_units: int | None = None,
        mechanisms: Iterable[str] | None = None,
        assumptions: Iterable[str] = (),
        not_protected: Iterable[str] = (),
    ) -> Statement:
        """State what a finished run guarantees, from its billboard.

        Guarantee: ε is the tight cost at ``delta`` of exactly the releases on the billboard, whose
        noise was fixed in advance; a turn that tasks take one by one counts once, as the parts of
        different tasks compose in parallel (`Billboard`). Of an empty billboard others learn
        nothing: ε = δ = 0.

        Parameters
        ----------
        definition : str
            ``"auto"``: joint DP if the unit is the task, else DP.
        mechanisms : iterable of str, optional
            By default the part of each posting's label after the last ``": "``.
        """
        postings = [posting for posting in billboard.charged if posting.unit == unit]
        cost = compose(
            [posting.event for posting in postings],
            delta=delta,
            accountant=accountant,
            adjacency=adjacency,
        )
        if math.isinf(cost.epsilon):
            return cls.non_private(
                unit=unit,
                assumptions=assumptions,
                not_protected=not_protected,
                n_releases=len(postings),
                n_units=n_units,
            )
        if definition == "auto":
            definition = DEFINITIONS[0 if Unit(unit) is Unit.TASK else 1]
        if not len(billboard):
            return cls.of_nothing(unit, definition, adjacency, n_units=n_units)
        named = (
            mechanisms
            if mechanisms is not None
            else (p.label.rsplit(": ", 1)[-1] for p in postings)
        )
        return cls(
            unit=unit,
            definition=definition,
            adjacency=adjacency,
            epsilon=cost.epsilon,
            delta=cost.delta,
            accountant=cost.accountant,
            mechanisms=tuple(dict.fromkeys(name for name in named if name)),
            n_releases=len(postings),
            sound=billboard.sound,
            seeded=billboard.seeded,
            curator=curator,
            assumptions=tuple(assumptions),
            not_protected=(_TUNING, *not_protected),
            n_units=n_units,
        )

    def to_json(self) -> str:
        """Return the statement as JSON with its schema version."""
        body: dict[str, Any] = {"schema": SCHEMA_VERSION, **asdict(self)}
        body["epsilon"] = finite_or_text(self.epsilon)
        return json.dumps(body, sort_keys=True, ensure_ascii=False, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Statement:
        """Return the statement that `to_json` wrote; anything else is refused."""
        try:
            body = json.loads(text)
        except ValueError as error:
            raise InvalidInput(f"statement: not JSON ({error}); use Statement.to_json") from error
        if not isinstance(body, dict) or body.pop("schema", None) != SCHEMA_VERSION:
            raise InvalidInput(f"statement: must be JSON of schema {SCHEMA_VERSION}")
        names = {field.name for field in fields(cls)}
        if set(body) != names:
            raise InvalidInput(
                f"statement: unknown or missing fields {sorted(set(body) ^ names)}; the text was "
                "edited or comes from another version"
            )
        for name in ("sound", "seeded"):
            if not isinstance(body[name], bool):
                raise InvalidInput(f"{name}={body[name]!r}: must be true or false")
        if body["epsilon"] == "inf":
            body["epsilon"] = math.inf
        return cls(**body)

    def explain(self) -> str:
        """Return a paragraph of plain English for a privacy officer."""
        from tacit.privacy._explain import explain

        return explain(self)

    def __str__(self) -> str:
        return self.explain()
