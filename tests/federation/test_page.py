"""The page of a run: for whoever has the token, on this machine, in a real browser."""

import re
import shutil
import subprocess
import threading
import urllib.error
import urllib.request

import pytest

from tacit.federation.status import facts_of, page, page_server

from .conftest import NAMES

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run")
FLAGS += ("--disable-background-networking", "--disable-component-update", "--disable-sync")
FLAGS += ("--enable-logging=stderr",)


def test_the_page_answers_only_whoever_has_the_token(house):
    server, address = page_server(house)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        assert server.server_address[0] == "127.0.0.1"
        with urllib.request.urlopen(address) as answer:
            text = answer.read().decode()
            assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert all(name in text for name in NAMES)
        assert "<script" not in text
        assert "http://" not in text
        for wrong in (address.split("?")[0], address + "x", address + "%C3%A9"):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                urllib.request.urlopen(wrong)
        with pytest.raises(urllib.error.HTTPError, match="501"):
            urllib.request.urlopen(urllib.request.Request(address, method="POST", data=b""))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_what_a_site_says_cannot_become_markup(house):
    facts = facts_of(house)
    facts["sites"][0]["state"] = "<script>alert(1)</script>"
    facts["error"] = "<b>"
    assert "<script" not in page(facts)
    assert "<b>" not in page(facts)


@pytest.fixture
def browse(tmp_path):
    if CHROMIUM is None:
        pytest.skip("no chromium on this machine")

    def run(address, *options):
        """Return what the browser prints and its console messages."""
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *options, address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    return run


def test_the_page_in_a_real_browser(browse, house):
    house.run()
    server, address = page_server(house)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        shown, console = browse(address, "--dump-dom")
    finally:
        server.shutdown()
        server.server_close()
    assert console == []
    assert [name for name in NAMES if f"<td>{name}</td>" in shown] == list(NAMES)
    assert "ε = 0 of 50 released" in shown


def test_the_page_never_scrolls_sideways(browse, house, tmp_path):
    facts = facts_of(house)
    word = "a_name_without_a_place_to_break_it_" * 4
    facts["error"] = facts["sites"][0]["state"] = f"refused: ash: the feature {word}"
    facts["sites"][1]["name"] = word
    text = re.sub("<meta http-equiv=refresh[^>]*>", "", page(facts))
    width = "document.documentElement.scrollWidth - innerWidth"
    script = f"<script>document.title = {width}</script></body>"
    (tmp_path / "measured.html").write_text(text.replace("</body>", script))
    # Frames, because a window cannot be made as narrow as a phone.
    frame = tmp_path / "frame.html"
    frame.write_text(
        "".join(f'<iframe src="measured.html" width="{w}"></iframe>' for w in (320, 390, 1280))
        + "<script>onload = () => { document.title = [...document.querySelectorAll('iframe')].map("
        "(inner) => inner.contentDocument.title).join() }</script>"
    )
    shown, _ = browse(frame.as_uri(), "--allow-file-access-from-files", "--dump-dom")
    title = re.search("<title>(.*?)</title>", shown).group(1)
    assert max(int(over) for over in title.split(",")) <= 0
