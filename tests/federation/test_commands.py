"""The command line of a federation, as far as it goes without a network."""

import csv
import json
import shutil
import subprocess
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit.cli._app import app
from tacit.estimators import load
from tacit.federation import Terms
from tacit.federation.house import FILE, Federation, House
from tacit.federation.status import facts_of, page, page_server

from .conftest import NAMES, closed, rows_of, sites_of, terms_of

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


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
    ],
)
def test_a_simulation_that_cannot_run_is_refused_before_anything_is_written(
    rows, tmp_path, more, reason
):
    done = simulated(rows, tmp_path / "out", *more)
    assert done.exit_code == 2, done.output
    assert reason in " ".join(done.output.split())
    assert not (tmp_path / "out").exists()


def test_a_folder_in_the_way_is_not_written_over(rows, tmp_path):
    (tmp_path / "out").mkdir()
    assert "exists" in simulated(rows, tmp_path / "out").output


@pytest.fixture
def house(tmp_path):
    """A coordinator's folder without keys, with a run under way."""
    terms = terms_of("mean regularised")
    Federation("f", "localhost", 1, "SHA256:00", terms).save(tmp_path / FILE)
    return House(tmp_path)


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
    assert [site["state"] for site in facts["sites"]] == ["has its model"] * 4
    done = tacit("federate", "status", tmp_path, "--json")
    assert json.loads(done.output)["phase"] == "done"
    assert "has its model" in tacit("federate", "status", tmp_path).output


def test_the_page_answers_only_whoever_has_the_token(house):
    server, address = page_server(house)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        assert server.server_address[0] == "127.0.0.1"
        with urllib.request.urlopen(address) as answer:
            text = answer.read().decode()
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert all(name in text for name in NAMES)
        assert "<script" not in text
        assert "http://" not in text
        for wrong in (address.split("?")[0], address + "x"):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(wrong)
        with pytest.raises(urllib.error.HTTPError, match="501"):
            urllib.request.urlopen(urllib.request.Request(address, method="POST", data=b""))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_what_a_site_says_cannot_become_markup(house):
    facts = facts_of(house)
    facts["sites"][0]["state"] = "<script>alert(1)</script>"
    facts["error"] = "<b>"
    assert "<script" not in page(facts)
    assert "<b>" not in page(facts)


def test_the_page_in_a_real_browser(house, tmp_path):
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")
    server, address = page_server(house)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr")
    done = subprocess.run(
        [CHROMIUM, *flags, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", address],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    server.shutdown()
    server.server_close()
    assert "ash" in done.stdout
    assert "CONSOLE" not in done.stderr


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
