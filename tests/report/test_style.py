"""Colours: enough contrast in light and in dark, the same dark whichever way it was chosen."""

from __future__ import annotations

import re
from importlib import resources

import pytest

CSS = resources.files("tacit.report").joinpath("style.css").read_text(encoding="utf-8")
BLOCKS = [
    dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", block))
    for block in re.findall(r":root[^{]*\{([^}]*--series0[^}]*)\}", CSS)
]
LIGHT, DARK, DARK_BY_SYSTEM = BLOCKS


def _luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_of_black_and_white_is_twenty_one():
    assert _contrast("#000000", "#ffffff") == pytest.approx(21.0)


def test_dark_is_the_same_by_button_and_by_system():
    assert DARK == DARK_BY_SYSTEM
    assert set(DARK) == set(LIGHT)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_has_a_contrast_of_four_and_a_half(theme):
    for ink in ("ink", "quiet", "link", "good", "bad", "warn", "series1"):
        for paper in ("paper", "card", "faint"):
            assert _contrast(theme[ink], theme[paper]) >= 4.5, (ink, paper)
    assert _contrast(theme["bad"], theme["bad-paper"]) >= 4.5
    assert _contrast(theme["warn"], theme["warn-paper"]) >= 4.5
    assert _contrast(theme["ink"], theme["warn-paper"]) >= 4.5


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_marks_have_a_contrast_of_three(theme):
    for series in range(5):
        assert _contrast(theme[f"series{series}"], theme["paper"]) >= 3
        assert _contrast(theme[f"series{series}"], theme["noise"]) >= 3
