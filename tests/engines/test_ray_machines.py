"""A run goes on when a machine of the cluster is lost; loopback addresses stand for machines.

In a process of its own: Ray reads once, when it is imported, whether there may be several machines.
"""

import os
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from tacit.engines import Ray, conduct
from tacit.losses import SquaredLoss
from tacit.privacy import Billboard, SeededEntropy

from .conftest import staged, tasks_of
from .test_ray import run

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

HEAD, OTHER = "127.0.0.2", "127.0.0.3"


def machine(address, *options):
    """Start a Ray node in a process group of its own; wait until it says that it runs."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1"]
    process = subprocess.Popen(
        [*command, f"--node-ip-address={address}", "--disable-usage-stats", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "RAY_AUTH_MODE": "disabled"},
        start_new_session=True,
    )
    said = []
    for line in process.stdout:
        said.append(line)
        if "Ray runtime started" in line:
            return process
    raise AssertionError("".join(said))


def switch_off(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_a_machine_that_is_lost_changes_no_bit():
    ray = pytest.importorskip("ray")
    with socket.create_server((HEAD, 0)) as free:
        port = free.getsockname()[1]
    machines = [machine(HEAD, "--head", f"--port={port}", "--include-dashboard=false")]
    try:
        machines.append(machine(OTHER, f"--address={HEAD}:{port}"))
        protocol, schedule = staged("low rank and rows", SquaredLoss())
        tasks, entropy, other = tasks_of(SquaredLoss()), SeededEntropy(3), Billboard()
        models, board, _ = run(None, protocol, schedule, tasks)
        ray.init(address=f"{HEAD}:{port}", _node_ip_address=HEAD, logging_level="ERROR")
        engine = Ray()
        parties = engine.parties(protocol, tasks, entropy=entropy.child("homes"))
        assert len(parties._actors) == 2

        def lose(made, total):
            if made == 1:
                switch_off(machines[1])
                machines.append(machine(OTHER, f"--address={HEAD}:{port}"))

        outcome = conduct(
            protocol, schedule, parties, other, entropy=entropy.child("curator"), progress=lose
        )
        again = np.concatenate(list(parties.finish(outcome.public)))
        assert parties._deaths == 1
        assert other.head == board.head
        assert np.array_equal(again, models)
    finally:
        ray.shutdown()
        for process in machines:
            if process.poll() is None:
                switch_off(process)
