"""The page: head, heading, banners, sections, foot; style and script are inlined."""

from __future__ import annotations

import base64
import hashlib
import math
from datetime import UTC, datetime
from importlib import resources
from typing import Any

from tacit._version import __version__
from tacit.report.guarantees import (
    audit_section,
    cost_section,
    map_section,
    privacy_section,
    shared_section,
)
from tacit.report.markup import Markup, join, number, plural, tag, tiny, whole
from tacit.report.results import learned_section, own_section
from tacit.report.summary import compared, summary_section
from tacit.report.svg import mark_definitions
from tacit.report.visible import Facts

__all__ = ["page"]

_LINKS = {
    "summary": "In short",
    "learned": "Results",
    "own": "Own model",
    "privacy": "Privacy",
    "cost": "Cost",
    "shared": "Shared",
    "map": "Task map",
    "audit": "Audit",
}


def page(facts: Facts, *, title: str | None = None) -> str:
    """Return the whole HTML document."""
    heading = title or _default_title(facts)
    sections = [
        summary_section(facts),
        learned_section(facts),
        own_section(facts),
        privacy_section(facts),
        cost_section(facts),
        shared_section(facts),
        map_section(facts),
        audit_section(facts),
    ]
    shown = [(name, label, body) for part in sections if part for name, label, body in (part,)]
    links = join(tag("li", tag("a", _LINKS[name], href=f"#{name}")) for name, _, _ in shown)
    body = tag(
        "body",
        mark_definitions(),
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("header", _masthead(facts, heading), class_="masthead"),
        tag("nav", tag("ul", links), aria_label="Sections"),
        tag(
            "main",
            _banners(facts),
            join(
                tag(
                    "section",
                    tag("h2", label, id=f"{name}-heading"),
                    content,
                    id=name,
                    aria_labelledby=f"{name}-heading",
                )
                for name, label, content in shown
            ),
            id="content",
            tabindex=-1,
        ),
        _foot(facts),
        tag("script", Markup(_asset("script.js"))),
    )
    return f"<!doctype html>\n{tag('html', _head(heading), body, lang='en')}\n"


def _asset(name: str) -> str:
    return resources.files("tacit.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _head(heading: str) -> Markup:
    style, script = _asset("style.css"), _asset("script.js")
    # Only these two texts may style or run, and nothing may be fetched: a name that slipped
    # through the escaping could still do nothing.
    policy = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{_hash(style)}'; "
        f"script-src 'sha256-{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"tacit {__version__}"),
        tag("link", rel="icon", href="data:,"),
        tag("title", heading),
        tag("style", Markup(style)),
    )


def _default_title(facts: Facts) -> str:
    if facts.party is not None:
        return f"{facts.party}: what was learned, and what it cost"
    if facts.n_tasks == 1:
        return f"{facts.method}: one task"
    return f"{facts.method}: {plural(facts.n_tasks, 'task')} learned together"


def _masthead(facts: Facts, heading: str) -> Markup:
    reader = "Coordinator’s report" if facts.party is None else "Party’s own report"
    return join(
        [
            tag("p", tag("span", "tacit", class_="brand"), f" {reader}", class_="eyebrow"),
            tag("h1", heading),
            tag("p", _headline(facts), class_="headline"),
            _figures(facts),
        ]
    )


def _headline(facts: Facts) -> str:
    """Return the result in words: what it brought, and what protects whom."""
    said = []
    comparison = compared(facts)
    if comparison:
        said.append(comparison)
    statement = facts.statement
    whom = "every task’s whole data set" if statement.unit == "task" else "every single row"
    if not statement.private:
        said.append("This run protects nobody.")
    elif not statement.sound:
        said.append("The noise that was used leaks: treat this run as unprotected.")
    elif statement.seeded:
        said.append("The noise came from a fixed seed: treat this run as unprotected.")
    elif statement.n_releases == 0:
        said.append("Nothing left any task, so nobody learned anything about anybody.")
    else:
        weak = ", which is weak protection" if _weak(facts) else ""
        said.append(
            f"The privacy of {whom} is kept within ε\u00a0=\u00a0{number(statement.epsilon)}{weak}."
        )
    return " ".join(said)


def _weak(facts: Facts) -> bool:
    """Whether a guess at even odds may become 95 % sure, which is where words turn critical."""
    return 1 / (1 + math.exp(-facts.statement.epsilon)) > 0.95


