"""Tables: CSV, TSV, JSON lines and Parquet, read into columns of cells.

A cell is text (CSV, TSV) or a Python value. Missing is an empty cell, None and NaN; that NA, null
or -99 mean the same, a user says (see `without_marks`).
"""

from __future__ import annotations

import codecs
import csv
import dataclasses
import importlib.util
import io
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.cli._output import current
from tacit.errors import InvalidInput

__all__ = [
    "FORMATS",
    "Table",
    "format_of",
    "is_missing",
    "read_table",
    "text",
    "without_marks",
]

FORMATS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods", ".numbers")
_OTHERS = {
    ".gz": "compressed; unpack it first (gunzip)",
    ".zip": "an archive; unpack it first",
    ".feather": "Feather; with pandas: read_feather(…).to_parquet('data.parquet')",
    ".dta": "Stata's; with pandas: read_stata(…).to_csv('data.csv', index=False)",
    ".sav": "SPSS's; with pandas: read_spss(…).to_csv('data.csv', index=False)",
    ".sas7bdat": "SAS's; with pandas: read_sas(…).to_csv('data.csv', index=False)",
}
_ROWS_PER_TICK = 20_000


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by name; ``first_row`` is the line of the file in which row 0 stands."""

    source: str
    columns: dict[str, list[Any]]
    n_rows: int
    first_row: int = 1

    def column(self, name: str, option: str) -> list[Any]:
        """Return the cells of a column that ``option`` named."""
        if name not in self.columns:
            have = ", ".join(map(repr, list(self.columns)[:30]))
            more = ", …" if len(self.columns) > 30 else ""
            raise InvalidInput(
                f"{option} {name!r}: {self.source} has no such column; it has {have}{more}"
            )
        return self.columns[name]

    def where(self, row: int) -> str:
        """Say where row ``row`` stands, in the words of the file's format."""
        return f"row {row + self.first_row}"


def is_missing(cell: Any) -> bool:
    """Whether a cell holds no value."""
    if isinstance(cell, str):
        return not cell.strip()
    return cell is None or cell != cell


def without_marks(table: Table, marks: Sequence[str], kept: Mapping[str, Collection[str]]) -> Table:
    """Return the table with cells that are one of ``marks`` missing.

    ``kept`` lists, by column, what is a value there whatever the marks say.
    """
    if not marks:
        return table
    columns = dict(table.columns)
    for name, cells in columns.items():
        gone = set(marks) - set(kept.get(name, ()))
        if gone:
            columns[name] = [None if text(cell) in gone else cell for cell in cells]
    return dataclasses.replace(table, columns=columns)


def text(cell: Any) -> str:
    """Return a cell as text; 12.0 and 12 are the same label whatever the file's format."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).strip()


def format_of(path: Path, given: str | None) -> str:
    """Return the format that was asked for, or the one that the file's name says."""
    kinds = sorted(set(FORMATS.values()))
    if given is not None:
        if given not in kinds:
            raise InvalidInput(f"--format {given!r}: must be one of {', '.join(kinds)}")
        return given
    suffix = path.suffix.lower()
    found = FORMATS.get(suffix)
    if suffix in _SPREADSHEETS:
        raise InvalidInput(
            f"{path}: is a spreadsheet; save the sheet as CSV (Excel: File, Save As, CSV UTF-8), "
            f"or with pandas: read_excel({path.name!r}).to_csv({path.stem + '.csv'!r}, index=False)"
        )
    if suffix in _OTHERS:
        raise InvalidInput(f"{path}: its format is {_OTHERS[suffix]}")
    if found is None:
        raise InvalidInput(
            f"{path}: its name does not tell its format; end it in {', '.join(FORMATS)} or say "
            f"--format with one of {', '.join(kinds)}"
        )
    return found


def read_table(
    path: Path,
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    separator: str | None = None,
    encoding: str = "utf-8-sig",
) -> Table:
    """Read a whole file."""
    if path.is_dir():
        raise InvalidInput(f"{path}: is a folder; name the file with the data")
    kind = format_of(path, format)
    size = path.stat().st_size
    if size == 0:
        raise InvalidInput(f"{path}: the file is empty; write a header and rows of data")
    with current().step(f"reading {path.name}") as advance:
        if kind == "parquet":
            table = _parquet(path)
        else:
            text = _decoded(path, encoding)
            if kind == "jsonl":
                table = _json_lines(path, text, advance)
            else:
                table = _separated(
                    path, text, separator or {"csv": ",", "tsv": "\t"}[kind], advance
                )
    if not table.n_rows:
        raise InvalidInput(f"{path}: holds a header but no rows; add rows of data")
    return table


