"""What every harness adapter is given and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from agentrewind.core.codec import Json
from agentrewind.core.edits import Message
from agentrewind.core.strategy import Decision
from agentrewind.engine.holdings import Held
from agentrewind.integrations.sandbox.spec import Sandbox

T = TypeVar("T")

SHOWN = 100
"""How many characters of a command stand in its line of progress."""


class Recorder(Protocol):
    """The part of a session that an adapter uses: its tool calls become nodes. LLM calls are seen on the wire."""

    def tool(self, name: str, arguments: Json, run: Callable[[], T], *, call_id: str | None = None) -> T:
        """Record one tool call; returns what `run` returns and raises what it raises.

        Raises:
            NotRun: the call may not run; the text says why, to the model. RewindSignal: the agent goes back; nothing
                runs until its next call of the model.
        """

    def rewind_tool(self, name: str, arguments: Json) -> str:
        """Answer one of the two rewind tools, for agents whose tools aren't declared to the provider (they write code,
        or calls in the text of their answers). All others are answered on the wire.

        Raises:
            RewindSignal: it is granted, and made at the agent's next call of the model.
        """

    def hold(self, held: Held) -> None:
        """Keep what the agent holds besides its messages, as it is right before a call of the model."""

    def held(self) -> Held | None:
        """Right after a call of the model: what the agent has to hold from here on; None: what it holds."""


class Attached(Recorder, Protocol):
    """The recorder of a session to which a program attaches its agent."""

    @property
    def offers_rewind(self) -> bool:
        """Whether the agent may go back."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of an agent, in this process."""

    task: str
    workspace: Path
    model: str
    recorder: Recorder
    submit: Callable[[str], Decision]
    """Called with the agent's answer at each submission: go on with this message, or stop."""
    base_url: str | None = None
    api_key: str | None = None
    seed: tuple[Message, ...] = ()
    """The conversation to go on from instead of beginning a new one: as sent to the provider, without the answer."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The environment of commands."""
    say: Callable[[str], None] = lambda _: None
    """Shows one line of progress to a person."""
    settings: Mapping[str, Json] = field(default_factory=dict)
    offers_rewind: bool = True
    sandbox: Sandbox | None = None
    """Where commands run; None: as the user."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended. `answer` is the last submission."""

    ok: bool
    reason: str
    answer: str = ""


class Harness(Protocol):
    """Raises `AgentError` where the harness failed by itself, `ProviderError` where the endpoint did."""

    name: str

    def run(self, job: Job) -> Outcome: ...


def progress_line(command: str) -> str:
    """A command as one line for `Job.say`."""
    first, *more = command.strip().splitlines() or [""]
    return f"$ {first[:SHOWN]}{' ...' if more or len(first) > SHOWN else ''}"
