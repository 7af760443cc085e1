"""Sites that come as they like: one request outstanding each, the server steps on every arrival."""

import random

import numpy as np
import pytest

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
    from tacit.estimators import load

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
