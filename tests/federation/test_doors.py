"""What a site's own process answers: with NVFlare's request handlers, and with those of a kit."""

import contextlib

import pytest

pytest.importorskip("nvflare", reason="needs tacit[federation]")

from nvflare.fuel.f3.cellnet.utils import new_cell_message
from nvflare.fuel.sec.audit import AuditService
from nvflare.private.admin_defs import Message
from nvflare.private.defs import SysCommandTopic, TrainingTopic
from nvflare.private.fed.client.admin import FedAdminAgent
from nvflare.private.fed.client.admin_commands import AdminCommands
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

from tacit.federation.doors import OPEN, FlareDoors, close_commands


class Engine:
    """As much of a client's engine as handlers of shell commands look at."""

    def new_context(self):
        return contextlib.nullcontext()

    def register_request_cb(self, **_):
        """Take no callbacks: requests are handed to the agent directly."""


def asked(processors, topic, body, tmp_path):
    """Return what NVFlare's own agent answers to a request without user, role or authorisation."""
    if AuditService.get_auditor() is None:
        AuditService.initialize(str(tmp_path / "audit.txt"))
    agent = FedAdminAgent("agent", Engine(), Engine())
    for one in processors:
        agent.register_processor(one)
    return str(agent._dispatch_request(new_cell_message({}, Message(topic, body))).payload.body)


@pytest.fixture
def shipped():
    """NVFlare's handlers and commands; those of other tests get them back."""
    lists = ClientRequestProcessors.request_processors, AdminCommands.commands
    before = [list(one) for one in lists]
    yield lists[0]
    for one, known in zip(lists, before, strict=True):
        one[:] = known


def test_as_shipped_whoever_asks_reads_any_file_and_through_the_doors_nobody(shipped, tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("Jane Doe,1\n")
    question = (SysCommandTopic.SHELL, f"cat {rows}", tmp_path)
    assert "Jane Doe" in asked(shipped, *question)
    FlareDoors()
    assert "Jane Doe" not in asked(shipped, *question)
    assert "invalid_request" in asked(shipped, *question)


def test_only_what_a_job_needs_is_open(shipped):
    FlareDoors()
    topics = {topic for one in shipped for topic in one.get_topics()}
    assert topics == OPEN
    assert not topics & {TrainingTopic.SHUTDOWN, TrainingTopic.RESTART, SysCommandTopic.REPORT_ENV}


def test_a_job_obeys_its_own_parent_in_three_things_only(shipped):
    close_commands()
    names = {one.get_command_name() for one in AdminCommands.commands}
    assert names == {"check_status", "abort", "shutdown"}
