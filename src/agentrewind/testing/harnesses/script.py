"""What the model does in the runs of `RewindContract`, in whatever form a harness has it say so."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from agentrewind.testing.scripted import Request, Step

ONE, TWO = "NOTE-ONE: step C was wrong", "NOTE-TWO: step B was wrong already"
ANSWER = "In order."

CHANGES = {
    "A": "mkdir kept; echo one > kept/one; ln -s one kept/link",
    "B": "rm original; echo b > b.txt; chmod 600 kept/one",
    "C": "mv kept gone; rm b.txt",
    "D": "echo d > kept/one; touch -d 2001-01-01 b.txt",
    "E": "cat kept/one > e.txt",
    "F": "rm original; echo broken >&2; exit 3",
    "slow": "sleep 1; echo slow > slow.txt",
    "late": "echo late > late.txt",
}
"""What each step does to the files."""
AFTER = {
    "A": {"original": "precious\n", "kept/one": "one\n", "kept/link": "one\n"},
    "AB": {"b.txt": "b\n", "kept/one": "one\n", "kept/link": "one\n"},
    "ABD": {"b.txt": "b\n", "kept/one": "d\n", "kept/link": "d\n"},
    "AE": {"original": "precious\n", "kept/one": "one\n", "kept/link": "one\n", "e.txt": "one\n"},
}
"""The files after these steps, written down by hand."""


def command(name: str) -> str:
    """A step as a command. What it prints can't be read in the command itself."""
    return f"echo {name} >> ../side; printf 'out-%s\\n' {name}; {CHANGES[name]}"


def furnish(workspace: Path) -> None:
    workspace.mkdir(parents=True)
    (workspace / "original").write_text("precious\n")


def files(workspace: Path) -> dict[str, str]:
    """All files and their contents, through links."""
    found = (path for path in sorted(workspace.rglob("*")) if path.is_file())
    return {str(path.relative_to(workspace)): path.read_text() for path in found}


class Speaker(Protocol):
    """How a model says things to a harness."""

    def shell(self, *commands: str, text: str) -> Step: ...
    def candidates(self) -> Step: ...
    def commit(self, uid: str, note: str) -> Step: ...
    def submission(self, answer: str) -> Step: ...


@dataclass(frozen=True, slots=True)
class Seen:
    """What one request showed the model, and the files at that moment."""

    text: str
    files: dict[str, str]

    def notes(self, note: str) -> int:
        """How often a note stands there, but for where the model is shown what it said itself."""
        return len(re.findall(rf"<note [^>]*>\s*{re.escape(note)}", self.text))

    @property
    def steps(self) -> str:
        """The steps whose output the model sees, as one word."""
        return "".join(dict.fromkeys(re.findall(r"out-([A-F])\b", self.text)))


PATIENCE = 20
"""How many calls a story may take; a harness that shows the model too little would lead it in circles."""


@dataclass(slots=True)
class Scripted:
    """Plays one of the stories. It keeps no state but what it has seen: the conversation says what comes next."""

    speaker: Speaker
    workspace: Path
    story: Callable[[Scripted, Seen], Step]
    seen: list[Seen] = field(default_factory=list)

    def __call__(self, request: Request) -> Step:
        text = "\n".join(item.text for item in request.said)
        self.seen.append(Seen(text, files(self.workspace)))
        return self.story(self, self.seen[-1]) if len(self.seen) <= PATIENCE else self.speaker.submission("Given up.")

    def step(self, name: str) -> Step:
        return self.speaker.shell(command(name), text=f"Now step-{name}.")

    def uid(self, seen: Seen, name: str) -> str | None:
        """The checkpoint before a step, in the newest listing; None where there is none."""
        found = re.findall(rf"(rec_\d+)[^\n]*step-{name}\b", seen.text)
        return found[-1] if found else None

    def back(self, seen: Seen, name: str, note: str, say: Callable[[str, str], Step] | None = None) -> Step:
        """List the checkpoints, then go back to before a step."""
        uid = self.uid(seen, name)
        return self.speaker.candidates() if uid is None else (say or self.speaker.commit)(uid, note)


def nested(play: Scripted, seen: Seen) -> Step:
    """Two rewinds, the second to before where the first went back to."""
    if seen.notes(TWO):
        return play.speaker.submission(ANSWER) if "E" in seen.steps else play.step("E")
    if seen.notes(ONE):
        return play.back(seen, "B", TWO) if "D" in seen.steps else play.step("D")
    following = {"": "A", "A": "B", "AB": "C"}.get(seen.steps)
    return play.back(seen, "C", ONE) if following is None else play.step(following)


NESTED = ("", "A", "AB", "ABC", "ABC", "AB", "ABD", "ABD", "A", "AE")
"""The steps that the model sees at each of the calls of `nested`."""


def once(wrong: str, say: Callable[[str, str], Step] | None = None) -> Callable[[Scripted, Seen], Step]:
    """One rewind, to before a wrong step. `say` says the commit, where it isn't said by itself."""

    def story(play: Scripted, seen: Seen) -> Step:
        if seen.notes(ONE):
            return play.speaker.submission(ANSWER) if "E" in seen.steps else play.step("E")
        following = {"": "A", "A": wrong}.get(seen.steps)
        return play.back(seen, wrong, ONE, say) if following is None else play.step(following)

    return story


ONCE = 6
"""How many calls that takes."""
