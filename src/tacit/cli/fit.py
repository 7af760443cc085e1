"""``tacit fit``: from a file of many parties' rows to a run folder."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli._options import (
    Delta,
    Encoding,
    Format,
    Separator,
    candidates_of,
    number_or_auto,
    settings_of,
)
from tacit.cli._output import Json, Quiet, begin, current
from tacit.cli.run.config import read_config, read_unfinished
from tacit.errors import InvalidInput

if TYPE_CHECKING:
    from tacit.cli.table.features import Intake
    from tacit.cli.table.read import Table as Cells

__all__ = ["DATA_PANEL", "fit", "read_rows", "text_encoding"]

DATA_PANEL = _DATA = "Data"
_PRIVACY = "Privacy"
_RESULT = "Result"


def fit(
    context: typer.Context,
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="CSV, TSV, JSON-lines or Parquet file.")
    ],
    task: Annotated[
        str, typer.Option(help="Column that says whose row it is.", rich_help_panel=_DATA)
    ],
    target: Annotated[str, typer.Option(help="Column to learn.", rich_help_panel=_DATA)],
    features: Annotated[
        list[str] | None,
        typer.Option(help="Columns to learn from, a,b,c; default: all.", rich_help_panel=_DATA),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="Columns to leave out, a,b,c.", rich_help_panel=_DATA),
    ] = None,
    kind: Annotated[
        str,
        typer.Option(
            help="auto (text or two values: classes; else a number), regression, binary or "
            "multiclass.",
            rich_help_panel=_DATA,
        ),
    ] = "auto",
    classes: Annotated[
        str | None,
        typer.Option(
            help="a,b,c: the target's publicly known classes; any other label counts as the last.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    categories: Annotated[
        list[str] | None,
        typer.Option(help="column=a,b,c: a text column's categories.", rich_help_panel=_DATA),
    ] = None,
    public_categories: Annotated[
        list[str] | None,
        typer.Option(
            help="Text column whose categories in the file are public.", rich_help_panel=_DATA
        ),
    ] = None,
    range: Annotated[  # noqa: A002 - the option is --range
        list[str] | None,
        typer.Option(
            help="column=low:high: publicly known range of a number, brought to -1 … 1; noise is "
            "the same for all features, so bring them to one size.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    outside: Annotated[
        str,
        typer.Option(
            help="Values beyond their --range: keep, clip or error.", rich_help_panel=_DATA
        ),
    ] = "keep",
    dates: Annotated[
        list[str] | None,
        typer.Option(
            help="column, or column=%d/%m/%Y: dates, which become days; give their --range, too.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(
            help="Words that mean missing, NA,null (empty cells always do); and what to do: "
            "task-mean (of the task's own rows, the default; free with the task as unit), error, "
            "drop (the row), or a public number.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    format: Format = None,  # noqa: A002 - the word users know
    separator: Separator = None,
    encoding: Encoding = "utf-8",
    method: Annotated[str, typer.Option(help="See: tacit methods.")] = "shared-prior",
    epsilon: Annotated[
        float | None,
        typer.Option(help="Privacy budget (default 1); inf for none.", rich_help_panel=_PRIVACY),
    ] = None,
    delta: Delta = None,
    mechanism: Annotated[
        str | None, typer.Option(help="Kind of noise.", rich_help_panel=_PRIVACY)
    ] = None,
    clip: Annotated[
        str | None,
        typer.Option(help="Public radius of a message, or auto.", rich_help_panel=_PRIVACY),
    ] = None,
    rounds: Annotated[
        str | None, typer.Option(help="Number of releases, or auto.", rich_help_panel=_PRIVACY)
    ] = None,
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Ledger to charge (see: tacit ledger create); default: TACIT_LEDGER, else the one "
            "that guards these rows, else DATA.ledger.db, made with the total of this run.",
            rich_help_panel=_PRIVACY,
        ),
    ] = None,
    new_ledger: Annotated[
        str | None,
        typer.Option(
            help="Reason for another ledger though one guards these rows; it is recorded.",
            rich_help_panel=_PRIVACY,
        ),
    ] = None,
    data_name: Annotated[
        str | None,
        typer.Option(
            help="The ledger's name for these rows, which share none with data of another name; "
            "a run without a name counts on every line.",
            rich_help_panel=_PRIVACY,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Repeatable noise: for tests, NOT private.", rich_help_panel=_PRIVACY),
    ] = None,
    unknown_task: Annotated[
        str | None,
        typer.Option(help="error, or shared: learn a model for tasks not seen, too."),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Where tasks are worked on: local, ray (processes of this machine) or "
            "ray://host:port (a cluster that sees DATA and --out at the same place)."
        ),
    ] = None,
    set: Annotated[  # noqa: A002 - the option is --set
        list[str] | None, typer.Option(help="name=value: any other parameter of the method.")
    ] = None,
    tune: Annotated[
        list[str] | None,
        typer.Option(
            help="name=a,b,c: choose a parameter by accounted private selection; the budget pays "
            "for the search and the model together.",
            rich_help_panel=_PRIVACY,
        ),
    ] = None,
    test_size: Annotated[
        float | None,
        typer.Option(help="Share of every task's rows to test on.", rich_help_panel=_RESULT),
    ] = None,
    out: Annotated[Path, typer.Option(help="Run folder to write.", rich_help_panel=_RESULT)] = Path(
        "run"
    ),
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace the run in the folder.", rich_help_panel=_RESULT),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Print plan and statement; spend and write nothing.",
            rich_help_panel=_RESULT,
        ),
    ] = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            "-y",
            help="Fit although the plan says that nobody can gain.",
            rich_help_panel=_RESULT,
        ),
    ] = False,
    config: Annotated[
        Path | None,
        typer.Option(help="config.toml of a run.", callback=read_config, is_eager=True),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Run folder of a fit that was interrupted: go on with it.",
            callback=read_unfinished,
            is_eager=True,
            rich_help_panel=_RESULT,
        ),
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Learn one model per task, together and in private; write the run folder.

    Example: tacit fit exam.csv --task school --target score --epsilon 1 --out run/
    """
    begin(quiet=quiet, as_json=json)
    asked = {**locals()}
    _refuse_changes(context)
    from tacit.cli.guard.fingerprint import parquet_pieces
    from tacit.cli.run import fitting as _fit_run
    from tacit.cli.run.folder import version_of
    from tacit.cli.run.show import show, show_rehearsal

    seen, prepared = version_of(data), _streamed(asked)
    pieces = functools.partial(parquet_pieces, data)
    if prepared is None:
        prepared, columns = read_rows(asked)
        pieces = functools.partial(iter, (columns.columns,))
    intake = prepared.intake
    request = _fit_run.Request(
        method=method,
        given={
            "epsilon": epsilon,
            "delta": number_or_auto("--delta", delta),
            "mechanism": mechanism,
            "clip": number_or_auto("--clip", clip),
            "n_rounds": number_or_auto("--rounds", rounds, int),
            "data": data_name,
            "random_state": seed,
            "unknown_task": unknown_task,
            "engine": engine,
            "classes": prepared.declared,
        },
        extra=settings_of(set or ()),
        out=out,
        force=force,
        ledger=ledger,
        test_size=test_size,
        tune=candidates_of(tune or ()),
        public=tuple(
            f"the {word} of {f.column!r}"
            for f in intake.features
            for word, known in (("categories", f.categories), ("range", f.range))
            if known is not None
        ),
        kind_read=kind == "auto" and prepared.declared is None,
        drops=intake.missing == "drop",
        settings=_settings(asked, prepared.kind),
        data=data,
        seen=seen,
        pieces=pieces,
        new_ledger=new_ledger,
        kind_asked=kind,
        resume=resume is not None,
        yes=yes,
    )
    if dry_run:
        show_rehearsal(_fit_run.dry_run(request, prepared))
    else:
        show(_fit_run.run(request, prepared), request)


