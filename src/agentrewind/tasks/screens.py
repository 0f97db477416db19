"""The screens that a task has to pass to count as long: four structural conditions, declared and then tried.

Source: the paper's Appendix A.6.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentrewind.tasks.fingerprint import walk
from agentrewind.tasks.inspection import Gate, Grounds
from agentrewind.tasks.kit.checking import Unsatisfied, field, line_of, sha256
from agentrewind.tasks.task import Quote, Stage
from agentrewind.tasks.traces import found

STAGES, PLACES, DEFECTS, ENTRIES = 4, 2, 2, 30
FEWEST, MOST = 5, 12
_TELLING = 8
"""Characters of a value that nobody could guess or find by chance."""


def stages(at: Grounds) -> Iterator[str]:
    """S1: at least four stages in sequence, each of which needs what the former made.

    Tried by leaving out one at a time: its criterion fails then, and so does a later one.
    """
    declared = at.task.screens.stages
    if len(declared) < STAGES:
        yield f"{len(declared)} stages are declared, and a task has at least {STAGES}"
    criteria = at.task.checklist
    for stage in declared:
        if stage.criterion not in [item.id for item in criteria]:
            yield f"the stage of {stage.makes} is for {stage.criterion}, which is no criterion"
            return
    places = [criteria.index(stage.criterion) for stage in declared]
    if places != sorted(places):
        yield "the stages aren't in the order of their criteria"
    for number, stage in enumerate(declared):
        yield from _left_out(at, stage, last=number == len(declared) - 1)


def _left_out(at: Grounds, stage: Stage, *, last: bool) -> Iterator[str]:
    for name in stage.steps:
        at.step(name)
    if not (at.solved / stage.makes).exists():
        yield f"the reference makes no {stage.makes}"
        return
    if _content(at.first / stage.makes) == _content(at.solved / stage.makes):
        yield f"{stage.makes} is in the first state already"
    verdicts = at.verdicts(at.without(stage.steps))
    failed = [item.criterion.id for item in verdicts.items if item.outcome == "failed"]
    if stage.criterion not in failed:
        yield f"without the stage of {stage.makes} its criterion {stage.criterion} holds all the same"
    place = at.task.checklist.index(stage.criterion)
    if not last and not [name for name in failed if at.task.checklist.index(name) > place]:
        yield f"no later criterion needs what the stage of {stage.makes} makes"


def _content(path: Path) -> dict[str, bytes]:
    """The bytes of a file, or of all that are in a directory."""
    files = [item for item in walk(path) if item.is_file()] if path.is_dir() else [path] if path.is_file() else []
    return {str(item.relative_to(path)): item.read_bytes() for item in files}


def quotes(at: Grounds) -> Iterator[str]:
    """S2: in at least two places later deliverables quote a value that an earlier one got at run time."""
    held = set()
    for quote in at.task.screens.quotes:
        try:
            value = _quoted(at.solved, quote)
            if str(_origin(at.solved, quote)) != str(value):
                yield f"{quote.within} doesn't quote {quote.of} at {quote.key}"
                continue
        except (Unsatisfied, OSError, ValueError) as error:
            yield f"the quote of {quote.of} in {quote.within} can't be read: {error}"
            continue
        needle = str(value).encode()
        if len(needle) < _TELLING or needle in at.task.instruction.encode() or found(at.first, [needle]):
            yield f"what {quote.within} quotes at {quote.key} could be known without the work: {str(value)[:80]}"
            continue
        held.add((quote.within, quote.key))
    if len(held) < PLACES:
        yield f"values of run time are quoted in {len(held)} places, and a task has at least {PLACES}"


def _quoted(workspace: Path, quote: Quote) -> Any:
    text = (workspace / quote.within).read_text(encoding="utf-8")
    return _of(json.loads(text), quote.key) if quote.within.endswith(".json") else line_of(text, quote.key)


def _origin(workspace: Path, quote: Quote) -> Any:
    data = (workspace / quote.of).read_bytes()
    if not quote.of_key:
        return sha256(data)
    return _of(json.loads(data), quote.of_key) if quote.of.endswith(".json") else line_of(data.decode(), quote.of_key)


def _of(value: Any, path: str) -> Any:
    *outer, last = path.split(".")
    inner = field(value, ".".join(outer), dict) if outer else value
    return inner[last] if isinstance(inner, dict) and last in inner else field(inner, last, str)


def defects(at: Grounds) -> Iterator[str]:
    """S3: two defects or more of which each is hidden by the one before, or a log of at least 30 entries to rebuild."""
    screens = at.task.screens
    if screens.log:
        count = _entries(at.solved / screens.log)
        if count != screens.entries or count < ENTRIES:
            yield f"{screens.log} has {count} entries; {screens.entries} are declared, and {ENTRIES} are the least"
        if (at.first / screens.log).exists():
            yield f"{screens.log} is in the first state already"
        return
    if len(screens.defects) < DEFECTS or not screens.symptom:
        yield f"{len(screens.defects)} defects and no log are declared; a task has {DEFECTS} defects or a log"
        return
    yield from _one_after_another(at)


def _entries(path: Path) -> int:
    """How many entries a list has: JSON, an object with one list, CSV with a head, or lines of JSON."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".csv":
            return len(list(csv.reader(io.StringIO(text)))) - 1
        if path.suffix == ".jsonl":
            return len([json.loads(line) for line in text.splitlines() if line.strip()])
        value = json.loads(text)
    except (OSError, ValueError):
        return 0
    if isinstance(value, dict):
        value = next((item for item in value.values() if isinstance(item, list)), [])
    return len(value) if isinstance(value, list) else 0


def _one_after_another(at: Grounds) -> Iterator[str]:
    """With the first n repaired there is a symptom, another one for each n, which repairing only a later one leaves."""
    names = at.task.screens.defects
    shown = [_symptom(at, names[count:]) for count in range(len(names) + 1)]
    if shown[-1][0] != 0:
        yield f"with all defects repaired there is still a symptom: {shown[-1][1]}"
    for number, (code, line) in enumerate(shown[:-1]):
        if code == 0:
            yield f"with {number} of {len(names)} defects repaired there is no symptom"
        if number and line == shown[number - 1][1]:
            yield f"repairing {names[number - 1]} changes nothing that can be seen: {line}"
        for later in names[number + 1 :]:
            other = _symptom(at, [name for name in names[number:] if name != later])
            if other != (code, line):
                yield f"{later} isn't hidden by {names[number]}: {line!r} becomes {other[1]!r} by repairing it alone"


def _symptom(at: Grounds, unrepaired: tuple[str, ...] | list[str]) -> tuple[int, str]:
    """Exit code and last line of the command that shows symptoms, before the work that follows the repairs."""
    last = max(at.task.steps.index(at.step(name)) for name in at.task.screens.defects)
    later = at.task.steps[last + 1].name if last + 1 < len(at.task.steps) else ""
    result = at.run(at.without(unrepaired, until=later), at.task.screens.symptom)
    return result.exit_code, result.output.strip().rpartition("\n")[2]


def criteria(at: Grounds) -> Iterator[str]:
    """S4: from five to twelve criteria."""
    count = len(at.task.checklist)
    if not FEWEST <= count <= MOST:
        yield f"there are {count} criteria, and a task has {FEWEST} to {MOST}"


SCREENS: dict[str, Gate] = {"S1": stages, "S2": quotes, "S3": defects, "S4": criteria}
