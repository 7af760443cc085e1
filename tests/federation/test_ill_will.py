"""A coordinator, or a site, that means ill: what it does not learn, and cannot make others do."""

import dataclasses
import json
import logging

import numpy as np
import pytest

from tacit.errors import InvalidInput
from tacit.federation import Coordinator, InProcess, Interrupted, Policy, Refused
from tacit.federation.gate import check_message
from tacit.federation.house import Federation
from tacit.federation.keys import make_identities
from tacit.federation.seat import PEERS
from tacit.federation.wire import pack
from tacit.privacy import Billboard
from tacit.privacy.mechanisms import Gaussian
from tacit.privacy.schedule import in_turn

from .conftest import NAMES, closed, sites_of, terms_of


def counted(name):
    terms = terms_of(name)
    return dataclasses.replace(terms, counts=(60,) * len(NAMES)) if terms.counted else terms


def asked(terms, call, board=None):
    """Return a request to speak (or, without a call, to finish) of one who has posted ``board``."""
    held = () if board is None else tuple(board)
    header = {"run": terms.run, "terms": terms.digest, "known": len(held)}
    header |= {} if call is None else {"call": call.to_json()}
    postings = {} if not held else {"postings": np.frombuffer(board.packed(), dtype=np.uint8)}
    return pack(header, **postings)


def posted(board, staged, call, value, /, **changes):
    round, mechanism = staged.schedule.rounds[call.round], staged.schedule.mechanisms[call.round]
    shape = (len(NAMES), *round.shape) if round.at_task else round.shape
    known = {
        "event": mechanism.event,
        "label": f"{round.name}: {mechanism.name}",
        "unit": round.unit,
        "call": call.to_json(),
    }
    board.post(np.full(shape, value), **{**known, **changes})


@pytest.fixture
def agreed(tmp_path):
    """Return a site of a run, the terms, what they lead to and all calls."""
    open_sites = []

    def begin(name, **options):
        terms = counted(name)
        sites = sites_of(terms, tmp_path, **options)
        open_sites.append(sites)
        sites["ash"].answer("agree", pack({"terms": terms.to_json()}))
        staged = terms.staged()
        return sites["ash"], terms, staged, in_turn(staged.schedule.rounds)

    yield begin
    for sites in open_sites:
        closed(sites)


def charges(site):
    return sum(line.n_charges for line in site._ledger.lines())


# -- what releases could be made to ask ------------------------------------------------------------


def test_rows_that_a_release_cannot_be_computed_with_say_zero_and_pay_for_it(agreed, caplog):
    """Infinite releases of the mean make the next message impossible to compute."""
    site, terms, staged, calls = agreed("mean regularised")
    board = Billboard()
    for number, call in enumerate(calls):
        site.answer("speak", asked(terms, call, board))
        assert charges(site) == number + 1
        posted(board, staged, call, np.inf)
    assert "zero is said" in caplog.text
    assert "prior.covariance" in caplog.text


@pytest.mark.parametrize("name", ["shared prior", "averaged"])
def test_whether_a_model_could_be_learned_is_told_nobody(agreed, name, caplog):
    """Releases that are no numbers lead to no model; the text of that names rows."""
    site, terms, staged, calls = agreed(name)
    board = Billboard()
    site.answer("speak", asked(terms, calls[0]))
    for call in calls:
        posted(board, staged, call, np.nan)
    with caplog.at_level(logging.ERROR):
        answer = site.answer("finish", asked(terms, None, board))
    assert answer == pack({"finished": terms.run})
    assert not site.model(terms.run).exists()
    assert "no model could be learned" in caplog.text


def test_a_release_that_states_another_price_is_refused(agreed):
    """What a model's statement says is added up from the releases that a site has read."""
    site, terms, staged, calls = agreed("mean regularised")
    for changes in (
        {"event": Gaussian(1.0, 1e6).event},
        {"sound": False},
        {"seeded": True},
        {"call": {"number": 0}},
    ):
        board = Billboard()
        posted(board, staged, calls[0], 0.1, **changes)
        with pytest.raises(Refused, match="release 0 is"):
            site.answer("speak", asked(terms, calls[1], board))
        assert charges(site) == 0
        site._seats.clear()
        for path in (site._folder / "runs" / terms.run / "board").iterdir():
            path.unlink()


