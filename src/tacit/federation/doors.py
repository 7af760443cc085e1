"""What a site's NVFlare processes answer at all: the few requests that a job needs.

As shipped, the parent process of a site asks its own ``authorization.json`` only where the *server*
says that a request must be authorised, and takes the user's role from the server as well. Requests
that other sites send are passed on to it, too. One of the requests is a shell command such as
``cat``, whose argument is any path. A server, or a site, of somebody who means ill could read rows.
"""

from __future__ import annotations

from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import AdminCommandNames
from nvflare.private.defs import TrainingTopic
from nvflare.private.fed.client.admin_commands import AdminCommands
from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

__all__ = ["OPEN", "FlareDoors", "close_commands"]

OPEN = frozenset(
    {
        TrainingTopic.CHECK_RESOURCE,
        TrainingTopic.CANCEL_RESOURCE,
        TrainingTopic.DEPLOY,
        TrainingTopic.START_JOB,
        TrainingTopic.ABORT,
        TrainingTopic.NOTIFY_JOB_STATUS,
    }
)
_COMMANDS = frozenset(
    {AdminCommandNames.CHECK_STATUS, AdminCommandNames.ABORT, AdminCommandNames.SHUTDOWN}
)


class FlareDoors(FLComponent):
    """A component of the strict kit, built before the parent answers anybody.

    Guarantee: the parent has nobody who would answer a request but those in `OPEN`: whether there
    is room for a job, take it (signed, without code, of listed classes), start it, stop it, hear
    how it ended. Whoever asks for anything else (files, lists, logs, settings, versions, restart,
    shutdown) gets "invalid_request", whatever role is claimed.
    """

    def __init__(self) -> None:
        super().__init__()
        known = ClientRequestProcessors.request_processors
        known[:] = [one for one in known if OPEN.issuperset(one.get_topics())]


def close_commands() -> None:
    """Leave a job's process with the commands that its own parent sends, in place."""
    known = AdminCommands.commands
    known[:] = [one for one in known if one.get_command_name() in _COMMANDS]
