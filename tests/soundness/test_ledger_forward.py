"""Ledgers of format 1, which kept roles apart, are brought forward without losing a spend."""

import sqlite3

import pytest
from dp_accounting import dp_event

from tacit.errors import BudgetExceeded, LedgerError
from tacit.privacy import Ledger, compose
from tacit.privacy._chain import Chain
from tacit.privacy.accounting import event_to_json
from tacit.privacy.events import EpsilonDeltaDpEvent as Step

Gaussian = dp_event.GaussianDpEvent
REPLACE = "replace-one"


def spend(event, count):
    if isinstance(event, Gaussian):
        values = {"mu_squared": count / event.noise_multiplier**2, "epsilon": 0.0, "delta": 0.0}
    else:
        epsilon = count * event.epsilon
        values = {"mu_squared": 0.0, "epsilon": epsilon, "delta": count * event.delta}
    return {**values, "rdp": 0.0}


def old_ledger(path, runs, *, epsilon=1.0, delta=1e-5):
    """Write format 1; a run is (data, unit, adjacency, rule, event, count, closed)."""
    chain, lines = Chain(path, {"epsilon": epsilon, "delta": delta, "rule": "auto"}), {}
    for *line, event, count, closed in runs:
        body = dict(zip(("data", "unit", "adjacency", "rule"), line, strict=True))
        events = {event_to_json(event): count}
        with chain.writing():
            number = lines.get(tuple(line)) or chain.append("line", body)
            lines[tuple(line)] = number
            reserved = {"events": events, "spend": spend(event, count), "label": "", "time": ""}
            run = chain.append("reserve", reserved, line=number)
            chain.append("charge", {"events": events}, line=number, reservation=run)
            if closed:
                final = {"spend": spend(event, count), "time": ""}
                chain.append("close", final, line=number, reservation=run)
    head = chain.head
    chain.close()
    change(path, "PRAGMA user_version=1")
    return head


def change(path, command):
    connection = sqlite3.connect(path)
    try:
        connection.execute(command)
        connection.commit()
    finally:
        connection.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


def test_roles_become_one_data_set_and_tasks_count_for_rows(path):
    head = old_ledger(
        path,
        [
            ("data", "row", REPLACE, "basic", Step(1.0), 1, True),
            ("source", "row", REPLACE, "basic", Step(1.0), 1, True),
            ("target", "row", REPLACE, "basic", Step(1.0), 1, False),
            ("data", "task", REPLACE, "basic", Step(0.5), 2, True),
        ],
        delta=0.0,
    )
    with Ledger(path) as ledger:
        assert ledger.spent(unit="row").epsilon == 4.0
        assert ledger.spent(unit="task").epsilon == 1.0
        assert {line.data for line in ledger.lines()} == {"unnamed"}
        assert {line.unit: line.n_charges for line in ledger.lines()} == {"row": 5, "task": 2}
        assert ledger.verify(head) > 10
        assert ledger.recover() == 0
        again = ledger.head
        with pytest.raises(BudgetExceeded):
            ledger.reserve(Step(0.1), unit="row", adjacency=REPLACE)
        with pytest.raises(BudgetExceeded):
            ledger.reserve(Step(0.1), unit="row", adjacency=REPLACE, data="new")
    with Ledger(path) as ledger:
        assert ledger.head == again


def test_names_that_users_gave_stay_apart(path):
    runs = [
        ("clinic", "row", REPLACE, "basic", Step(0.6), 1, True),
        ("bank", "row", REPLACE, "basic", Step(0.7), 1, True),
    ]
    old_ledger(path, runs)
    with Ledger(path) as ledger:
        assert ledger.spent("clinic").epsilon == 0.6
        assert ledger.spent("bank").epsilon == 0.7
        with ledger.reserve(Step(0.3), unit="row", adjacency=REPLACE, data="clinic") as more:
            more.charge(Step(0.3))
        assert ledger.spent("clinic").epsilon == pytest.approx(0.9)


@pytest.mark.parametrize("adjacencies", [(REPLACE, "zero-out"), ("add-or-remove", "zero-out")])
def test_adjacencies_meet_at_replace_one(path, adjacencies):
    runs = [("data", "task", name, "gdp", Gaussian(9.0), 2, True) for name in adjacencies]
    old_ledger(path, runs, epsilon=9.0)
    halved = sum(name != REPLACE for name in adjacencies)
    truth = [Gaussian(9.0)] * (2 * (2 - halved)) + [Gaussian(4.5)] * (2 * halved)
    with Ledger(path) as ledger:
        (line,) = ledger.lines()
        assert line.adjacency == REPLACE
        least = compose(truth, delta=1e-5).epsilon
        assert least <= line.spent.epsilon <= least * (1 + 1e-9)
        assert ledger.spent(unit="row") == line.spent


def test_one_adjacency_stays_and_is_two_steps_for_rows(path):
    old_ledger(path, [("data", "task", "add-or-remove", "basic", Step(0.4), 1, True)], delta=0.0)
    with Ledger(path) as ledger:
        assert ledger.lines()[0].adjacency == "add-or-remove"
        assert ledger.spent(unit="task").epsilon == 0.4
        assert ledger.spent(unit="row").epsilon == 0.8


def test_lines_of_different_rules_are_added_up(path, tmp_path):
    gaussian = ("data", "task", REPLACE, "gdp", Gaussian(9.0), 3, True)
    alone = compose([Gaussian(9.0)] * 3, delta=1e-5).epsilon
    old_ledger(path, [gaussian, ("data", "row", REPLACE, "basic", Step(0.3), 1, True)])
    with Ledger(path) as ledger:
        assert {line.rule for line in ledger.lines()} == {"gdp"}
        truth = compose([Gaussian(9.0)] * 3 + [Step(0.3)], delta=1e-5).epsilon
        assert alone < truth <= ledger.spent(unit="row").epsilon < 4 * truth
    other = tmp_path / "other.db"
    old_ledger(other, [gaussian, ("data", "row", REPLACE, "basic", Step(0.3, 1e-7), 1, True)])
    with Ledger(other) as ledger:
        assert {line.rule for line in ledger.lines()} == {"basic"}
        assert ledger.spent(unit="row").epsilon == pytest.approx(alone + 0.3)
        assert ledger.spent(unit="row").delta == pytest.approx(1.01e-5)


def test_an_empty_ledger_is_brought_forward_too(path):
    old_ledger(path, [])
    with Ledger(path) as ledger:
        assert ledger.lines() == ()
        with ledger.reserve(Gaussian(9.0), unit="task", adjacency=REPLACE) as run:
            run.charge(Gaussian(9.0))
        assert ledger.lines()[0].rule == "gdp"


def test_a_process_of_the_earlier_version_reserves_nothing_more(path):
    old_ledger(path, [("data", "row", REPLACE, "basic", Step(0.3), 1, True)])
    Ledger(path).close()
    with pytest.raises(sqlite3.IntegrityError, match="later version"):
        change(path, "INSERT INTO entries VALUES (99, 'reserve', 2, 0, '{\"events\":{}}', 'x')")


def test_an_edited_ledger_is_not_brought_forward(path):
    old_ledger(path, [("data", "row", REPLACE, "basic", Step(0.3), 1, True)])
    change(path, "UPDATE entries SET body = replace(body, '0.3', '0.1') WHERE number = 3")
    with pytest.raises(LedgerError, match="edited"):
        Ledger(path)
