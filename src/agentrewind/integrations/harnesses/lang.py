"""LangChain and LangGraph: an agent of `create_agent` with a shell, and what attaches agents of your own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agentrewind.integrations.harnesses import frameworks
from agentrewind.integrations.harnesses.contract import Job, Outcome


@dataclass(frozen=True, slots=True)
class LangChainAgent:
    """An agent of LangChain's `create_agent` with one tool, `shell`. Settings of a job that it knows, all optional:

    those of `frameworks.OPTIONS`, and `asynchronous`: whether the agent runs in an event loop.
    """

    name: str = field(default="langchain", init=False)
    preload: ClassVar[tuple[str, ...]] = ("agentrewind.integrations.harnesses.lang_classes",)
    """What a process imports from which processes of this agent are forked."""
    seeds: ClassVar[bool] = True
    """Whether it goes on from `Job.seed`."""
    options: ClassVar[tuple[str, ...]] = (*frameworks.OPTIONS, "asynchronous")

    def run(self, job: Job) -> Outcome:
        """Raises: UsageError where the package isn't installed; else as `Harness`."""
        from agentrewind.integrations.harnesses import lang_classes

        return lang_classes.run(job)


def attach(agent: Any, recorder: Any) -> Callable[[], None]:
    """Have the calls of all tools of a compiled graph recorded, and its checkpoints and ours name each other; what
    undoes that.

    Raises: UsageError: it has none that can be.
    """
    from agentrewind.integrations.harnesses import lang_checkpoints, lang_classes

    undo = ExitStack()
    undo.callback(lang_classes.attach(agent, recorder))
    undo.callback(lang_checkpoints.attach(agent, recorder))
    return undo.close
