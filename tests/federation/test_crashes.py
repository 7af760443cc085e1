"""Killed at any instant, on either side, a run goes on and says nothing twice in two ways."""

import hashlib
import os
import random

import pytest

from tacit.federation import Coordinator, InProcess, Terms
from tacit.federation.wire import unpack
from tacit.privacy import Billboard, Ledger

from .conftest import closed, identities_of, sites_of, terms_of

N_POINTS = int(os.environ.get("TACIT_CRASHES", "4"))


class Recorded(InProcess):
    """Writes down, for every message that leaves a site, which call it answers and its bytes."""

    def __init__(self, sites, record):
        super().__init__(sites)
        self.record = record

    def _answer(self, task, name, request):
        answer = super()._answer(task, name, request)
        if task == "speak" and "message" in unpack(answer)[1]:
            call = unpack(answer)[0]["call"]["number"]
            with self.record.open("a") as file:
                file.write(f"{name} {call} {hashlib.sha256(answer).hexdigest()}\n")
        return answer


def attempt(place, terms):
    sites = sites_of(terms, place)
    try:
        post = Recorded(sites, place / "record")
        return Coordinator(place / "run", post, terms=terms).run()
    finally:
        closed(sites)


def killed_attempt(place, terms, after):
    """Run in a child that dies, without any clean-up, at its ``after``-th write to the disk."""
    child = os.fork()
    if child == 0:
        left, replace = [after], os.replace

        def fatal(*args, **kwargs):
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)
            replace(*args, **kwargs)

        os.replace = fatal
        try:
            attempt(place, terms)
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(
    "name",
    ["mean regularised", "moments, untrusted", "moments, secure", "asynchronous", "transfer"],
)
def test_a_run_killed_again_and_again_is_the_same_run(name, tmp_path):
    terms = Terms.from_json(terms_of(name).to_json())
    identities_of(terms)  # before any child is forked: keys outlive processes
    points, kills = random.Random(name), 0
    for _ in range(N_POINTS):
        code = killed_attempt(tmp_path, terms, points.randint(1, 40))
        assert code in (0, 9)
        kills += code == 9
    assert kills
    outcome = attempt(tmp_path, Terms.load(tmp_path / "run" / "terms.json"))
    said = {}
    for line in (tmp_path / "record").read_text().splitlines():
        site, call, digest = line.split()
        said.setdefault((site, call), []).append(digest)
    assert all(len(set(digests)) == 1 for digests in said.values())
    n_rounds = len({(p.call["round"], p.call["turn"]) for p in outcome.billboard})
    assert len(said) == n_rounds * len(terms.speakers)
    for site in terms.sites:
        with Ledger(tmp_path / site / "ledger.db") as ledger:
            assert [line.n_charges for line in ledger.lines()] == [n_rounds]
    assert Billboard.load(tmp_path / "run" / "own" / "releases").head == outcome.billboard.head
    assert outcome.statement.holds
