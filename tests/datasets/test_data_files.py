"""Where data files are looked for, and what is checked before they are used."""

from __future__ import annotations

import hashlib

import pytest

from tacit.datasets import CATALOGUE, cache_folder, load_school, locate
from tacit.errors import DataNotFound, InvalidInput

CONTENT = b"rows of many tasks"
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Empty data, cache and server folders; only the first two are configured."""
    folders = {name: tmp_path / name for name in ("data", "cache", "server")}
    for folder in folders.values():
        folder.mkdir()
    monkeypatch.setenv("TACIT_DATA", str(folders["data"]))
    monkeypatch.setenv("TACIT_CACHE", str(folders["cache"]))
    monkeypatch.delenv("TACIT_DATA_URL", raising=False)
    return folders


def test_the_configured_folder_comes_before_the_cache(places):
    (places["cache"] / "rows.npz").write_bytes(CONTENT)
    assert locate("rows.npz", SHA256) == places["cache"] / "rows.npz"
    (places["data"] / "rows.npz").write_bytes(CONTENT)
    assert locate("rows.npz", SHA256) == places["data"] / "rows.npz"


def test_a_missing_file_says_where_to_put_it(places):
    with pytest.raises(DataNotFound) as error:
        load_school()
    for place in ("data", "cache"):
        assert str(places[place]) in str(error.value)
    assert "school.npz" in str(error.value)
    assert "TACIT_DATA" in str(error.value)


def test_a_changed_file_is_refused_even_after_a_good_one_was_seen(places):
    path = places["data"] / "rows.npz"
    path.write_bytes(CONTENT)
    locate("rows.npz", SHA256)
    path.write_bytes(CONTENT + b"!")
    with pytest.raises(InvalidInput, match="checksum is not the published one"):
        locate("rows.npz", SHA256)


def test_a_download_enters_the_cache_when_its_checksum_is_right(places, monkeypatch):
    (places["server"] / "rows.npz").write_bytes(CONTENT)
    monkeypatch.setenv("TACIT_DATA_URL", places["server"].as_uri() + "/")
    path = locate("rows.npz", SHA256)
    assert path == places["cache"] / "rows.npz"
    assert path.read_bytes() == CONTENT
    (places["server"] / "rows.npz").unlink()
    assert locate("rows.npz", SHA256) == path


def test_a_wrong_download_leaves_nothing_behind(places, monkeypatch):
    (places["server"] / "rows.npz").write_bytes(b"something else")
    monkeypatch.setenv("TACIT_DATA_URL", places["server"].as_uri())
    with pytest.raises(InvalidInput, match="nothing was kept"):
        locate("rows.npz", SHA256)
    with pytest.raises(DataNotFound, match="cannot be fetched"):
        locate("absent.npz", SHA256)
    assert not list(places["cache"].iterdir())


def test_nothing_is_fetched_without_protection_on_the_way(places, monkeypatch):
    monkeypatch.setenv("TACIT_DATA_URL", "http://example.org/data")
    with pytest.raises(InvalidInput, match="https://"):
        locate("rows.npz", SHA256)


def test_the_cache_folder_follows_the_platform(monkeypatch, tmp_path):
    monkeypatch.delenv("TACIT_CACHE", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "tacit"
    monkeypatch.setattr("sys.platform", "darwin")
    assert cache_folder().parts[-3:] == ("Library", "Caches", "tacit")
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert cache_folder() == tmp_path / "tacit"


def test_every_file_has_a_checksum_of_its_own():
    assert len({entry.sha256 for entry in CATALOGUE.values()}) == len(CATALOGUE) == 15
