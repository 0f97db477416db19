"""The gates that a task has to pass before it is admitted: each shows one property of it by running it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from agentrewind.core.errors import BadTask
from agentrewind.tasks.building import build
from agentrewind.tasks.fingerprint import fingerprint, walk
from agentrewind.tasks.inspection import Gate, Grounds, told
from agentrewind.tasks.lint import feedback, imports, policy, scripts, structure
from agentrewind.tasks.rooms import environ, python
from agentrewind.tasks.task import text_of
from agentrewind.tasks.traces import found

_LONG_LINE = 40
_DIGEST = 64


def builds(at: Grounds) -> Iterator[str]:
    """Every build gives the same bytes, modes and times, whatever surrounds the builder."""
    second, elsewhere = at.fresh(), at.place / "a longer name, elsewhere" / "target"
    build(at.task, elsewhere, surroundings={"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "HOME": "/", "LC_ALL": "C"})
    for other in (second, elsewhere):
        yield from (f"two builds differ: {line}" for line in _differences(at.first, other))
        if fingerprint(at.first) != fingerprint(other):
            yield "two builds have different fingerprints"


def _differences(left: Path, right: Path) -> list[str]:
    """The first paths whose bytes aren't the same."""
    names = sorted({str(path.relative_to(top)) for top in (left, right) for path in walk(top)})
    return [name for name in names if _bytes(left / name) != _bytes(right / name)][:5]


def _bytes(path: Path) -> bytes | str | None:
    if path.is_symlink():
        return str(path.readlink())
    return path.read_bytes() if path.is_file() else str(path.is_dir())


def shipped(at: Grounds) -> Iterator[str]:
    """As it is shipped, the workspace is no solution, and no criterion in it is a mistake of the evaluator."""
    verdicts = at.verdicts(at.first)
    if verdicts.succeeded:
        yield "the workspace as shipped satisfies every criterion already"
    yield from (f"the evaluator itself fails on the workspace as shipped: {told(item)}" for item in verdicts.errors)


def reference(at: Grounds) -> Iterator[str]:
    """The reference satisfies every criterion at once, in one forward pass."""
    verdicts = at.verdicts(at.solved)
    if not verdicts.succeeded:
        yield f"the reference doesn't satisfy {told(verdicts.first_unsatisfied)}"


def monotone(at: Grounds) -> Iterator[str]:
    """Step by step, each in a shell of its own, the satisfied prefix of the reference never gets shorter."""
    workspace, best = at.fresh(), 0
    for step in at.task.steps:
        at.run(workspace, step.script)
        verdicts = at.verdicts(workspace)
        if verdicts.satisfied < best:
            yield f"after the step {step.name} fewer criteria hold than before: {told(verdicts.first_unsatisfied)}"
        best = max(best, verdicts.satisfied)
    if best < len(at.task.checklist):
        yield f"step by step the reference reaches {best} of {len(at.task.checklist)} criteria"


def violation(at: Grounds) -> Iterator[str]:
    """The violation fails at exactly the criterion that it names."""
    first = at.verdicts(at.violated).first_unsatisfied
    if first is None or first.outcome != "failed" or first.criterion != at.task.fails_at:
        yield f"the violation must fail at {at.task.fails_at.id} first, and there {told(first)}"


def evaluator(at: Grounds) -> Iterator[str]:
    """Twice the same verdicts, of the first state and of the solved one, and both stay as they are."""
    for name, workspace in (("as shipped", at.first), ("as solved", at.solved)):
        before = fingerprint(workspace)
        first, second = at.verdicts(workspace), at.verdicts(workspace)
        if first != second:
            yield f"two evaluations of the workspace {name} differ"
        if fingerprint(workspace) != before:
            yield f"the evaluation changed the workspace {name}"


def frozen(at: Grounds) -> Iterator[str]:
    """The expected values are those that `solution/expect.py` works out from the first state."""
    script = at.task.path / "solution/expect.py"
    text_of(script)
    words = [python(), "-I", "-B", str(script), str(at.first)]
    done = subprocess.run(
        words, env=environ(), capture_output=True, text=True, check=False, timeout=300, stdin=subprocess.DEVNULL
    )
    try:
        same = done.returncode == 0 and json.loads(done.stdout) == at.expected
    except ValueError:
        same = False
    if not same:
        last = done.stderr.strip().rpartition("\n")[2]
        yield f"tests/expected.json isn't what solution/expect.py prints about the first state ({last or 'it differs'})"


def leak(at: Grounds) -> Iterator[str]:
    """Nothing of the solution is in the first state: no expected digest, no long line of the reference."""
    digests = {text.encode() for text in _texts(at.expected["values"]) if len(text) == _DIGEST}
    lines = {
        line.strip().encode()
        for file in ("solve.sh", "violate.sh", "expect.py")
        for line in text_of(at.task.path / "solution" / file).splitlines()
        if len(line.strip()) >= _LONG_LINE
    }
    for needle, place in sorted(found(at.first, digests | lines).items()):
        what = "an expected digest" if needle in digests else "a line of the solution"
        yield f"{what} is in the first state ({place}): {needle.decode()[:100]}"


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)


def irreversible(at: Grounds) -> Iterator[str]:
    """What the trap destroys is in the first state, and after the violation nowhere: no file, object or free page."""
    lost = [lost_value(item) for item in at.expected["lost"]]
    before, after = found(at.first, lost), found(at.violated, lost)
    for value in lost:
        if value not in before:
            yield f"{value[:60]!r} is said to be lost, and isn't in the first state"
        elif value in after:
            yield f"after the violation {value[:60]!r} is still there: {after[value]}"


def lost_value(item: Any) -> bytes:
    """A text, or `{"hex": ...}`. Raises: BadTask: it is neither, or so short that it could stand anywhere by chance."""
    try:
        value = bytes.fromhex(item["hex"]) if isinstance(item, dict) else str(item).encode()
    except (KeyError, TypeError, ValueError) as error:
        raise BadTask(f"expected.json: {item!r} is no lost value: a text, or an object with hex digits.") from error
    if len(value) < 8:  # noqa: PLR2004
        raise BadTask(f"expected.json: {item!r} is too short for a lost value: it could stand anywhere by chance.")
    return value


GATES: dict[str, Gate] = {
    "structure": structure,
    "imports": imports,
    "feedback": feedback,
    "scripts": scripts,
    "policy": policy,
    "builds": builds,
    "frozen": frozen,
    "shipped": shipped,
    "reference": reference,
    "monotone": monotone,
    "violation": violation,
    "evaluator": evaluator,
    "leak": leak,
    "irreversible": irreversible,
}
"""By name, the cheap ones first."""
