"""A path of a run read turn by turn, whatever dialect its calls speak: what other formats are written from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agentrewind.core.codec import Json, canonical
from agentrewind.core.errors import ProviderError
from agentrewind.core.records import MessageId, ThreadId
from agentrewind.core.tree import Node
from agentrewind.dialects.anthropic_messages import AnthropicMessages
from agentrewind.dialects.base import Dialect, Reply
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.dialects.openai_responses import OpenAIResponses
from agentrewind.journal.reader import RunLog

Role = Literal["system", "user", "assistant", "result"]

_DIALECTS: dict[str, Dialect] = {item.name: item for item in (OpenAIChat(), OpenAIResponses(), AnthropicMessages())}
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of what a call was sent. `call_id` is the call that a `result` answers."""

    role: Role
    text: str
    call_id: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One LLM call. `new` is what its request says beyond the call before it on the path and that call's answer.

    `reply` is None where there was no answer, or none that its dialect can read; `results` are those of its calls.
    """

    node: Node
    new: tuple[Said, ...]
    reply: Reply | None
    response: Json
    results: tuple[Said, ...]
    tools: tuple[Node, ...]
    """The recorded tool calls that came after it, before the next LLM call of the path."""


def threads_of(path: Sequence[Node]) -> list[ThreadId]:
    """The conversations on a path, in the order in which they began."""
    return list(dict.fromkeys(node.began.thread for node in path if node.is_llm))


def turns(log: RunLog, path: Sequence[Node], thread: ThreadId) -> Iterator[Turn]:
    """The calls of one conversation on a path, oldest first. Holds one request's new messages at a time."""
    calls = _calls(path, thread)
    fresh = _fresh(log, [node for node, _ in calls])
    said_now = next(fresh, ())
    for node, tools in calls:
        said_next = next(fresh, ())
        response = log.get(node.ended.output) if node.ended and node.ended.output else None
        reply = reply_of(node, response)
        results = tuple(item for item in said_next if item.role == "result") or _recorded(log, tools)
        new = tuple(item for item in said_now if item.role in ("system", "user"))
        yield Turn(node, new, reply, response, results, tuple(tools))
        said_now = said_next


def _calls(path: Sequence[Node], thread: ThreadId) -> list[tuple[Node, list[Node]]]:
    """The LLM calls of one conversation, each with the tool calls that were recorded after it."""
    found: list[tuple[Node, list[Node]]] = []
    for node in path:
        if node.began.thread == thread and node.is_llm:
            found.append((node, []))
        elif node.began.thread == thread and found:
            found[-1][1].append(node)
    return found


def _fresh(log: RunLog, calls: Sequence[Node]) -> Iterator[tuple[Said, ...]]:
    """For each call, what its request says beyond the messages that it has in common with the one before it."""
    before: Sequence[MessageId] = ()
    for node in calls:
        ids = log.tree.messages(node.uid)
        keep = 0
        while keep < min(len(ids), len(before)) and ids[keep] == before[keep]:
            keep += 1
        llm = node.began.llm
        assert llm is not None
        found = [] if before else list(_instructions(llm.params))
        for name in ids[keep:]:
            found += said(log.get(name))
        yield tuple(found)
        before = ids


def _instructions(params: Json) -> Iterator[Said]:
    """The system prompt of the dialects that keep it apart from the messages."""
    for key in ("system", "instructions"):
        text = text_of(params.get(key)) if isinstance(params, dict) else ""
        if text:
            yield Said("system", text)


def said(message: Json) -> Iterator[Said]:
    """What one message or item of any dialect says."""
    if not isinstance(message, dict):
        return
    kind, role = message.get("type"), message.get("role")
    if kind == "function_call_output":
        yield Said("result", text_of(message.get("output")), str(message.get("call_id", "")))
    elif role == "tool":
        yield Said("result", text_of(message.get("content")), str(message.get("tool_call_id", "")))
    elif role in _ROLES:
        yield from _blocks(_ROLES[role], message.get("content"))


def _blocks(role: Role, content: Json) -> Iterator[Said]:
    parts = content if isinstance(content, list) else [content]
    rest = [part for part in parts if not (isinstance(part, dict) and part.get("type") == "tool_result")]
    for part in parts:
        if isinstance(part, dict) and part.get("type") == "tool_result":
            yield Said("result", text_of(part.get("content")), str(part.get("tool_use_id", "")))
    text = text_of(rest)
    if text or role == "assistant":
        yield Said(role, text)


def text_of(content: Json) -> str:
    """The text of a content: its text parts, and for others what they are."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(text_of, content)))
    if isinstance(content, dict):
        text = content.get("text", content.get("refusal"))
        return text if isinstance(text, str) else f"[{content.get('type', 'content')}]"
    return ""


def reply_of(node: Node, response: Json) -> Reply | None:
    dialect = _DIALECTS.get(node.began.llm.dialect) if node.began.llm else None
    if dialect is None or response is None:
        return None
    try:
        return dialect.parse(canonical(response), stream=False)
    except ProviderError:
        return None


def reasoning_of(response: Json) -> str:
    """What an answer says of its reasoning in clear, in any dialect."""
    if not isinstance(response, dict):
        return ""
    choices = response.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        found = message.get("reasoning_content", message.get("reasoning")) if isinstance(message, dict) else None
        return found if isinstance(found, str) else ""
    items = response.get("output") or response.get("content")
    return "\n".join(filter(None, map(_thought, items))) if isinstance(items, list) else ""


def _thought(item: Json) -> str:
    if not isinstance(item, dict):
        return ""
    if item.get("type") == "thinking":
        return str(item.get("thinking", ""))
    return text_of(item.get("summary") or item.get("content")) if item.get("type") == "reasoning" else ""


def _recorded(log: RunLog, tools: Sequence[Node]) -> tuple[Said, ...]:
    """Results that no later request holds: those that were recorded as tool calls."""
    found = []
    for node in tools:
        tool, ended = node.began.tool, node.ended
        if tool is not None and tool.call_id and ended is not None:
            output = log.get(ended.output) if ended.output else None
            text = ended.error.message if ended.error else output if isinstance(output, str) else _json(output)
            found.append(Said("result", text, tool.call_id))
    return tuple(found)


def _json(value: Json) -> str:
    if isinstance(value, dict):
        texts = [item for item in value.values() if isinstance(item, str)]
        if len(texts) == 1:
            return texts[0]
    return canonical(value).decode("utf-8")
