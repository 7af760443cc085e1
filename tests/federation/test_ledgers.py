"""The rows of a site have one budget: another home, or a fit of its own, is noticed."""

import csv
import shutil

import pytest
from typer.testing import CliRunner

from tacit.cli._app import app
from tacit.cli.federate._ledger import asked_for, described, registered
from tacit.cli.federate._terms import terms_of
from tacit.cli.guard.choice import Guard
from tacit.errors import InvalidInput, LedgerError
from tacit.federation import Site
from tacit.federation.house import FILE, Federation
from tacit.federation.kits import SETTINGS, Settings
from tacit.privacy import Ledger

from .conftest import NAMES, rows_of

FIT = ("--task", "ward", "--target", "sick", "--classes", "no,yes", "--method", "shared-moments")


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    """A file with all sites' rows, and one with the rows of ash alone, in two wards."""
    monkeypatch.chdir(tmp_path)
    found = rows_of("classification", 40)
    with open("all.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("hospital", "a", "b", "c", "sick"))
        for name in NAMES:
            for x, y in zip(*found[name], strict=True):
                writer.writerow((name, *map(float, x), y))
    with open("ash.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("ward", "a", "b", "c", "sick"))
        for number, (x, y) in enumerate(zip(*found["ash"], strict=True)):
            writer.writerow((("low", "high")[number % 2], *map(float, x), y))
    return tmp_path


def settings_for(home, data, site="ash", column="", epsilon=2.0):
    return Settings(
        folder=str(home / "state"),
        data=str(data),
        site=site,
        column=column,
        ledger=str(home / "state" / "ledger.db"),
        max_epsilon=epsilon,
    )


def joined(settings, **asked):
    """Take the place in the register that ``tacit federate join`` takes."""
    question = asked_for(settings, named=asked.get("named"), reason=asked.get("reason"))
    (question.new.parent).mkdir(parents=True, exist_ok=True)
    with Guard(question, (settings.max_epsilon, settings.max_delta)) as guard:
        guard.stays = True
    return guard.path


def tacit(*arguments):
    return CliRunner().invoke(app, [str(part) for part in arguments])


def fitted(out, *more):
    return tacit(
        "fit", "ash.csv", *FIT, "--epsilon", 1, "--delta", 1e-5, "--out", out, "--yes", *more
    )


def test_a_fit_on_a_sites_rows_charges_the_sites_ledger(files):
    path = joined(settings_for(files / "north", files / "ash.csv", epsilon=1.0))
    assert path == files / "north" / "state" / "ledger.db"
    done = fitted("run")
    assert done.exit_code == 0, done.output
    assert "these rows are guarded by" in done.output
    assert not (files / "ash.csv.ledger.db").exists()
    with Ledger(path) as ledger:
        assert ledger.spent().epsilon == pytest.approx(1.0, rel=1e-6)
    assert fitted("again").exit_code == 3


def test_a_site_whose_rows_were_fitted_alone_charges_that_ledger(files):
    assert fitted("run").exit_code == 0
    settings = settings_for(files / "north", files / "ash.csv")
    shown = described(asked_for(settings, named=None), (2.0, 1e-5))
    assert "ash.csv.ledger.db: ε = 1 of 1 is spent" in shown
    path = joined(settings)
    assert path.name == "ash.csv.ledger.db"
    site = Site("ash", files / "north" / "state", lambda _: None, settings.policy(), ledger=path)
    assert site._ledger.spent().epsilon == pytest.approx(1.0, rel=1e-6)
    site.close()
    assert not (files / "north" / "state" / "ledger.db").exists()


def test_the_same_rows_joined_from_two_homes_have_one_ledger(files):
    first = joined(settings_for(files / "north", files / "ash.csv"))
    shutil.copy("ash.csv", "copy.csv")
    assert joined(settings_for(files / "south", files / "copy.csv")) == first
    other = files / "other.db"
    Ledger(other, epsilon=1, delta=1e-5).close()
    with pytest.raises(InvalidInput, match="are guarded by"):
        joined(settings_for(files / "south", files / "copy.csv"), named=other)
    reason = "the board allowed a second study"
    another = joined(settings_for(files / "south", files / "copy.csv"), reason=reason)
    assert another != first
    with Ledger(another) as ledger:
        assert ledger.notes()[0]["reason"] == reason


def test_sites_that_share_a_file_have_a_ledger_each(files):
    paths = {
        joined(settings_for(files / name, files / "all.csv", name, "hospital")) for name in NAMES
    }
    assert len(paths) == len(NAMES)


def test_a_start_notes_the_rows_of_today_and_refuses_those_that_another_ledger_guards(files):
    settings = settings_for(files / "north", files / "ash.csv")
    with pytest.raises(LedgerError, match="is gone"):
        registered(settings)
    joined(settings)
    registered(settings)
    other = files / "all.csv"
    joined(settings_for(files / "south", other, "birch", "hospital"))
    lines = other.read_text().splitlines()
    mine = files / "ash.csv"
    swapped = "\n".join(line for line in lines if line.startswith(("hospital", "birch")))
    mine.write_text(swapped.replace("hospital", "ward") + "\n")
    with pytest.raises(InvalidInput, match="are guarded by"):
        registered(settings)


def test_a_lost_budget_is_not_found_again_in_an_older_copy_of_the_ledger(files):
    settings = settings_for(files / "north", files / "ash.csv")
    path = joined(settings)
    shutil.copy(path, "older.db")
    assert fitted("run").exit_code == 0
    shutil.copy("older.db", path)
    with pytest.raises(LedgerError, match="older copy"):
        registered(settings)


@pytest.fixture
def invitation(files):
    """What a coordinator sends, without its keys."""
    pytest.importorskip("nvflare", reason="needs tacit[federation]")
    asked = {
        **dict.fromkeys(("categories", "range", "set", "sources", "seed")),
        "features": ["a,b,c"],
        "missing": "drop",
        "task": "hospital",
        "target": "sick",
        "epsilon": 1.0,
        "delta": 1e-5,
        "classes": "no,yes",
        "method": "shared-moments",
        "deadline": 60.0,
        "late": "stop",
    }
    Federation("f", "localhost", 1, "SHA256:00", terms_of(asked, NAMES)).save(files / FILE)
    return files / FILE


def test_join_and_site_take_their_place_in_the_register(invitation, files):
    def join(home, data, *more):
        at = ("federate", "join", invitation, "--site", "ash", "--home", home, "--data", data)
        return tacit(*at, "--max-epsilon", 2, "--yes", *more)

    done = join("first", "ash.csv")
    assert done.exit_code == 0, done.output
    assert "total ε = 2" in " ".join(done.output.split())
    ledger = files / "first" / "state" / "ledger.db"
    assert Settings.load(files / "first" / SETTINGS).ledger == str(ledger)
    assert fitted("run").exit_code == 0  # the fit is charged to the site
    shutil.copy("ash.csv", "copy.csv")
    again = join("second", "copy.csv")
    assert again.exit_code == 0, again.output
    assert "ε = 1 of 2 is spent" in " ".join(again.output.split())
    assert Settings.load(files / "second" / SETTINGS).ledger == str(ledger)
    Ledger("mine.db", epsilon=9, delta=1e-5).close()
    refused = join("third", "copy.csv", "--ledger", "mine.db")
    assert refused.exit_code == 2, refused.output
    assert "budgets of the same rows add up" in " ".join(refused.output.split())
    assert not (files / "third").exists()
    kit = files / "second" / "kit" / "local"
    kit.mkdir(parents=True)
    (files / "second" / SETTINGS).rename(kit / SETTINGS)
    ledger.rename(files / "elsewhere.db")
    stopped = tacit("federate", "site", "second")
    assert stopped.exit_code != 0
    assert "is gone" in " ".join(stopped.output.split())
