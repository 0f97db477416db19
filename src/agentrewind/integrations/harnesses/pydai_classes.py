"""Tool calls of PydanticAI as records. Importing this imports PydanticAI, which takes seconds.

Raises on import:
    UsageError: the package isn't installed; the text says how to install it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any

from agentrewind.core.codec import Json
from agentrewind.core.edits import Message
from agentrewind.core.errors import NotRun, UsageError
from agentrewind.integrations.harnesses import frameworks, sdk, seeds, shell
from agentrewind.integrations.harnesses.contract import Job, Outcome, Recorder
from agentrewind.integrations.harnesses.frameworks import hung
from agentrewind.integrations.recorded import recorded

try:
    from pydantic import Field, TypeAdapter
    from pydantic_ai import Agent, Tool, ToolReturn, UsageLimitExceeded, UsageLimits
    from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
    from pydantic_ai.exceptions import ToolRetryError
    from pydantic_ai.messages import (
        ModelMessage,
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import RunUsage
    from pydantic_core import to_jsonable_python
except ImportError as error:
    raise UsageError(
        f"PydanticAI can't be used here ({error}). `pip install 'agentrewind[pydantic-ai]'` adds it."
    ) from error

Handler = Callable[[dict[str, Any]], Awaitable[Any]]
RETRIES = 1_000_000
"""How often in a row the model may call a tool wrongly: as often as it likes."""


@dataclass
class Recording(AbstractCapability[Any]):  # type: ignore[misc]
    """A capability: each tool call is a node of a run, as its result enters the conversation.

    A tool's function runs in a thread of its own; however its call ends, the node ends after the thread.
    """

    recorder: Recorder

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="outermost")

    async def wrap_tool_execute(
        self, ctx: Any, *, call: Any, tool_def: Any, args: dict[str, Any], handler: Handler
    ) -> Any:
        del ctx, tool_def
        live: list[Any] = []
        threads = ThreadPoolExecutor(thread_name_prefix=call.tool_name)

        async def run() -> Json:
            with Agent.using_thread_executor(threads):
                try:
                    live.append(await handler(args))
                except ToolRetryError as retry:
                    live.append(retry)
                    return {"asks for another try": to_jsonable_python(retry.tool_retry.content)}
            return _said(live[0])

        try:
            said = await recorded(
                self.recorder,
                call.tool_name,
                call.args_as_dict(),
                run,
                call_id=call.tool_call_id,
                settle=threads.shutdown,
            )
        except NotRun as held:
            return str(held)
        result = live[0] if live else _given_again(said, call)
        if isinstance(result, ToolRetryError):
            raise result
        return result


_RETURNS: TypeAdapter[Any] = TypeAdapter(ToolReturn)


def _said(value: Any) -> Json:
    """What a tool returned, as JSON that the model would be shown just so."""
    if isinstance(value, ToolReturn):
        return {"tool return": _RETURNS.dump_python(value, mode="json")}
    return to_jsonable_python(value, serialize_unknown=True)


def _given_again(said: Json, call: Any) -> Any:
    """A recorded result, without the call."""
    match said:
        case {"tool return": returned, **rest} if not rest:
            return _RETURNS.validate_python(returned)
        case {"asks for another try": content, **rest} if not rest:
            return ToolRetryError(ToolReturnPart(call.tool_name, content, call.tool_call_id, outcome="retried"))
    return said


def attach(agent: Any, recorder: Recorder) -> Callable[[], None]:
    """See `pydai.attach`."""
    every = agent.iter

    def iterate(*args: Any, capabilities: Sequence[Any] | None = None, **options: Any) -> Any:
        """All ways to run an agent come by here."""
        return every(*args, capabilities=[*(capabilities or ()), Recording(recorder)], **options)

    return hung(agent, "iter", iterate)


# --- the agent with a shell -------------------------------------------------------------------------------------------


def run(job: Job) -> Outcome:
    """As `Harness.run`."""
    with sdk.told_as_ours("PydanticAI", job):
        try:
            return asyncio.run(_run(job))
        except UsageLimitExceeded:
            return frameworks.limit_reached(job)


async def _run(job: Job) -> Outcome:
    async with frameworks.async_client(job) as client:
        return await sdk.until_accepted_async(job, _Asking(job, client))


class _Asking:
    """A conversation with the agent of one job."""

    def __init__(self, job: Job, client: Any) -> None:
        self._history: list[ModelMessage] = list(history(seeds.as_chat(job.seed)))
        self._usage = RunUsage()
        self._limits = UsageLimits(request_limit=job.settings.get("max_steps"))
        self._handler = _read_all if frameworks.streams(job) else None
        model = OpenAIResponsesModel if frameworks.api_of(job) == "responses" else OpenAIChatModel
        fields = sdk.request_fields(job)
        settings = {name: fields.pop(name) for name in ("temperature",) if name in fields}
        self._agent = Agent(
            model(job.model, provider=OpenAIProvider(openai_client=client)),
            instructions=None if job.seed else shell.instructions(job),
            tools=[_shell(job)],
            retries=RETRIES,
            model_settings={**settings, "extra_body": fields},
        )
        attach(self._agent, job.recorder)

    async def __call__(self, text: str | None) -> str:
        result = await self._agent.run(
            text,
            message_history=self._history,
            usage=self._usage,
            usage_limits=self._limits,
            event_stream_handler=self._handler,
        )
        self._history = result.all_messages()
        return str(result.output)


async def _read_all(ctx: Any, events: Any) -> None:
    """Whoever handles events has the model's answers streamed."""
    del ctx
    async for _ in events:
        pass


def history(chat: Iterable[Message]) -> list[ModelMessage]:
    """Messages of Chat Completions as those of PydanticAI."""
    found: list[Any] = []
    names: dict[str, str] = {}
    for message in chat:
        calls = [_call_part(call) for call in message.get("tool_calls") or ()]
        names.update({call.tool_call_id: call.tool_name for call in calls})
        content = message.get("content") or ""
        match message["role"]:
            case "assistant":
                found.append(ModelResponse([*([TextPart(content)] if content else []), *calls]))
                continue
            case "tool":
                part: Any = ToolReturnPart(names[message["tool_call_id"]], content, message["tool_call_id"])
            case "user":
                part = UserPromptPart(content)
            case _:
                part = SystemPromptPart(content)
        if found and isinstance(found[-1], ModelRequest):
            part = [*found.pop().parts, part]
        found.append(ModelRequest(part if isinstance(part, list) else [part]))
    return found


def _call_part(call: Json) -> ToolCallPart:
    function = call["function"]
    return ToolCallPart(function["name"], function["arguments"], call["id"])


def _shell(job: Job) -> Tool[Any]:
    run = frameworks.shell_of(job)

    def call(
        command: Annotated[str, Field(description=shell.COMMAND)],
        timeout: Annotated[float | None, Field(description=shell.TIMEOUT)] = None,
    ) -> str:
        return run({"command": command} if timeout is None else {"command": command, "timeout": timeout})

    return Tool(call, takes_ctx=False, name=shell.NAME, description=shell.DESCRIPTION, sequential=True)
