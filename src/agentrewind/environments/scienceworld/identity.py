"""The identity of a state, in whatever order the simulator lists what is in it."""

from __future__ import annotations

import re

from agentrewind.core.codec import Json, digest

_BETWEEN = re.compile(r"[\n\t,:().]+")
CONTENTS, NUMBER = "contents", "uuid"


def phrases(text: str) -> list[str]:
    """What a text says, sorted. Two descriptions that say the same in another order have the same phrases."""
    return sorted(part for said in _BETWEEN.split(text) if (part := " ".join(said.split())))


def identity(thing: Json) -> str:
    """A digest of a thing, its properties and everything in it; the numbers that things were given don't count."""
    inside = sorted(map(identity, thing.get(CONTENTS, {}).values()))
    return digest([{name: value for name, value in thing.items() if name not in {CONTENTS, NUMBER}}, inside])
