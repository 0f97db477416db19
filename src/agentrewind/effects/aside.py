"""Reading a call in a process of its own, which is ended where it takes too long."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from agentrewind.core.codec import Json, canonical, from_plain, to_plain
from agentrewind.core.effects import Effect
from agentrewind.effects.findings import MOST, Findings, TooMuch
from agentrewind.effects.grammar import LONGEST, TooLong
from agentrewind.effects.places import Place
from agentrewind.effects.rules import Rules

if TYPE_CHECKING:
    from agentrewind.effects.reading import Reading

SECONDS = 5.0


def read_aside(reading: Reading, name: str, arguments: Json) -> list[Effect]:
    """The effects that another process finds. Raises: TooMuch: it took too long, or couldn't be started."""
    asked = {"place": to_plain(reading.place), "rules": to_plain(reading.rules), "name": name, "arguments": arguments}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "agentrewind.effects.aside"],
            input=canonical(asked),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=True,
        )
        return [from_plain(Effect, item) for item in json.loads(done.stdout)]
    except (OSError, subprocess.SubprocessError, ValueError, TypeError, RecursionError) as error:
        raise TooMuch from error


def main() -> None:
    """The other process: a call comes in, its effects go out."""
    from agentrewind.effects.reading import Reading

    asked = json.load(sys.stdin.buffer)
    reading = Reading(from_plain(Place, asked["place"]), from_plain(Rules, asked["rules"]))
    findings = Findings(longest=LONGEST, seconds=SECONDS)
    try:
        reading.into(findings, asked["name"], asked["arguments"])
    except (TooMuch, TooLong, RecursionError):
        findings.add(Effect("unknown", f"{asked['name']} (too long or too deep to be read to its end)"))
    sys.stdout.write(json.dumps([to_plain(effect) for effect in findings.effects[: 2 * MOST]]))


if __name__ == "__main__":
    main()
