"""``tacit transfer``: a private package at one party, a model that continues from it at another."""

from __future__ import annotations

import contextlib
import functools
import json as json_text
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli._options import Encoding, Format, Separator, number_or_auto
from tacit.cli._output import Json, Quiet, begin, current
from tacit.errors import InvalidInput, ModelFileError

if TYPE_CHECKING:
    from tacit.cli.table.features import Intake
    from tacit.cli.table.prepare import Prepared
    from tacit.cli.table.read import Table
    from tacit.privacy.statement import Statement
    from tacit.transfer.package import SourcePackage

__all__ = ["transfer"]

transfer = typer.Typer(
    help="Learn from another organisation's private package; single rows are protected.",
    no_args_is_help=True,
)

PARTY = "party"
_METHODS = {"feature-split": "FeatureSplitTransferClassifier", "whole": "TransferClassifier"}
# What source and target must have in common, besides the columns.
_DESIGN = ("row_norm", "rows", "fit_intercept", "intercept_scaling")
_SPLIT = ("importance", "split", "n_groups", "split_seed")

Data = Annotated[Path, typer.Argument(metavar="DATA", help="The party's own rows.")]
Target = Annotated[str, typer.Option(help="Column to learn: a class.")]
Missing = Annotated[
    str, typer.Option(help="Missing values: error, drop (the row), or a public number.")
]
Epsilon = Annotated[float, typer.Option(help="Privacy budget of one row; inf for none.")]
RowDelta = Annotated[
    str | None, typer.Option(help="A number, 0 (the default) for pure ε, or auto: 1/rows².")
]
LedgerPath = Annotated[
    Path | None, typer.Option(help="Ledger to charge; default: the one that guards these rows.")
]
DataName = Annotated[str | None, typer.Option(help="The ledger's name for these rows.")]
Seed = Annotated[int | None, typer.Option(help="Repeatable noise: for tests, NOT private.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what is in the folder.")]


