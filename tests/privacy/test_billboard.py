import copy
import dataclasses
import json
import pickle

import numpy as np
import pytest
from dp_accounting import dp_event

from tacit.errors import BudgetExceeded, InvalidInput, LedgerError, ModelFileError, PrivacyLeak
from tacit.privacy.billboard import Billboard
from tacit.privacy.events import EpsilonDeltaDpEvent as Step
from tacit.privacy.ledger import Ledger

EVENT = dp_event.GaussianDpEvent(5.0)
LINE = {"unit": "task", "adjacency": "replace-one"}


@pytest.fixture
def billboard():
    board = Billboard()
    board.post(np.arange(6.0).reshape(2, 3), EVENT, label="round 1: gaussian")
    board.post(np.float32(2.5), Step(0.3), label="round 2: laplace", sound=False)
    board.post([1, 2, 3], EVENT, seeded=True)
    return board


def test_postings_are_read_as_they_were_posted(billboard):
    assert len(billboard) == 3
    assert np.array_equal(billboard.read(0), [[0, 1, 2], [3, 4, 5]])
    assert billboard.read(-1).tolist() == [1, 2, 3]
    assert billboard.events == (EVENT, Step(0.3), EVENT)
    assert [posting.number for posting in billboard] == [0, 1, 2]
    assert (billboard.sound, billboard.seeded) == (False, True)


def test_a_value_cannot_be_changed_after_it_was_posted(billboard):
    value = billboard.read(0)
    with pytest.raises(ValueError, match="read-only"):
        value[0, 0] = 9
    with pytest.raises(ValueError, match="WRITEABLE"):
        value.setflags(write=True)


def test_the_caller_keeps_no_way_into_the_billboard():
    board, mine = Billboard(), np.zeros(3)
    board.post(mine, EVENT)
    mine[0] = 7
    assert board.read(0)[0] == 0
    assert board.verify() == 1


def test_the_charge_is_in_the_ledger_before_the_value_is_on_the_billboard():
    ledger = Ledger(":memory:", 5.0, 1e-5)
    reservation = ledger.reserve([EVENT], **LINE)
    board = Billboard(reservation)
    seen = []
    charge = reservation.charge
    reservation.charge = lambda event, mark: (seen.append(len(board)), charge(event, mark=mark))
    board.post(np.zeros(2), EVENT)
    assert seen == [0]
    assert ledger.lines()[0].n_charges == 1


def test_a_refused_charge_publishes_nothing():
    ledger = Ledger(":memory:", 5.0, 1e-5)
    board = Billboard(ledger.reserve([EVENT], **LINE))
    board.post(np.zeros(2), EVENT)
    with pytest.raises(BudgetExceeded, match="0 left in reservation"):
        board.post(np.ones(2), EVENT)
    with pytest.raises(BudgetExceeded):
        board.post(np.ones(2), dp_event.GaussianDpEvent(4.0))
    assert len(board) == 1


def test_a_closed_reservation_publishes_nothing():
    ledger = Ledger(":memory:", 5.0, 1e-5)
    with ledger.reserve([EVENT] * 2, **LINE) as reservation:
        board = Billboard(reservation)
        board.post(np.zeros(2), EVENT)
    with pytest.raises(LedgerError, match="is closed"):
        board.post(np.ones(2), EVENT)
    assert len(board) == 1


@pytest.mark.parametrize("value", ["text", [{}], None, [1 + 2j]])
def test_only_numbers_can_be_posted_and_nothing_is_charged_for_others(value):
    ledger = Ledger(":memory:", 5.0, 1e-5)
    board = Billboard(ledger.reserve([EVENT], **LINE))
    with pytest.raises(InvalidInput, match="must be numbers"):
        board.post(value, EVENT)
    assert ledger.lines()[0].n_charges == 0


def test_a_missing_posting_is_named(billboard):
    with pytest.raises(InvalidInput, match="posting 9"):
        billboard.read(9)


@pytest.mark.parametrize(
    "change",
    [
        {"value": np.zeros((2, 3))},
        {"label": "other"},
        {"sound": False},
        {"seeded": True},
        {"event": dp_event.GaussianDpEvent(50.0)},
        {"value": np.arange(6.0).reshape(3, 2)},
        {"value": np.arange(6.0, dtype=np.float32).reshape(2, 3)},
    ],
)
def test_verify_shows_any_edit(billboard, change):
    assert billboard.verify() == 3
    billboard._postings[0] = dataclasses.replace(billboard._postings[0], **change)
    with pytest.raises(PrivacyLeak, match="posting 0 was edited"):
        billboard.verify()


def test_verify_shows_a_removed_posting(billboard):
    head = billboard.head
    assert billboard.verify(head) == 3
    del billboard._postings[-1]
    with pytest.raises(PrivacyLeak, match="cut off"):
        billboard.verify(head)
    del billboard._postings[0]
    with pytest.raises(PrivacyLeak, match="posting 0"):
        billboard.verify()


def test_a_saved_billboard_comes_back_whole_and_goes_on(billboard, tmp_path):
    billboard.save(tmp_path / "board")
    back = Billboard.load(tmp_path / "board")
    assert back.head == billboard.head
    assert back.events == billboard.events
    for old, new in zip(billboard, back, strict=True):
        assert (old.label, old.sound, old.seeded) == (new.label, new.sound, new.seeded)
        assert old.value.dtype == new.value.dtype
        assert np.array_equal(old.value, new.value)
    billboard.post(np.ones(2), EVENT)
    back.post(np.ones(2), EVENT)
    assert back.head == billboard.head
    assert [entry.name for entry in tmp_path.iterdir()] == ["board"]


def test_a_resumed_run_charges_the_new_reservation(billboard, tmp_path):
    billboard.save(tmp_path / "board")
    ledger = Ledger(":memory:", 5.0, 1e-5)
    back = Billboard.load(tmp_path / "board", ledger.reserve([EVENT], **LINE))
    back.post(np.zeros(1), EVENT)
    assert ledger.lines()[0].n_charges == 1
    with pytest.raises(BudgetExceeded):
        back.post(np.zeros(1), EVENT)


def test_an_empty_billboard_survives_the_round_trip(tmp_path):
    Billboard().save(tmp_path / "board")
    assert len(Billboard.load(tmp_path / "board")) == 0


def test_an_edited_file_is_shown(billboard, tmp_path):
    path = tmp_path / "board"
    billboard.save(path)
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored}
    arrays["value_0"] = arrays["value_0"] + 1e-9
    with path.open("wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(PrivacyLeak, match="posting 0"):
        Billboard.load(path)


def test_a_cut_off_file_is_shown(billboard, tmp_path):
    path = tmp_path / "board"
    billboard.save(path)
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored}
    manifest = json.loads(arrays["manifest"].tobytes())
    manifest["postings"].pop()
    arrays["manifest"] = np.frombuffer(json.dumps(manifest).encode(), dtype=np.uint8)
    with path.open("wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(PrivacyLeak, match="cut off"):
        Billboard.load(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04broken", b"\x80\x04N."])
def test_foreign_and_damaged_files_are_refused(tmp_path, content):
    path = tmp_path / "board"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="restore it from a copy"):
        Billboard.load(path)


def test_a_truncated_file_is_refused(billboard, tmp_path):
    path = tmp_path / "board"
    billboard.save(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ModelFileError):
        Billboard.load(path)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))])
def test_a_copy_reads_and_verifies_but_cannot_post(billboard, duplicate):
    twin = duplicate(billboard)
    assert twin.verify(billboard.head) == 3
    with pytest.raises(LedgerError, match="copy"):
        twin.post(np.zeros(1), EVENT)
