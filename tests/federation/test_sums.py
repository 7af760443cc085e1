"""Secure sums: exact in total, uniform by themselves, and only with keys that sites signed."""

import datetime
import math

import numpy as np
import pytest

from tacit.errors import InvalidInput, PrivacyLeak
from tacit.federation import Coordinator, InProcess, Interrupted, Refused, sums
from tacit.privacy import SystemEntropy
from tacit.privacy.bounds import SecondMoment, VectorClip
from tacit.privacy.mechanisms import DistributedGaussian, Gaussian
from tacit.privacy.noise.entropy import KeyedEntropy
from tacit.privacy.schedule import Call, Curator, Distributed, Round, Schedule

from .conftest import NAMES, closed, sites_of, terms_of

pytest.importorskip("cryptography", reason="needs tacit[federation]")
from tacit.federation.keys import make_identities

from .secure import ABOUT, book_of, masked, noise_law, uniformity


@pytest.fixture(scope="module")
def identities():
    return make_identities(NAMES)


def test_the_total_is_exact_and_a_single_message_is_not_the_message(identities):
    rng = np.random.default_rng(0)
    steps = {name: rng.integers(-(2**60), 2**60, (40, 5)) for name in NAMES}
    parts = masked(identities, steps)
    exact = sum(steps.values())
    assert np.array_equal(sums.total(parts, 0.5), exact * 0.5)
    for part, name in zip(parts, NAMES, strict=True):
        assert not np.any(part.view(np.int64) == steps[name])


@pytest.mark.parametrize("days", [-3, 3])
def test_a_certificate_is_good_for_its_dates_only(days):
    now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    strange = make_identities(NAMES, now=now)
    with pytest.raises(Refused, match=r"behind ash's key holds from \d{4}-\d\d-\d\d to"):
        masked(strange, dict.fromkeys(NAMES, np.zeros(3, dtype=np.int64)))


@pytest.mark.parametrize("key", [b"", b"short", bytes(32)])
def test_a_signed_page_without_a_key_is_refused_by_name(identities, key):
    secrets, book = book_of(identities)
    book["birch"] = identities["birch"].signed(ABOUT, key)
    with pytest.raises(Refused, match="birch signed something that is no key"):
        sums.masked(np.zeros(3, dtype=np.int64), secrets["ash"], identities["ash"], book, ABOUT)


@pytest.mark.parametrize("value", [0, 2**61])
def test_what_the_server_sees_of_one_site_is_uniform(identities, value):
    """χ² of all bytes, false alarm below 1e-6: 255 degrees of freedom, 255 ± 5.5·√510."""
    steps = {name: np.full(40_000, value if name == "ash" else 0) for name in NAMES}
    assert max(map(abs, uniformity(masked(identities, steps)[0]))) < 5.5


def test_no_stream_is_used_twice(identities):
    zeros = {name: np.zeros(100, dtype=np.int64) for name in NAMES}
    seen = [masked(identities, zeros, about)[0] for about in (b"run|0", b"run|0", b"run|1")]
    assert all(not np.any(a == b) for a, b in ((seen[0], seen[1]), (seen[1], seen[2])))


def test_a_key_that_its_owner_did_not_sign_for_this_call_is_refused(identities):
    secrets, book = book_of(identities)
    steps = np.zeros(3, dtype=np.int64)

    def masks(changed, about=ABOUT):
        return sums.masked(steps, secrets["ash"], identities["ash"], changed, about)

    masks(book)
    foreign = make_identities(NAMES)
    stranger = sums.new_key(SystemEntropy()).public_key().public_bytes_raw()
    swapped = {**book["birch"], "key": stranger.hex()}
    for bad in (
        {**book, "birch": swapped},
        {**book, "birch": book["cedar"]},
        {**book, "birch": foreign["birch"].signed(ABOUT, stranger)},
        {**book, "birch": identities["birch"].signed(b"run|1", stranger)},
        {**book, "birch": {}},
        {**book, "birch": "a page"},
    ):
        with pytest.raises(Refused, match="birch"):
            masks(bad)
    with pytest.raises(Refused, match="own key"):
        masks({**book, "ash": identities["ash"].signed(ABOUT, stranger)})
    with pytest.raises(InvalidInput, match="hides nothing"):
        masks({"ash": book["ash"]})


