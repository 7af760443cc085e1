"""``tacit predict``: answers for new rows, with each row's own task's model."""

from __future__ import annotations

import io
import json as json_text
from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tacit._files import write_whole
from tacit.cli._options import Encoding, Format, Party, RunPath, Separator
from tacit.cli._output import Json, Quiet, begin, current
from tacit.cli.table.columns import labels
from tacit.errors import InvalidInput, UnknownTask

if TYPE_CHECKING:
    from tacit._types import Array
    from tacit.cli.table.features import Intake
    from tacit.cli.table.read import Table

__all__ = ["filled", "predict", "rows_of"]


def predict(
    run: RunPath,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="File with new rows.")],
    out: Annotated[
        Path | None, typer.Option(help="csv, tsv, jsonl or parquet file; default: print CSV.")
    ] = None,
    unknown_task: Annotated[
        str, typer.Option(help="Task not seen at fit time: error, or shared for the shared model.")
    ] = "error",
    party: Party = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="Column of the file to copy to the output.")
    ] = None,
    format: Format = None,  # noqa: A002 - the word users know
    separator: Separator = None,
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Predict the target of new rows.

    Example: tacit predict run/ new.csv --out predictions.csv
    """
    output = begin(quiet=quiet, as_json=json)
    from tacit.cli.fit import text_encoding
    from tacit.cli.run.folder import load_run
    from tacit.cli.table.read import FORMATS, read_table

    if unknown_task not in ("error", "shared"):
        raise InvalidInput(f"--unknown-task {unknown_task!r}: must be error or shared")
    if out is not None and out.suffix.lower() not in FORMATS:
        raise InvalidInput(f"--out {out}: must end in {', '.join(FORMATS)}")
    model, intake, fill, _ = load_run(run)
    table = read_table(data, format=format, separator=separator, encoding=text_encoding(encoding))
    model.unknown_task = unknown_task
    table, names = rows_of(table, intake, model, party)
    X = filled(table, intake, fill, names, model)
    answers = _answers(model, X, names)
    copied = {name: table.column(name, "--keep") for name in keep or ()}
    columns: dict[str, list[Any]] = {**copied, intake.task: names, **answers}
    if out is None:
        if not (quiet or json):
            typer.echo(_text(columns, ","), nl=False)
    else:
        _write(out, columns, FORMATS[out.suffix.lower()])
        output.show(f"{len(names)} predictions: {out}")
    output.result(
        {"n_rows": len(names), "out": None if out is None else str(out)}
        | ({} if out is not None else {"predictions": columns})
    )


def rows_of(
    table: Table, intake: Intake, model: Any, party: str | None
) -> tuple[Table, list[Hashable]]:
    """Return the rows to answer and their tasks; a party's own rows only, if one is named."""
    from tacit.cli.table.prepare import matching_task
    from tacit.cli.table.read import Table

    table = intake.cleared(table)
    if party is None and intake.task not in table.columns and len(model.task_names_) == 1:
        return table, [model.task_names_[0]] * table.n_rows
    if party is not None:
        own = matching_task(party, model.task_names_)
        if intake.task not in table.columns:
            return table, [own] * table.n_rows
        chosen = [row for row, name in enumerate(labels(table, intake.task)) if name == str(own)]
        if not chosen:
            raise InvalidInput(f"--party {party!r}: {table.source} has no rows of that task")
        if len(chosen) < table.n_rows:
            current().note(f"{len(chosen)} of {table.n_rows} rows are {party}'s")
        cells = {name: [column[row] for row in chosen] for name, column in table.columns.items()}
        return Table(table.source, cells, len(chosen), table.first_row), [own] * len(chosen)
    known = {str(name): name for name in model.task_names_}
    names = [known.get(name, name) for name in labels(table, intake.task)]
    strange = sorted({str(name) for name in names} - set(known))
    if strange and (model.unknown_task == "error" or not model._has_shared):
        raise UnknownTask(
            f"{table.source}: the task {strange[0]!r} was not there at fit time; {_remedy(model)}"
        )
    return table, names


def _remedy(model: Any) -> str:
    """Say what can be done for a task that was not there."""
    joins = "learn its own model from rows with known target: tacit join"
    if model._has_shared:
        return f"say --unknown-task shared to answer with the shared model, or {joins}"
    if not model.privacy_.n_releases:
        return f"nothing was shared in the run, so it has no shared model; {joins}"
    if "unknown_task" in model.get_params():
        return f"the run learned no shared model; {joins}, or fit again with --unknown-task shared"
    return f"its method has no shared model; {joins}, or fit again with that task"


def filled(table: Table, intake: Intake, fill: Array, names: list[Hashable], model: Any) -> Array:
    """Return the features, missing values filled as at fit time with the task's own values."""
    X = intake.matrix(table)
    if intake.missing in ("error", "drop"):
        intake.refuse_missing(table, X)
    position = {name: code for code, name in enumerate(model.task_names_)}
    codes = np.array([position.get(name, -1) for name in names])
    gaps = np.isnan(X)
    if not gaps.any():
        return X
    if not isinstance(intake.missing, str):
        return np.where(gaps, intake.missing, X)
    means = np.where(codes[:, None] < 0, np.nan, fill[codes])
    left = np.argwhere(gaps & np.isnan(means))
    if left.size:
        row, column = left[0].tolist()
        reason = (
            "was not there at fit time and has no mean of it"
            if codes[row] < 0
            else "kept no mean of it because it had all values at fit time"
        )
        raise InvalidInput(
            f"{table.source}, {table.where(row)}: {intake.feature_names[column]!r} is missing in "
            f"the task {names[row]!r}, which {reason}; fill it in, or fit with --missing and a "
            "number"
        )
    return np.where(gaps, means, X)


def _answers(model: Any, X: Array, names: list[Hashable]) -> dict[str, list[Any]]:
    if hasattr(model, "feature_names_in_"):
        del model.feature_names_in_  # the columns were matched by name already
    with current().step("predicting"):
        answers = {"prediction": model.predict(X, tasks=names).tolist()}
        if getattr(model, "spread_", None) is not None:
            answers["std"] = model.predict(X, tasks=names, return_std=True)[1].tolist()
        if hasattr(model, "predict_proba"):
            shares = model.predict_proba(X, tasks=names)
            for column, name in enumerate(model.classes_.tolist()):
                answers[f"probability_{name}"] = shares[:, column].tolist()
    return answers


def _text(columns: dict[str, list[Any]], separator: str) -> str:
    import csv

    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=separator, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return stream.getvalue()


def _write(path: Path, columns: dict[str, list[Any]], kind: str) -> None:
    if kind == "parquet":
        write_whole(path, _parquet(columns))
    elif kind == "jsonl":
        rows = zip(*columns.values(), strict=True)
        lines = (json_text.dumps(dict(zip(columns, row, strict=True))) for row in rows)
        write_whole(path, "".join(f"{line}\n" for line in lines))
    else:
        write_whole(path, _text(columns, "," if kind == "csv" else "\t"))


def _parquet(columns: dict[str, list[Any]]) -> bytes:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InvalidInput(
            "--out: writing Parquet needs pyarrow; install it with pip install 'tacit[parquet]', "
            "or write .csv"
        ) from None
    names = [str(name) if isinstance(name, str) else name for name in columns]
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(
        pyarrow.table(dict(zip(names, columns.values(), strict=True))), buffer
    )
    return buffer.getvalue()
