"""Terms from options: what ``init`` and ``simulate`` share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.errors import InvalidInput

if TYPE_CHECKING:
    from tacit.federation import Terms

__all__ = ["Categories", "Classes", "Deadline", "Features", "Late", "Method", "Missing", "Ranges"]
__all__ += ["Seed", "Set", "Sources", "listed", "need_extra", "terms_of"]

Method = Annotated[
    str, typer.Option(help="See: tacit methods; or transfer, feature-split-transfer.")
]
Features = Annotated[list[str], typer.Option(help="Columns to learn from, a,b,c.")]
Classes = Annotated[
    str | None,
    typer.Option(help="a,b,c: publicly known classes; without them a number is learned."),
]
Categories = Annotated[
    list[str] | None, typer.Option(help="column=a,b,c: a text column's categories.")
]
Ranges = Annotated[
    list[str] | None,
    typer.Option(help="column=low:high: publicly known range of a number, brought to -1 … 1."),
]
Missing = Annotated[
    str, typer.Option(help="Missing values: drop (the row), error, task-mean, or a public number.")
]
Set = Annotated[
    list[str] | None, typer.Option(help="name=value: any other parameter of the method.")
]
Sources = Annotated[
    list[str] | None,
    typer.Option(help="a,b: sites of --method transfer that send; the others learn from them."),
]
Deadline = Annotated[float, typer.Option(help="Seconds that a round waits for its last site.")]
Late = Annotated[
    str,
    typer.Option(help="What happens then: stop (and try again), or 'go on' without the site."),
]
Seed = Annotated[
    int | None, typer.Option(help="Repeatable noise: for tests, NOT private; sites refuse it.")
]


def need_extra() -> None:
    """Raise unless the extra ``federation`` is installed."""
    from importlib.util import find_spec

    if not all(map(find_spec, ("nvflare", "cryptography"))):
        raise InvalidInput(
            "federate: needs NVFlare; install it with pip install 'tacit[federation]'"
        )


def listed(entries: Sequence[str] | None) -> tuple[str, ...]:
    """Return comma-separated entries, one by one."""
    return tuple(
        part.strip() for entry in entries or () for part in entry.split(",") if part.strip()
    )


def terms_of(asked: dict[str, Any], sites: tuple[str, ...]) -> Terms:
    """Return the terms that options describe, checked as far as they can be without data."""
    from tacit.cli._options import settings_of
    from tacit.cli.table.features import Feature, Intake
    from tacit.cli.table.given import given_categories, given_missing, given_ranges
    from tacit.cli.table.target import given_classes
    from tacit.federation import Terms, consent

    categories = given_categories(asked["categories"] or ())
    ranges = given_ranges(asked["range"] or ())
    columns = listed(asked["features"])
    for option, known in (("--categories", categories), ("--range", ranges)):
        strange = sorted(set(known) - set(columns))
        if strange:
            raise InvalidInput(f"{option} {strange[0]}: is not among --features")
    features = tuple(Feature(name, categories.get(name), ranges.get(name)) for name in columns)
    rule, marks = given_missing((asked["missing"],))
    intake = Intake(asked["task"], asked["target"], features, rule, marks)
    settings = {
        "epsilon": asked["epsilon"],
        "delta": asked["delta"],
        **settings_of(asked["set"] or ()),
    }
    if asked["seed"] is not None:
        settings["random_state"] = asked["seed"]
    classes = given_classes(asked["classes"], "auto")
    sources = listed(asked["sources"])
    strange = sorted(set(sources) - set(sites))
    if strange:
        raise InvalidInput(f"--sources {strange[0]}: the sites are {', '.join(sites)}")
    terms = Terms(
        method=asked["method"],
        kind="regression" if classes is None else "classification",
        features=intake.feature_names,
        sites=sites,
        settings=settings,
        classes=classes,
        deadline=asked["deadline"],
        late=asked["late"],
        intake=intake.to_json(),
        sources=sources,
    )
    consent(terms.supposing(100))  # refuses what could not run
    return terms
