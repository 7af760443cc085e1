"""Figures of the papers can be found, run, interrupted, continued and judged."""

from __future__ import annotations

import pytest

from tacit import reproduce
from tacit.errors import DataNotFound, InvalidInput
from tacit.reproduce import Record, _figures, claim_table, judge

CONFIG = {
    "x": [1, 2],
    "levels": [1, 2],
    "panel": [{"name": "p", "metric": "nmse"}],
    "method": [{"name": "a"}, {"name": "b"}],
    "claim": [
        {
            "name": "a beats b",
            "where": "Fig. 1",
            "says": "a is better",
            "verdict": "reproduced",
            "holds": [
                {
                    "panel": "p",
                    "method": "a",
                    "x": [1, 2],
                    "than": "b",
                    "at_most": 0.9,
                    "test": "paired",
                }
            ],
        }
    ],
}


def _record(a=0.5):
    values = {}
    for x in ("1", "2"):
        values["p", "a", x] = {run: a + 0.01 * run for run in range(4)}
        values["p", "b", x] = {run: 1.0 + 0.02 * run for run in range(4)}
    return Record(values)


@pytest.fixture
def paper(tmp_path, monkeypatch):
    """A paper of one figure whose methods count how often they are measured."""
    folder = tmp_path / "papers" / "small_paper"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(
        "from pathlib import Path\n"
        "COUNT = Path(__file__).parent / 'count.txt'\n"
        "def value(config, panel, method, run, x):\n"
        "    COUNT.write_text(str(int(COUNT.read_text() or 0) + 1) if COUNT.exists() else '1')\n"
        "    if method['name'] == 'breaks':\n"
        "        raise RuntimeError('half way')\n"
        "    return (1.0 if method['name'] == 'alone' else 0.5) + 0.01 * run\n"
        "def draw(config, record, path):\n"
        "    path.write_bytes(b'picture')\n"
    )
    (folder / "fig1.toml").write_text(
        'title = "t"\nruns = 3\nquick_runs = 2\nx = [1, 10]\nquick_x = [1]\n'
        '[[panel]]\nname = "p"\nmetric = "nmse"\n'
        '[[method]]\nname = "alone"\nopen = true\n[[method]]\nname = "ours"\n'
        '[[claim]]\nname = "ours beats alone"\nwhere = "w"\nsays = "s"\nverdict = "reproduced"\n'
        '[[claim.holds]]\npanel = "p"\nmethod = "ours"\nx = [1, 10]\n'
        'than = "alone"\nat_most = 0.6\n'
    )
    monkeypatch.setenv("TACIT_PAPERS", str(folder.parent))
    monkeypatch.delitem(_figures.sys.modules, "tacit_paper_small_paper", raising=False)
    yield folder
    _figures.sys.modules.pop("tacit_paper_small_paper", None)


def test_a_figure_writes_its_files_and_continues_without_computing_again(paper, tmp_path):
    def run(**given):
        return reproduce.reproduce(["small-paper/fig1"], out=tmp_path, progress=False, **given)

    (finding,) = run(quick=True)["small-paper/fig1"]
    assert finding.upheld
    assert (tmp_path / "small-paper" / "fig1-quick.png").exists()
    assert (paper / "count.txt").read_text() == "4"  # 2 runs of 2 methods
    run(quick=True)
    assert (paper / "count.txt").read_text() == "4"
    run()
    assert (paper / "count.txt").read_text() == "13"  # once without a level, at two levels ours
    kept = Record.read(tmp_path / "small-paper" / "fig1.csv")
    assert kept.of("p", "ours", 10).tolist() == [0.5, 0.51, 0.52]
    run(runs=4)
    assert (paper / "count.txt").read_text() == "16"


def test_an_interrupted_figure_keeps_what_it_measured(paper, tmp_path):
    text = (paper / "fig1.toml").read_text()
    extra = '[[method]]\nname = "breaks"\n[[claim]]'
    (paper / "fig1.toml").write_text(text.replace("[[claim]]", extra, 1))
    with pytest.raises(RuntimeError, match="half way"):
        reproduce.reproduce(["small-paper/fig1"], out=tmp_path, progress=False)
    before = int((paper / "count.txt").read_text())
    with pytest.raises(RuntimeError, match="half way"):
        reproduce.reproduce(["small-paper/fig1"], out=tmp_path, progress=False)
    assert int((paper / "count.txt").read_text()) <= 2 * before