@pytest.mark.parametrize("name", ["moments, untrusted", "relationships"])
def test_a_message_that_no_honest_site_could_send_does_not_count(name):
    """One site's 1e300 would leave nobody with a model."""
    staged = counted(name).staged()
    for call in in_turn(staged.schedule.rounds):
        round, mechanism = (
            staged.schedule.rounds[call.round],
            staged.schedule.mechanisms[call.round],
        )
        header = {"run": "r", "call": call.to_json()}
        about = {"run": "r", "call": call, "round": round, "mechanism": mechanism, "n_rows": 60}
        check_message(header, {"message": np.zeros(round.shape)}, **about)
        with pytest.raises(Refused, match="longer than the bound"):
            check_message(header, {"message": np.full(round.shape, 1e300)}, **about)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        *(("moments, untrusted", rows) for rows in (0, -1, 2.5, True, 10**400, "60", 1 << 30)),
        ("moments, secure", 1 << 30),
    ],
)
def test_a_number_of_rows_that_nobody_has_is_refused(name, rows, tmp_path):
    class Boasting(InProcess):
        def ask(self, task, requests, seconds):
            for site, answer in super().ask(task, requests, seconds):
                boasts = task == "join" and site == "cedar"
                yield site, pack({"rows": rows}) if boasts else answer

    terms = terms_of(name)
    sites = sites_of(terms, tmp_path)
    with pytest.raises(Refused, match=r"how many rows|another number of rows|add up exactly"):
        Coordinator(tmp_path / "run", Boasting(sites), terms=terms).run()
    closed(sites)


# -- who takes part --------------------------------------------------------------------------------


def test_a_roster_has_nobody_who_was_not_there_at_joining(tmp_path):
    """A root can fill a roster with sites of its own: of 50, noise is cut for 26 honest ones."""
    terms = terms_of("moments, untrusted")
    more = dataclasses.replace(terms, sites=(*NAMES, "elm"))
    assert more.charter == terms.charter
    policy = Policy(5.0, charter=terms.charter, sites=NAMES)
    policy.check(dataclasses.replace(terms, sites=NAMES[:2]), "ash")
    with pytest.raises(Refused, match="'elm' was not among the sites"):
        policy.check(more, "ash")


@pytest.mark.parametrize(("left", "min_honest", "stands"), [(3, "auto", True), (2, "auto", False)])
def test_a_secure_sum_of_fewer_sites_stands_as_many_dishonest_ones(left, min_honest, stands):
    """Of four sites one may tell all it knows; of two none."""
    whole = terms_of("moments, secure")
    terms = dataclasses.replace(
        whole,
        sites=NAMES[:left],
        counts=(60,) * left,
        settings={**whole.settings, "min_honest": min_honest},
    )
    policy = Policy(5.0, sites=NAMES)
    if stands:
        policy.check_cost(terms.staged(), "ash")
        return
    with pytest.raises(Refused, match="stands 0 dishonest among them"):
        policy.check_cost(terms.staged(), "ash")
    Policy(5.0).check_cost(terms.staged(), "ash")


def test_a_site_whose_key_is_another_than_before_ends_a_sum(tmp_path):
    """A root can sign anybody's name again; sites know each other's keys from earlier sums."""
    terms = terms_of("moments, secure")
    sites = sites_of(terms, tmp_path, policy=Policy(50.0, 0.1))
    Coordinator(tmp_path / "first", InProcess(sites), terms=terms).run()
    known = json.loads((tmp_path / "ash" / PEERS).read_text())
    assert set(known) == set(NAMES)
    assert known == json.loads((tmp_path / "birch" / PEERS).read_text())
    closed(sites)
    again = terms_of("moments, secure")
    other = make_identities(NAMES)
    sites = sites_of(again, tmp_path, policy=Policy(50.0, 0.1), identities=other)
    before = charges(sites["ash"])
    with pytest.raises(Interrupted):
        Coordinator(tmp_path / "second", InProcess(sites), terms=again).run()
    status = json.loads((tmp_path / "second" / "status.json").read_text())
    assert "shows another key than in earlier sums" in status["sites"]["ash"]["state"]
    assert charges(sites["ash"]) == before
    closed(sites)


