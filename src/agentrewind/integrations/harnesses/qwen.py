"""Qwen-Agent's FnCallAgent: nothing of the package is imported until one runs or is attached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agentrewind.integrations.harnesses.contract import Attached, Job, Outcome


@dataclass(frozen=True, slots=True)
class FnCallAgent:
    """FnCallAgent 0.0.34, without its limit of 20 calls and without its cutting of long conversations.

    It submits by an answer without a call. Settings of a job that it knows, all optional:

    `max_steps`: how many model calls it may make (no limit).
    `temperature`: 0 unless given; None leaves it out of the request.
    `seed`: 0 unless given: by itself it would draw another one for each request.
    `request`: more fields of the request body, for example `max_tokens`.
    `command_timeout_s`: the time-out of commands for which the model sets none (no limit).
    `pass_keys`: the names of keys in `environ` that commands may see.
    `raw`: whether tools are declared to the provider, instead of in the words of the system prompt (no).
    """

    name: str = field(default="qwen-agent", init=False)
    preload: ClassVar[tuple[str, ...]] = ("agentrewind.integrations.harnesses.qwen_agents",)
    seeds: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = (
        "max_steps",
        "temperature",
        "seed",
        "request",
        "command_timeout_s",
        "pass_keys",
        "raw",
    )

    def run(self, job: Job) -> Outcome:
        """Raises: UsageError where the package isn't installed; else as `Harness`."""
        from agentrewind.integrations.harnesses import qwen_agents

        return qwen_agents.run(job)


def attach(agent: Any, recorder: Attached) -> Callable[[], None]:
    """Record the tool calls of an agent that a program has made; what undoes that.

    Unless its tools are declared to the provider, it is given the two rewind tools.
    """
    from agentrewind.integrations.harnesses import qwen_agents

    return qwen_agents.attach(agent, recorder)
