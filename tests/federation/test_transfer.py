"""Transfer as a federated run: sources send once, targets learn at home and send nothing."""

import dataclasses
import json

import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput
from tacit.estimators import load
from tacit.federation import Coordinator, InProcess, Policy, Refused, consent, simulate
from tacit.federation.consent import described
from tacit.federation.terms import TRANSFERS
from tacit.federation.wire import pack, unpack
from tacit.privacy import Ledger
from tacit.transfer.package import SourcePackage

from .conftest import NAMES as SITES
from .conftest import closed, rows_of, sites_of
from .conftest import terms_of as named

ROWS = rows_of("classification")


def terms_of(method="transfer", **options):
    return dataclasses.replace(named("transfer", **options), method=method)


def alone(terms):
    """Return the estimator of the terms as a party would use it by itself."""
    ledger = Ledger(":memory:", epsilon=2.0, delta=0.1)
    return TRANSFERS[terms.method](**terms.settings, classes=terms.classes, ledger=ledger)


def charges(site):
    return sum(line.n_charges for line in site._ledger.lines())


@pytest.mark.parametrize("method", TRANSFERS)
def test_a_federated_transfer_is_the_exchange_of_a_package(method, tmp_path):
    terms = terms_of(method, sources=("ash",), seed=7)
    found = simulate(terms, ROWS, tmp_path)
    expected = alone(terms).fit_source(*ROWS["ash"])
    package = found.models["ash"]
    for own, other in zip(package.models, expected.models, strict=True):
        assert np.array_equal(own, other)
    assert package.statement == expected.statement == found.outcome.statement
    for name in SITES[1:]:
        target = alone(terms).fit(*ROWS[name], source=expected)
        own = found.models[name]
        assert np.array_equal(own.coef_, target.coef_)
        vars(own).pop("feature_names_in_")  # rows come as arrays here
        X = ROWS[name][0]
        assert np.array_equal(own.decision_function(X), target.decision_function(X))
        assert own.privacy_ == target.privacy_
        assert own.billboard_.head == target.billboard_.head


def test_several_sources_are_those_of_one_local_call(tmp_path):
    terms = terms_of(seed=3)
    found = simulate(terms, ROWS, tmp_path)
    X, y = (np.concatenate([ROWS[name][part] for name in SITES]) for part in (0, 1))
    tasks = np.repeat(SITES, [len(ROWS[name][1]) for name in SITES])
    local = alone(terms).fit(X, y, tasks=tasks, source_task=["ash", "cedar"])
    for name, package in zip(("ash", "cedar"), local.packages_, strict=True):
        assert np.array_equal(found.models[name].models[0], package.models[0])
    assert found.outcome.statement.n_units == 120
    assert found.models["cedar"].statement.n_units == 60


class Watching(InProcess):
    """A post that writes down who was asked what, and what every site's ledger held by then."""

    def __init__(self, sites):
        super().__init__(sites)
        self.seen = []

    def ask(self, task, requests, seconds):
        for name, answer in super().ask(task, requests, seconds):
            self.seen.append((task, name, unpack(answer), charges(self._sites[name])))
            yield name, answer


def test_a_source_is_charged_before_it_sends_and_a_target_sends_nothing(tmp_path):
    terms = terms_of()
    sites = sites_of(terms, tmp_path)
    post = Watching(sites)
    Coordinator(tmp_path / "run", post, terms=terms).run()
    said = {name: charged for task, name, _, charged in post.seen if task == "speak"}
    assert said == {"ash": 1, "cedar": 1}
    for task, name, (header, arrays), _ in post.seen:
        if name in ("birch", "dogwood"):
            assert not arrays
            assert task in ("join", "agree", "finish")
            assert header.get("rows") is None
    assert {name: charges(site) for name, site in sites.items()} == dict.fromkeys(SITES, 1)
    for site in sites.values():
        assert site._ledger.spent().epsilon == pytest.approx(2.0, rel=1e-6)
    closed(sites)


def test_both_ends_hold_the_same_package_and_can_compare_its_digest(tmp_path):
    terms = terms_of()
    found = simulate(terms, ROWS, tmp_path)
    at_target = tmp_path / "sites" / "birch" / "runs" / terms.run / "sources"
    for name in ("ash", "cedar"):
        own = found.models[name]
        assert SourcePackage.load(at_target / name, digest=own.digest).statement.holds
    model = found.models["birch"]
    assert model.privacy_.holds
    vars(model).pop("feature_names_in_")
    assert model.score(*ROWS["birch"]) > 0.5
    assert "birch" in (at_target.parent / "report.html").read_text()


def test_a_target_answers_no_call(tmp_path):
    terms = dataclasses.replace(terms_of(), counts=(60, 60))
    sites = sites_of(terms, tmp_path)
    site = sites["birch"]
    site.answer("agree", pack({"terms": terms.to_json()}))
    call = {"number": 0, "round": 0, "task": None, "turn": 0}
    asked = pack({"run": terms.run, "terms": terms.digest, "known": 0, "call": call})
    for task in ("speak", "key"):
        with pytest.raises(Refused, match="only listens"):
            site.answer(task, asked)
    with pytest.raises(Refused, match="not over"):
        site.answer("finish", asked)
    assert charges(site) == 0
    closed(sites)


