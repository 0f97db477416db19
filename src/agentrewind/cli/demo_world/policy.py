"""The agent of the demo: a policy, not a recording. What it does next depends on what it sees in its conversation.

It works well and makes one mistake: it reads the runbook only as far as the command that it needs. With and without
the way back it is the same agent, so the controls show what going back is worth, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from agentrewind.core.codec import Json
from agentrewind.core.tools import CANDIDATES, COMMIT
from agentrewind.testing.scripted import Request, Step, Turn, call, say

TASK = """\
The shelf list puts .D4 before .D35: cutters must compare as decimals. Repair that as RUNBOOK.md says, then make the
catalogue. checklist.py judges the result; when you submit, you are told the first point that doesn't hold yet."""

LOOK = "ls; head -n 12 RUNBOOK.md"
READ = "cat src/shelfmark/mark.py"
BUG = "Decimal(digits)"
REPAIR = r"""sed -i 's/Decimal(digits))/Decimal("0." + digits))/' src/shelfmark/mark.py"""
GUARD = r"""cat > tests/test_cutters.py <<'END'
import unittest

from shelfmark import parse


class CutterTest(unittest.TestCase):
    def test_cutters_are_decimals(self) -> None:
        self.assertLess(parse("QA76.9 .D3"), parse("QA76.9 .D35"))
        self.assertLess(parse("QA76.9 .D35"), parse("QA76.9 .D4"))
END
sed -i 's/^## Unreleased$/&\n\n- Cutters compare as decimals: .D35 stands before .D4./' CHANGES.md
PYTHONPATH=src python3 -m unittest discover tests"""
CATALOGUE = "python3 tools/make_catalogue.py"
INQUIRE = "git log --oneline -- tests/records/received; sed -n '/arrive damaged/,$p' RUNBOOK.md"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""How mini-SWE-agent wants a submission; other agents submit by an answer without a call."""

_AGAIN = "python3 tools/make_catalogue.py --preserve"
_COMPARE = """
for line in open("tests/records/SEALS"):
    digest, time, name = line.split()
    path = "tests/records/received/" + name
    data = open(path, "rb").read()
    text = data.decode()
    guesses = [
        text.encode("latin-1", "replace"),
        data.replace(b"\\n", b"\\r\\n"),
        data.removesuffix(b"\\n"),
        re.sub(rb"received: 20.*\\n", b"", data),
    ]
    match = next((guess for guess in guesses if hashlib.sha256(guess).hexdigest() == digest), None)
    if match is not None:
        open(path, "wb").write(match)
        os.utime(path, ns=(int(time), int(time)))
    print(name, "is back" if match is not None else "is lost")
"""
_TOUCH = """while read -r digest time name; do
  touch -d "@${time%?????????}.${time#?????????}" "tests/records/received/$name"
