"""Tool calls of LangChain and LangGraph as records. Importing this imports LangChain, which takes seconds.

Raises on import:
    UsageError: the package isn't installed; the text says how to install it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from typing import Any

from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentError, NotRun, UsageError
from agentrewind.integrations.harnesses import frameworks, sdk, seeds, shell
from agentrewind.integrations.harnesses.contract import Job, Outcome, Recorder
from agentrewind.integrations.recorded import recorded, whole

try:
    import openai
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentMiddleware, ModelCallLimitMiddleware, hook_config
    from langchain.agents.middleware.model_call_limit import ModelCallLimitExceededError
    from langchain_core.load import dumpd, load
    from langchain_core.messages import ToolMessage, convert_to_messages
    from langchain_core.tools import BaseTool, StructuredTool
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.prebuilt import ToolNode
    from langgraph.types import Command
except ImportError as error:
    raise UsageError(
        f"LangChain can't be used here ({error}). `pip install 'agentrewind[langchain]'` adds it."
    ) from error

Wrapped = Callable[[Any], Any]


class Recording(AgentMiddleware):  # type: ignore[misc]
    """Middleware for `create_agent`: each tool call is a node of a run, as its result enters the conversation."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def wrap_tool_call(self, request: Any, handler: Wrapped) -> Any:
        if request.tool is None:
            return handler(request)
        call, results = request.tool_call, _Results(request.tool_call)
        try:
            said = self.recorder.tool(
                call["name"], call["args"], lambda: results.take(handler(request)), call_id=call["id"]
            )
        except NotRun as held:
            said = str(held)
        return results.of(said)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        if request.tool is None:
            return await handler(request)
        call, results = request.tool_call, _Results(request.tool_call)

        async def run() -> Json:
            in_thread = _runs_in_a_thread(request.tool)
            return results.take(await (whole(lambda: handler(request)) if in_thread else handler(request)))

        try:
            said = await recorded(self.recorder, call["name"], call["args"], run, call_id=call["id"])
        except NotRun as held:
            said = str(held)
        return results.of(said)


class _Results:
    """Between what a tool node gives to the graph and what is recorded of it."""

    def __init__(self, call: Mapping[str, Any]) -> None:
        self._call = call
        self._live: list[Any] = []

    def take(self, result: Any) -> Json:
        """The result of a call that was made, as JSON; a plain one as its text."""
        self._live = [result]
        if isinstance(result, ToolMessage) and result == self._message(result.content):
            return result.content
        return {"langchain": [_plain(item) for item in (result if isinstance(result, list) else [result])]}

    def of(self, said: Json) -> Any:
        """The result for the graph: that of the call, or what was recorded of one."""
        if self._live:
            return self._live[0]
        if not isinstance(said, dict):
            return self._message(said)
        found = [_rich(item) for item in said["langchain"]]
        return found[0] if len(found) == 1 else found

    def _message(self, content: Any) -> Any:
        return ToolMessage(content, name=self._call["name"], tool_call_id=self._call["id"])


def _plain(result: Any) -> Json:
    if isinstance(result, Command):
        return {"update": dumpd(result.update), "goto": dumpd(result.goto), "graph": result.graph}
    return dumpd(result)


def _rich(said: Json) -> Any:
    """Raises: AgentError: it held something that JSON can't say."""
    if "not_implemented" in str(said):
        raise AgentError("A recorded result of a LangChain tool holds objects that can't be made again from a record.")
    if "update" in said:
        return Command(**{name: load(value, allowed_objects="messages") for name, value in said.items()})
    return load(said, allowed_objects="messages")


def _runs_in_a_thread(tool: BaseTool) -> bool:
    """Whether an asynchronous call of it is a synchronous one in a thread."""
    if hasattr(tool, "coroutine"):
        return tool.coroutine is None
    return type(tool)._arun is BaseTool._arun  # noqa: SLF001 (overriding it is how a tool is asynchronous)


# --- a graph that somebody made ---------------------------------------------------------------------------------------


def attach(graph: Any, recorder: Recorder) -> Callable[[], None]:
    """See `lang.attach`."""
    nodes = [node.bound for node in graph.nodes.values() if isinstance(node.bound, ToolNode)]
    if not nodes:
        raise UsageError(
            f"The graph {graph.name!r} has no ToolNode, so none of its tool calls can be recorded; its calls of a model"
            " are. Record functions that its nodes call with agentrewind.tool."
        )
    undo = ExitStack()
    for node in nodes:
        undo.callback(_attach(node, Recording(recorder)))
    return undo.close