def test_a_roster_without_a_site_is_refused_and_the_same_call_is_not_masked_twice(tmp_path):
    class Dropping(InProcess):
        """A server that leaves a site out of the book it passes on."""

        def ask(self, task, requests, seconds):
            for name, answer in super().ask(task, requests, seconds):
                if not (task == "key" and name == "dogwood"):
                    yield name, answer

    terms = terms_of("moments, secure")
    sites = sites_of(terms, tmp_path)
    with pytest.raises(Interrupted, match="no key from dogwood"):
        Coordinator(tmp_path / "run", Dropping(sites), terms=terms).run()
    seat = next(iter(sites["ash"]._seats.values()))
    call = Call(0, 0)
    pages = {name: next(iter(sites[name]._seats.values())).key(call) for name in NAMES}
    with pytest.raises(Refused, match="all sites"):
        seat.speak(call, {name: pages[name] for name in NAMES[:3]})
    first = seat.speak(call, pages)
    assert np.array_equal(seat.speak(call, pages), first)
    with pytest.raises(Refused, match="another roster is another run"):
        seat.speak(call, {name: pages[name] for name in NAMES[:3]})
    closed(sites)


@pytest.mark.parametrize("min_honest", [1, 3, 4])
def test_the_noise_of_the_total_has_the_stated_law(min_honest):
    """Kolmogorov and Smirnov at 1e-6 (2.7/√n), and the variance within 5 deviations."""
    mechanism = DistributedGaussian(2.0, 1.5, 4, min_honest)
    for distance, variance in noise_law(mechanism):
        assert distance < 2.7
        assert abs(variance) < 5
    assert mechanism.scale == pytest.approx(3.0 * math.sqrt(4 / min_honest))
    assert mechanism.event.noise_multiplier == 1.5


def test_sums_over_two_rosters_do_not_show_the_site_between_them():
    mechanism = DistributedGaussian(2.0, 1.5, 4, 3)
    key = KeyedEntropy(KeyedEntropy.new())
    message = np.ones((1, 2000))
    runs = [
        sum(mechanism.at_home(message, key.child(run, site)) for site in range(sites))
        for run, sites in (("first", 4), ("second", 3))
    ]
    apart = runs[0] - runs[1] - message
    expected = math.sqrt(7) * mechanism.share_scale
    assert apart.std() == pytest.approx(expected, rel=0.1)


def test_a_schedule_cuts_noise_for_a_majority_unless_told_otherwise():
    rounds = [
        Round("a", VectorClip(1.0), (3,), noise=Distributed()),
        Round("b", SecondMoment(1.0), (3, 3), message=(3,), noise=Distributed(2)),
    ]
    schedule = Schedule.calibrate(rounds, epsilon=1.0, delta=1e-5, n_tasks=6)
    assert [mechanism.min_honest for mechanism in schedule.mechanisms] == [4, 2]
    assert schedule.trust(rounds[0].unit) == "secure sums"
    with pytest.raises(InvalidInput, match="n_tasks"):
        Schedule.calibrate(rounds, epsilon=1.0, delta=1e-5)
    with pytest.raises(InvalidInput, match="shares"):
        Schedule.calibrate(rounds, epsilon=1.0, delta=0.0, n_tasks=6)
    with pytest.raises(PrivacyLeak, match="not cut"):
        Schedule((rounds[0],), (Gaussian(2.0, 3.0),))
    central = Round("a", VectorClip(1.0), (3,), noise=Curator())
    with pytest.raises(PrivacyLeak, match="nobody adds up"):
        Schedule((central,), (DistributedGaussian(2.0, 3.0, 4, 3),))
    with pytest.raises(InvalidInput, match="min_honest"):
        DistributedGaussian(2.0, 3.0, 4, 5)
