"""A site answers what was agreed on, once, and nothing else; both ends refuse the rest."""

import contextlib
import dataclasses
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.cli.table.features import Feature, Intake
from tacit.errors import InvalidInput
from tacit.federation import (
    Coordinator,
    InProcess,
    Interrupted,
    Policy,
    Refused,
    Site,
    Terms,
    consent,
)
from tacit.federation.consent import described
from tacit.federation.rows import rows_of as rows_of_file
from tacit.federation.wire import pack, unpack
from tacit.privacy.schedule import Poisson, Schedule

from .conftest import FEATURES, NAMES, closed, sites_of, terms_of


@pytest.fixture
def agreed(tmp_path):
    terms = terms_of("mean regularised")
    sites = sites_of(terms, tmp_path)
    for site in sites.values():
        site.answer("agree", pack({"terms": terms.to_json()}))
    yield terms, sites
    closed(sites)


def speak(agreed_terms, **changes):
    call = {"number": 0, "round": 0, "task": None, "turn": 0}
    known = {"run": agreed_terms.run, "terms": agreed_terms.digest, "known": 0, "call": call}
    header = {**known, **changes}
    return pack({name: value for name, value in header.items() if value is not None})


def charges(site):
    return sum(line.n_charges for line in site._ledger.lines())


def test_a_call_is_charged_once_and_answered_again_with_the_same_bytes(agreed):
    terms, sites = agreed
    first = sites["ash"].answer("speak", speak(terms))
    assert sites["ash"].answer("speak", speak(terms)) == first
    assert charges(sites["ash"]) == 1


def test_a_restarted_site_answers_with_the_same_bytes(agreed, tmp_path):
    terms, sites = agreed
    first = sites["ash"].answer("speak", speak(terms))
    closed(sites)
    sites.update(sites_of(terms, tmp_path))
    assert sites["ash"].answer("speak", speak(terms)) == first
    assert charges(sites["ash"]) == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"run": "0" * 32}, "not agreed"),
        ({"run": "../../etc"}, "32 hex digits"),
        ({"terms": "another"}, "other terms"),
        ({"call": None}, "names no call"),
        ({"call": {"number": 0, "round": 9, "task": None, "turn": 0}}, "none of the schedule"),
        ({"call": {"number": 0, "round": 0, "task": None, "turn": 9}}, "none of the schedule"),
        ({"call": {"number": 0, "round": 0, "task": 2, "turn": 0}}, "another site"),
        ({"call": {"number": 0, "round": 0, "task": None, "turn": True}}, "whole numbers"),
    ],
)
def test_a_request_outside_the_terms_is_refused_and_costs_nothing(agreed, changes, reason):
    terms, sites = agreed
    with pytest.raises(Refused, match=reason):
        sites["ash"].answer("speak", speak(terms, **changes))
    with pytest.raises(Refused, match="no task"):
        sites["ash"].answer("shell", speak(terms))
    assert charges(sites["ash"]) == 0


@pytest.mark.parametrize("name", ["moments, untrusted", "moments, secure"])
def test_two_calls_of_one_number_do_not_share_their_noise(tmp_path, name):
    terms = dataclasses.replace(terms_of(name), counts=(60,) * len(NAMES))
    sites = sites_of(terms, tmp_path)
    site = sites["ash"]
    site.answer("agree", pack({"terms": terms.to_json()}))
    for task in ("speak", "key"):
        for number, round in ((7, 1), (7, 2), (1, 2), (-1, 2)):
            call = {"number": number, "round": round, "task": None, "turn": 0}
            with pytest.raises(Refused, match="none of the schedule"):
                site.answer(task, speak(terms, call=call))
    assert charges(site) == 0
    closed(sites)


def test_a_row_that_cannot_be_read_is_told_to_nobody_but_its_owner(tmp_path, caplog):
    features = tuple(Feature(name) for name in FEATURES)
    intake = Intake("party", "answer", features, "error").to_json()
    terms = dataclasses.replace(terms_of("moments, untrusted"), intake=intake)
    file = tmp_path / "rows.csv"
    file.write_text("a,b,c,answer\n1,2,3,yes\n2,3,1,no\nJane Doe,2,1,yes\n")
    site = Site("ash", tmp_path / "ash", rows_of_file(file, "ash"), Policy(5.0))
    counted = dataclasses.replace(terms, counts=(3,) * len(NAMES))
    for task, asked in (("join", terms), ("agree", counted)):
        with pytest.raises(Refused) as refusal:
            site.answer(task, pack({"terms": asked.to_json()}))
        told = str(refusal.value)
        assert "Jane" not in told
        assert "rows.csv" not in told
        assert "own log" in told
    assert "Jane Doe" in caplog.text
    site.close()


