"""A federated run is the local run: same models, same releases, same statement."""

import json

import numpy as np
import pytest

from tacit.estimators import load
from tacit.federation import Coordinator, InProcess, Interrupted, Refused, simulate
from tacit.federation.wire import unpack
from tacit.methods import estimator_class
from tacit.privacy import Ledger

from .conftest import FEATURES, METHODS, NAMES, closed, rows_of, sites_of, terms_of


def local(terms, rows):
    settings = {**terms.settings, **({"classes": terms.classes} if terms.classes else {})}
    ledger = Ledger(":memory:", epsilon=terms.settings["epsilon"], delta=0.1)
    estimator = estimator_class(terms.method, terms.kind)(**settings, ledger=ledger)
    X, y = (np.concatenate([rows[name][part] for name in NAMES]) for part in (0, 1))
    return estimator.fit(X, y, tasks=np.repeat(NAMES, [len(rows[name][1]) for name in NAMES]))


@pytest.mark.parametrize("name", METHODS)
def test_four_sites_learn_and_state_what_the_local_engine_does(name, tmp_path):
    if "secure" in name:
        pytest.importorskip("cryptography", reason="needs tacit[federation]")
    terms = terms_of(name, seed=7)
    rows = rows_of(terms.kind)
    found, expected = simulate(terms, rows, tmp_path), local(terms, rows)
    assert len(expected.billboard_) > 0
    for position, site in enumerate(NAMES):
        own = found.models[site]
        assert np.abs(own.coef_[0] - expected.coef_[position]).max() <= 1e-9
        assert np.abs(own.intercept_[0] - expected.intercept_[position]).max() <= 1e-9
        assert own.privacy_ == expected.privacy_
        assert own.task_names_ == (site,)
        assert tuple(own.feature_names_in_) == FEATURES
    assert found.outcome.statement == expected.privacy_
    assert found.outcome.billboard.head == expected.billboard_.head
    assert not found.outcome.absent


def test_nothing_is_asked_where_sharing_cannot_help(tmp_path):
    terms = terms_of("moments, untrusted", seed=1)
    terms = type(terms).from_json(terms.to_json().replace('"epsilon": 5.0', '"epsilon": 0.001'))
    found = simulate(terms, rows_of(terms.kind), tmp_path)
    assert found.outcome.statement.epsilon == 0
    assert set(found.models) == set(NAMES)


class Forgetful(InProcess):
    """A post through which some sites do not answer some calls."""

    def __init__(self, sites, lost):
        super().__init__(sites)
        self.lost, self.count = lost, {}

    def ask(self, task, requests, seconds):
        for name, answer in super().ask(task, requests, seconds):
            if task == "speak":
                self.count[name] = self.count.get(name, 0) + 1
                if (name, self.count[name]) in self.lost:
                    continue
            yield name, answer


@pytest.mark.parametrize("name", ["mean regularised", "moments, untrusted", "relationships"])
def test_a_round_goes_on_without_a_late_site_if_the_terms_say_so(name, tmp_path):
    terms = terms_of(name, late="go on")
    sites = sites_of(terms, tmp_path)
    last = len(terms.supposing(60).staged().schedule.events(terms.estimator._unit))
    post = Forgetful(sites, {("birch", last)})
    outcome = Coordinator(tmp_path / "run", post, terms=terms).run()
    closed(sites)
    assert outcome.absent == {last - 1: ["birch"]}
    assert f"birch, who were missing in release {last}" in outcome.statement.assumptions[-1]
    assert outcome.statement.n_releases == last
    models = [load(site.model(terms.run)) for site in sites.values()]
    assert all(np.isfinite(model.coef_).all() and model.coef_.any() for model in models)


def test_a_site_that_missed_its_row_noise_sends_nothing_without_it(tmp_path):
    class Late(InProcess):
        """A network that reaches birch in the second round only."""

        def ask(self, task, requests, seconds):
            first = task == "speak" and unpack(requests["ash"])[0]["call"]["number"] == 0
            there = {n: body for n, body in requests.items() if not (first and n == "birch")}
            yield from super().ask(task, there, seconds)

    terms = terms_of("low rank and rows", late="go on")
    sites = sites_of(terms, tmp_path)
    outcome = Coordinator(tmp_path / "run", Late(sites), terms=terms).run()
    assert outcome.absent == {0: ["birch"], 1: ["birch"]}
    assert sum(line.n_charges for line in sites["birch"]._ledger.lines()) == 0
    status = json.loads((tmp_path / "run" / "status.json").read_text())
    closed(sites)
    assert status["phase"] == "done"


