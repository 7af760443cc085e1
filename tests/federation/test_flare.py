"""The real thing, small: processes of their own, mutual TLS, strict kits, on loopback."""

import json
import threading

import pytest

pytest.importorskip("nvflare", reason="needs tacit[federation]")

from tacit.federation import Refused
from tacit.federation.processes import keep_running
from tacit.federation.strict import check_policy, write_policy

from .live import Live, terms_for, wait_for

pytestmark = [pytest.mark.federation, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    found = Live(tmp_path_factory.mktemp("live"))
    found.start()
    yield found
    found.stop()


def test_a_run_over_the_network_is_the_local_run_and_listens_on_loopback_only(live):
    terms = terms_for(live.names, "mean-regularized", {"epsilon": 50.0, "n_rounds": 4})
    before = live.charges()
    live.run(terms)
    gap, same = live.gap(terms)
    assert gap <= 1e-9
    assert same
    assert live.charged(before) == dict.fromkeys(live.names, 4)
    assert {(table, address) for table, address, _ in live.listeners()} == {("tcp", "0100007F")}


def test_a_killed_site_and_a_killed_server_do_not_end_a_run(live):
    terms = terms_for(live.names, "mean-regularized", {"epsilon": 50.0, "n_rounds": 8}, seed=None)
    before = live.charges()
    thread = threading.Thread(target=live.run, args=(terms, 300.0))
    thread.start()
    assert wait_for(lambda: live.pids("ash", job=True), 60)
    live.kill("ash", job=True)
    assert wait_for(lambda: len(list((live.folder(terms) / "own" / "releases").glob("*"))) > 0, 120)
    live.kill("server", job=False)
    thread.join(300)
    assert len(live.board(terms)) == 8
    assert live.charged(before) == dict.fromkeys(live.names, 8)
    models = live.models(terms)
    assert all(model.billboard_.head == live.board(terms).head for model in models.values())


def test_a_site_refuses_by_its_own_rules_and_the_reason_is_shown(live):
    live.settings("birch", max_epsilon=1e6, methods=("low-rank",))
    terms = terms_for(live.names, "mean-regularized", {"epsilon": 50.0, "n_rounds": 2})
    with pytest.raises(Refused, match="birch: the method 'mean-regularized' is not allowed"):
        live.run(terms)
    live.settings("birch")
    status = json.loads((live.folder(terms) / "status.json").read_text())
    assert status["phase"] == "refused"


def test_a_loosened_policy_is_refused_with_its_line(live, tmp_path):
    kit = live.place / "ash" / "kit"
    path = kit / "local" / "authorization.json"
    path.write_text(path.read_text().replace('"byoc": "none"', '"byoc": "any"', 1))
    with pytest.raises(Refused, match=r"authorization\.json, line \d+: is \"byoc\": \"any\""):
        check_policy(kit)
    write_policy(kit)
    check_policy(kit)
    (kit / "local" / "custom").mkdir()
    with pytest.raises(Refused, match="holds code"):
        check_policy(kit)
    (kit / "local" / "custom").rmdir()


def test_a_second_process_on_one_kit_is_refused(live):
    with pytest.raises(Refused, match="another process"):
        keep_running(live.place / "ash" / "kit", server=False, say=print)
