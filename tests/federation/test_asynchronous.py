"""Sites that come as they like: one request outstanding each, the server steps on every arrival."""

import random

import numpy as np
import pytest

from tacit.estimators import load
from tacit.federation import Coordinator, InProcess, Interrupted, simulate
from tacit.federation.wire import pack

from .conftest import NAMES, closed, rows_of, sites_of, terms_of
from .test_simulated import local


class Shuffled(InProcess):
    """A network that delivers in any order, and one site ten times as slowly."""

    def __init__(self, sites, slow="cedar"):
        super().__init__(sites)
        self.slow, self.chance, self.order = slow, random.Random(1), []

    def receive(self, seconds):
        if not self._sent:
            return None
        weights = [0.1 if site == self.slow else 1.0 for _, site, _ in self._sent]
        (chosen,) = self.chance.choices(range(len(self._sent)), weights)
        self._sent.rotate(-chosen)
        found = super().receive(seconds)
        self.order.append(found[0])
        return found


def test_sites_in_turn_are_the_local_run_but_for_the_noise(tmp_path):
    terms = terms_of("asynchronous", seed=3)
    rows = rows_of(terms.kind)
    found, expected = simulate(terms, rows, tmp_path), local(terms, rows)
    assert len(found.outcome.billboard) == 5 * len(NAMES)
    assert found.outcome.statement == expected.privacy_
    for position, site in enumerate(NAMES):
        apart = found.models[site].coef_[0] - expected.coef_[position]
        assert np.linalg.norm(apart) <= 0.02 * np.linalg.norm(expected.coef_[position])


def test_fast_sites_do_not_wait_for_a_slow_one_and_end_at_the_same_models(tmp_path):
    terms = terms_of("asynchronous")
    sites = sites_of(terms, tmp_path)
    post = Shuffled(sites)
    outcome = Coordinator(tmp_path / "run", post, terms=terms).run()
    half = post.order[: len(post.order) // 2]
    assert min(half.count(name) for name in NAMES if name != "cedar") > half.count("cedar")
    assert all(sum(line.n_charges for line in s._ledger.lines()) == 5 for s in sites.values())
    expected = local(terms_of("asynchronous", seed=3), rows_of(terms.kind))
    for position, site in enumerate(NAMES):
        model = load(sites[site].model(terms.run))
        apart = np.linalg.norm(model.coef_[0] - expected.coef_[position])
        assert apart <= 0.02 * np.linalg.norm(expected.coef_[position])
    closed(sites)
    assert outcome.statement.curator == "untrusted"


@pytest.mark.parametrize("nonsense", [b"nonsense", pack({"known": "all"}), pack({"known": -1})])
def test_a_site_that_refuses_stops_the_attempt_unless_the_run_may_go_on(tmp_path, nonsense):
    class Broken(InProcess):
        def receive(self, seconds):
            found = super().receive(seconds)
            return found if found is None or found[0] != "birch" else ("birch", nonsense)

    terms = terms_of("asynchronous")
    sites = sites_of(terms, tmp_path)
    with pytest.raises(Interrupted, match="birch"):
        Coordinator(tmp_path / "run", Broken(sites), terms=terms).run()
    outcome = Coordinator(tmp_path / "run", InProcess(sites)).run()
    closed(sites)
    assert len(outcome.billboard) == 5 * len(NAMES)


class Gone(InProcess):
    """A network that one site left for good, after its first turns."""

    name, turns = "birch", 2

    def send(self, task, site, request):
        self.turns -= site == self.name
        if site != self.name or self.turns >= 0:
            super().send(task, site, request)


def test_a_run_ends_without_a_site_that_left_which_gets_its_model_when_it_is_back(tmp_path):
    terms = terms_of("asynchronous", late="go on", deadline=1.0)
    sites = sites_of(terms, tmp_path)
    outcome = Coordinator(tmp_path / "run", Gone(sites), terms=terms).run()
    assert len(outcome.billboard) == 5 * 3 + 2
    assert "birch, who left before the last turn" in outcome.statement.assumptions[-1]
    assert outcome.statement.epsilon == pytest.approx(500.0, rel=1e-6)
    charged = {n: sum(line.n_charges for line in s._ledger.lines()) for n, s in sites.items()}
    assert charged == {**dict.fromkeys(NAMES, 5), "birch": 2}
    again = Coordinator(tmp_path / "run", InProcess(sites)).run()  # over is over
    assert again.billboard.head == outcome.billboard.head
    assert np.isfinite(load(sites["birch"].model(terms.run)).coef_).all()
    closed(sites)


def test_a_run_that_everybody_left_waits(tmp_path):
    terms = terms_of("asynchronous", late="go on", deadline=1.0)
    sites = sites_of(terms, tmp_path)

    class Nobody(InProcess):
        def send(self, task, site, request):
            pass

    with pytest.raises(Interrupted, match="no site answered"):
        Coordinator(tmp_path / "run", Nobody(sites), terms=terms).run()
    assert len(Coordinator(tmp_path / "run", InProcess(sites)).run().billboard) == 5 * len(NAMES)
    closed(sites)