def test_other_settings_are_measured_anew(paper, tmp_path):
    reproduce.reproduce(["small-paper/fig1"], quick=True, out=tmp_path, progress=False)
    text = (paper / "fig1.toml").read_text()
    (paper / "fig1.toml").write_text(text.replace('name = "ours"\n', 'name = "ours"\nk = 1\n', 1))
    reproduce.reproduce(["small-paper/fig1"], quick=True, out=tmp_path, progress=False)
    assert (paper / "count.txt").read_text() == "8"


def test_processes_share_the_work(paper, tmp_path):
    found = reproduce.reproduce(["small-paper/fig1"], out=tmp_path, jobs=2, progress=False)
    assert found["small-paper/fig1"][0].upheld


def test_a_claim_is_upheld_by_every_one_of_its_conditions():
    assert judge(CONFIG, _record())[0].upheld
    assert not judge(CONFIG, _record(a=0.95))[0].upheld
    mixed = _record()
    mixed.values["p", "a", "2"] = dict.fromkeys(range(4), 2.0)
    assert not judge(CONFIG, mixed)[0].upheld
    absent = Record({k: v for k, v in _record().values.items() if k[1] != "b"})
    (finding,) = judge(CONFIG, absent)
    assert not finding.upheld
    assert "not measured" in finding.ours


def test_a_quick_run_judges_the_levels_it_ran():
    quick = CONFIG | {"levels": [1]}
    only = Record({k: v for k, v in _record().values.items() if k[2] == "1"})
    assert judge(quick, only)[0].upheld
    assert not judge(CONFIG, only)[0].upheld


def test_a_quick_run_judges_the_panels_it_ran():
    assert judge(CONFIG | {"left_out": ["p"]}, Record({})) == []
    assert not judge(CONFIG | {"left_out": ["another"]}, Record({}))[0].upheld


def test_a_quick_run_leaves_out_panels_that_are_not_quick(paper, tmp_path):
    text = (paper / "fig1.toml").read_text()
    assert text.count("[[panel]]\n") == 1
    (paper / "fig1.toml").write_text(text.replace("[[panel]]\n", "[[panel]]\nquick = false\n"))
    found = reproduce.reproduce(["small-paper/fig1"], quick=True, out=tmp_path, progress=False)
    assert found["small-paper/fig1"] == []
    assert not (paper / "count.txt").exists()


def test_an_area_under_the_curve_is_compared_by_what_it_lacks():
    config = CONFIG | {"panel": [{"name": "p", "metric": "auc"}]}
    good = _record().changed(lambda key, run, value: 0.98 if key[1] == "a" else 0.9 + 0.001 * run)
    assert judge(config, good)[0].upheld  # 0.02 against 0.1


def test_the_table_says_when_a_run_contradicts_a_verdict():
    text = claim_table({"f": judge(CONFIG, _record(a=0.95))})
    assert "CONTRADICTED" in text
    assert "CONTRADICTED" not in claim_table({"f": judge(CONFIG, _record())})


def test_results_survive_the_short_form(tmp_path):
    _record().save(tmp_path / "r.csv")
    again = Record.read(tmp_path / "r.csv")
    assert again.of("p", "a", 1).tolist() == [0.5, 0.51, 0.52, 0.53]
    assert again.levels("p", "b") == ["1", "2"]


def test_an_unknown_figure_names_the_known_ones(paper):
    with pytest.raises(InvalidInput, match="small-paper/fig1"):
        reproduce.reproduce(["model-protected/fig99"])


def test_results_that_are_not_kept_are_asked_for(paper):
    with pytest.raises(DataNotFound, match="run the figure"):
        reproduce.judge_recorded("small-paper/fig1")


def test_without_a_checkout_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("TACIT_PAPERS", str(tmp_path / "nowhere"))
    monkeypatch.setattr(_figures, "__file__", str(tmp_path / "a" / "b" / "c" / "reproduce.py"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataNotFound, match="TACIT_PAPERS"):
        reproduce.papers_folder()


def test_a_figure_whose_extra_is_not_installed_says_so_before_it_runs(monkeypatch, tmp_path):
    monkeypatch.setitem(_figures._MODULES, "neural", "no_such_module")
    names = [name for name in reproduce.available() if reproduce.lacking(name)]
    assert names == [name for name in reproduce.available() if name.startswith("private-federated")]
    with pytest.raises(
        InvalidInput, match=r"private-federated/fig2: pip install 'tacit\[neural\]'"
    ):
        reproduce.reproduce(["private-federated/fig2"], out=tmp_path, progress=False)
    assert list(tmp_path.iterdir()) == []
