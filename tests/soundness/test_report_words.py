"""The page's last line promises nothing that the statement does not hold."""

from __future__ import annotations

import re

import pytest

FIT = ("--task", "party", "--target", "outcome", "--quiet", "--yes")


def footer(path):
    return re.search(r"<footer>.*</footer>", path.read_text(encoding="utf-8"), re.S).group()


@pytest.mark.parametrize(
    "options",
    [
        ("--method", "pooled"),
        ("--method", "low-rank", "--epsilon", "inf"),
        ("--method", "low-rank", "--seed", "1"),
    ],
)
def test_an_unprotected_page_does_not_say_that_its_numbers_were_released(
    tacit_command, write_rows, tmp_path, options
):
    tacit_command("fit", write_rows(), *FIT, *options, "--out", "run")
    tacit_command("report", "run", "--party", "P1", "--out", "party.html", "--quiet")
    for page in (tmp_path / "run" / "report.html", tmp_path / "party.html"):
        words = footer(page)
        assert "was released" not in words
        assert "No guarantee covers the numbers" in words


def test_a_page_of_a_run_that_shared_nothing_does_not_speak_of_releases(
    tacit_command, write_rows, tmp_path
):
    tacit_command("fit", write_rows(), *FIT, "--method", "single-task", "--out", "run")
    assert "Nothing was released" in footer(tmp_path / "run" / "report.html")


def test_a_protected_page_says_that_its_numbers_were_released(tacit_command, write_rows, tmp_path):
    tacit_command("fit", write_rows(), *FIT, "--method", "low-rank", "--out", "run")
    assert "was released, or follows from" in footer(tmp_path / "run" / "report.html")
