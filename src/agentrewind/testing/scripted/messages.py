"""Anthropic Messages, as a strict provider speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from agentrewind.core.codec import Json, digest
from agentrewind.testing.scripted.api import Said, kind_of, pieces, text_of, tokens
from agentrewind.testing.scripted.steps import Call, Turn

_ROLES = ("user", "assistant")
_OF_USERS = frozenset({"text", "image", "document", "search_result", "tool_result"})
_OF_ASSISTANTS = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
_THINKING = ("thinking", "redacted_thinking")
_MARKERS = 4


class Messages:
    """See `Api`."""

    name = "anthropic_messages"
    path = "/v1/messages"
    needs: tuple[str, ...] = ("anthropic-version",)

    def key(self, headers: Mapping[str, str]) -> str:
        """In either place: the SDK has used the second since its version 2."""
        return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")

    def refusal(self, body: Json) -> str | None:
        return refusal(body)

    def whole(self, body: Json) -> Json:
        return body

    def keep(self, body: Json, response: Json) -> None:
        """Nothing is kept."""

    def messages(self, body: Json) -> list[Json]:
        return list(body["messages"])

    def said(self, body: Json) -> list[Said]:
        head = [Said("system", text_of(body["system"]))] if body.get("system") else []
        return [*head, *(entry for message in body["messages"] for entry in _said(message))]

    def tools(self, body: Json) -> list[str]:
        return [tool["name"] for tool in body.get("tools") or ()]

    def response(self, body: Json, turn: Turn, number: int, first_call: int) -> Json:
        return response_to(body, turn, number, first_call)

    def events(self, body: Json, response: Json) -> list[str]:
        del body
        return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events(response)]

    def broken(self, message: str) -> str:
        error = {"type": "error", "error": {"type": "api_error", "message": message}}
        return f"event: error\ndata: {json.dumps(error)}\n\n"

    def error(self, status: int, message: str, code: str | None) -> Json:
        del code
        return {"type": "error", "error": {"type": kind_of(status, "api_error"), "message": message}}


# --- views ------------------------------------------------------------------------------------------------------------


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _said(message: Json) -> Iterator[Said]:
    blocks = _blocks(message)
    if message["role"] == "system":
        yield Said("system", text_of(blocks))
        return
    if message["role"] == "assistant":
        calls = tuple(Call(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use")
        yield Said("assistant", text_of([block for block in blocks if block["type"] == "text"]), calls)
        return
    results = [block for block in blocks if block["type"] == "tool_result"]
    yield from (Said("tool", text_of(block.get("content"))) for block in results)
    if len(results) < len(blocks):
        yield Said("user", text_of(blocks))


# --- answers ----------------------------------------------------------------------------------------------------------


def response_to(body: Json, turn: Turn, number: int, first_call: int) -> Json:
    """The whole response object; tool calls are numbered from `first_call`."""
    content: list[Json] = []
    thought = turn.reasoning or ("Let me think." if _must_think(body) else "")
    if thought:
        content.append({"type": "thinking", "thinking": thought, "signature": _signature(thought)})
    if turn.text:
        content.append({"type": "text", "text": turn.text})
    content += [_call(item, first_call + at) for at, item in enumerate(turn.calls)]
    usual = "tool_use" if turn.calls else "end_turn"
    return {
        "id": f"msg_{number:06d}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": {"length": "max_tokens"}.get(turn.finish, turn.finish) or usual,
        "stop_sequence": None,
        "usage": _usage(body, content),
    }


def _signature(thinking: str) -> str:
    return f"signed-{digest(thinking)[-32:]}"


def _must_think(body: Json) -> bool:
    return (body.get("thinking") or {}).get("type") == "enabled"


def _call(item: Call, number: int) -> Json:
    return {"type": "tool_use", "id": f"toolu_{number:06d}", "name": item.name, "input": _input(item.arguments)}


def _input(arguments: Json) -> Json:
    """The arguments as an object; text that is none stays text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        parsed = json.loads(arguments)
    except ValueError:
        return arguments
    return parsed if isinstance(parsed, dict) else arguments


def _usage(body: Json, content: list[Json]) -> Json:
    asked = tokens([body["messages"], body.get("system") or "", body.get("tools") or []])
    cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {"input_tokens": asked, **cached, "output_tokens": tokens(content)}


