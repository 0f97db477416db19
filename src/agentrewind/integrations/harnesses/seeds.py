"""The conversation that an agent begins with, in the form of the provider's other API where its harness wants that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentrewind.core.codec import Json
from agentrewind.core.edits import Message


def as_chat(messages: Iterable[Message]) -> list[Message]:
    """Items of a Responses request as messages of Chat Completions; such messages stay as they are.

    Reasoning is left out: only the provider that gave it can take it back.
    """
    found: list[Message] = []
    for item in messages:
        match item.get("type", "message"):
            case "function_call":
                _asking(found).setdefault("tool_calls", []).append(_chat_call(item))
            case "function_call_output":
                found.append({"role": "tool", "tool_call_id": item["call_id"], "content": _text(item["output"])})
            case "message":
                found.append({**item, "content": _text(item["content"])} if "type" in item else dict(item))
    return found


def as_items(messages: Iterable[Message]) -> list[Message]:
    """Messages of Chat Completions as items of a Responses request; such items stay as they are."""
    return [item for message in messages for item in _items(message)]


def without_head(messages: Sequence[Message]) -> list[Message]:
    """The messages without the instructions that they begin with, for an agent that sends its own."""
    begins = bool(messages) and messages[0].get("role") in ("system", "developer")
    return list(messages[1:] if begins else messages)


def _items(message: Message) -> list[Message]:
    if "type" in message:
        return [dict(message)]
    if message.get("role") == "tool":
        output = _text(message.get("content"))
        return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": output}]
    content = message.get("content")
    said = [{"role": message["role"], "content": content}] if content else []
    return [*said, *map(_item_call, message.get("tool_calls") or ())]


def _asking(found: list[Message]) -> Message:
    """The answer that a call belongs to: the newest message where that is one, else a new one."""
    if not found or found[-1].get("role") != "assistant":
        found.append({"role": "assistant", "content": None})
    return found[-1]


def _chat_call(item: Message) -> Json:
    function = {"name": item["name"], "arguments": item["arguments"]}
    return {"id": item["call_id"], "type": "function", "function": function}


def _item_call(call: Json) -> Message:
    function = call["function"]
    return {
        "type": "function_call",
        "call_id": call["id"],
        "name": function["name"],
        "arguments": function["arguments"],
    }


def _text(content: Json) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content)
    return content or ""
