"""The command line of a federation, as far as it goes without a network."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit.cli._app import app
from tacit.estimators import load
from tacit.federation import Refused, Terms
from tacit.federation.status import facts_of
from tacit.federation.strict import check_policy, write_policy

from .conftest import NAMES, closed, rows_of, sites_of, terms_of


@pytest.fixture
def rows(tmp_path):
    found = rows_of("classification", 80)
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("hospital", "a", "b", "c", "sick"))
        for name, (X, y) in found.items():
            writer.writerows([name, *map(float, x), answer] for x, answer in zip(X, y, strict=True))
    return path


def tacit(*arguments):
    return CliRunner().invoke(app, [str(part) for part in arguments])


def simulated(rows, out, *more):
    return tacit(
        *("federate", "simulate", rows, "--task", "hospital", "--target", "sick"),
        *("--classes", "no,yes", "--features", "a,b,c", "--epsilon", "3", "--out", out, *more),
    )


def test_a_file_split_by_task_becomes_a_federation(rows, tmp_path):
    done = simulated(rows, tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "the coordinating server included" in " ".join(done.output.split())
    for name in NAMES:
        (run,) = (tmp_path / "out" / "sites" / name / "runs").iterdir()
        model = load(run / "model")
        assert model.task_names_ == (name,)
        assert model.privacy_.holds
        assert name in (run / "report.html").read_text()
        assert "in total ε = 3" in (run / "consent.txt").read_text()
        shown = tacit("ledger", "show", tmp_path / "out" / "sites" / name / "ledger.db")
        assert shown.exit_code == 0


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (("--method", "no-such"), "must be one of"),
        (("--set", "colour=blue"), "no parameter 'colour'"),
        (("--late", "never"), "late="),
        (("--range", "z=0:1"), "not among --features"),
        (("--epsilon", "inf"), "finite epsilon"),
        (("--task", "nobody"), "nobody"),
        (("--sources", "ash"), "have sources"),
        (("--method", "transfer", "--sources", "nobody"), "--sources nobody: the sites are"),
    ],
)
def test_a_simulation_that_cannot_run_is_refused_before_anything_is_written(
    rows, tmp_path, more, reason
):
    done = simulated(rows, tmp_path / "out", *more)
    assert done.exit_code == 2, done.output
    assert reason in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()


def test_a_transfer_is_rehearsed_from_one_file(rows, tmp_path):
    more = ("--method", "transfer", "--sources", "ash,birch")
    done = simulated(rows, tmp_path / "out", *more)
    assert done.exit_code == 0, done.output
    run = next((tmp_path / "out" / "sites" / "cedar" / "runs").iterdir())
    assert load(run / "model").privacy_.holds
    assert sorted(part.name for part in (run / "sources").iterdir()) == ["ash", "birch"]
    assert "nothing of its rows leaves" in (run / "consent.txt").read_text()


def test_a_folder_in_the_way_is_not_written_over(rows, tmp_path):
    (tmp_path / "out").mkdir()
    assert "exists" in simulated(rows, tmp_path / "out").output


def test_a_run_goes_on_until_it_is_done_and_another_roster_is_another_run(house):
    first = house.run()
    assert house.run() == first == house.latest()
    assert house.run(new=True) != first
    smaller = house.run(without=("cedar",))
    terms = Terms.load(smaller / "terms.json")
    assert terms.sites == ("ash", "birch", "dogwood")
    assert terms.run != Terms.load(first / "terms.json").run
    with pytest.raises(ValueError, match="no site"):
        house.run(without=("nobody",))


def test_status_shows_sites_round_budget_and_the_last_error(house, tmp_path):
    from tacit.federation import Coordinator, InProcess

    assert facts_of(house)["phase"] == "none"
    folder = house.run()
    terms = Terms.load(folder / "terms.json")
    sites = sites_of(terms, tmp_path / "homes")
    Coordinator(folder, InProcess(sites)).run()
    closed(sites)
    facts = facts_of(house)
    assert facts["phase"] == "done"
    assert facts["round"] == facts["rounds"] == 3
    assert facts["spent"] == pytest.approx(50.0, rel=1e-6)
    assert [site["state"] for site in facts["sites"]] == ["has all releases"] * 4
    done = tacit("federate", "status", tmp_path, "--json")
    assert json.loads(done.output)["phase"] == "done"
    assert "has all releases" in tacit("federate", "status", tmp_path).output


def test_what_a_site_says_is_no_markup_in_the_terminal_either(house, tmp_path):
    folder = house.run()
    said = "refused: [/red] [bold]"
    body = {"phase": "refused", "error": said, "sites": {NAMES[0]: {"state": said, "time": 0}}}
    (folder / "status.json").write_text(json.dumps(body))
    done = tacit("federate", "status", tmp_path)
    assert done.exit_code == 0
    assert done.output.count("[/red]") == 2


def test_a_kit_that_takes_unsigned_jobs_is_refused_with_its_line(tmp_path):
    for part in ("local", "startup"):
        (tmp_path / part).mkdir()
    write_policy(tmp_path)
    check_policy(tmp_path)
    startup = tmp_path / "startup" / "fed_client.json"
    for value, refused in (("true", False), ("false", True), ("0", True), ('"no"', True)):
        startup.write_text(f'{{"client": {{}},\n "require_signed_jobs": {value}}}')
        if refused:
            with pytest.raises(Refused, match=r"fed_client\.json, line 2: lets unsigned jobs in"):
                check_policy(tmp_path)
        else:
            check_policy(tmp_path)


def test_commands_that_need_nvflare_say_so(tmp_path, monkeypatch):
    from importlib import util

    monkeypatch.setattr(util, "find_spec", lambda name: None)
    done = tacit("federate", "site", tmp_path)
    assert done.exit_code == 2
    assert "tacit[federation]" in done.output


def test_stop_and_status_refuse_a_folder_that_is_none(tmp_path):
    assert "neither" in tacit("federate", "stop", tmp_path).output
    assert "no federation" in tacit("federate", "status", tmp_path).output


def test_rows_with_other_columns_are_refused_at_the_site(rows, tmp_path):
    from tacit.errors import InvalidInput
    from tacit.federation.rows import rows_of as reader

    terms = terms_of("moments, untrusted")
    with pytest.raises(InvalidInput, match="intake"):
        reader(rows, "ash")(terms)
    assert np.isfinite(terms.deadline)
