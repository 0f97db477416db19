"""What one trial leaves: every call with the exact input it was made from, in the order made. Never truncated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from agentrewind.core.codec import Json
from agentrewind.core.environment import Outcome

Message = dict[str, str]
"""`role` and `content`."""
Context = tuple[Message, ...]
Kind = Literal["execution", "reflection"]
Did = Literal["acted", "went back", "invalid", "reflected"]


@dataclass(frozen=True, slots=True)
class Output:
    """What a policy answered; the token ids (and their log-probabilities) as sampled, where it knows them."""

    text: str
    tokens: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    prompt: tuple[int, ...] = ()
    """The token ids of the context."""


@dataclass(frozen=True, slots=True)
class Call:
    """One model call: a decision, or a reflection."""

    number: int
    """From 1; the calls spent so far, this one included."""
    kind: Kind
    segment: int
    checkpoint: int
    """`k`: the index of the checkpoint at which it was made."""
    state: str
    """The fingerprint of the state at which it was made."""
    history: tuple[Json, ...]
    """`h`: the actions executed on the active path until there."""
    context: Context
    output: Output
    did: Did
    action: Any = None
    """What was executed."""
    reward: float = 0.0
    """`δ`; 0 where the environment made no transition."""
    observation: str = ""
    """What the environment showed after it, or the feedback to what it couldn't take."""
    progress: tuple[float, float] = (0.0, 0.0)
    """The share of the task that verifiably stood done before it and after it, 0 to 1; no policy sees it."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The decisions between two recovery boundaries."""

    index: int
    calls: tuple[Call, ...]
    """Executions alone."""
    began_at: int
    """The checkpoint at which it began."""
    ended_at: int
    endpoint: float
    """`S` at its end: of the retained path from the initial state."""
    branch: float
    """`V` of what was done in it, given the state in which it began."""
    outcome: Outcome | None = None
    """Of the state in which it ended."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """A way back: between segment `segment` and the one after it."""

    segment: int
    reflection: Call
    trigger: str
    """`asked` by the policy, `review` by its assistant; `failed` and `allowance` are forced."""
    source: int
    """The checkpoint it leads away from."""
    target: int
    note: str
    abandoned: float
    """`V` of the abandoned suffix, given the state at the target."""
    resumed: float | None = None
    """`V` of what the segment after it did, given the same state; None where that made no decision."""

    @property
    def forced(self) -> bool:
        return self.trigger in ("failed", "allowance")


@dataclass(frozen=True, slots=True)
class Trial:
    """The archive of one trial."""

    task: str
    environment: str
    segments: tuple[Segment, ...]
    recoveries: tuple[Recovery, ...]
    calls: tuple[Call, ...]
    """All of them, in order: also reflections after which nothing was restored."""
    outcome: Outcome | None
    final: str
    """The fingerprint of the state in which it ended."""
    attempts: int = 1
    proactive: int = 0
    why_ended: str = ""
    settings: Json = field(default_factory=dict)

    @property
    def solved(self) -> bool:
        return self.outcome == "solved"