@transfer.command("source")
def source(
    data: Data,
    target: Target,
    out: Annotated[Path, typer.Option(help="Folder of the package to hand over.")],
    features: Annotated[
        str | None, typer.Option(help="Columns to learn from, a,b,c; default: all others.")
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="a,b: the publicly known classes of the target.")
    ] = None,
    categories: Annotated[
        list[str] | None, typer.Option(help="column=a,b,c: a text column's categories.")
    ] = None,
    range: Annotated[  # noqa: A002 - the option is --range
        list[str] | None,
        typer.Option(help="column=low:high: publicly known range, brought to -1 … 1."),
    ] = None,
    importance: Annotated[
        list[str] | None,
        typer.Option(help="column=weight: publicly known importance; others weigh 1."),
    ] = None,
    groups: Annotated[
        int, typer.Option(min=1, help="Feature groups, a private model each; 1: one model.")
    ] = 5,
    missing: Missing = "error",
    epsilon: Epsilon = 1.0,
    delta: RowDelta = None,
    ledger: LedgerPath = None,
    data_name: DataName = None,
    seed: Seed = None,
    force: Force = False,
    format: Format = None,  # noqa: A002 - the word users know
    separator: Separator = None,
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Learn the source's private models and write them as a package for other parties.

    Example: tacit transfer source clinic.csv --target ill --range age=0:100 --out package/
    """
    output = begin(quiet=quiet, as_json=json)
    import tacit
    from tacit.cli.run.folder import RunFolder
    from tacit.cli.table.target import given_classes

    table = _read(data, format, separator, encoding)
    intake = _intake(table, target, features, categories, range, missing)
    rows = _prepared(table, intake, given_classes(classes, "auto"))
    settings: dict[str, Any] = {"method": "feature-split" if groups > 1 else "whole"}
    if groups > 1:
        settings |= {"n_groups": groups, "importance": _importance(importance or [], intake)}
    elif importance:
        raise InvalidInput("--importance: weighs feature groups; give --groups 2 or more")
    given = {"epsilon": epsilon, "delta": _delta(delta), "data": data_name, "random_state": seed}
    model = _estimator(tacit, settings, given, rows.declared)
    with RunFolder(out, force=force) as folder:
        charged = _charged(model, table, data, ledger, len(rows.y))
        with charged, output.step("learning the package"), output.warnings_as_lines():
            package = model.fit_source(rows.X, rows.y)
        package = replace(
            package,
            statement=_stated(package.statement, intake),
            about={"intake": intake.to_json(), "settings": settings},
            digest="",
        )
        package.save(folder.stage)
        folder.write("statement.json", package.statement.to_json() + "\n")
        folder.commit()
    output.show(
        f"{len(rows.y)} rows, {rows.X.shape[1]} features, {package.design.n_groups} groups",
        package.statement.explain(),
        f"hand over {out} and tell the digest by another way: {package.digest}",
    )
    _warn(package.statement)
    output.result(
        {
            "package": str(out),
            "digest": package.digest,
            "n_groups": package.design.n_groups,
            "statement": json_text.loads(package.statement.to_json()),
        }
    )


@transfer.command("target")
def target_command(
    data: Data,
    source: Annotated[
        list[Path], typer.Option(help="Package folder of a source; may be repeated.")
    ],
    out: Annotated[Path, typer.Option(help="Run folder to write.")] = Path("run"),
    digest: Annotated[
        list[str] | None, typer.Option(help="The digest each source told, in the same order.")
    ] = None,
    name: Annotated[str, typer.Option(help="This party's name in the report.")] = "target",
    test_size: Annotated[
        float | None, typer.Option(help="Share of the rows to test on, kept out of the fit.")
    ] = None,
    missing: Missing = "error",
    epsilon: Epsilon = 1.0,
    delta: RowDelta = None,
    ledger: LedgerPath = None,
    data_name: DataName = None,
    seed: Seed = None,
    force: Force = False,
    format: Format = None,  # noqa: A002 - the word users know
    separator: Separator = None,
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Learn this party's model, continuing from the packages; write a run folder with a report.

    Columns, ranges, categories and classes are the source's; what is missing, and what becomes of
    it, is this party's own choice. Use the run with tacit predict.

    Example: tacit transfer target ward.csv --source package/ --epsilon 1 --out run/
    """
    output = begin(quiet=quiet, as_json=json)
    import numpy as np

    import tacit
    from tacit.cli.run.evaluate import hold_out
    from tacit.cli.run.folder import RunFolder, table_csv, write_intake
    from tacit.cli.run.report_page import write_page

    told: list[str | None] = [*digest] if digest else [None] * len(source)
    if len(told) != len(source):
        raise InvalidInput(f"--digest: {len(told)} given for {len(source)} sources; one each")
    opened = [_opened(path, word) for path, word in zip(source, told, strict=True)]
    packages = [package for package, _, _ in opened]
    _, intake, settings = opened[0]
    rule, marks = _rule(missing)
    intake = replace(intake, missing=rule, marks=marks)  # of own rows, whatever a package says
    table = _read(data, format, separator, encoding)
    known = tuple(packages[0].classes.tolist())
    everything = _prepared(table, intake, known, name=name)
    rows, test = everything, None
    if test_size is not None:
        rows, test = hold_out(everything, test_size)
    given = {"epsilon": epsilon, "delta": _delta(delta), "data": data_name, "random_state": seed}
    model = _estimator(tacit, settings, given, known)
    with RunFolder(out, force=force) as folder:
        charged = _charged(model, table, data, ledger, len(rows.y))
        with charged, output.step("continuing from the source"), output.warnings_as_lines():
            model.fit(rows.X, rows.y, source=packages, tasks=rows.tasks)
        model.privacy_ = _stated(model.privacy_, intake)
        scores = None if test is None else _scores(model, packages, test)
        model.feature_names_in_ = np.array(intake.feature_names, dtype=object)
        model.save(folder.stage)
        write_intake(folder.stage, intake, rows.fill, (name,), rows.kind, settings["method"])
        folder.write("statement.json", model.privacy_.to_json() + "\n")
        folder.write("history.csv", table_csv(model.history_))
        write_page(model, folder.stage / "report.html", party=name)
        folder.commit()
    output.show(f"{len(rows.y)} rows, {len(packages)} source(s)", model.privacy_.explain())
    for label, score in (scores or {}).items():
        output.show(f"held-out AUC, {label}: {score:.4f}")
    output.show(f"run folder: {out}")
    _warn(model.privacy_)
    output.result(
        {
            "run": str(out),
            "report": str(out / "report.html"),
            "held_out_auc": scores,
            "statement": json_text.loads(model.privacy_.to_json()),
            "sources": [json_text.loads(package.statement.to_json()) for package in packages],
        }
    )


def _stated(statement: Statement, intake: Intake) -> Statement:
    """Add what follows from how the file was read."""
    from tacit.privacy.statement import ROWS_LEFT_OUT

    if intake.missing != "drop" or not statement.private:
        return statement
    return replace(statement, not_protected=(*statement.not_protected, ROWS_LEFT_OUT))


def _warn(statement: Any) -> None:
    if not statement.holds:
        current().warn("this is NOT private; see the statement")


def _delta(given: str | None) -> Any:
    return 0.0 if given is None else number_or_auto("--delta", given)


def _read(path: Path, format: str | None, separator: str | None, encoding: str) -> Table:  # noqa: A002
    from tacit.cli.fit import text_encoding
    from tacit.cli.table.read import read_table

    return read_table(path, format=format, separator=separator, encoding=text_encoding(encoding))


def _intake(
    table: Table,
    target: str,
    features: str | None,
    categories: list[str] | None,
    ranges: list[str] | None,
    missing: str,
) -> Intake:
    from tacit.cli.table.features import Intake
    from tacit.cli.table.given import (
        choose_features,
        given_categories,
        given_ranges,
    )

    rule, marks = _rule(missing)
    table.column(target, "--target")
    columns = choose_features(
        table,
        task=PARTY,
        target=target,
        chosen=[part.strip() for part in (features or "").split(",") if part.strip()],
        dropped=(),
        categories=given_categories(categories or ()),
        public=(),
        ranges=given_ranges(ranges or ()),
        dates={},
        outside="clip",
        marks=marks,
    )
    return Intake(PARTY, target, columns, rule, marks)