def events(response: Json) -> Iterator[Json]:
    """The response as the events of a stream, texts and arguments in pieces."""
    begun = {**response["usage"], "output_tokens": 1}
    start = {**response, "content": [], "stop_reason": None, "usage": begun}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for at, block in enumerate(response["content"]):
        empty: dict[str, Json] = {
            "text": {"text": ""},
            "thinking": {"thinking": "", "signature": ""},
            "redacted_thinking": {},
            "tool_use": {"input": {}},
        }
        opened = {**block, **empty[block["type"]]}
        yield {"type": "content_block_start", "index": at, "content_block": opened}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    ended = {"stop_reason": response["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": response["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def _deltas(block: Json) -> Iterator[Json]:
    match block["type"]:
        case "text":
            yield from ({"type": "text_delta", "text": piece} for piece in pieces(block["text"]))
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"]))
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "tool_use":
            given = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(given)])


# --- what a strict provider refuses -----------------------------------------------------------------------------------


def refusal(body: Json) -> str | None:
    """Why a strict provider answers this request with status 400; None where it doesn't."""
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        return "model: Field required"
    if not isinstance(body.get("max_tokens"), int) or body["max_tokens"] < 1:
        return "max_tokens: Field required"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "messages: at least one message is required"
    problem = _system_refusal(messages)
    if problem is not None:
        return problem
    messages = [message for message in messages if not _is_system(message)]
    return (
        _tools_refusal(body)
        or _form_refusal(messages)
        or _pair_refusal(messages)
        or _thinking_refusal(body)
        or _marker_refusal(body)
    )


def _is_system(message: Json) -> bool:
    return isinstance(message, dict) and message.get("role") == "system"


def _system_refusal(messages: Sequence[Json]) -> str | None:
    """Newer models take system messages between those of the user and their answers."""
    for at, message in enumerate(messages):
        if not _is_system(message):
            continue
        before = messages[at - 1] if at else None
        after = messages[at + 1] if at + 1 < len(messages) else None
        if not isinstance(before, dict) or before.get("role") not in ("user", "system"):
            return f"messages.{at}: a system message must follow one of the user"
        if isinstance(after, dict) and after.get("role") == "user":
            return f"messages.{at}: a system message must be followed by an answer"
    return None


def _tools_refusal(body: Json) -> str | None:
    tools = body.get("tools") or []
    if body.get("tool_choice") and not tools:
        return "tool_choice may only be specified while providing tools"
    names = [tool.get("name") for tool in tools]
    if len(set(names)) < len(names):
        return "tools: Tool names must be unique."
    own = [tool for tool in tools if tool.get("type", "custom") == "custom"]
    if any(tool.get("input_schema", {}).get("type") != "object" for tool in own):
        return "tools: input_schema.type: Field required"
    return None


def _form_refusal(messages: Sequence[Json]) -> str | None:
    for at, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            return f"messages.{at}: Unexpected role"
        if message["role"] != _ROLES[at % 2]:
            return f"messages.{at}: roles must alternate between 'user' and 'assistant', 'user' first"
        problem = _content_refusal(message, last=at == len(messages) - 1)
        if problem:
            return f"messages.{at}: {problem}"
    return None


def _content_refusal(message: Json, *, last: bool) -> str | None:
    content = message.get("content")
    if not isinstance(content, str | list):
        return "content: Input should be a valid list"
    if not content and not (last and message["role"] == "assistant"):
        return "all messages must have non-empty content except for the optional final assistant message"
    allowed = _OF_ASSISTANTS if message["role"] == "assistant" else _OF_USERS
    for block in _blocks(message):
        if block.get("type") not in allowed:
            return f"content: unexpected block '{block.get('type')}'"
        if block["type"] == "text" and not block["text"].strip():
            return "text content blocks must contain non-whitespace text"
        if block["type"] == "tool_use" and not isinstance(block["input"], dict):
            return "tool_use.input: Input should be a valid dictionary"
    return None


def _pair_refusal(messages: Sequence[Json]) -> str | None:
    asked: list[str] = []
    for at, message in enumerate(messages):
        blocks = _blocks(message)
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(answered) != sorted(asked):
            return (
                f"messages.{at}: each `tool_use` must have a single `tool_result` in the next message, and each"
                f" `tool_result` its `tool_use` in the previous one: {asked} and {answered}"
            )
        if any(block["type"] != "tool_result" for block in blocks[: len(answered)]):
            return f"messages.{at}: `tool_result` blocks must come first"
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(asked)) < len(asked):
            return f"messages.{at}: `tool_use` ids must be unique"
    return f"`tool_use` ids were found without `tool_result` blocks: {asked}" if asked else None


def _thinking_refusal(body: Json) -> str | None:
    answers = [message for message in body["messages"] if message["role"] == "assistant"]
    for message in answers:
        blocks = _blocks(message)
        for block in blocks:
            if block["type"] == "thinking" and block.get("signature") != _signature(block["thinking"]):
                return "Invalid `signature` in `thinking` block"
        if blocks and blocks[-1]["type"] in _THINKING:
            return "The final block in an assistant message cannot be `thinking`."
    if _must_think(body) and answers:
        blocks = _blocks(answers[-1])
        if any(block["type"] == "tool_use" for block in blocks) and blocks[0]["type"] not in _THINKING:
            return f"Expected `thinking` or `redacted_thinking`, but found `{blocks[0]['type']}`."
    return None


def _marker_refusal(body: Json) -> str | None:
    count = json.dumps([body.get("system"), body.get("tools"), body["messages"]]).count('"cache_control": {')
    return (
        f"A maximum of {_MARKERS} blocks with cache_control may be provided. Found {count}."
        if count > _MARKERS
        else None
    )
