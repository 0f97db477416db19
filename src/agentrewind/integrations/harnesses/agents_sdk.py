"""The OpenAI Agents SDK: an agent with a shell, and what attaches agents of your own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agentrewind.integrations.harnesses import frameworks
from agentrewind.integrations.harnesses.contract import Job, Outcome, Recorder


@dataclass(frozen=True, slots=True)
class OpenAIAgent:
    """An `agents.Agent` with one tool, `shell`. Settings of a job: `frameworks.OPTIONS`, all optional."""

    name: str = field(default="openai-agents", init=False)
    preload: ClassVar[tuple[str, ...]] = ("agentrewind.integrations.harnesses.agents_sdk_classes",)
    """What a process imports from which processes of this agent are forked."""
    seeds: ClassVar[bool] = True
    """Whether it goes on from `Job.seed`."""
    options: ClassVar[tuple[str, ...]] = frameworks.OPTIONS

    def run(self, job: Job) -> Outcome:
        """Raises: UsageError where the package isn't installed; else as `Harness`."""
        from agentrewind.integrations.harnesses import agents_sdk_classes

        return agents_sdk_classes.run(job)


def attach(agent: Any, recorder: Recorder) -> Callable[[], None]:
    """Have the calls of all tools recorded that an agent or one that it hands over to has, those of MCP servers too;
    what undoes that.
    """
    from agentrewind.integrations.harnesses import agents_sdk_classes

    return agents_sdk_classes.attach(agent, recorder)
