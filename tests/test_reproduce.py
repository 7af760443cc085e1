"""Figures of the papers can be found, run, interrupted and continued."""

from __future__ import annotations

import tomllib

import pytest

from tacit import reproduce
from tacit.errors import DataNotFound, InvalidInput

FIGURES = [f"model-protected/fig{number}" for number in (2, 4, 5, 6, 7, 8, 9, 10)]


def test_every_figure_of_the_model_protected_paper_has_a_configuration_with_expectations():
    found = reproduce.available()
    for name in FIGURES:
        config = tomllib.loads(found[name].read_text(encoding="utf-8"))
        assert config["runs"] >= 1
        assert config["expected"]


def test_a_figure_writes_its_files_and_continues_without_computing_again(tmp_path):
    checks = reproduce.reproduce("model-protected/fig2", quick=True, out=tmp_path, progress=False)
    assert checks
    assert all(check.passed for check in checks)
    table = tmp_path / "model-protected" / "fig2-quick.csv"
    assert (tmp_path / "model-protected" / "fig2-quick.png").stat().st_size > 10_000
    before = table.read_text(encoding="utf-8")
    assert (
        reproduce.main(["model-protected/fig2", "--quick", "--out", str(tmp_path), "--no-progress"])
        == 0
    )
    assert table.read_text(encoding="utf-8") == before


def test_an_unknown_figure_names_the_known_ones():
    with pytest.raises(InvalidInput, match="model-protected/fig6"):
        reproduce.reproduce("model-protected/fig99")


def test_without_a_checkout_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("TACIT_PAPERS", str(tmp_path / "nowhere"))
    monkeypatch.setattr(reproduce, "__file__", str(tmp_path / "a" / "b" / "reproduce.py"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataNotFound, match="TACIT_PAPERS"):
        reproduce.papers_folder()
