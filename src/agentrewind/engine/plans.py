"""Where a run goes on after its process has ended, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentrewind.core.records import RecordUid, RewindIntended, ThreadId
from agentrewind.core.world import SnapshotId

Way = Literal["woken", "served", "pinned", "seeded"]
"""How a new process is brought to where the run goes on.

`woken`: it is a copy of the process that was about to make the call, so nothing leads there.
`served`: its calls are answered from the records, as long as they are the recorded ones.
`pinned`: they are answered in the recorded order whatever they ask, and the recorded messages stand in for its own.
`seeded`: nothing is answered; the harness begins with the recorded messages, as after an in-place resume.
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a new process of the run goes on. With `at` None: at the very beginning."""

    at: RecordUid | None = None
    serves: bool = False
    """The answer that `at` got is given too; what comes after it is new. Else `at` is asked again."""
    remembers: bool = False
    """One message with all notes of the run stands after the messages of `at`, in place of earlier ones."""
    effects: tuple[str, ...] = ()
    """What happened outside the workspace on the abandoned path and still stands."""
    told: str = ""
    """`at` asked for a rewind that came to nothing: the answer that its model gets."""
    snapshot: SnapshotId | None = None
    """The files that belong to it."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A rewind was granted and is written down; the process of the agent must end before it is made."""

    intent: RewindIntended
    asked: RecordUid
    """The LLM call that asked for it, or after which somebody else did."""
    ended_threads: tuple[ThreadId, ...] = ()
    begun: float = 0.0


@dataclass(frozen=True, slots=True)
class Divergence:
    """A process asked for what was never recorded while its prefix was given out. Nothing was run."""

    why: str