# -- files and rules -------------------------------------------------------------------------------


def test_rules_that_became_stricter_hold_for_a_run_that_was_agreed_on(tmp_path):
    terms = terms_of("mean regularised")
    calls = in_turn(terms.staged().schedule.rounds)
    sites = sites_of(terms, tmp_path)
    sites["ash"].answer("agree", pack({"terms": terms.to_json()}))
    sites["ash"].answer("speak", asked(terms, calls[0]))
    closed(sites)
    sites = sites_of(terms, tmp_path, policy=Policy(50.0, 0.1, methods=("low-rank",)))
    for task, request in (
        ("agree", pack({"terms": terms.to_json()})),
        ("speak", asked(terms, calls[1])),
    ):
        with pytest.raises(Refused, match="not allowed here"):
            sites["ash"].answer(task, request)
    assert charges(sites["ash"]) == 1
    closed(sites)


def test_a_ledger_that_knows_less_than_was_said_is_refused(tmp_path):
    """An older copy of the ledger beside newer files would count too little."""
    terms = terms_of("mean regularised")
    call = in_turn(terms.staged().schedule.rounds)[0]
    path = tmp_path / "ash" / "ledger.db"

    def later(task, request):
        sites = sites_of(terms, tmp_path)
        try:
            return sites["ash"].answer(task, request)
        finally:
            closed(sites)

    later("agree", pack({"terms": terms.to_json()}))
    copy = path.read_bytes()
    said = later("speak", asked(terms, call))
    assert later("speak", asked(terms, call)) == said
    path.write_bytes(copy)
    with pytest.raises(Refused, match="does not know 1 messages of this run"):
        later("speak", asked(terms, call))


def test_a_run_that_is_refused_leaves_nothing_and_tells_no_path(tmp_path, caplog):
    first, second = terms_of("mean regularised"), terms_of("mean regularised")
    sites = sites_of(first, tmp_path)
    site = sites["ash"]
    site.answer("agree", pack({"terms": first.to_json()}))
    with pytest.raises(Refused, match="too little is left in its ledger;") as refusal:
        site.answer("agree", pack({"terms": second.to_json()}))
    assert str(tmp_path) not in str(refusal.value)
    assert str(tmp_path) in caplog.text
    assert not (tmp_path / "ash" / "runs" / second.run).exists()
    closed(sites)


@pytest.mark.parametrize("name", ["../ash", "..", "a/b", "a\\b", "a\nb", "", ".ash", "a" * 101])
def test_a_name_is_no_way_to_another_folder(name):
    terms = terms_of("mean regularised")
    with pytest.raises(InvalidInput, match="sites="):
        dataclasses.replace(terms, sites=(name, "birch"))
    with pytest.raises(InvalidInput, match="name="):
        Federation(name, "localhost", 1, "SHA256:00", terms)


def test_ordinary_names_of_hospitals_are_names():
    terms = terms_of("mean regularised")
    names = ("St. Mary's", "Universitätsklinik 3", "site_1", "7")
    assert dataclasses.replace(terms, sites=names).sites == names


@pytest.mark.parametrize("name", ["moments, untrusted", "moments, trusted"])
def test_when_a_run_is_over_nobody_can_subtract_its_noise(name, tmp_path):
    """Folders are backed up, and hold messages and releases; the keys of the noise are gone."""
    terms = terms_of(name)
    sites = sites_of(terms, tmp_path)
    keys = {}

    class Noting(InProcess):
        def ask(self, task, requests, seconds):
            for path in tmp_path.rglob("own/key"):
                keys.setdefault(path, path.read_bytes())
            return super().ask(task, requests, seconds)

    outcome = Coordinator(tmp_path / "run", Noting(sites), terms=terms).run()
    assert len(keys) == len(NAMES) + 1
    assert all(path.read_bytes() != key for path, key in keys.items())
    assert all(path.stat().st_mode & 0o077 == 0 for path in keys)
    again = Coordinator(tmp_path / "run", InProcess(sites)).run()
    assert again.billboard.head == outcome.billboard.head
    closed(sites)
