"""A conversation led by hand: one stack of tasks, releases with the noise a test chooses."""

from __future__ import annotations

import numpy as np

from tacit.privacy.mechanisms import Exact
from tacit.privacy.schedule import in_turn


def started(protocol, tasks):
    return protocol.start(tasks, np.arange(tasks.n_tasks))


def bounded(protocol, home, public, call):
    home, messages = protocol.speak(home, public, call, None)
    return home, protocol.rounds()[call.round].bound(messages)


def lead(protocol, tasks, *, mechanisms=None, noise=None):
    """Return the home and public state after all rounds, ``noise[t]`` added to release t."""
    home, public = started(protocol, tasks), protocol.opening()
    for number, call in enumerate(in_turn(protocol.rounds())):
        home, messages = bounded(protocol, home, public, call)
        release = protocol.rounds()[call.round].bound.aggregate(messages)
        law = Exact() if mechanisms is None else mechanisms[call.round]
        public = protocol.read(
            public, release if noise is None else release + noise[number], call, law
        )
    return home, public
