"""The page in a real browser: no console message, readable on a phone, whole without a script."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.report import write_report


@pytest.fixture
def page(tmp_path, fitted, evaluation):
    return write_report(
        fitted["prior"], tmp_path / "report.html", audit=[(1.0, 0.7), (2.0, 1.5)], **evaluation
    )


def _measuring(page: Path, script: str) -> Path:
    """Return a copy whose title becomes what ``script`` says; its policy would forbid that."""
    text = page.read_text(encoding="utf-8")
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    copy = page.with_name("measured.html")
    script = f"<script>document.title = String({script})</script></body>"
    copy.write_text(text.replace("</body>", script), encoding="utf-8")
    return copy


def _title(dom: str) -> str:
    return re.search(r"<title>(.*?)</title>", dom, flags=re.S).group(1)


def test_a_page_opens_without_any_console_message_and_its_script_runs(browse, page):
    dom, console = browse(page, "--dump-dom")
    assert console == []
    assert "Switch to dark colours" in dom
    assert 'id="filter0"' in dom


def test_the_text_and_the_tables_are_there_without_a_script(browse, page):
    # A sandbox runs no script of the page; the one around it reads what is left.
    frame = page.with_name("frame.html")
    frame.write_text(
        '<iframe src="report.html" sandbox="allow-same-origin"></iframe>'
        "<script>onload = () => { const inner = document.querySelector('iframe');"
        "document.body.append(inner.contentDocument.body.cloneNode(true)) }</script>",
        encoding="utf-8",
    )
    dom, _ = browse(frame, "--allow-file-access-from-files", "--dump-dom")
    assert "Switch to dark colours" not in dom
    assert "Who is protected, and how" in dom
    assert "Alder Vale" in dom
    assert dom.count("<table") >= 4


def test_sorting_and_filtering_move_the_rows(browse, page):
    clicks = """(() => {
      const table = document.querySelector("table[data-filter]");
      table.querySelector("thead button").click();
      const first = () => table.tBodies[0].rows[0].cells[0].textContent;
      const up = first();
      table.querySelector("thead button").click();
      const down = first();
      const box = document.querySelector(".filter input");
      box.value = "grey";
      box.dispatchEvent(new Event("input"));
      const left = [...table.tBodies[0].rows].filter((row) => !row.hidden);
      return [up, down, left.length, left[0].cells[0].textContent].join("|");
    })()"""
    dom, console = browse(_measuring(page, clicks), "--dump-dom")
    assert console == []
    assert _title(dom) == "Alder Vale|Westerdale|1|Greyfriars"


def test_the_page_never_scrolls_sideways(browse, tmp_path, hospitals):
    (X, y, tasks), (X2, y2, tasks2) = hospitals
    grades = [np.digitize(values, [5.0, 8.0, 11.0]) for values in (y, y2)]
    X, X2 = X[["age", "albumin"]], X2[["age", "albumin"]]
    model = tacit.AveragedClassifier(clip=2.0).fit(X, grades[0], tasks=tasks)
    options = {"X": X2, "y": grades[1], "tasks": tasks2, "baselines": {"the same": model}}
    _measuring(
        write_report(model, tmp_path / "report.html", audit=[(1.0, 0.7)], **options),
        "document.documentElement.scrollWidth - innerWidth",
    )
    # Frames, because a window cannot be made as narrow as a phone.
    frame = tmp_path / "frame.html"
    frame.write_text(
        "".join(f'<iframe src="measured.html" width="{w}"></iframe>' for w in (320, 390, 1280))
        + "<script>onload = () => { document.title = [...document.querySelectorAll('iframe')].map("
        "(inner) => inner.contentDocument.title).join() }</script>",
        encoding="utf-8",
    )
    dom, _ = browse(frame, "--allow-file-access-from-files", "--dump-dom")
    assert max(int(over) for over in _title(dom).split(",")) <= 0


def test_a_screenshot_has_the_size_asked_for(browse, page, tmp_path):
    shot = tmp_path / "shot.png"
    _, console = browse(page, "--window-size=800,600", f"--screenshot={shot}")
    assert console == []
    assert struct.unpack(">II", shot.read_bytes()[16:24]) == (800, 600)
