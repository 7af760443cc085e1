"""Every kind of broken input: a clear line, the right exit code, nothing half-written."""

from __future__ import annotations

import json

import pytest


def edited(lines, row, column, value):
    """Return the lines with one cell changed (row 1 is the first after the header)."""
    cells = lines[row].split(",")
    cells[column] = value
    return [*lines[:row], ",".join(cells), *lines[row + 1 :]]


def with_column(lines, name, values):
    """Return the lines with a column put before the target."""
    out = []
    for row, line in enumerate(lines):
        *first, last = line.split(",")
        out.append(",".join([*first, name if row == 0 else values(row), last]))
    return out


# Name: (how the file is broken, what the message says). All end with exit code 2.
BROKEN_FILES = {
    "no rows": (lambda lines: lines[:1], "no rows"),
    "blank lines only": (lambda lines: ["", "", ""], "empty"),
    "duplicate columns": (
        lambda lines: [lines[0].replace("severity", "age"), *lines[1:]],
        "'age' occurs more than once",
    ),
    "column without a name": (
        lambda lines: [lines[0].replace("age", ""), *lines[1:]],
        "column 2 has no name",
    ),
    "ragged row": (lambda lines: [*lines[:3], "H0,40", *lines[3:]], "line 4: has 2 cells"),
    "row too long": (lambda lines: [*lines, lines[-1] + ",7"], "has 5 cells"),
    "unclosed quote": (lambda lines: [*lines[:5], '"H0,40,1,2', *lines[5:]], "cannot be read"),
    "semicolons": (
        lambda lines: [line.replace(",", ";") for line in lines],
        "--separator ';'",
    ),
    "word in a number column": (
        lambda lines: edited(lines, 4, 1, "old"),
        "row 5: 'age' is 'old', not a number",
    ),
    "decimal comma": (lambda lines: edited(lines, 4, 2, '"1,5"'), "'1,5', not a number"),
    "digits with underscores": (lambda lines: edited(lines, 4, 1, "1_0"), "not a number"),
    "text column": (
        lambda lines: with_column(lines, "ward", lambda row: "ABC"[row % 3]),
        "--categories ward=a,b,c",
    ),
    "infinite feature": (lambda lines: edited(lines, 2, 1, "inf"), "'age' is inf, too large"),
    "huge feature": (lambda lines: edited(lines, 2, 1, "1e200"), "too large"),
    "huge target": (lambda lines: edited(lines, 2, 3, "-1e300"), "'stay' is -1e+300, too large"),
    "missing target": (lambda lines: edited(lines, 2, 3, ""), "target 'stay' is missing"),
    "NaN target": (lambda lines: edited(lines, 2, 3, "NaN"), "is 'NaN', not a number"),
    "word in the target": (lambda lines: edited(lines, 2, 3, "long"), "--kind"),
    "constant text target": (
        lambda lines: [lines[0], *(",".join([*line.split(",")[:3], "x"]) for line in lines[1:])],
        "'x' in every row",
    ),
    "missing task": (lambda lines: edited(lines, 2, 0, ""), "task 'hospital' is missing"),
    "one task": (
        lambda lines: [lines[0], *(line for line in lines[1:] if line.startswith("H0"))],
        "--method single-task",
    ),
    "all-missing column": (
        lambda lines: with_column(lines, "empty", lambda row: ""),
        "'empty' is empty in every row",
    ),
    "no feature columns": (
        lambda lines: [",".join(line.split(",")[i] for i in (0, 3)) for line in lines],
        "no columns besides task and target",
    ),
    "a cell larger than any cell": (
        lambda lines: edited(lines, 3, 0, "x" * 200_000),
        "cannot be read as CSV",
    ),
}


def clean(result, code, text, tmp_path, inputs=("data.csv",)):
    """The command ended as it should, in a line or two, and left nothing behind."""
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, (result.exit_code, result.stderr)
    assert text in result.stderr, result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.replace("─", "")) < 600, result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(inputs)


@pytest.mark.parametrize("name", BROKEN_FILES)
def test_a_broken_file_is_refused_with_its_place_and_the_remedy(fit, lines, tmp_path, name):
    break_it, text = BROKEN_FILES[name]
    (tmp_path / "data.csv").write_text("\n".join(break_it(lines)) + "\n", encoding="utf-8")
    clean(fit(), 2, text, tmp_path)