def test_what_is_no_message_is_refused():
    good = pack({"run": "r"}, message=np.zeros(3))
    squeezed = io.BytesIO()
    np.savez_compressed(squeezed, header=np.frombuffer(b"{}", dtype=np.uint8))
    objects = io.BytesIO()
    np.savez(objects, header=np.array([{}], dtype=object))
    for bad in (good[:-40], b"", "text", None, squeezed.getvalue(), objects.getvalue()):
        with pytest.raises(Refused):
            unpack(bad)
    with pytest.raises(Refused, match="bytes"):
        unpack(good, most=10)


def forged(shape):
    """Return a message whose one array claims to have another shape."""
    good = pack({"run": "r"}, message=np.zeros(3))
    claim = repr(shape).encode()
    return good.replace(b"(3,), }" + b" " * (len(claim) - 4), claim + b", }")


def nested(depth=100_000):
    buffer = io.BytesIO()
    text = b'{"run":' + b"[" * depth
    np.savez(buffer, header=np.frombuffer(text, dtype=np.uint8))
    return buffer.getvalue()


def encrypted():
    """Return a message whose parts say that they need a password."""
    good = bytearray(pack({"run": "r"}, message=np.zeros(3)))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = good.find(mark)
        while start >= 0:
            good[start + place] |= 1
            start = good.find(mark, start + 4)
    return bytes(good)


