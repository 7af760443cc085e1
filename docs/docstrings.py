"""How the API reference reads docstrings: guarantees become sections, roles become plain code.

The docstrings end with a ``Guarantee:`` paragraph, which a parser of numpy's style would take for
one more parameter.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|mod|attr):`~?([^`]+)`")
_UNDERLINE = re.compile(r"^-{3,}$")


def tidy(text: str) -> str:
    """Return the docstring with prose first, then its sections, then the guarantee."""
    prose: list[str] = []
    sections: list[str] = []
    guarantee: list[str] = []
    current = prose
    for block in re.split(r"\n\s*\n", _ROLE.sub(r"`\1`", text)):
        lines = block.split("\n")
        if len(lines) > 1 and _UNDERLINE.match(lines[1]):
            if lines[0] == "Common parameters":
                block = "\n".join(["Parameters", "----------", *lines[2:]])
            current = sections
        elif block.startswith("Guarantee:"):
            current = guarantee
            said = block.removeprefix("Guarantee:").strip()
            block = said[:1].upper() + said[1:]
        elif current is sections and not block.startswith((" ", ">>>")):
            prose.append(block)  # a paragraph about the section as a whole
            continue
        current.append(block)
    if guarantee:
        sections.append("Guarantee\n---------\n" + "\n\n".join(guarantee))
    return "\n\n".join([*prose, *sections])


class Docstrings(griffe.Extension):
    """Tidy every docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite one object's docstring."""
        if obj.docstring is not None:
            obj.docstring.value = tidy(obj.docstring.value)
