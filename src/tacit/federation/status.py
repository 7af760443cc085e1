"""How a run goes, from the coordinator's public record: facts, and a page that shows them."""

from __future__ import annotations

import html
import secrets
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tacit.federation.attempts import run_status
from tacit.federation.house import House
from tacit.federation.terms import Terms
from tacit.privacy.accounting.composition import compose
from tacit.privacy.billboard import Billboard

__all__ = ["facts_of", "page_server"]


def facts_of(house: House) -> dict[str, Any]:
    """Return sites, round, ε and the last error; nothing of it is secret."""
    folder, terms = house.latest(), house.federation.terms
    body: dict[str, Any] = {"phase": "none", "sites": {}} if folder is None else run_status(folder)
    if folder is not None and (folder / "terms.json").exists():
        terms = Terms.load(folder / "terms.json")
    spent = 0.0
    if folder is not None and (folder / "own" / "releases").is_dir():
        events = Billboard.load(folder / "own" / "releases").events
        spent = compose(list(events), delta=float(terms.settings["delta"])).epsilon
    now = time.time()
    sites = []
    for name in terms.sites:
        known = body["sites"].get(name, {})
        ago = now - known["time"] if "time" in known else None
        sites.append({"name": name, "state": known.get("state", "not heard"), "ago": ago})
    return {
        "run": None if folder is None else terms.run,
        "method": terms.method,
        "phase": body["phase"],
        "round": body.get("round", 0),
        "rounds": body.get("rounds", 0),
        "epsilon": float(terms.settings["epsilon"]),
        "spent": spent,
        "error": body.get("error"),
        "sites": sites,
    }


_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px system-ui,sans-serif;margin:1rem auto;padding:0 1rem;max-width:50rem}"
    "table{border-collapse:collapse;width:100%;table-layout:fixed}"
    "th:first-child{width:30%}th:last-child{width:5em}"
    "td,th{text-align:left;vertical-align:top;padding:.3rem .6rem .3rem 0;"
    "border-bottom:1px solid #8888}"
    "td,p{overflow-wrap:anywhere}"
    "td:last-child,th:last-child{text-align:right;padding-right:0}"
    ".bad{color:light-dark(#a4001d,#ff8a95)}"
)
_BAD = ("refused", "failed", "missing")


def page(facts: dict[str, Any]) -> str:
    """Return the page: no script, nothing fetched from elsewhere, refreshed every two seconds."""
    rows = "".join(
        f"<tr><td>{html.escape(site['name'])}</td>"
        f"<td{' class=bad' if site['state'].startswith(_BAD) else ''}>"
        f"{html.escape(site['state'])}</td>"
        f"<td>{'' if site['ago'] is None else round(site['ago'])}</td></tr>"
        for site in facts["sites"]
    )
    error = (
        f"<p id=error class=bad>Last error: {html.escape(str(facts['error']))}</p>"
        if facts["error"]
        else ""
    )
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width,initial-scale=1'>"
        "<meta http-equiv=refresh content=2><title>tacit federation</title>"
        f"<style>{_STYLE}</style></head><body><h1>{html.escape(facts['method'])}</h1>"
        f"<p id=phase>{html.escape(facts['phase'])}: round {facts['round']} of {facts['rounds']}, "
        f"ε = {facts['spent']:.4g} of {facts['epsilon']:.4g} released</p>{error}"
        "<table><thead><tr><th>Site<th>State<th>Seconds ago</tr></thead>"
        f"<tbody>{rows}</tbody></table></body></html>"
    )


def page_server(house: House, port: int = 0) -> tuple[ThreadingHTTPServer, str]:
    """Return a server of the page on loopback, and the address with the token it asks for."""
    token = secrets.token_urlsafe(24)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            given = parse_qs(urlsplit(self.path).query).get("token", [""])[0]
            if not secrets.compare_digest(given.encode(), token.encode()):
                self.send_error(403, "ask with the token that was printed")
                return
            body = page(facts_of(house)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("Referrer-Policy", "no-referrer")
            policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
            self.send_header("Content-Security-Policy", policy)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Keep quiet: addresses hold the token."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    return server, f"http://127.0.0.1:{server.server_port}/?token={token}"
