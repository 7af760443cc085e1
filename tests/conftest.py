"""What all tests share: where data files are, and how a test without its file is skipped."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from tacit import datasets
from tacit.errors import DataNotFound

# Examples are the same in every run and may take their time on a busy machine.
settings.register_profile("tacit", deadline=None, derandomize=True)
settings.load_profile("tacit")

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
if "TACIT_DATA" not in os.environ and _SHARED.is_dir():
    os.environ["TACIT_DATA"] = str(_SHARED)


# Tests know nothing of the ledgers of whoever runs them, nor of each other's.
os.environ["TACIT_STATE"] = tempfile.mkdtemp(prefix="tacit-tests-")
os.environ.pop("TACIT_LEDGER", None)


@pytest.fixture(autouse=True)
def _own_register(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Give every test a register of ledgers of its own."""
    monkeypatch.setenv("TACIT_STATE", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def data() -> Callable[[str], datasets.Dataset]:
    """Load a data set by name, or skip the test with the reason why it is not there."""

    def load(name: str) -> datasets.Dataset:
        try:
            return getattr(datasets, f"load_{name}")()
        except DataNotFound as error:
            pytest.skip(str(error))

    return load
