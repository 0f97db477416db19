"""What `agentrewind run --agent qwen-agent` starts, and agents of programs. Importing this imports Qwen-Agent.

Raises on import:
    UsageError: the package isn't installed; the text says how to install it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

from agentrewind.core.codec import Json
from agentrewind.core.errors import NotRun, UsageError
from agentrewind.core.tools import TOOLS, ToolSpec
from agentrewind.engine.signal import RewindSignal
from agentrewind.integrations.harnesses import sdk, shell
from agentrewind.integrations.harnesses.contract import Attached, Job, Outcome, Recorder

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # else numpy starts threads, and no process can be forked

try:
    from qwen_agent.agents import FnCallAgent, fncall_agent
    from qwen_agent.llm.oai import TextChatAtOAI
    from qwen_agent.llm.schema import ASSISTANT, USER, Message
    from qwen_agent.tools.base import BaseTool
    from qwen_agent.utils.utils import extract_text_from_message, json_loads
except ImportError as error:
    raise UsageError(f"Qwen-Agent can't be used here ({error}). `pip install 'agentrewind[qwen]'` adds it.") from error

GOING_BACK = "Going back."
_OF_THE_BODY = ("top_k", "repetition_penalty")
"""What the SDK doesn't take as an argument of its own."""


def run(job: Job) -> Outcome:
    """As `Harness.run`."""
    fncall_agent.MAX_LLM_CALL_PER_RUN = sys.maxsize  # 20, which is read from there at each run
    with sdk.told_as_ours("Qwen-Agent", job), closing(sdk.client(job)) as client:
        model = Model(job, client)
        tools = [ShellTool(job)]
        if job.offers_rewind and not model.use_raw_api:
            tools += [RewindTool(spec, job.recorder) for spec in TOOLS]
        agent = FnCallAgent(function_list=tools, llm=model, system_message=shell.instructions(job))
        said: list[Message] = []

        def ask(text: str | None) -> str:
            said.append(Message(role=USER, content=text or SEED))
            *_, answer = agent.run(said, lang="en")
            said.extend(answer)
            return extract_text_from_message(said[-1], add_upload_info=False) if said[-1].role == ASSISTANT else ""

        return sdk.until_accepted(job, ask)


SEED = "(the conversation so far)"
"""Stands for the seed of a job until a request is made."""


class Model(TextChatAtOAI):  # type: ignore[misc]
    """Its model for OpenAI's endpoints, with a client of ours, and a seed that is always the same."""

    def __init__(self, job: Job, client: Any) -> None:
        usage = {"stream_options": {"include_usage": True}}  # else nobody knows what a run cost
        fields = {"seed": job.settings.get("seed", 0), **usage, **sdk.request_fields(job)}
        raw = bool(job.settings.get("raw", False))
        own = {"use_raw_api": raw, "max_input_tokens": -1}  # else it drops old messages
        several = {} if raw else {"parallel_function_calls": True}
        super().__init__({"model": job.model, "generate_cfg": {**fields, **own, **several}})
        self._given = [dict(message) for message in job.seed]
        self._limit, self._calls = job.settings.get("max_steps"), 0
        self._client = client
        self._chat_complete_create = self._create

    def _create(self, **fields: Any) -> Any:
        if self._limit is not None and self._calls >= self._limit:
            raise sdk.LimitReached(self._limit)
        self._calls += 1
        body = {name: fields.pop(name) for name in _OF_THE_BODY if name in fields}
        return self._client.chat.completions.create(**fields, **({"extra_body": body} if body else {}))

    def convert_messages_to_dicts(self, messages: list[Message]) -> list[Json]:
        """What is sent: the seed in the place of the system prompt and of what stood for it."""
        made = [_as_sent(message) for message in super().convert_messages_to_dicts(messages)]
        return [*self._given, *made[2:]] if self._given else made


def _as_sent(message: Json) -> Json:
    """A result has the id of its call under another name, and fields that no provider knows."""
    if message["role"] != "tool":
        return message
    return {"role": "tool", "tool_call_id": message["id"], "content": message["content"]}


class _Tool(BaseTool):  # type: ignore[misc]
    """A tool of ours; its parameters have just the fields that Qwen-Agent lets pass."""

    def __init__(self, name: str, description: str, parameters: Json) -> None:
        self.name, self.description = name, description
        self.parameters = {key: parameters[key] for key in ("type", "properties", "required")}
        super().__init__()


class ShellTool(_Tool):
    def __init__(self, job: Job) -> None:
        super().__init__(shell.NAME, shell.DESCRIPTION, shell.PARAMETERS)
        self._shell = shell.Shell(job)

    def call(self, params: Any, **_: Any) -> str:
        return str(_unless_going_back(lambda: self._shell.call(_parsed(params))))


class RewindTool(_Tool):
    def __init__(self, spec: ToolSpec, recorder: Recorder) -> None:
        super().__init__(spec.name, spec.description, spec.parameters)
        self._recorder = recorder

    def call(self, params: Any, **_: Any) -> str:
        return str(_unless_going_back(lambda: self._recorder.rewind_tool(self.name, _parsed(params))))


def attach(agent: Any, recorder: Attached) -> Callable[[], None]:
    """See `qwen.attach`."""
    undo = ExitStack()
    for tool in list(agent.function_map.values()):
        undo.callback(setattr, tool, "call", tool.call)
        tool.call = _recorded(tool, recorder)
    if recorder.offers_rewind and not agent.llm.use_raw_api:
        for spec in TOOLS:
            agent.function_map[spec.name] = RewindTool(spec, recorder)
            undo.callback(agent.function_map.pop, spec.name, None)
    return undo.close


def _recorded(tool: Any, recorder: Recorder) -> Callable[..., Any]:
    call = tool.call

    def recorded(params: Any, **more: Any) -> Any:
        arguments = _parsed(params)
        return _unless_going_back(lambda: recorder.tool(tool.name, arguments, lambda: call(params, **more)))

    return recorded


def _unless_going_back(run: Callable[[], Any]) -> Any:
    """Here a call ends, whatever ends it. The agent's next call of the model is made from where it has gone back to."""
    try:
        return run()
    except RewindSignal:
        return GOING_BACK
    except NotRun as held:
        return str(held)


def _parsed(params: Any) -> Json:
    """The arguments of a call, which come as text; the text where it is no JSON."""
    if not isinstance(params, str):
        return params
    try:
        return json_loads(params)
    except ValueError:
        return params