# Name: (options, message). The file is sound; all end with exit code 2.
BROKEN_OPTIONS = {
    "unknown method": (("--method", "magic"), "--method 'magic': must be one of shared-prior"),
    "negative epsilon": (("--epsilon", "-1"), "epsilon=-1.0: must be positive"),
    "zero epsilon": (("--epsilon", "0"), "must be positive"),
    "epsilon that is no number": (("--epsilon", "nan"), "must be a number"),
    "epsilon that is a word": (("--epsilon", "much"), "'--epsilon'"),
    "delta of one": (("--delta", "1"), "delta=1.0: must be below 1"),
    "delta that is a word": (("--delta", "tiny"), "--delta 'tiny': must be a number or auto"),
    "unknown mechanism": (("--mechanism", "magic"), "mechanism='magic': must be one of"),
    "negative clip": (("--clip", "-2"), "clip=-2.0: must be positive"),
    "no rounds": (("--rounds", "0"), "n_rounds=0"),
    "rounds that are no whole number": (("--rounds", "2.5"), "must be a whole number"),
    "option the method lacks": (
        ("--method", "single-task", "--epsilon", "1"),
        "--epsilon: --method single-task has no such setting",
    ),
    "unknown parameter": (("--set", "magic=1"), "has no such parameter; it has"),
    "parameter with an option": (("--set", "epsilon=1"), "use --epsilon instead"),
    "parameter without a value": (("--set", "alpha"), "name=value"),
    "unknown kind": (("--kind", "ordinal"), "--kind 'ordinal': must be one of"),
    "kind that does not fit": (("--kind", "binary"), "different values"),
    "unknown feature": (("--features", "age,weight"), "--features 'weight'"),
    "feature twice": (("--features", "age,age"), "listed twice"),
    "target as feature": (("--features", "age,stay"), "is the --target column"),
    "categories of nothing": (("--categories", "ward=a,b"), "--categories 'ward'"),
    "categories without names": (("--categories", "age"), "column=a,b,c"),
    "value outside its categories": (("--categories", "age=1,2"), "not one of its categories"),
    "range the wrong way": (("--range", "age=100:0"), "column=low:high"),
    "missing rule": (("--missing", "task_mean"), "--missing 'task_mean': must be task-mean"),
    "test size": (("--test-size", "1.5"), "test_size=1.5"),
    "unknown task rule": (("--unknown-task", "guess"), "unknown_task='guess'"),
    "encoding": (("--encoding", "klingon"), "--encoding 'klingon': unknown"),
    "format": (("--format", "xlsx"), "--format 'xlsx': must be one of"),
    "separator": (("--separator", "ab"), "--separator 'ab': must be one character"),
    "candidates without values": (("--tune", "clip"), "name=a,b,c"),
    "candidates of nothing": (("--tune", "magic=1,2"), "parameters=['magic']"),
    "selection without a budget": (("--tune", "clip=1,2", "--epsilon", "inf"), "finite --epsilon"),
    "a ledger that is not there": (("--ledger", "no.db"), "tacit ledger create no.db"),
    "a ledger without a budget": (("--ledger", "no.db", "--epsilon", "inf"), "not accounted"),
}


@pytest.mark.parametrize("name", BROKEN_OPTIONS)
def test_a_wrong_option_is_refused_by_name(fit, table, tmp_path, name):
    options, text = BROKEN_OPTIONS[name]
    clean(fit(*options), 2, text, tmp_path)


@pytest.mark.parametrize("option", ["--task", "--target"])
def test_a_missing_column_is_named_with_those_that_are_there(run, table, tmp_path, option):
    columns = {"--task": "hospital", "--target": "stay", option: "colour"}
    result = run("fit", table, *(part for pair in columns.items() for part in pair))
    clean(result, 2, f"{option} 'colour'", tmp_path)
    assert "'hospital', 'age', 'severity', 'stay'" in result.stderr


def test_task_and_target_must_differ(run, table, tmp_path):
    result = run("fit", table, "--task", "stay", "--target", "stay")
    clean(result, 2, "both 'stay'", tmp_path)


def test_a_missing_option_is_asked_for(run, table, tmp_path):
    clean(run("fit", table, "--target", "stay"), 2, "--task", tmp_path)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "the file is empty"),
        (bytes(range(256)) * 40, "binary file"),
        (b"hospital,age,stay\nH\xe9l\xe8ne,1,2\n", "line 2: is not utf-8 text"),
        ("hospital,age,stay\nA,1,2\n".encode("utf-16"), "binary file"),
    ],
    ids=["empty", "binary garbage", "latin-1", "utf-16"],
)
def test_bytes_that_are_no_text_are_refused(fit, tmp_path, content, text):
    (tmp_path / "data.csv").write_bytes(content)
    clean(fit(), 2, text, tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("data.jsonl", b'{"hospital": "A"}\n{oops}\n', "line 2: is not JSON"),
        ("data.jsonl", b'{"hospital": "A"}\n[1, 2]\n', "line 2: is not an object"),
        ("data.jsonl", b'{"hospital": "A", "age": [1]}\n', "nested value"),
        ("data.parquet", b"PAR1 but not really PAR1", "cannot be read as Parquet"),
        ("data.parquet", b"hospital,age\nA,1\n", "cannot be read as Parquet"),
        ("data.xlsx", b"PK\x03\x04", "save the sheet as CSV"),
        ("data", b"hospital,age\nA,1\n", "does not tell its format"),
    ],
)
def test_other_formats_are_refused_as_clearly(fit, tmp_path, name, content, text):
    (tmp_path / name).write_bytes(content)
    clean(fit(data=name), 2, text, tmp_path, inputs=(name,))


def test_a_truncated_parquet_file_is_refused(fit, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "data.parquet"
    parquet.write_table(pyarrow.table({"hospital": ["A", "B"] * 500}), path)
    path.write_bytes(path.read_bytes()[:-40])
    clean(fit(data=path.name), 2, "cannot be read as Parquet", tmp_path, inputs=(path.name,))


def test_a_file_that_is_not_there_and_a_folder_are_told_apart(fit, tmp_path):
    clean(fit(data="nowhere.csv"), 4, "nowhere.csv: no such file", tmp_path, inputs=())
    (tmp_path / "data.csv").mkdir()
    clean(fit(), 2, "is a folder", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method = [", "is not TOML"),
        ('colour = "red"', "unknown setting 'colour'"),
        ('out = "else"\nepsilon = "much"', "'--epsilon'"),
    ],
)
def test_a_broken_config_is_refused(run, table, tmp_path, text, message):
    (tmp_path / "config.toml").write_text(text, encoding="utf-8")
    given = ("--task", "hospital", "--target", "stay", "--config", "config.toml")
    result = run("fit", "data.csv", *given)
    clean(result, 2, message, tmp_path, inputs=("data.csv", "config.toml"))


def test_errors_are_json_in_json_mode(fit, table, tmp_path):
    result = fit("--epsilon", "-1", "--json")
    clean(result, 2, "must be positive", tmp_path)
    assert json.loads(result.stderr)["exit_code"] == 2
    assert result.stdout == ""
