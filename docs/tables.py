"""Tables of the documentation that are read off the methods' schedules.

``python docs/tables.py`` writes them anew between their marks, ``<!-- table: NAME -->`` and
``<!-- end of table -->``; a test compares.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import tacit
from tacit.cli.run.methods import methods
from tacit.privacy.plan import BYTES_PER_NUMBER, Plan, _bytes, _time

DOCS = Path(__file__).parent
_MARKED = re.compile(r"(<!-- table: (?P<name>[\w -]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
_TASKS, _FEATURES, _ROWS = 1_000, 20, 50
_PAPER = {"update": "proximal"}
# Forms of a method beside its default.
_FORMS: dict[str, dict[str, dict[str, Any]]] = {
    "shared-prior": {"`clip=1.0`": {"clip": 1.0}},
    "mean-regularized": {
        "`clip=1.0, n_rounds=3`": {"clip": 1.0, "n_rounds": 3},
        "`n_rounds=1`": {"n_rounds": 1},
    },
    "low-rank": {'`update="proximal"`': _PAPER, "`delta=0.0`": {"delta": 0.0}},
    "group-sparse": {'`update="proximal"`': _PAPER, "`delta=0.0`": {"delta": 0.0}},
    "low-rank-sparse": {'`shared="group-sparse"`': {"shared": "group-sparse"}},
    "task-relationship": {"`clip=1.0`": {"clip": 1.0}},
    "averaged": {"`clip=1.0`": {"clip": 1.0}},
    "asynchronous": {
        '`aggregation="trusted"`': {"aggregation": "trusted"},
        "`delta=0.0`": {"delta": 0.0},
    },
    "shared-moments": {'`aggregation="trusted"`': {"aggregation": "trusted"}},
}


def _markdown(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines).replace("| --- ", "|---")


def _planned(method: str, **settings: Any) -> Plan:
    return tacit.plan(method, _TASKS, _FEATURES, n_rows=_TASKS * _ROWS, **settings)


def releases(method: str) -> str:
    """Return what a method releases in each of its forms, round by round."""
    rows = []
    for form, settings in {"default": {}, **_FORMS.get(method, {})}.items():
        plan = _planned(method, **settings)
        rows += [
            (
                form,
                part.name,
                f"{part.turns}",
                str(part.unit),
                part.mechanism,
                f"{part.n_numbers:,}",
                f"{part.sensitivity:.4g}",
                f"{part.scale:.4g}",
                f"{part.noise_to_signal:.2g}",
            )
            for part in plan.releases
        ]
    head = ("Form", "Release", "Times", "Unit", "Noise", "Numbers", "Sensitivity", "Noise scale")
    return _about() + _markdown((*head, "Noise to signal, at best"), rows)


def _about() -> str:
    return f"At ε = 1 for {_TASKS:,} tasks of {_ROWS} rows, {_FEATURES} features, one output:\n\n"


def left_out() -> set[str]:
    """Return the methods of an extra that need not be there."""
    return {
        name
        for name, kinds in methods().items()
        if any(kind.__module__.startswith("tacit.neural") for kind in kinds.values())
    }


def travels() -> str:
    """Return, for every method's default, who is protected and what one task sends and receives."""
    rows = []
    for method in (name for name in methods() if name not in left_out()):
        plan = _planned(method)
        turns = sum(part.turns for part in plan.releases)
        up, down = plan.bytes_up // BYTES_PER_NUMBER, plan.bytes_down // BYTES_PER_NUMBER
        held = _bytes(plan.curator_memory)
        rows.append((method, plan.protected, plan.trust, f"{turns}", f"{up:,}", f"{down:,}", held))
    head = ("Method", "Protected", "Curator", "Releases", "Up", "Down", "Curator holds")
    return _about() + _markdown(head, rows)


def sizes() -> str:
    """Return bandwidth, memory and noise as the number of tasks grows."""
    rows = []
    for exponent, word in ((4, "10⁴"), (6, "10⁶"), (9, "10⁹")):
        for method in ("shared-prior", "mean-regularized", "low-rank", "task-relationship"):
            related = method == "task-relationship"
            if related and exponent > 4:
                continue  # everybody's message goes to everybody
            plan = tacit.plan(method, 10**exponent, 50, **({"clip": 1.0} if related else {}))
            cells = (plan.bytes_up, plan.bytes_down, plan.bytes_total, plan.curator_memory)
            noise, first = f"{plan.noise_to_signal:.2g}", plan.breaks_first.partition(":")[0]
            label = f"{method}, with a clip" if related else method
            rows.append(
                (word, label, *map(_bytes, cells), _time(plan.curator_seconds), noise, first)
            )
    head = ("m", "Method", "Up, a task", "Down, a task", "Network, whole run", "Curator holds")
    return _markdown((*head, "and works", "Noise to signal, at best", "Breaks first"), rows)


def table(name: str) -> str:
    """Return the table that a mark names."""
    kind, _, method = name.partition(" ")
    return releases(method) if kind == "releases" else {"travels": travels, "sizes": sizes}[name]()


def filled(text: str) -> str:
    """Return a page with every marked table made anew."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _MARKED.sub(lambda mark: f"{mark[1]}\n{table(mark['name'])}\n{mark[3]}", text)


def main() -> None:
    """Write all pages."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (made := filled(text)) != text:
            page.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