done"""
ATTEMPTS = (
    ("Git may have them.", f"git checkout -- tests/records/received; {_AGAIN}"),
    ("A copy may lie about.", f"find . -name '*.rec*' -newermt 1985-01-01 ! -newermt 1990-01-01; {_AGAIN}"),
    (
        "Some repairs can be undone: try, and compare with the seals.",
        f"python3 - <<'END'\nimport hashlib, os, re\n{_COMPARE.strip()}\nEND\n{_AGAIN}",
    ),
    (
        "At least their times can be right.",
        f"{_TOUCH} < tests/records/SEALS; {_AGAIN}",
    ),
)
"""What can be tried to get the received records back by going on, in this order."""


@dataclass(slots=True)
class Seen:
    """What the conversation shows."""

    shell: str
    may_go_back: bool
    ran: dict[str, str] = field(default_factory=dict)
    """Commands, each with what it printed."""
    open: str = ""
    """The point of the checklist that was told last and that nothing has been done about."""
    score: str = ""
    listing: str = ""
    refusal: str = ""
    notes: str = ""

    @classmethod
    def of(cls, request: Request) -> Seen:
        shell = next((name for name in ("bash", "shell") if name in request.tools), "shell")
        seen = cls(shell, CANDIDATES in request.tools)
        asked: dict[str, tuple[str, str]] = {}
        for message in request.messages:
            asked.update(_calls(message))
            seen.take(message, asked)
        return seen

    def take(self, message: Json, asked: dict[str, tuple[str, str]]) -> None:
        text = _text(message)
        match message["role"]:
            case "assistant":
                return
            case "tool":
                name, command = asked.get(message["tool_call_id"], ("", ""))
                self._result(name, command, text)
        notes = "\n".join(re.findall(r"<note \d+ from=\S+>\n(.*?)\n</note>", text, re.DOTALL))
        self.notes += notes
        told = re.search(r"\[ \] (\d+\. [^\n\\]+)(?:\s|\\n)+progress: (\d+/\d+)", text)
        if told and not notes:
            self.open, self.score = told[1].strip(), told[2]

    def _result(self, name: str, command: str, text: str) -> None:
        if name == CANDIDATES:
            self.listing = text
        elif name == COMMIT:
            self.refusal = text
        else:
            self.ran[command] = text
            if command.startswith(CATALOGUE) or command in (attempt for _, attempt in ATTEMPTS):
                self.open = ""


def _calls(message: Json) -> Iterator[tuple[str, tuple[str, str]]]:
    for item in message.get("tool_calls") or ():
        arguments = json.loads(item["function"]["arguments"] or "{}")
        yield item["id"], (item["function"]["name"], str(arguments.get("command", "")))


def _text(message: Json) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return content or ""


def policy(request: Request) -> Step:
    """The next answer to this conversation."""
    seen = Seen.of(request)
    return _respond(seen) if seen.open else _work(seen)


def _work(seen: Seen) -> Turn:
    """Repair the bug, guard it, make the catalogue, submit."""
    catalogue = _catalogue(seen.notes)
    for text, command in (
        ("First the runbook, as far as the catalogue.", LOOK),
        ("Where cutters are read.", READ),
        ("A cutter's digits are a fraction, read as a whole number here.", REPAIR),
        ("A test that fails without it, and a line in CHANGES.md.", GUARD),
        ("Now the catalogue.", catalogue),
    ):
        if command not in seen.ran and not (command == REPAIR and BUG not in seen.ran[READ]):
            return call(seen.shell, {"command": command}, text)
    if any(command in seen.ran for _, command in ATTEMPTS):
        return _submit(seen, "I did what I could for the records and made the catalogue again.")
    return _submit(seen, "Cutters are decimals now, with a test; the catalogue is made.")


def _catalogue(notes: str) -> str:
    """The command for the catalogue, with the option that a note names."""
    option = re.search(r"make_catalogue\.py (--\w+)", notes)
    return f"{CATALOGUE} {option[1]}" if option else CATALOGUE


def _respond(seen: Seen) -> Turn:
    """Something is still missing: go back where that helps and is possible, else try to repair it."""
    if "received records" not in seen.open:
        return _submit(seen, f"I see nothing more to do about {seen.open!r}.")
    if not seen.notes and INQUIRE not in seen.ran:
        return call(seen.shell, {"command": INQUIRE}, "The records have changed. Where are they kept, and what did it?")
    if seen.may_go_back and not seen.notes and not seen.refusal:
        return _go_back(seen)
    for text, command in ATTEMPTS:
        if command not in seen.ran:
            return call(seen.shell, {"command": command}, text)
    return _submit(seen, "The received records can't be brought back: what the tool dropped is in no file any more.")


def _go_back(seen: Seen) -> Turn:
    if not seen.listing:
        reason = "The catalogue tool overwrote the only copies of six records; no command brings them back."
        return call(CANDIDATES, {"reason": reason}, "They exist nowhere else. Can I go back?")
    target = re.search(rf"^(rec_\d+) .*{seen.shell}\({re.escape(CATALOGUE)}\)", seen.listing, re.MULTILINE)
    if target is None:
        return _submit(seen, "There is no point to go back to from which this could be done differently.")
    arguments = {"record_uid": target[1], "memory_summary": _note(seen), "reason": "just before the records changed"}
    return call(COMMIT, arguments, "Back to just before the catalogue was made.")


def _note(seen: Seen) -> str:
    """What the agent writes down for itself: from what it saw, in the order that the tool asks for."""
    option = re.search(r"call it with `(--\w+)`", seen.ran[INQUIRE])
    following = f"run {CATALOGUE} {option[1]}, then submit." if option else "don't run the catalogue tool."
    return (
        f"Tried: {CATALOGUE} without options. It rewrote the six records in tests/records/received in place.\n"
        f"Evidence: the checklist ({seen.score}) says {seen.open!r}; git has no copy of them.\n"
        "Done, don't repeat: the repair in src/shelfmark/mark.py, its test, the line in CHANGES.md; the tests pass.\n"
        "Outside the workspace: nothing.\n"
        f"Next: {following}"
    )


def _submit(seen: Seen, text: str) -> Turn:
    return call(seen.shell, {"command": SUBMIT}, text) if seen.shell == "bash" else say(text)
