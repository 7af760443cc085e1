import dataclasses
import json
import math

import numpy as np
import pytest
from dp_accounting import dp_event
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import InvalidInput
from tacit.privacy import Adjacency, Unit
from tacit.privacy.accounting import compose
from tacit.privacy.billboard import Billboard
from tacit.privacy.statement import Statement

EVENT = dp_event.GaussianDpEvent(5.0)


def statement(**changes):
    fields = {
        "unit": "task",
        "definition": "joint differential privacy",
        "adjacency": "replace-one",
        "epsilon": 1.0,
        "delta": 1e-6,
        "accountant": "gdp",
        "mechanisms": ("gaussian",),
        "n_releases": 10,
    }
    return Statement(**{**fields, **changes})


def of_run(board, **changes):
    facts = {"unit": "task", "adjacency": "replace-one", "delta": 1e-6}
    return Statement.of_run(board, **{**facts, **changes})


@pytest.fixture
def board():
    billboard = Billboard()
    for t in range(3):
        billboard.post(np.zeros(2), EVENT, label=f"round {t + 1}: gaussian")
    return billboard


def test_a_run_is_stated_from_its_billboard(board):
    stated = of_run(board, n_units=100, assumptions=("norms are public",))
    assert stated.epsilon == compose([EVENT] * 3, delta=1e-6).epsilon
    assert (stated.n_releases, stated.mechanisms, stated.accountant) == (3, ("gaussian",), "gdp")
    assert (stated.unit, stated.adjacency) == (Unit.TASK, Adjacency.REPLACE_ONE)
    assert stated.definition == "joint differential privacy"
    assert stated.holds
    assert of_run(board, unit="row").definition == "differential privacy"


def test_a_run_with_a_release_without_noise_is_stated_as_not_private():
    board = Billboard()
    board.post(np.zeros(2), EVENT)
    board.post(np.zeros(2), dp_event.NonPrivateDpEvent())
    stated = of_run(board)
    assert (stated.definition, stated.epsilon, stated.holds) == ("none", math.inf, False)
    assert "NOT PRIVATE" in stated.explain()


def test_learning_alone_costs_nothing():
    stated = of_run(Billboard())
    assert (stated.epsilon, stated.n_releases) == (0.0, 0)
    assert "nothing left any task" in stated.explain()


def test_the_explanation_names_who_against_whom_how_much_assumed_and_not_protected(board):
    text = of_run(board, assumptions=("norms are public",), not_protected=("n_i",)).explain()
    for part in (
        "each task (one party's whole data set and model)",
        "all other parties together",
        "is trusted with them",
        "joint differential privacy",
        "ε = ",
        "δ = 1e-06",
        "exchanged for any other data",
        "Assumed: norms are public",
        "Not protected:",
        "tuning",
        "n_i",
        "exact Gaussian composition",
    ):
        assert part in text
    assert str(of_run(board)) == of_run(board).explain()


def test_the_explanation_reads_epsilon_as_a_guess():
    # Even odds become at most e^ε : 1, that is 73.1 % at ε = 1.
    text = statement(epsilon=1.0).explain()
    assert "2.72 times" in text
    assert "73.1 % sure" in text
    assert "weak protection" not in text
    assert "weak protection" in statement(epsilon=8.0).explain()
    assert "except with probability" not in statement(delta=0.0).explain()


def test_a_row_statement_speaks_of_rows_and_an_untrusted_server():
    text = statement(
        unit="row",
        definition="differential privacy",
        curator="untrusted",
        adjacency="add-or-remove",
    ).explain()
    assert "each single row" in text
    assert "the coordinating server included" in text
    assert "left out, or added" in text


def test_a_leaking_mechanism_and_a_seed_come_first():
    leaking, seeded = statement(sound=False), statement(seeded=True)
    assert leaking.explain().startswith("THIS LEAKS")
    assert seeded.explain().startswith("NOT PRIVATE: the noise came from a fixed seed")
    assert "would protect" in seeded.explain()
    assert not leaking.holds
    assert not seeded.holds


def test_a_billboard_passes_on_that_it_leaks_or_was_seeded(board):
    board.post(np.zeros(1), EVENT, sound=False, seeded=True)
    stated = of_run(board)
    assert (stated.sound, stated.seeded) == (False, True)


@pytest.mark.parametrize(("delta", "warned"), [(1e-2, True), (0.011, True), (9e-3, False)])
def test_a_delta_of_one_over_m_or_more_warns(delta, warned):
    stated = statement(delta=delta, n_units=100)
    assert any("1/100" in warning for warning in stated.warnings) is warned
    assert ("Warning:" in stated.explain()) is warned
    assert statement(delta=delta).warnings == ()


def test_json_keeps_everything_and_says_its_version():
    original = statement(
        n_units=10, delta=0.5, assumptions=("a", "ä; b"), not_protected=("c",), warnings=("w",)
    )
    text = original.to_json()
    assert json.loads(text)["schema"] == 1
    assert Statement.from_json(text) == original
    open_ended = Statement.non_private(not_protected=("all",))
    assert Statement.from_json(open_ended.to_json()) == open_ended
    json.loads(open_ended.to_json(), parse_constant=lambda name: pytest.fail(name))


@given(
    epsilon=st.floats(0.0, 1e6),
    delta=st.floats(0.0, 0.999),
    n_units=st.one_of(st.none(), st.integers(1, 10**9)),
    seeded=st.booleans(),
    texts=st.lists(st.text(), max_size=3),
)
def test_json_round_trip_of_any_statement(epsilon, delta, n_units, seeded, texts):
    original = statement(
        epsilon=epsilon, delta=delta, n_units=n_units, seeded=seeded, assumptions=texts
    )
    assert Statement.from_json(original.to_json()) == original
    assert original.explain()


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"schema": None},
        {"surprise": 1},
        {"sound": "yes"},
        {"epsilon": -1.0},
        {"unit": "person"},
    ],
)
def test_edited_json_is_refused(change):
    body = json.loads(statement().to_json()) | change
    with pytest.raises(InvalidInput):
        Statement.from_json(json.dumps(body))


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "not json"])
def test_other_text_is_refused(text):
    with pytest.raises(InvalidInput, match="statement"):
        Statement.from_json(text)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": "1"},
        {"delta": 1.0},
        {"delta": -1e-9},
        {"delta": math.nan},
        {"delta": math.inf},
        {"unit": "person"},
        {"adjacency": "nearby"},
        {"adjacency": None},
        {"definition": "privacy"},
        {"curator": "friendly"},
        {"accountant": "magic"},
        {"n_releases": -1},
        {"n_releases": 1.5},
        {"n_units": 0},
    ],
)
def test_bad_fields_are_refused(change):
    with pytest.raises(InvalidInput):
        statement(**change)


def test_a_statement_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        statement().epsilon = 0.1
