"""NVFlare's filter at a site: whatever the executor did, nothing else leaves."""

import dataclasses

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="needs tacit[federation]")

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import make_reply

from tacit.federation import Refused
from tacit.federation.flare import FlareGate, FlareSite, _answer
from tacit.federation.kits import SETTINGS, Settings
from tacit.federation.wire import pack, unpack

from .conftest import closed, sites_of, terms_of

pytestmark = pytest.mark.filterwarnings("default")


@dataclasses.dataclass
class Context:
    """The part of NVFlare's context that is read: the name, and where the site's settings are."""

    folder: str
    name: str = "ash"

    def get_engine(self):
        return self

    get_workspace = get_engine

    def get_site_config_dir(self):
        return self.folder

    def get_identity_name(self):
        return self.name


@pytest.fixture
def said(tmp_path):
    """A gate, and what a site answered in a round that it agreed to."""
    terms = terms_of("mean regularised")
    sites = sites_of(terms, tmp_path)
    sites["ash"].answer("agree", pack({"terms": terms.to_json()}))
    call = {"number": 0, "round": 0, "task": None, "turn": 0}
    header = {"run": terms.run, "terms": terms.digest, "known": 0, "call": call}
    answer = sites["ash"].answer("speak", pack(header))
    closed(sites)
    Settings(str(tmp_path / "ash")).save(tmp_path / SETTINGS)
    return FlareGate(), Context(str(tmp_path)), answer


def test_a_message_that_was_agreed_on_passes(said):
    gate, context, answer = said
    body = {"answer": answer, "__rc__": "OK"}
    assert gate.process(body, context) is body
    assert gate.process({"refused": "no"}, context)
    assert gate.process({"__rc__": "OK"}, context)
    assert gate.process({"answer": pack({"known": 3})}, context)


def test_anything_else_is_refused(said):
    gate, context, answer = said
    header, arrays = unpack(answer)
    message = arrays["message"]
    other_run = {**header, "run": "0" * 32}
    for body in (
        {"answer": answer, "rows": np.ones((9, 3))},
        {"rows": np.ones((9, 3))},
        {"refused": "x" * 5000},
        {"refused": np.ones(3)},
        {"answer": np.ones(3)},
        {"answer": answer[:-30]},
        {"answer": pack(header, message=message * np.nan)},
        {"answer": pack(header, message=message * 1e6)},
        {"answer": pack(header, message=np.zeros(1 << 18))},
        {"answer": pack(header, message=message, rows=message)},
        {"answer": pack({**header, "note": "x"}, message=message)},
        {"answer": pack(other_run, message=message)},
        {"answer": pack({**header, "call": {"round": 7}}, message=message)},
        {"answer": pack({"known": 3}, rows=message)},
        {"answer": pack({"page": "x" * (1 << 17)})},
        {"answer": pack({"rows": [1.5, 2.5]})},
        {"answer": pack({"known": -1})},
        {"answer": pack({"finished": "my rows"})},
    ):
        with pytest.raises(Refused):
            gate.process(body, context)


def test_a_target_of_a_transfer_lets_no_message_out(tmp_path):
    terms = dataclasses.replace(terms_of("transfer"), counts=(60, 60))
    sites = sites_of(terms, tmp_path)
    for name in ("ash", "birch"):
        sites[name].answer("agree", pack({"terms": terms.to_json()}))
    call = {"number": 0, "round": 0, "task": None, "turn": 0}
    answer = sites["ash"].answer(
        "speak", pack({"run": terms.run, "terms": terms.digest, "known": 0, "call": call})
    )
    closed(sites)
    for name in ("ash", "birch"):
        Settings(str(tmp_path / name)).save(tmp_path / SETTINGS)
        if name == "ash":
            assert FlareGate().process({"answer": answer}, Context(str(tmp_path), name))
        else:
            with pytest.raises(Refused, match="only listens"):
                FlareGate().process({"answer": answer}, Context(str(tmp_path), name))


def test_words_of_a_site_do_not_steer_the_coordinators_terminal():
    reply = make_reply(ReturnCode.OK)
    reply["refused"] = "no\x1b[2J\r\nwell"
    assert str(_answer("ash", reply)) == "no [2J  well"


def test_a_failure_at_a_site_leaves_without_its_reason(tmp_path):
    reply = FlareSite().execute("speak", {"request": b""}, Context(str(tmp_path)), None)
    assert [key for key in reply if not key.startswith("__")] == []
    assert reply.get_return_code() != "OK"