def read_rows(asked: dict[str, Any]) -> tuple[Any, Cells]:
    """Read the file that the options name into memory; return rows made ready, and its cells."""
    from tacit.cli.table.read import read_table

    with current().step(f"reading {asked['data']}"):
        columns = read_table(
            asked["data"],
            format=asked["format"],
            separator=asked["separator"],
            encoding=text_encoding(asked["encoding"]),
        )
        return _prepared(columns, _intake(columns, asked), asked), columns


def text_encoding(encoding: str) -> str:
    """Return the codec: plain UTF-8 may begin with a byte-order mark."""
    # A byte-order mark is part of neither the header nor the first column's name.
    return "utf-8-sig" if encoding.lower() in ("utf-8", "utf8") else encoding


def _intake(columns: Cells, asked: dict[str, Any]) -> Intake:
    from tacit.cli.table.features import Intake
    from tacit.cli.table.given import (
        choose_features,
        given_categories,
        given_dates,
        given_missing,
        given_outside,
        given_ranges,
    )

    def listed(option: str) -> list[str]:
        """Split at commas what is not itself a column's name."""
        entries: list[str] = asked[option] or []
        return [
            part.strip()
            for entry in entries
            for part in ([entry] if entry in columns.columns else entry.split(","))
            if part.strip()
        ]

    columns.column(asked["task"], "--task")
    columns.column(asked["target"], "--target")
    rule, marks = given_missing(asked["missing"] or ())
    features = choose_features(
        columns,
        task=asked["task"],
        target=asked["target"],
        chosen=listed("features"),
        dropped=listed("drop"),
        categories=given_categories(asked["categories"] or ()),
        public=listed("public_categories"),
        ranges=given_ranges(asked["range"] or ()),
        dates=given_dates(asked["dates"] or ()),
        outside=given_outside(asked["outside"]),
        marks=marks,
    )
    return Intake(asked["task"], asked["target"], features, rule, marks)


