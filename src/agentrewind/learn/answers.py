"""What a model's text means: tolerant of how it is written, strict about what it says."""

from __future__ import annotations

import re
from dataclasses import dataclass

CUT = "[cut] "
_ACTION = re.compile(r"<\s*action\s*>(.*?)(?=<\s*/?\s*action\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_FENCED = re.compile(r"```[ \t]*action[ \t]*\n(.*?)(?=```|\Z)", re.IGNORECASE | re.DOTALL)
_REMARK = re.compile(r"<\s*remark\s*>(.*?)(?=<\s*/?\s*remark\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_TARGET = re.compile(r"<\s*target\s*>(.*?)(?=<\s*/?\s*target\s*>|\Z)", re.IGNORECASE | re.DOTALL)
_CHECKPOINT = r"(?:checkpoint\s*)?(?:C\s*_?\s*)?\{?\s*(\d{1,6})\s*\}?"
_REWIND = re.compile(rf"\s*rewind\s*(?:back\s*)?(?:to\s*)?[:`'\"]*\s*{_CHECKPOINT}\s*[.`'\"]*\s*", re.IGNORECASE)
_ONE_CHECKPOINT = re.compile(rf"\s*(?:rewind\s+to\s+)?{_CHECKPOINT}\s*\.?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Asked:
    """The way back to a checkpoint is asked for; whether it is there is not decided here."""

    target: int


@dataclass(frozen=True, slots=True)
class Said:
    """What stands in the last action tag, and is no rewind."""

    text: str


def decision(text: str, *, fenced: bool = False) -> Asked | Said | None:
    """The last action of an answer; None where it has none. `fenced`: a fenced `action` block counts too."""
    spoken = [(match.start(), match.group(1)) for match in _ACTION.finditer(text)]
    if fenced:
        spoken += [(match.start(), match.group(1)) for match in _FENCED.finditer(text)]
    if not spoken:
        return None
    last = max(spoken)[1].strip()
    back = _REWIND.fullmatch(last)
    return Asked(int(back.group(1))) if back else Said(last)


@dataclass(frozen=True, slots=True)
class Reflection:
    note: str
    target: int | None


def reflection(text: str, *, keep: int) -> Reflection:
    """The last remark and target of a reflection. Without a remark tag all of the text is the remark.

    Of the remark its last `keep` characters are kept; that it was cut stands before it.
    """
    remarks, targets = _REMARK.findall(text), _TARGET.findall(text)
    note = (remarks[-1] if remarks else _TARGET.sub("", text)).strip()
    found = _ONE_CHECKPOINT.fullmatch(targets[-1]) if targets else None
    asked = decision(text)
    target = int(found.group(1)) if found else asked.target if isinstance(asked, Asked) else None
    return Reflection(note if len(note) <= keep else CUT + note[len(note) - keep :], target)
