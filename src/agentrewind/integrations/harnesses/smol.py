"""smolagents' CodeAgent and ToolCallingAgent: nothing of the package is imported until one runs or is attached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agentrewind.integrations.harnesses.contract import Attached, Job, Outcome


@dataclass(frozen=True, slots=True)
class CodeAgent:
    """The agent that writes Python; commands are its function `shell`, the two rewind tools functions too.

    It submits by `final_answer(...)`. Its code runs in this process, in smolagents' own interpreter, without a limit of
    time or steps. Settings of a job that it knows, all optional:

    `max_steps`: how many model calls it may make (no limit).
    `temperature`: 0 unless given; None leaves it out of the request.
    `request`: more fields of the request body, for example `max_tokens`.
    `command_timeout_s`: the time-out of commands for which the model sets none (no limit).
    `pass_keys`: the names of keys in `environ` that commands may see.
    `stream`: whether it asks for streamed answers (no).
    `imports`: which modules its code may import besides smolagents' own list (none).
    """

    name: str = field(default="smolagents", init=False)
    preload: ClassVar[tuple[str, ...]] = ("agentrewind.integrations.harnesses.smol_agents", "openai")
    seeds: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = (
        "max_steps",
        "temperature",
        "request",
        "command_timeout_s",
        "pass_keys",
        "stream",
        "imports",
    )

    def run(self, job: Job) -> Outcome:
        """Raises: UsageError where the package isn't installed; else as `Harness`."""
        from agentrewind.integrations.harnesses import smol_agents

        return smol_agents.run(smol_agents.code_agent, job)


@dataclass(frozen=True, slots=True)
class ToolCallingAgent:
    """The agent that calls tools as the provider has it. Settings: those of `CodeAgent`, without `imports`."""

    name: str = field(default="smolagents-tools", init=False)
    preload: ClassVar[tuple[str, ...]] = CodeAgent.preload
    seeds: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = CodeAgent.options[:-1]

    def run(self, job: Job) -> Outcome:
        """As `CodeAgent.run`."""
        from agentrewind.integrations.harnesses import smol_agents

        return smol_agents.run(smol_agents.tool_calling_agent, job)


def attach(agent: Any, recorder: Attached) -> Callable[[], None]:
    """Record the tool calls, and the code, of an agent that a program has made; what undoes that.

    A CodeAgent is given the two rewind tools, and its variables go back with it.
    """
    from agentrewind.integrations.harnesses import smol_attached

    return smol_attached.attach(agent, recorder, offers=recorder.offers_rewind)