def _streamed(asked: dict[str, Any]) -> Any:
    """Return the rows of a parquet file that is learned from in batches; None to read it whole."""
    from tacit.cli.run.methods import reads_batches
    from tacit.cli.table.read import format_of
    from tacit.cli.table.stream import NeedsMemory, columns_of, streamed

    data: Path = asked["data"]
    if not data.is_file() or not data.stat().st_size:
        return None
    if format_of(data, asked["format"]) != "parquet":
        return None
    try:
        for option in ("tune", "test_size"):
            if asked[option]:
                raise NeedsMemory(f"--{option.replace('_', '-')} needs all rows at once")
        _check_method(asked["method"])
        if not reads_batches(asked["method"], asked["epsilon"]):
            raise NeedsMemory(f"{asked['method']} learns from all rows at once")
        return streamed(data, _intake(columns_of(data), asked), **_reading(asked))
    except NeedsMemory as reason:
        current().note(f"{data.name} is read into memory: {reason}")
        return None


def _check_method(method: str) -> None:
    from tacit.cli.run.methods import methods

    if method not in methods():
        raise InvalidInput(
            f"--method {method!r}: must be one of {', '.join(methods())}; see: tacit methods"
        )


def _reading(asked: dict[str, Any]) -> dict[str, Any]:
    """Return how target and tasks are to be read."""
    from tacit.cli.table.target import check_kind, given_classes

    check_kind(asked["kind"])
    alone = asked["method"] in ("single-task", "pooled") or asked["epsilon"] == math.inf
    return {
        "kind": asked["kind"],
        "classes": given_classes(asked["classes"], asked["kind"]),
        "minimum_tasks": 1 if alone else 2,
    }


def _prepared(columns: Cells, intake: Intake, asked: dict[str, Any]) -> Any:
    from tacit.cli.table.prepare import prepare
    from tacit.cli.table.stands_out import warn_of_columns

    _check_method(asked["method"])
    reading = _reading(asked)
    prepared = prepare(columns, intake, **reading)
    warn_of_columns(columns, intake, reading["classes"])
    return prepared


def _refuse_changes(context: typer.Context) -> None:
    """Refuse other settings beside --resume: the run goes on as it began."""
    if context.params["resume"] is None:
        return
    free = ("resume", "quiet", "json")
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if name not in free and source is not None and source.name == "COMMANDLINE":
            raise InvalidInput(
                f"--resume: goes on with the settings of the run; leave out {parameter.opts[-1]}"
            )


def _settings(asked: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return what config.toml keeps: the options of this run, paths made absolute."""
    left_out = ("context", "out", "force", "dry_run", "config", "resume", "yes", "quiet", "json")
    kept = {name: value for name, value in asked.items() if name not in left_out}
    for name in ("data", "ledger"):
        if kept[name] is not None:
            kept[name] = str(Path(kept[name]).absolute())
    return {**kept, "kind": kind}