def test_a_target_without_budget_refuses_before_the_source_speaks(tmp_path):
    terms, other = terms_of(), terms_of(sources=("birch", "cedar"))
    sites = sites_of(terms, tmp_path)
    Coordinator(tmp_path / "first", InProcess(sites), terms=terms).run()
    with pytest.raises(Refused, match=r"budget|left|exceed"):
        Coordinator(tmp_path / "second", InProcess(sites), terms=other).run()
    assert {charges(site) for site in sites.values()} == {1}
    closed(sites)


def test_a_target_with_too_few_rows_does_not_say_how_many(tmp_path, caplog):
    terms = terms_of("feature-split-transfer", sources=("ash",))
    few = {**ROWS, "birch": tuple(part[:2] for part in ROWS["birch"])}
    sites = sites_of(terms, tmp_path, rows=few)
    with pytest.raises(Refused) as refusal:
        Coordinator(tmp_path / "run", InProcess(sites), terms=terms).run()
    assert str(refusal.value) == "birch: cannot take its place in this run; its own log says why"
    assert "2 rows" in caplog.text
    assert charges(sites["ash"]) == 0
    closed(sites)


@pytest.mark.parametrize("size", [1e150, 1e300])
def test_a_source_that_sends_nonsense_learns_nothing_of_its_targets(size, tmp_path, caplog):
    class Nonsense(InProcess):
        def ask(self, task, requests, seconds):
            for name, answer in super().ask(task, requests, seconds):
                if task == "speak" and name == "ash":
                    header, arrays = unpack(answer)
                    answer = pack(header, message=np.full_like(arrays["message"], size))
                yield name, answer

    terms = terms_of()
    sites = sites_of(terms, tmp_path)
    Coordinator(tmp_path / "run", Nonsense(sites), terms=terms).run()
    status = json.loads((tmp_path / "run" / "status.json").read_text())
    assert {site["state"] for site in status["sites"].values()} == {"has all releases"}
    assert not sites["birch"].model(terms.run).exists()
    assert "no model could be learned" in caplog.text
    assert "60 rows" in caplog.text or size > 1e200
    assert charges(sites["birch"]) == 0
    closed(sites)


def test_a_target_killed_before_its_model_was_written_finds_the_same_model(tmp_path, monkeypatch):
    terms = terms_of()
    sites = sites_of(terms, tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr(tacit.TransferClassifier, "report", lambda *_, **__: 1 / 0)
        Coordinator(tmp_path / "run", InProcess(sites), terms=terms).run()
    assert not sites["birch"].model(terms.run).exists()
    assert charges(sites["birch"]) == 1
    kept = list((tmp_path / "birch" / "runs" / terms.run / "own" / "releases").glob("*"))
    before = kept[0].read_bytes()
    closed(sites)
    sites = sites_of(terms, tmp_path)
    Coordinator(tmp_path / "run", InProcess(sites)).run()
    assert charges(sites["birch"]) == 1
    assert kept[0].read_bytes() == before
    assert load(sites["birch"].model(terms.run)).privacy_.holds
    closed(sites)


class Without(InProcess):
    def ask(self, task, requests, seconds):
        there = {n: body for n, body in requests.items() if task != "speak" or n != "cedar"}
        yield from super().ask(task, there, seconds)


def test_a_run_goes_on_without_a_late_source_which_then_counts_for_nothing(tmp_path):
    terms = terms_of(late="go on", seed=5)
    sites = sites_of(terms, tmp_path)
    outcome = Coordinator(tmp_path / "run", Without(sites), terms=terms).run()
    assert outcome.absent == {0: ["cedar"]}
    one = alone(terms).fit_source(*ROWS["ash"])
    expected = alone(terms).fit(*ROWS["birch"], source=one)
    assert np.array_equal(load(sites["birch"].model(terms.run)).coef_, expected.coef_)
    status = json.loads((tmp_path / "run" / "status.json").read_text())
    assert status["left"] == ["cedar"]
    assert "no package" in status["sites"]["cedar"]["state"]
    assert charges(sites["cedar"]) == 0
    closed(sites)


def test_each_side_sees_what_it_lets_itself_in_for():
    found = consent(terms_of().supposing(60))
    source, target = described(found, "ash"), described(found, "birch")
    assert "models: 4 numbers" in source
    assert "noise here, before anything leaves" in source
    assert "nothing of its rows leaves; it reads the models of ash, cedar" in target
    assert "ε = 2 at δ = 1e-05 for each row" in target


def test_who_agreed_to_listen_is_not_made_a_source_later(tmp_path):
    agreed = terms_of()
    sites = sites_of(agreed, tmp_path, policy=Policy(2.0, charter=agreed.charter))
    turned = dataclasses.replace(agreed, sources=("birch",))
    with pytest.raises(Refused, match="not the terms"):
        Coordinator(tmp_path / "run", InProcess(sites), terms=turned).run()
    smaller = dataclasses.replace(agreed, sites=("ash", "birch"))
    assert smaller.charter == agreed.charter
    assert smaller.speakers == ("ash",)
    closed(sites)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sources": ("nobody",)}, "from one site"),
        ({"sources": SITES}, "from one site"),
        ({"sources": ()}, "have sources"),
        ({"method": "shared-moments"}, "have sources"),
        ({"kind": "regression", "classes": None}, "learns classes"),
    ],
)
def test_a_transfer_from_nowhere_or_to_nobody_is_refused(change, reason):
    with pytest.raises(InvalidInput, match=reason):
        _ = dataclasses.replace(terms_of(), **change).estimator
