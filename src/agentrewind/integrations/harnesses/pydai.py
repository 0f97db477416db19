"""PydanticAI: an agent with a shell, and what attaches agents of your own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agentrewind.integrations.harnesses import frameworks
from agentrewind.integrations.harnesses.contract import Job, Outcome, Recorder


@dataclass(frozen=True, slots=True)
class PydanticAgent:
    """A `pydantic_ai.Agent` with one tool, `shell`. Settings of a job: `frameworks.OPTIONS`, all optional."""

    name: str = field(default="pydantic-ai", init=False)
    preload: ClassVar[tuple[str, ...]] = ("agentrewind.integrations.harnesses.pydai_classes",)
    """What a process imports from which processes of this agent are forked."""
    seeds: ClassVar[bool] = True
    """Whether it goes on from `Job.seed`."""
    options: ClassVar[tuple[str, ...]] = frameworks.OPTIONS

    def run(self, job: Job) -> Outcome:
        """Raises: UsageError where the package isn't installed; else as `Harness`."""
        from agentrewind.integrations.harnesses import pydai_classes

        return pydai_classes.run(job)


def attach(agent: Any, recorder: Recorder) -> Callable[[], None]:
    """Have the calls of all tools of an agent recorded, whatever toolset they come from; what undoes that."""
    from agentrewind.integrations.harnesses import pydai_classes

    return pydai_classes.attach(agent, recorder)