def _attach(node: ToolNode, recording: Recording) -> Callable[[], None]:
    """Ours goes around the wrapper that the node has: what that makes of a result enters the conversation."""
    inner, ainner = node._wrap_tool_call, node._awrap_tool_call  # noqa: SLF001 (arguments of its constructor)
    if inner is not None and ainner is None:
        raise UsageError("A ToolNode with a wrap_tool_call of its own needs awrap_tool_call too to be recorded.")

    def around(request: Any, execute: Wrapped) -> Any:
        return recording.wrap_tool_call(request, execute if inner is None else lambda r: inner(r, execute))

    async def around_async(request: Any, execute: Callable[[Any], Awaitable[Any]]) -> Any:
        handler = execute if ainner is None else lambda r: ainner(r, execute)
        return await recording.awrap_tool_call(request, handler)

    def undo() -> None:
        node._wrap_tool_call, node._awrap_tool_call = inner, ainner  # noqa: SLF001

    node._wrap_tool_call, node._awrap_tool_call = around, around_async  # noqa: SLF001
    return undo


# --- the agent with a shell -------------------------------------------------------------------------------------------


class Unreadable(AgentMiddleware):  # type: ignore[misc]
    """Answers calls whose arguments aren't JSON; `create_agent` would take an answer with only such for the last."""

    @hook_config(can_jump_to=["model"])  # type: ignore[untyped-decorator]
    def after_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        del runtime
        said = state["messages"][-1]
        if not said.invalid_tool_calls:
            return None
        told = [
            ToolMessage(frameworks.UNREADABLE, name=call["name"] or "", tool_call_id=call["id"], status="error")
            for call in said.invalid_tool_calls
        ]
        return {"messages": told, **({} if said.tool_calls else {"jump_to": "model"})}


def run(job: Job) -> Outcome:
    """As `Harness.run`."""
    with sdk.told_as_ours("LangChain", job):
        try:
            return asyncio.run(_run_async(job)) if job.settings.get("asynchronous") else _run(job)
        except ModelCallLimitExceededError:
            return frameworks.limit_reached(job)


def _run(job: Job) -> Outcome:
    with openai.DefaultHttpxClient(trust_env=not sdk.is_loopback(job.base_url)) as client:
        agent = _agent(job, http_client=client)

        def ask(text: str | None) -> str:
            return _answer(agent.invoke(_given(job, text), _CONFIG))

        return sdk.until_accepted(job, ask)


async def _run_async(job: Job) -> Outcome:
    async with openai.DefaultAsyncHttpxClient(trust_env=not sdk.is_loopback(job.base_url)) as client:
        agent = _agent(job, http_async_client=client)

        async def ask(text: str | None) -> str:
            return _answer(await agent.ainvoke(_given(job, text), _CONFIG))

        return await sdk.until_accepted_async(job, ask)


_CONFIG: dict[str, Any] = {"configurable": {"thread_id": "agentrewind"}, "max_concurrency": 1}
"""One step at a time: calls of one answer run in their order."""


def _agent(job: Job, **client: Any) -> Any:
    limit = job.settings.get("max_steps")
    limits = [ModelCallLimitMiddleware(thread_limit=limit, exit_behavior="error")] if limit else []
    return create_agent(
        _model(job, **client),
        [_shell(job)],
        system_prompt=None if job.seed else shell.instructions(job),
        middleware=[Recording(job.recorder), Unreadable(), *limits],
        checkpointer=InMemorySaver(),
    )


def _given(job: Job, text: str | None) -> dict[str, Any]:
    return {"messages": convert_to_messages(seeds.as_chat(job.seed) if text is None else [("user", text)])}


def _answer(state: Mapping[str, Any]) -> str:
    return str(state["messages"][-1].text)


def _model(job: Job, **client: Any) -> ChatOpenAI:
    """Answers are streamed by the model itself: a graph that streams messages keeps a thread for that, and there is no
    other where steps are made one at a time.
    """
    fields = sdk.request_fields(job)
    streams = {"streaming": True, "stream_usage": True} if frameworks.streams(job) else {}
    known = {*ChatOpenAI.model_fields, *(item.alias for item in ChatOpenAI.model_fields.values())}
    return ChatOpenAI(
        model=job.model,
        use_responses_api=frameworks.api_of(job) == "responses",
        model_kwargs={name: value for name, value in fields.items() if name not in known},
        **{name: value for name, value in fields.items() if name in known},
        **sdk.client_options(job),
        **streams,
        **client,
    )


def _shell(job: Job) -> StructuredTool:
    run = frameworks.shell_of(job)

    def call(**arguments: Any) -> str:
        return run(arguments)

    return StructuredTool(name=shell.NAME, description=shell.DESCRIPTION, args_schema=shell.PARAMETERS, func=call)
