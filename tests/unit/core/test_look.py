"""One set of colours for all that is drawn, and readable for most eyes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentrewind import ui
from agentrewind.core.look import CSS, DARK, LIGHT, SERIES, colour_of

STYLE = (Path(ui.__file__).parent / "static/style.css").read_text(encoding="utf-8")


def light_of(colour: str) -> float:
    """Relative luminance, as WCAG 2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    brighter, darker = sorted((light_of(one), light_of(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_the_page_of_a_run_has_these_colours(colours):
    blocks = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in STYLE.split("}")]
    fitting = [block for block in blocks if block.get("bg") == colours["bg"]]
    assert fitting
    assert all(colours.items() <= block.items() for block in fitting)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_lines_and_texts_stand_out(colours):
    for ground in (colours["panel"], colours["bg"]):
        assert [colour for colour in SERIES if contrast(colour, ground) < 3] == []
        assert [name for name in ("ink", "soft", "good", "bad", "back") if contrast(colours[name], ground) < 4.5] == []


def test_lines_differ_and_begin_again_after_the_last():
    assert len(set(SERIES)) == len(SERIES)
    assert colour_of(len(SERIES)) == colour_of(0) != colour_of(1)
    assert all(f"--{name}: {value}" in CSS for name, value in (*LIGHT.items(), *DARK.items()))