def _rule(missing: str) -> tuple[str | float, tuple[str, ...]]:
    """Return the rule for missing values and the words that mean missing; no means of rows."""
    from tacit.cli.table.given import given_missing

    rule, marks = given_missing([missing])
    if rule == "task-mean":
        raise InvalidInput(
            "--missing task-mean: single rows are protected here, and a mean of rows would cost "
            "budget; choose error, drop or a public number"
        )
    return rule, marks


def _prepared(
    table: Table, intake: Intake, classes: tuple[Any, ...] | None, *, name: str = "source"
) -> Prepared:
    """Return the rows of one party: every row of the file is its own."""
    from tacit.cli.table.prepare import prepare
    from tacit.cli.table.read import Table

    cells = {**table.columns, intake.task: [name] * table.n_rows}
    own = Table(table.source, cells, table.n_rows, table.first_row)
    kind = "auto" if classes is not None else "multiclass"
    return prepare(own, intake, kind=kind, classes=classes)


def _importance(entries: list[str], intake: Intake) -> list[float] | None:
    """Return the importances of all features, summing to 1; None if none were given."""
    if not entries:
        return None
    weights = {}
    for entry in entries:
        column, _, weight = entry.partition("=")
        try:
            weights[column] = float(weight)
        except ValueError:
            raise InvalidInput(f"--importance {entry!r}: write it as column=weight") from None
    known = {feature.column for feature in intake.features}
    for column, number in weights.items():
        if column not in known or not 0 <= number < math.inf:
            raise InvalidInput(f"--importance {column}={number:g}: a feature, and at least 0")
    # A column of several indicators shares its weight among them.
    shares = [
        weights.get(feature.column, 1.0) / len(feature.names)
        for feature in intake.features
        for _ in feature.names
    ]
    if sum(shares) == 0:
        raise InvalidInput("--importance: all weights are 0; give one that is not")
    return [share / sum(shares) for share in shares]


def _estimator(
    tacit: Any, settings: dict[str, Any], given: dict[str, Any], classes: tuple[Any, ...] | None
) -> Any:
    kept = {k: v for k, v in settings.items() if k in (*_SPLIT, *_DESIGN) and v is not None}
    model = getattr(tacit, _METHODS[settings["method"]])(**kept, **given)
    if classes is not None:
        model.set_params(classes=list(classes))
    model._check_parameters()
    return model


@contextlib.contextmanager
def _charged(
    model: Any, table: Table, data: Path, named: Path | None, n_rows: int
) -> Iterator[None]:
    """Give the model the ledger that guards these rows: named, known, or beside the data."""
    from tacit.cli.guard.choice import Asked, Guard
    from tacit.estimators._private import default_delta

    if math.isinf(model.epsilon):
        if named is not None:
            raise InvalidInput("--ledger: a run with --epsilon inf is not accounted; leave it out")
        yield
        return
    delta = default_delta(n_rows) if model.delta == "auto" else float(model.delta)
    pieces = functools.partial(iter, (table.columns,))
    asked = Asked(data, pieces, None, named, called=model.data)
    with Guard(asked, (float(model.epsilon), delta)) as guard:
        model.ledger = guard.ledger
        yield


def _opened(path: Path, digest: str | None) -> tuple[SourcePackage, Intake, dict[str, Any]]:
    """Return a package with how its columns were read and its public settings.

    Guarantee: both are under the package's digest.
    """
    from tacit.cli.table.features import Intake
    from tacit.transfer.package import SourcePackage

    package = SourcePackage.load(path, digest=digest)
    about = package.about
    try:
        intake, settings = Intake.from_json(about["intake"]), about["settings"]
        method = settings["method"]
    except (KeyError, TypeError, InvalidInput) as error:
        raise ModelFileError(
            f"{path}: does not say how files become its features ({error}); use a package written "
            "by tacit transfer source of this version"
        ) from error
    if method not in _METHODS:
        raise ModelFileError(f"{path}: names the unknown method {method!r}")
    return package, intake, settings


def _scores(model: Any, packages: list[SourcePackage], test: Prepared) -> dict[str, float]:
    """Return held-out AUCs of the model and of the sources' own models, for two classes."""
    from sklearn.metrics import roc_auc_score

    if len(model.classes_) != 2 or len(set(test.y.tolist())) < 2:
        return {}
    positive = test.y == model.classes_[1]
    found = {"this model": model.decision_function(test.X, tasks=test.tasks)}
    for number, package in enumerate(packages, start=1):
        found[f"source {number} alone"] = package.decision_function(test.X)
    return {label: float(roc_auc_score(positive, scores)) for label, scores in found.items()}
