"""Tool calls of the OpenAI Agents SDK as records. Importing this imports the SDK, which takes seconds.

Raises on import:
    UsageError: the package isn't installed; the text says how to install it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

from agentrewind.core.codec import Json
from agentrewind.core.edits import Message
from agentrewind.core.errors import NotRun, UsageError
from agentrewind.integrations.harnesses import frameworks, sdk, seeds, shell
from agentrewind.integrations.harnesses.contract import Job, Outcome, Recorder
from agentrewind.integrations.recorded import recorded, whole

try:
    from agents import (
        Agent,
        FunctionTool,
        Handoff,
        MaxTurnsExceeded,
        ModelSettings,
        OpenAIChatCompletionsModel,
        OpenAIResponsesModel,
        RunConfig,
        Runner,
        ToolExecutionConfig,
    )
    from pydantic import BaseModel
except ImportError as error:
    raise UsageError(
        f"The OpenAI Agents SDK can't be used here ({error}). `pip install 'agentrewind[openai-agents]'` adds it."
    ) from error

Invoke = Callable[[Any, str], Awaitable[Any]]
_IN_A_THREAD = "__agents_sync_function_tool__"
"""The SDK's mark of functions that it runs in a thread."""


def recording(tool: FunctionTool, recorder: Recorder) -> FunctionTool:
    """The tool, whose calls are nodes of a run, as what it returns enters the conversation."""
    invoke: Invoke = tool.on_invoke_tool

    async def on_invoke_tool(context: Any, arguments: str) -> Any:
        live: list[Any] = []

        async def run() -> Json:
            in_thread = getattr(invoke, _IN_A_THREAD, False)
            live.append(await (whole(lambda: invoke(context, arguments)) if in_thread else invoke(context, arguments)))
            return _said(live[0])

        try:
            said = await recorded(recorder, tool.name, _parsed(arguments), run, call_id=context.tool_call_id)
        except NotRun as held:
            return str(held)
        return live[0] if live else said

    return dataclasses.replace(tool, on_invoke_tool=on_invoke_tool)


def _parsed(arguments: str) -> Json:
    try:
        return json.loads(arguments) if arguments else {}
    except ValueError:
        return arguments


def _said(value: Any) -> Json:
    """What a tool returned, in a form that the SDK takes just as well: it calls `str` on all that it doesn't know."""
    if isinstance(value, list):
        return [_said(item) for item in value]
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return value if isinstance(value, str | dict) else str(value)


def attach(agent: Any, recorder: Recorder) -> Callable[[], None]:
    """See `agents_sdk.attach`."""
    undo = ExitStack()
    _attach(agent, recorder, undo, set())
    return undo.close


def _attach(agent: Any, recorder: Recorder, undo: ExitStack, seen: set[int]) -> None:
    if id(agent) in seen:
        return
    seen.add(id(agent))
    every = agent.get_all_tools
    ours: dict[int, tuple[Any, Any]] = {}

    async def get_all_tools(context: Any) -> list[Any]:
        found = await every(context)
        return [_ours(tool) if isinstance(tool, FunctionTool) else tool for tool in found]

    def _ours(tool: FunctionTool) -> FunctionTool:
        """The same for the same tool: the SDK compares them."""
        return ours.setdefault(id(tool), (tool, recording(tool, recorder)))[1]

    undo.callback(frameworks.hung(agent, "get_all_tools", get_all_tools))
    for other in agent.handoffs:
        if isinstance(other, Agent):
            _attach(other, recorder, undo, seen)
        elif isinstance(other, Handoff):
            _attach_handoff(other, recorder, undo, seen)


def _attach_handoff(handoff: Handoff, recorder: Recorder, undo: ExitStack, seen: set[int]) -> None:
    """Whoever is handed over to is known when it happens."""
    invoke = handoff.on_invoke_handoff

    async def on_invoke_handoff(context: Any, arguments: str) -> Any:
        agent = await invoke(context, arguments)
        _attach(agent, recorder, undo, seen)
        return agent

    undo.callback(frameworks.hung(handoff, "on_invoke_handoff", on_invoke_handoff))


# --- the agent with a shell -------------------------------------------------------------------------------------------


def run(job: Job) -> Outcome:
    """As `Harness.run`."""
    with sdk.told_as_ours("The OpenAI Agents SDK", job):
        try:
            return asyncio.run(_run(job))
        except MaxTurnsExceeded:
            return frameworks.limit_reached(job)


async def _run(job: Job) -> Outcome:
    async with frameworks.async_client(job) as client:
        return await sdk.until_accepted_async(job, _Asking(job, client))


class _Asking:
    """A conversation with the agent of one job."""

    def __init__(self, job: Job, client: Any) -> None:
        self._items: list[Message] = seeds.as_items(job.seed)
        self._left: int | None = job.settings.get("max_steps")
        self._stream = frameworks.streams(job)
        model = OpenAIResponsesModel if frameworks.api_of(job) == "responses" else OpenAIChatCompletionsModel
        fields = sdk.request_fields(job)
        self._agent = Agent(
            name="agentrewind",
            instructions=None if job.seed else shell.instructions(job),
            tools=[_shell(job)],
            model=model(job.model, client),
            model_settings=ModelSettings(temperature=fields.pop("temperature", None), extra_args=fields),
        )
        attach(self._agent, job.recorder)
        self._config = RunConfig(
            tracing_disabled=True,
            tool_not_found_behavior="return_error_to_model",
            tool_execution=ToolExecutionConfig(max_function_tool_concurrency=1),
        )

    async def __call__(self, text: str | None) -> str:
        if text is not None:
            self._items.append({"role": "user", "content": text})
        result = await self._answer()
        self._items = result.to_input_list()
        if self._left is not None:
            self._left -= len(result.raw_responses)
        return str(result.final_output)

    async def _answer(self) -> Any:
        options: dict[str, Any] = {"max_turns": self._left, "run_config": self._config}
        if not self._stream:
            return await Runner.run(self._agent, self._items, **options)
        result = Runner.run_streamed(self._agent, self._items, **options)
        async for _ in result.stream_events():
            pass
        return result


def _shell(job: Job) -> FunctionTool:
    run = frameworks.shell_of(job)

    async def call(context: Any, arguments: str) -> str:
        del context
        given = _parsed(arguments)
        return await asyncio.to_thread(run, given) if isinstance(given, dict) else frameworks.UNREADABLE

    setattr(call, _IN_A_THREAD, True)
    return FunctionTool(shell.NAME, shell.DESCRIPTION, shell.PARAMETERS, call, strict_json_schema=False)
