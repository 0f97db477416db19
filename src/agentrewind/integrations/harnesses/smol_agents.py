"""The agents of smolagents that `agentrewind run` starts. Importing this imports smolagents.

Raises on import:
    UsageError: the package isn't installed; the text says how to install it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

from agentrewind.core.edits import Message
from agentrewind.core.errors import UsageError
from agentrewind.integrations.harnesses import sdk, shell
from agentrewind.integrations.harnesses.contract import Job, Outcome

try:
    import smolagents
    from smolagents.models import ChatMessage, MessageRole
    from smolagents.monitoring import LogLevel

    from agentrewind.integrations.harnesses.smol_attached import attach
except ImportError as error:
    raise UsageError(
        f"smolagents can't be used here ({error}). `pip install 'agentrewind[smolagents]'` adds it."
    ) from error

SUBMIT = """\
When the task is done, and only then, give your final answer: say in a few sentences what you did. That is your
  submission: it is checked, and if something is still missing you are told what, and go on.\
"""


def run(make: Callable[[Job, Any], Any], job: Job) -> Outcome:
    """As `Harness.run`, with the agent that `make` makes of a job and a model."""
    with sdk.told_as_ours("smolagents", job), closing(sdk.client(job)) as client:
        agent = make(job, _model(job, client))
        attach(agent, job.recorder, records_tools=False, offers=job.offers_rewind, knows=not job.seed)
        agent.seed = job.seed
        return sdk.until_accepted(job, lambda text: str(agent.run(text or "", reset=False)))


def code_agent(job: Job, model: Any) -> Any:
    return _CodeAgent(
        **_common(job, model),
        additional_authorized_imports=list(job.settings.get("imports", ())),
        executor_kwargs={"timeout_seconds": None},
    )


def tool_calling_agent(job: Job, model: Any) -> Any:
    return _ToolCallingAgent(**_common(job, model), max_tool_threads=1)  # calls of one answer run in their order


def _common(job: Job, model: Any) -> dict[str, Any]:
    return {
        "tools": [ShellTool(job)],
        "model": model,
        "instructions": shell.instructions(job, SUBMIT),
        "max_steps": job.settings.get("max_steps") or sys.maxsize,
        "stream_outputs": bool(job.settings.get("stream", False)),
        "verbosity_level": LogLevel.OFF,
    }


def _model(job: Job, client: Any) -> Any:
    """Its own retries are off: they repeat whatever says "429", for minutes."""
    return smolagents.OpenAIModel(job.model, client=client, retry=False, **sdk.request_fields(job))


class ShellTool(smolagents.Tool):  # type: ignore[misc]
    name = shell.NAME
    description = shell.DESCRIPTION
    inputs = {  # noqa: RUF012 (smolagents looks for it there)
        "command": {"type": "string", "description": shell.COMMAND},
        "timeout": {"type": "number", "description": shell.TIMEOUT, "nullable": True},
    }
    output_type = "string"

    def __init__(self, job: Job) -> None:
        super().__init__()
        self._shell = shell.Shell(job)

    def forward(self, command: str, timeout: float | None = None) -> str:
        return self._shell.call({"command": command, "timeout": timeout})


class _FromSeed:
    """An agent that can begin with a conversation there is already; `run("")` then goes on from it."""

    seed: tuple[Message, ...] = ()
    memory: Any
    max_steps: int

    def write_memory_to_messages(self, *, summary_mode: bool = False) -> list[Any]:
        if not self.seed:
            written: list[Any] = super().write_memory_to_messages(summary_mode=summary_mode)  # type: ignore[misc]
            return written
        steps = self.memory.steps[1:]  # the first is the empty task
        return [
            *map(_given, self.seed),
            *(one for step in steps for one in step.to_messages(summary_mode=summary_mode)),
        ]

    def _handle_max_steps_reached(self, task: str) -> Any:
        """Instead of one more call of the model, which asks for an answer without the work."""
        del task
        raise sdk.LimitReached(self.max_steps)


class _CodeAgent(_FromSeed, smolagents.CodeAgent):  # type: ignore[misc]
    pass


class _ToolCallingAgent(_FromSeed, smolagents.ToolCallingAgent):  # type: ignore[misc]
    pass


def _given(message: Message) -> Any:
    """A message of a provider in the form of smolagents, which says calls and results in words."""
    content = message.get("content") or ""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
    if message.get("tool_calls"):
        parts = [
            *parts,
            {"type": "text", "text": f"Calling tools:\n{[call['function'] for call in message['tool_calls']]}"},
        ]
    if message["role"] == "tool":
        parts = [{"type": "text", "text": "Observation:\n"}, *parts]
    role = {"tool": MessageRole.USER, "developer": MessageRole.SYSTEM}.get(message["role"])
    return ChatMessage(role=role or MessageRole(message["role"]), content=parts)
