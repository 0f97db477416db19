"""What the demo claims, checked for real after the run: against digests taken before it, in files, in the journal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentrewind.cli.demo_world.layout import Original
from agentrewind.compose.runs import Run
from agentrewind.core.codec import Json, canonical
from agentrewind.core.records import Rewound
from agentrewind.core.tools import NAMES
from agentrewind.core.tree import Node

CRITERIA = 10
_ORDER = "from shelfmark import parse as p; assert p('QA76.9 .D3') < p('QA76.9 .D35') < p('QA76.9 .D4')"


@dataclass(frozen=True, slots=True)
class Proof:
    """A claim, and whether it holds."""

    claim: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that the claims are checked against."""

    run: Run
    workspace: Path
    originals: tuple[Original, ...]
    requests: Sequence[Json]
    """What the model was sent, as its server got it."""

    @property
    def lost(self) -> list[str]:
        """The received records that are not what they were before the run."""
        return [item.path.name for item in self.originals if Original.of(self.workspace, item.path) != item]

    @property
    def score(self) -> int:
        """How many points of the checklist hold now, by a run of our own."""
        said = self.python("checklist.py", "--check").stdout
        found = re.search(r"^progress: (\d+)/10$", said, re.MULTILINE)
        return int(found[1]) if found else 0

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "PYTHONPATH": "src", "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.workspace, env=environ, capture_output=True, text=True, check=False
        )

    def passes(self, *arguments: str) -> bool:
        return self.python(*arguments).returncode == 0

    @property
    def rewind(self) -> Rewound | None:
        return next((move for move in self.run.tree.moves if isinstance(move, Rewound)), None)

    @property
    def abandoned(self) -> list[Node]:
        """The nodes that are not on the final path, oldest first."""
        kept = {node.uid for node in self.run.tree.path()}
        return [node for node in self.run.records() if node.uid not in kept]


def of_success(evidence: Evidence) -> Iterator[Proof]:
    """What holds after a run that went back and succeeded."""
    yield Proof(
        f"the checklist, run once more by the demo itself, says {evidence.score}/{CRITERIA}", evidence.score == CRITERIA
    )
    total = len(evidence.originals)
    yield Proof(
        f"the {total} received records are what they were before the run: bytes, times, modes",
        not evidence.lost,
    )
    yield Proof("the repair made before the rewind is still there, and its tests pass", _repair_is_there(evidence))
    yield from _of_the_abandoned(evidence)
    yield Proof(
        "the model was last sent the note once, and nothing of what was abandoned",
        _context_is_clean(evidence),
    )


def of_failure(evidence: Evidence, *, rewinds: int) -> Iterator[Proof]:
    """What holds after a control: the same agent without the way back, or with half of it."""
    score, lost = evidence.score, evidence.lost
    yield Proof(f"the checklist, run once more by the demo itself, says {score}/{CRITERIA}", score < CRITERIA)
    yield Proof(f"{len(lost)} of the six received records are lost: {', '.join(lost)}", bool(lost))
    failures = evidence.run.tree.equal_failures()
    yield Proof(f"the run ended after {failures} equal rejections in a row", _ended_by_equal_failures(evidence))
    if rewinds:
        yield Proof("the conversation was rewound, the files were not", _only_context_moved(evidence))
    else:
        yield Proof("the model was never offered a way back", not _offered(evidence))


def _repair_is_there(evidence: Evidence) -> bool:
    return evidence.passes("-c", _ORDER) and evidence.passes("-m", "unittest", "discover", "-s", "tests")


def _of_the_abandoned(evidence: Evidence) -> Iterator[Proof]:
    """The branch that was left is still there: its calls in the journal, its files in the store."""
    judged = next((node.judged for node in reversed(evidence.abandoned) if node.judged), None)
    said = judged.feedback.strip().splitlines() if judged else []
    yield Proof(f'the abandoned branch can be read; its check had said "{", ".join(said)}"', bool(said))
    yield Proof(
        "the files of the abandoned branch can be written out elsewhere, damage included", _comes_back(evidence)
    )


def _comes_back(evidence: Evidence) -> bool:
    """Write the state that was left into a fresh directory, and look at it."""
    rewind = evidence.rewind
    if rewind is None:
        return False
    with tempfile.TemporaryDirectory(prefix="agentrewind-demo-") as scratch, evidence.run.reading() as world:
        place = Path(scratch, "abandoned")
        world.export(rewind.live, place)
        damaged = [item for item in evidence.originals if Original.of(place, item.path).sha256 != item.sha256]
        return len(damaged) == len(evidence.originals) and (place / "build/catalogue.json").is_file()


def _context_is_clean(evidence: Evidence) -> bool:
    rewind, run = evidence.rewind, evidence.run
    asked = [node for node in evidence.abandoned if node.is_llm]
    if rewind is None or not asked or not evidence.requests:
        return False
    kept = {canonical(message) for message in run.messages(rewind.target)}
    abandoned = {canonical(message) for node in asked for message in run.messages(node.uid)} - kept
    last = evidence.requests[-1]["messages"]
    once = sum(str(message.get("content")).count(rewind.note.strip()) for message in last) == 1
    return once and not any(canonical(message) in abandoned for message in last)


def _ended_by_equal_failures(evidence: Evidence) -> bool:
    tree = evidence.run.tree
    return tree.ended is not None and not tree.ended.ok and tree.equal_failures() >= 5  # noqa: PLR2004 (the rule)


def _only_context_moved(evidence: Evidence) -> bool:
    rewind = evidence.rewind
    return rewind is not None and rewind.keep_world and rewind.restored == 0


def _offered(evidence: Evidence) -> bool:
    tools = (tool["function"]["name"] for body in evidence.requests for tool in body.get("tools") or ())
    return any(name in NAMES for name in tools)