@pytest.mark.parametrize("bad", [forged((1 << 60,)), forged((-1, 3)), nested(), encrypted()])
def test_bytes_made_to_break_the_reader_are_refused(bad):
    with pytest.raises(Refused):
        unpack(bad)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_bytes_changed_anywhere_are_read_or_refused(data):
    content = bytearray(pack({"run": "r", "known": 3}, message=np.arange(4.0)))
    for _ in range(data.draw(st.integers(1, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(Refused):
        unpack(bytes(content))


BAD = {
    "not a number": lambda h, a: (h, {"message": a["message"] * np.nan}),
    "shape": lambda h, a: (h, {"message": a["message"].ravel()[:1]}),
    "round": lambda h, a: ({**h, "call": {**h["call"], "turn": 1}}, a),
    "run": lambda h, a: ({**h, "run": "0" * 32}, a),
    "extra field": lambda h, a: (h, {**a, "rows": np.ones((9, 3))}),
    "extra header": lambda h, a: ({**h, "note": "my rows"}, a),
    "too long": lambda h, a: (h, {"message": a["message"] * 1e6}),
    "too large": lambda h, a: (h, {"message": np.zeros(1 << 20)}),
    "type": lambda h, a: (h, {"message": a["message"].astype(np.float32)}),
}


class Meddling(InProcess):
    def __init__(self, sites, change, name="cedar"):
        super().__init__(sites)
        self.change, self.name = change, name

    def ask(self, task, requests, seconds):
        for name, answer in super().ask(task, requests, seconds):
            if task == "speak" and name == self.name and isinstance(answer, bytes):
                header, arrays = self.change(*unpack(answer))
                answer = pack(header, **arrays)
            yield name, answer


def test_a_malformed_message_changes_nothing_and_stops_nobody_else(tmp_path):
    terms = terms_of("mean regularised")
    sites = sites_of(terms, tmp_path)
    for change in BAD.values():
        with pytest.raises(Interrupted, match="no answer from cedar"):
            Coordinator(tmp_path / "run", Meddling(sites, change), terms=terms).run()
        assert not list((tmp_path / "run" / "own" / "releases").iterdir())
        assert not list((tmp_path / "run" / "rosters").iterdir())
    Coordinator(tmp_path / "run", InProcess(sites)).run()
    assert all(charges(site) == 3 for site in sites.values())
    closed(sites)


class Repeating(InProcess):
    """Every answer comes twice, and the first of all once more with every later one."""

    first = None

    def ask(self, task, requests, seconds):
        for name, answer in super().ask(task, requests, seconds):
            if task == "speak" and self.first is not None:
                yield self.first
            yield name, answer
            yield name, answer
            if task == "speak" and self.first is None:
                self.first = (name, answer)


def test_duplicated_and_replayed_messages_count_once(tmp_path):
    heads = []
    for number, post in enumerate((InProcess, Repeating)):
        place = tmp_path / str(number)
        terms = Terms.from_json(terms_of("mean regularised", seed=2).to_json())
        sites = sites_of(terms, place)
        heads.append(Coordinator(place / "run", post(sites), terms=terms).run().billboard.head)
        closed(sites)
    assert heads[0] == heads[1]


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (Policy(1.0), "costs ε"),
        (Policy(50.0, 1e-9), "δ"),
        (Policy(50.0, methods=("low-rank",)), "method"),
        (Policy(50.0, features=("a", "b")), "feature 'c'"),
        (Policy(50.0, charter=terms_of("low rank").charter), "not the terms"),
    ],
)
def test_a_site_refuses_what_its_own_rules_do_not_allow(policy, reason, tmp_path):
    terms = terms_of("mean regularised")
    sites = sites_of(terms, tmp_path, policy=policy)
    with pytest.raises(Refused, match=reason):
        Coordinator(tmp_path / "run", InProcess(sites), terms=terms).run()
    assert all(charges(site) == 0 for site in sites.values())
    closed(sites)


def test_repeatable_noise_is_refused_unless_a_site_is_for_tests(tmp_path):
    terms = terms_of("mean regularised", seed=1)
    sites = sites_of(terms, tmp_path, policy=Policy(50.0))
    with pytest.raises(Refused, match="random_state"):
        Coordinator(tmp_path / "run", InProcess(sites), terms=terms).run()
    closed(sites)


@pytest.mark.filterwarnings("ignore::tacit.errors.PrivacyWarning")
def test_noise_that_leaks_is_refused(tmp_path):
    settings = {"epsilon": 50.0, "delta": 1e-5, "update": "proximal", "clip": 1.0}
    terms = terms_of("low rank")
    leaking = dataclasses.replace(terms, settings={**settings, "mechanism": "wishart-published"})
    sites = sites_of(leaking, tmp_path)
    with pytest.raises(Refused, match="leaks"):
        Coordinator(tmp_path / "run", InProcess(sites), terms=leaking).run()
    closed(sites)


def test_the_charter_is_what_stays_from_run_to_run():
    terms = terms_of("low rank")
    again = dataclasses.replace(terms, run="0" * 32, sites=terms.sites[:3])
    assert again.charter == terms.charter
    other = dataclasses.replace(terms, settings={**terms.settings, "epsilon": 49.0})
    assert other.charter != terms.charter


def test_one_process_at_a_time_uses_a_site(tmp_path):
    terms = terms_of("low rank")
    sites = sites_of(terms, tmp_path)
    with pytest.raises(Refused, match="another process"):
        sites_of(terms, tmp_path)
    closed(sites)


def test_a_site_sees_what_it_would_send_before_anything_runs():
    found = consent(terms_of("moments, secure").supposing(60))
    text = described(found, "ash")
    assert found["curator"] == "secure sums"
    assert "in shares" in text
    assert "ε = 5 at δ = 1e-05 for each row" in text
    assert all(part["epsilon"] < found["epsilon"] for part in found["rounds"])


@pytest.mark.parametrize(
    "change",
    [
        {"method": "no-such"},
        {"kind": "ranking"},
        {"late": "whatever"},
        {"sites": ["ash", "ash"]},
        {"settings": {"ledger": "/etc/passwd"}},
        {"settings": {"data": "a new name, a new budget"}},
        {"settings": {"epsilon": float("inf")}},
        {"counts": [1]},
    ],
)
def test_terms_that_make_no_sense_are_refused(change):
    with pytest.raises(InvalidInput):
        _ = dataclasses.replace(terms_of("low rank"), **change).estimator


def test_a_cohort_is_refused_because_the_network_shows_who_is_asked(monkeypatch):
    terms = terms_of("mean regularised")
    staged = terms.estimator._staged

    def sampled(sizes):
        protocol, schedule = staged(sizes)
        rounds = [dataclasses.replace(one, cohort=Poisson(0.5)) for one in schedule.rounds]
        return protocol, Schedule.calibrate(rounds, epsilon=50.0, delta=1e-5)

    monkeypatch.setattr(terms.estimator, "_staged", sampled)
    with pytest.raises(InvalidInput, match="cohort hides nobody"):
        terms.staged()


def test_the_order_of_sites_is_their_position():
    assert terms_of("low rank").sites == NAMES