def test_a_round_stops_for_a_late_site_and_the_next_attempt_ends_it(tmp_path):
    terms = terms_of("mean regularised")
    sites = sites_of(terms, tmp_path)
    with pytest.raises(Interrupted, match="birch"):
        Coordinator(tmp_path / "run", Forgetful(sites, {("birch", 2)}), terms=terms).run()
    outcome = Coordinator(tmp_path / "run", InProcess(sites)).run()
    assert outcome.statement.n_releases == 3
    assert not outcome.absent
    for site in sites.values():
        (line,) = site._ledger.lines()
        assert line.n_charges == 3
    closed(sites)


def test_a_secure_sum_never_goes_on_without_a_site(tmp_path):
    terms = terms_of("moments, secure", late="go on")
    sites = sites_of(terms, tmp_path)
    with pytest.raises(Interrupted, match="cedar"):
        Coordinator(tmp_path / "run", Forgetful(sites, {("cedar", 1)}), terms=terms).run()
    closed(sites)


class Without(InProcess):
    """A post to all sites but some."""

    def __init__(self, sites, gone):
        super().__init__(sites)
        self.gone = gone

    def ask(self, task, requests, seconds):
        there = {name: body for name, body in requests.items() if name not in self.gone}
        yield from super().ask(task, there, seconds)


def test_a_site_that_left_is_missing_to_the_end_and_gets_its_model_when_it_is_back(tmp_path):
    terms = terms_of("mean regularised", late="go on")
    sites = sites_of(terms, tmp_path)
    with pytest.raises(Interrupted, match="dogwood"):  # nobody is left out before all agreed
        Coordinator(tmp_path / "run", Without(sites, {"dogwood"}), terms=terms).run()
    with pytest.raises(ZeroDivisionError):
        Coordinator(tmp_path / "run", InProcess(sites)).run(progress=lambda made, _: 1 / (1 - made))
    outcome = Coordinator(tmp_path / "run", Without(sites, {"dogwood"})).run()
    assert outcome.absent == {1: ["dogwood"], 2: ["dogwood"]}
    assert not sites["dogwood"].model(terms.run).exists()
    again = Coordinator(tmp_path / "run", InProcess(sites)).run()
    assert again.billboard.head == outcome.billboard.head
    assert sites["dogwood"].model(terms.run).exists()
    closed(sites)


def test_a_roster_binds_only_once_its_release_was_charged(tmp_path):
    terms = terms_of("mean regularised", late="go on")
    sites = sites_of(terms, tmp_path)
    with pytest.raises(ZeroDivisionError):
        Coordinator(tmp_path / "run", InProcess(sites), terms=terms).run(
            progress=lambda made, _: 1 / (1 - made)
        )
    settled = tmp_path / "run" / "rosters" / "00000001.json"
    settled.write_text(json.dumps(sorted(NAMES)))  # written, and killed before the charge
    outcome = Coordinator(tmp_path / "run", Without(sites, {"dogwood"})).run()
    closed(sites)
    assert outcome.absent[1] == ["dogwood"]


def test_a_run_that_is_over_can_be_asked_for_again(tmp_path):
    terms = terms_of("low rank")
    sites = sites_of(terms, tmp_path)
    first = Coordinator(tmp_path / "run", InProcess(sites), terms=terms).run()
    again = Coordinator(tmp_path / "run", InProcess(sites)).run()
    closed(sites)
    assert again.billboard.head == first.billboard.head
    assert again.statement == first.statement


def test_a_second_run_beyond_the_total_of_a_site_is_refused(tmp_path):
    terms, other = terms_of("low rank"), terms_of("low rank")
    sites = sites_of(terms, tmp_path)
    Coordinator(tmp_path / "first", InProcess(sites), terms=terms).run()
    with pytest.raises(Refused, match=r"budget|left|exceed"):
        Coordinator(tmp_path / "second", InProcess(sites), terms=other).run()
    closed(sites)
