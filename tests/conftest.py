"""What all tests share: where data files are, and how a test without its file is skipped."""

from __future__ import annotations

import os
import shutil
import subprocess
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


# Tests that go through every estimator or method. In these, what is told by a few is told by a few
# in the quick run, and by all of them in `make test-slow`.
_THROUGH_ALL = (
    "one_door/",
    "test_standing_attacks.py",
    "test_scikit_learn.py",
    "test_exports.py",
    "test_planned_is_charged.py",
    "engines/",
    "test_fit_parquet.py",
)
_FEW = ("SharedPriorClassifier", "AveragedClassifier", "SingleTaskClassifier", "PooledClassifier")
_FEW_METHODS = ("[shared-prior]", "[averaged]", "[single-task]", "[shared-moments]")


def _for_later(item: pytest.Item) -> bool:
    where, name = item.nodeid.partition("::")[::2]
    if not any(part in where for part in _THROUGH_ALL):
        return False
    if "test_a_partys_folder_does_not_change_with_other_parties_rows" in name:
        return not name.endswith(_FEW_METHODS)
    if "of_three_classes" in name:
        return "[SharedPrior" not in name
    if "scikit_learn" in where and "-inf]" in name:
        return True
    return "Classifier" in name and not any(few in name for few in _FEW)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what repeats, for one more classifier or method, what a few have shown."""
    for item in items:
        if _for_later(item):
            item.add_marker(pytest.mark.slow)


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


_CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_BROWSING = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
)


@pytest.fixture
def browse(tmp_path):
    if _CHROMIUM is None:
        pytest.skip("no chromium on this machine")

    def run(page: Path, *options: str) -> tuple[str, list[str]]:
        """Return what the browser prints and its console messages."""
        command = [_CHROMIUM, *_BROWSING, f"--user-data-dir={tmp_path / 'profile'}", *options]
        done = subprocess.run(
            [*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=False
        )
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    return run
