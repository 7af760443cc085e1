"""Verdicts on the papers' claims stand on their figures: change those, and the claims fail."""

from __future__ import annotations

import json
import tomllib

import pytest

from tacit import reproduce
from tacit.errors import DataNotFound, InvalidInput
from tacit.reproduce import Claim, Record, judge
from tacit.reproduce._claims import VERDICTS, with_published

try:
    FIGURES = reproduce.available()
except DataNotFound:  # an installed wheel has no papers
    FIGURES = {}
ALONE = ("single task, one λ", "single task", "Direct")  # the strongest first
WORSE = 1.2


def _opened(name):
    config = tomllib.loads(FIGURES[name].read_text(encoding="utf-8"))
    kept = FIGURES[name].parent / "results" / f"{FIGURES[name].stem}.csv"
    assert kept.exists(), f"{name}: run it in full and keep its results"
    return config, Record.read(kept)


def _failed(config, record):
    return {
        finding.claim.name
        for finding in judge(config, with_published(config, record))
        if not finding.upheld
    }


def _sound(config):
    """Return methods that protect: neither leaking, open nor the thing compared with."""
    return {
        method["name"]
        for method in config["method"]
        if not (method.get("leaking") or method.get("open") or method["name"] in ALONE)
        and "baseline" not in method
        and not method.get("true")
    }


def _against(conditions, config):
    """Return a change that moves every condition's method 20 % against its condition."""
    metrics = {panel["name"]: panel.get("metric", "") for panel in config["panel"]}
    moved = {}
    for c in conditions:
        if c.than_x is None or str(c.than_x) != str(c.x):
            moved[c.panel, c.method, str(c.x)] = WORSE if c.at_most is not None else 1 / WORSE
    # A method without privacy has no level.
    moved |= {(panel, method, "all"): factor for (panel, method, _), factor in moved.items()}

    def change(key, run, value):
        factor = moved.get(key)
        if factor is None:
            return value
        if metrics[key[0]] == "auc":
            return 1 - (1 - value) * factor
        if metrics[key[0]] == "share":  # around 0: a fifth of the way
            return value + (factor > 1) * 0.2 - (factor < 1) * 0.2
        if metrics[key[0]] == "log10":
            return value + (0.0792 if factor > 1 else -0.0792)
        return value * factor

    return change


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_claims_that_its_kept_results_support(name):
    config, record = _opened(name)
    claims = [Claim.of(claim) for claim in config["claim"]]
    assert claims
    assert len({claim.name for claim in claims}) == len(claims)
    assert {claim.verdict for claim in claims} <= set(VERDICTS)
    assert _failed(config, record) == set()
    assert len(reproduce.judge_recorded(name)) == len(claims)


@pytest.mark.parametrize("name", FIGURES)
def test_a_method_twenty_per_cent_against_its_claim_refutes_it(name):
    config, record = _opened(name)
    for given in config["claim"]:
        claim = Claim.of(given)
        mutant = record.changed(_against(claim.conditions, config))
        assert claim.name in _failed(config, mutant), claim.name


@pytest.mark.parametrize("name", FIGURES)
def test_single_task_in_place_of_every_sound_method_refutes_its_claims(name):
    config, record = _opened(name)
    if config.get("about_protection"):
        pytest.skip("claims that nothing shows: learning alone shows nothing either")
    sound = _sound(config)
    known = {
        panel: [a for a in ALONE if record.of(panel, a).size or _levels(record, panel, a)]
        for panel in {key[0] for key in record.values}
    }
    if not any(known.values()):
        pytest.skip("the figure has no single-task learning to put in their place")

    def change(key, run, value):
        if key[1] not in sound or not known[key[0]]:
            return value
        alone = record.of(key[0], known[key[0]][0], key[2])
        return float(alone[run]) if run < len(alone) else value

    failed = _failed(config, record.changed(change))
    about = {
        claim.name
        for claim in map(Claim.of, config["claim"])
        if any(c.method in sound for c in claim.conditions)
    }
    assert about <= failed


def _levels(record, panel, method):
    return record.levels(panel, method)


@pytest.mark.parametrize("name", FIGURES)
def test_shuffled_methods_refute_claims(name):
    config, record = _opened(name)
    panels = {key[0] for key in record.values}
    for shift in (1, 2):
        renamed = {}
        for panel in panels:
            methods = record.methods(panel)
            for place, method in enumerate(methods):
                renamed[panel, method] = methods[(place + shift) % len(methods)]
        values = {(k[0], renamed[k[0], k[1]], k[2]): runs for k, runs in record.values.items()}
        if all(new == old for (_, old), new in renamed.items()):
            continue
        assert _failed(config, Record(values)), f"shift by {shift}"


def test_the_papers_three_verdicts_are_all_in_use():
    if not FIGURES:
        pytest.skip("no checkout")
    used = {claim["verdict"] for name in FIGURES for claim in _opened(name)[0]["claim"]}
    assert used == set(VERDICTS)


def test_no_printed_method_was_tuned_to_the_edge_of_its_grid():
    if not FIGURES:
        pytest.skip("no checkout")
    tuned = {}
    for path in reproduce.papers_folder().glob("*/tuned.json"):
        tuned |= json.loads(path.read_text(encoding="utf-8"))
    assert {"printed-lr", "printed-gs", "dp-mtrl", "dp-aggr", "printed"} <= set(tuned)
    for method, sets in tuned.items():
        for data, levels in sets.items():
            for level, choice in levels.items():
                assert choice["edges"] == [], (method, data, level)


def test_a_verdict_without_its_reason_is_refused():
    given = {
        "name": "n",
        "where": "w",
        "says": "s",
        "verdict": "not reproduced",
        "holds": [{"panel": "p", "method": "m", "at_most": 1.0}],
    }
    with pytest.raises(InvalidInput, match="because"):
        Claim.of(given)
    with pytest.raises(InvalidInput, match="verdict"):
        Claim.of(given | {"verdict": "maybe"})
    with pytest.raises(InvalidInput, match="at_most"):
        Claim.of(given | {"because": "b", "holds": [{"panel": "p", "method": "m"}]})


def test_the_page_has_the_table_that_the_kept_results_give():
    if not FIGURES:
        pytest.skip("no checkout")
    page = reproduce.papers_folder().parent / "docs" / "reproduction.md"
    table = reproduce.claim_table({name: reproduce.judge_recorded(name) for name in FIGURES})
    assert table in page.read_text(encoding="utf-8"), "paste: tacit reproduce --all --recorded"


@pytest.mark.parametrize("name", FIGURES)
def test_a_quick_run_s_share_of_the_kept_results_supports_the_claims_too(name):
    config, record = _opened(name)
    config["levels"] = config.get("quick_x", config["x"])
    few = Record(
        {
            key: {run: value for run, value in runs.items() if run < config["quick_runs"]}
            for key, runs in record.values.items()
        }
    )
    assert _failed(config, few) == set()