def _decoded(path: Path, encoding: str) -> str:
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise InvalidInput(
            f"--encoding {encoding!r}: unknown; use for example utf-8, latin-1 or cp1252"
        ) from None
    raw = path.read_bytes()
    if b"\0" in raw and encoding in ("utf-8-sig", "utf-8"):
        raise InvalidInput(
            f"{path}: is a binary file, not text; name a CSV, TSV or JSON-lines file, or say "
            "--format parquet (UTF-16 text: --encoding utf-16)"
        )
    try:
        return raw.decode(encoding)
    except UnicodeError as error:
        line = raw[: getattr(error, "start", 0)].count(b"\n") + 1
        raise InvalidInput(
            f"{path}, line {line}: is not {encoding.removesuffix('-sig')} text; save the file as "
            "UTF-8, or say its encoding, for example --encoding latin-1"
        ) from None


def _header(path: Path, header: list[str], separator: str) -> list[str]:
    names = [name.strip() for name in header]
    if len(names) == 1 and separator == ",":
        for other, word in ((";", "';'"), ("\t", "tab"), ("|", "'|'")):
            if other in names[0]:
                raise InvalidInput(
                    f"{path}: the columns seem to be separated by {word}; say "
                    f"--separator {'tab' if other == chr(9) else repr(other)}"
                )
    if "" in names:
        raise InvalidInput(
            f"{path}: column {names.index('') + 1} has no name; name it, or leave it out (with "
            "pandas: to_csv(…, index=False))"
        )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidInput(
            f"{path}: the column {repeated[0]!r} occurs more than once; rename or remove one"
        )
    return names


def _separated(path: Path, text: str, separator: str, advance: Any) -> Table:
    separator = {"tab": "\t", "\\t": "\t"}.get(separator, separator)
    if len(separator) != 1:
        raise InvalidInput(f"--separator {separator!r}: must be one character, or the word tab")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    total = text.count("\n") + 1
    rows: list[list[str]] = []
    names: list[str] | None = None
    try:
        for row in reader:
            if not row:
                continue
            if names is None:
                names = _header(path, row, separator)
                continue
            if len(row) != len(names):
                raise InvalidInput(
                    f"{path}, line {reader.line_num}: has {len(row)} cells but the header names "
                    f"{len(names)} columns; correct the line (quote cells that hold {separator!r})"
                )
            rows.append(row)
            if len(rows) % _ROWS_PER_TICK == 0:
                advance(len(rows), total)
    except csv.Error as error:
        raise InvalidInput(
            f"{path}, line {reader.line_num}: cannot be read as CSV ({error}); correct the line"
        ) from None
    if names is None:
        raise InvalidInput(f"{path}: the file is empty; write a header and rows of data")
    cells: Iterator[list[str]] = map(list, zip(*rows, strict=True))
    columns = dict(zip(names, cells, strict=True)) if rows else {name: [] for name in names}
    return Table(str(path), columns, len(rows), first_row=2)


def _json_lines(path: Path, text: str, advance: Any) -> Table:
    records: list[dict[str, Any]] = []
    lines = text.split("\n")  # not splitlines: JSON text may hold other line separators
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            raise InvalidInput(
                f"{path}, line {number}: is not JSON; write one object per line, like "
                '{"hospital": "A", "age": 70}'
            ) from None
        if not isinstance(record, dict):
            raise InvalidInput(f"{path}, line {number}: is not an object; write one per line")
        for name, value in record.items():
            if isinstance(value, list | dict):
                raise InvalidInput(
                    f"{path}, line {number}: {name!r} holds a nested value; use numbers, text, "
                    "true, false or null"
                )
        records.append(record)
        if number % _ROWS_PER_TICK == 0:
            advance(number, len(lines))
    names = dict.fromkeys(name for record in records for name in record)
    # A key that a line leaves out is a missing value there.
    columns = {name: [record.get(name) for record in records] for name in names}
    return Table(str(path), columns, len(records))


def _parquet(path: Path) -> Table:
    import narwhals.stable.v1 as nw

    backend: Any = next(
        (name for name in ("pyarrow", "polars") if importlib.util.find_spec(name)), None
    )
    if backend is None:
        raise InvalidInput(
            f"{path}: reading Parquet needs a reader; install one with "
            "pip install 'tacit[parquet]', or pass a CSV file"
        )
    try:
        frame = nw.read_parquet(str(path), backend=backend)
    except OSError:
        raise
    except Exception as error:  # every backend has errors of its own for a damaged file
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidInput(
            f"{path}: cannot be read as Parquet ({first}); the file is damaged or of another "
            "format: say it with --format"
        ) from None
    columns = {name: frame[name].to_list() for name in frame.columns}
    return Table(str(path), columns, len(frame))
