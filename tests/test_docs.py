"""The documentation is code: blocks run, links lead somewhere, the site builds."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

import tacit
from tacit.cli._app import app
from tacit.cli.run.methods import methods

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
SECONDS = 20.0  # of processor time for one page; the aim is half of it

FENCE = re.compile(r"^(?P<indent> *)(?P<marks>```+)(?P<info>[^\n`]*)$")
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"^#{1,6} +(.+?)(?: +\{ *#([\w-]+) *\})? *$")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def parts_of(page: Path) -> tuple[list[tuple[str, int, str]], str]:
    """Return the fenced blocks as (info, first line number, text), and the prose around them."""
    blocks, prose = [], []
    opened: re.Match[str] | None = None
    inside: list[str] = []
    first = 0
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None and fence:
            opened, inside, first = fence, [], number + 1
        elif opened is not None and line.strip() == opened["marks"]:
            blocks.append((opened["info"].strip(), first, "\n".join(inside)))
            opened = None
        elif opened is not None:
            inside.append(line.removeprefix(opened["indent"]))
        else:
            prose.append(line)
    assert opened is None, f"{name_of(page)}: the fence above line {first} is never closed"
    return blocks, "\n".join(prose)


def runs(info: str) -> bool:
    """Whether a block is executed: Python that is not marked ``no-run``."""
    words = re.split(r"[\s{}.]+", info)
    return "python" in words and "no-run" not in words


def anchors_of(page: Path) -> set[str]:
    """Return the names that a link may point to, as the site's generator makes them."""
    names: set[str] = set()
    for line in parts_of(page)[1].splitlines():
        heading = HEADING.match(line)
        if heading is None:
            continue
        title, given = heading.groups()
        plain = re.sub(r"[^\w\s-]", "", re.sub(r"[`*]", "", title), flags=re.ASCII)
        names.add(given or re.sub(r"[-\s]+", "-", plain.strip().lower()))
    return names


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_python_block_of_a_page_runs(page, tmp_path, monkeypatch):
    blocks = [(first, text) for info, first, text in parts_of(page)[0] if runs(info)]
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": f"docs_{page.stem.replace('-', '_')}"}
    began = time.process_time()
    for first, text in blocks:
        code = compile("\n" * (first - 1) + text, str(page), "exec")
        exec(code, namespace)
    assert time.process_time() - began < SECONDS


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_internal_links_of_a_page_resolve(page):
    broken = []
    for target in LINK.findall(parts_of(page)[1]):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        found = linked.exists()
        if found and anchor and linked.suffix == ".md":
            found = anchor in anchors_of(linked)
        if not found:
            broken.append(target)
    assert not broken, f"{name_of(page)} links to nothing: {broken}"


@pytest.mark.parametrize("page", ["choosing.md", "api.md"])
def test_a_page_on_methods_mentions_every_estimator(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert [name for name in tacit.ESTIMATORS if name not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_command_lines_of_a_page_are_ones_that_the_command_takes(page):
    blocks = [text for info, _, text in parts_of(page)[0] if not runs(info)]
    lines = [line for text in blocks for line in text.splitlines() if line.startswith("tacit ")]
    for line in lines:
        command = typer.main.get_command(app)
        words = shlex.split(line, comments=True)[1:]
        while isinstance(command, TyperGroup):
            command = command.commands[words.pop(0)]
        command.make_context("tacit", words)  # parses, refuses what it does not know, runs nothing


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_holds_no_gap_that_was_to_be_filled(page):
    assert re.findall(r"@\w+@|\bTODO\b|\bFIXME\b|\bTBD\b|\?\?\?", page.read_text("utf-8")) == []


def _script(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_the_table_of_speed_is_the_recorded_one():
    suite = _script(DOCS.parent / "benchmarks" / "suite.py")
    record = json.loads(suite.RECORDED.read_text("utf-8"))
    assert list(record["sections"]) == list(suite.SECTIONS)
    assert all(part["rows"] and part["machine"]["cores"] for part in record["sections"].values())
    table = suite.table(record)
    for page in suite.PAGES:
        text = page.read_text("utf-8")
        assert table in text, f"{page.name}: run python benchmarks/suite.py --table"
        assert suite.filled(text, record) == text
        assert len(suite._MARKED.findall(text)) == 1


def test_tables_of_methods_are_those_of_their_schedules():
    tables = _script(DOCS / "tables.py")
    named = set()
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        named |= {mark["name"] for mark in tables._MARKED.finditer(text)}
        assert tables.filled(text) == text, f"{name_of(page)}: run python docs/tables.py"
    private = {
        f"releases {name}" for name in methods() if tacit.plan(name, 999, 9, n_rows=99999).releases
    }
    assert private <= named


def test_the_readme_shows_both_commands():
    blocks = [text for _, _, text in parts_of(ROOT / "README.md")[0]]
    for command in ("make demo", "make test"):
        assert any(command in text for text in blocks)


def test_a_block_marked_no_run_is_not_executed():
    assert runs("python")
    assert runs('python title="fit.py"')
    assert not runs("python no-run")
    assert not runs("{.python .no-run}")
    assert not runs("text")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the built site; any warning is an error."""
    needed = ("mkdocs", "material", "mkdocstrings")
    missing = [name for name in needed if not importlib.util.find_spec(name)]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: pip install 'tacit[docs]'")
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict"]
    built = subprocess.run(
        [*command, "--site-dir", str(folder)], cwd=ROOT, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_the_site_builds_without_a_warning(site):
    assert (site / "index.html").exists()


@pytest.mark.parametrize("page", ["index.html", "tutorial.html", "command-line.html"])
def test_on_a_phone_code_scrolls_in_its_box_and_the_page_does_not(browse, site, tmp_path, page):
    # A frame, because a window cannot be made as narrow as a phone.
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<iframe src="{(site / page).as_uri()}" width="390" height="800"></iframe>'
        "<script>onload = () => { const page = document.querySelector('iframe').contentDocument;"
        "const boxes = [...page.querySelectorAll('pre > code')];"
        "document.title = [page.documentElement.scrollWidth - 390, boxes.filter((box) =>"
        " box.scrollWidth > box.clientWidth).length].join() }</script>",
        encoding="utf-8",
    )
    dom, _ = browse(frame, "--allow-file-access-from-files", "--dump-dom")
    over, scrolling = map(int, re.search(r"<title>(.*?),(.*?)</title>", dom).groups())
    assert over <= 0
    assert scrolling > 0
