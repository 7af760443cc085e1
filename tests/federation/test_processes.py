"""Processes of a party end with whatever they started."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tacit.federation.processes import _ended

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

PARENT = """
import subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
job = subprocess.Popen(sleep, start_new_session=True)
print(job.pid, flush=True)
time.sleep(600)
"""


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_job_in_a_session_of_its_own_ends_with_its_parent():
    """NVFlare starts jobs so that a signal to the parent's group does not reach them."""
    command = ["/bin/sh", "-c", f"{sys.executable} -c '{PARENT}'; true"]
    child = subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, text=True)
    job = int(child.stdout.readline())
    assert alive(job)
    _ended(child)
    child.stdout.close()
    end = time.monotonic() + 10
    while alive(job) and time.monotonic() < end:
        time.sleep(0.05)
    assert not alive(job)