def _figures(facts: Facts) -> Markup:
    statement = facts.statement
    status, tone = ("weakly protected", "weak") if _weak(facts) else ("protected", "good")
    if not statement.holds:
        status, tone = ("not protected", "bad")
    epsilon = f"ε = {number(statement.epsilon)}"
    pure = "δ = 0" if statement.delta == 0 else f"δ = {tiny(statement.delta)}"
    pairs: list[tuple[str, Any, str]] = [
        ("Privacy", status, f"{epsilon}, {pure}" if statement.private else "no noise was added"),
        ("Tasks", whole(facts.n_tasks), plural(len(facts.feature_names), "feature")),
        (
            "Releases",
            str(statement.n_releases),
            ", ".join(statement.mechanisms) or "nothing was published",
        ),
    ]
    evaluation = facts.evaluation
    if evaluation is not None:
        total = evaluation.total[0]
        shown = f"{100 * total:.1f} %" if evaluation.classification else number(total)
        pairs.append(("Error", shown, evaluation.metric))
    items = (
        tag(
            "div",
            tag("dt", name),
            tag("dd", tag("strong", value, class_=tone if name == "Privacy" else None)),
            tag("dd", note, class_="note"),
        )
        for name, value, note in pairs
    )
    return tag("dl", join(items), class_="figures")


def _banner(tone: str, title: str, text: str) -> Markup:
    return tag("div", tag("strong", title), " ", text, class_=f"banner {tone}", role="note")


def _banners(facts: Facts) -> Markup:
    """Return the worst news first."""
    statement, found = facts.statement, []
    if not statement.sound:
        found.append(
            _banner(
                "bad",
                "This leaks.",
                "A mechanism of this run is published but does not give the privacy it claims. "
                "Keep everything here as if it were not protected at all.",
            )
        )
    if statement.seeded:
        found.append(
            _banner(
                "bad",
                "Not private.",
                "The noise came from a fixed seed; whoever knows or guesses the seed can remove "
                "it. Fit again without random_state before showing this to anybody.",
            )
        )
    if not statement.private:
        found.append(
            _banner(
                "bad",
                "Not private.",
                "This run added no noise, and nothing limits what parties learn about each other.",
            )
        )
    if any(point.violated for point in facts.audit):
        found.append(_banner("bad", "The audit broke the claim.", "See the audit below."))
    if facts.seen:
        found.append(
            _banner(
                "warn",
                "This is no test.",
                "The model may have learned from the rows it was tried on here, and then does "
                "better on them than on new ones. Hand in rows that were kept out of the fit.",
            )
        )
    if facts.all_tasks_evaluated:
        found.append(
            _banner(
                "warn",
                "Do not share this page.",
                "It contains every task’s private results, computed from rows that were handed in "
                "for this report. The privacy statement covers the releases, not these results.",
            )
        )
    if facts.party is not None:
        found.append(
            _banner(
                "warn",
                f"For {facts.party} only.",
                "It shows this party’s own model, which is private to it. Others appear by name "
                "and by what was released; names count as public.",
            )
        )
    found += [_banner("warn", "Warning.", f"{text}.") for text in statement.warnings]
    return tag("div", join(found), class_="banners") if found else Markup("")


def _foot(facts: Facts) -> Markup:
    day = datetime.now(UTC).strftime("%-d %B %Y")
    written = f"Written by tacit {__version__} on {day}."
    return tag("footer", tag("p", _scope(facts)), tag("p", written))


def _scope(facts: Facts) -> str:
    """Return where the page's numbers come from, and only where it is true, that they may go."""
    if not facts.statement.holds:
        return (
            "No guarantee covers the numbers on this page: keep it as you would keep the rows they "
            "were computed from."
        )
    if facts.statement.n_releases == 0:
        rest = "nothing was released, and the rest is names and public counts"
    else:
        rest = "the rest was released, or follows from what was released"
    if facts.party is not None:
        return f"Personal numbers on this page belong to this party; {rest}."
    if facts.all_tasks_evaluated:
        return f"Personal numbers on this page come from evaluation rows; {rest}."
    if facts.statement.n_releases == 0:
        return "Nothing was released: this page holds names and public counts only."
    return "Every number on this page was released, or follows from what was released."
