"""Anthropic Messages, as Anthropic and the servers that imitate it speak it.

An answer is one message of several blocks; all results of its tool calls are blocks of the one user message after it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from types import NoneType

from agentrewind.core.codec import Json
from agentrewind.core.edits import Message
from agentrewind.core.errors import ProviderError
from agentrewind.core.records import Usage
from agentrewind.core.tools import ToolSpec
from agentrewind.dialects import answers, message_events, requests, sse
from agentrewind.dialects.base import MemoryRole, Reply, ToolCall, ToolResult, listed

VOLATILE = frozenset({"cache_control", "caller", "citations", "parsed_output"})
"""Fields of a block that don't say which it is. Those of a message are its role and content; nothing else counts."""

THINKING = frozenset({"thinking", "redacted_thinking"})

VOLATILE_BLOCKS = THINKING
"""Blocks that harnesses drop from older turns."""

VOLATILE_METADATA = frozenset({"user_id"})
"""Fields of `metadata` that name a session or a person: they differ from run to run."""

ROLES = frozenset({"system", "user", "assistant"})
ASKING = ("max_tokens", "temperature")
"""Parameters that a request of ours to the same model takes over."""
CACHE_MARKERS = 4
"""How many `cache_control` markers the provider allows in a request."""


class AnthropicMessages:
    """The Messages dialect. Has no state; every method leaves its arguments as they are."""

    name = "anthropic_messages"

    def matches(self, method: str, path: str) -> bool:
        return method.upper() == "POST" and path.partition("?")[0].rstrip("/").endswith("/v1/messages")

    def problems_with(self, body: Json) -> str | None:
        problem = requests.list_problem(body)
        if problem is not None:
            return problem
        return requests.tools_problem(body) or requests.form_problem("messages", body["messages"], _is_regular)

    def model(self, body: Json) -> str:
        return str(body.get("model") or "")

    def messages(self, body: Json) -> list[Message]:
        return list(body["messages"])

    def with_messages(self, body: Json, messages: Sequence[Message]) -> Json:
        """See `Dialect`. Neighbours of one role become one message; of too many cache markers the last ones stay."""
        if list(messages) == self.messages(body):
            return body
        elsewhere = _markers([body.get("system"), body.get("tools"), {"cache_control": body.get("cache_control")}])
        return {**body, "messages": _with_markers(merged(messages), CACHE_MARKERS - elsewhere)}

    def joined(self, messages: Sequence[Message]) -> list[Message]:
        return merged(messages)

    def continues(self, body: Json) -> None:
        """See `Dialect`: every request is whole."""

    def reply_id(self, reply: Reply) -> None:
        """See `Dialect`: every request is whole."""

    def as_whole(self, body: Json, messages: Sequence[Message]) -> Json:
        return self.with_messages(body, messages)

    def tools(self, body: Json) -> list[Json]:
        return list(body.get("tools") or [])

    def with_tools(self, body: Json, specs: Sequence[ToolSpec]) -> Json:
        names = [tool.get("name") for tool in self.tools(body) if isinstance(tool, dict)]
        return requests.with_declared(body, specs, names, _declaration)

    def params(self, body: Json) -> Json:
        found = {key: value for key, value in body.items() if key not in ("model", "messages", "tools", "metadata")}
        metadata = body.get("metadata")
        if isinstance(metadata, dict):
            metadata = {key: value for key, value in metadata.items() if key not in VOLATILE_METADATA}
        return {**found, "metadata": metadata} if metadata else found

    def streams(self, body: Json) -> bool:
        return bool(body.get("stream"))

    def canonical(self, message: Message) -> Json:
        return {"role": message.get("role"), "content": _canonical_content(message.get("content"))}

    def answers(self, message: Message) -> None:
        """See `Dialect`: all results of a turn are blocks of one message, whose canonical form has them in order."""

    def parse(self, body: bytes, *, stream: bool) -> Reply:
        return answers.read(body, stream=stream, assembled=message_events.assembled, reply=_reply)

    def render(self, response: Json, *, stream: bool) -> bytes:
        if stream:
            return sse.write_named(message_events.events(response))
        return json.dumps(response).encode("ascii")

    def without_calls(self, response: Json, names: frozenset[str]) -> Json:
        """See `Dialect`. Thinking with nothing left behind it goes too: the provider refuses it at the end."""
        blocks = [block for block in response["content"] if not (_is_call(block) and block.get("name") in names)]
        if len(blocks) == len(response["content"]):
            return response
        while blocks and blocks[-1].get("type") in THINKING:
            blocks.pop()
        left = {**response, "content": blocks}
        if not any(map(_is_call, blocks)) and response.get("stop_reason") == "tool_use":
            left["stop_reason"] = "end_turn"
        return left

    def refusal(self, text: str, code: str) -> Json:
        """See `Dialect`; this provider has no codes."""
        del code
        return {"type": "error", "error": {"type": "invalid_request_error", "message": text}}

    def memory(self, text: str, role: MemoryRole) -> Message:
        """A user message whatever the role: the system prompt stands outside of the list."""
        del role
        return self.user(text)

    def user(self, text: str) -> Message:
        return {"role": "user", "content": [{"type": "text", "text": text}]}

    def asking(self, body: Json, text: str) -> Json:
        kept = requests.kept(body, ASKING)
        return {"model": self.model(body), "messages": [self.user(text)], **kept}

    def tool_results(self, message: Message) -> list[ToolResult]:
        return [
            ToolResult(requests.said(block.get("content")), block.get("is_error"))
            for block in _blocks(message)
            if block.get("type") == "tool_result"
        ]

    def with_hint(self, message: Message, text: str) -> Message | None:
        blocks = list(_blocks(message))
        at = next((place for place in reversed(range(len(blocks))) if blocks[place].get("type") == "tool_result"), None)
        if at is None:
            return None
        content = requests.longer(blocks[at].get("content"), text, {"type": "text", "text": text})
        if content is None:
            return None
        blocks[at] = {**blocks[at], "content": content}
        return {**message, "content": blocks}

    def results(self, answer: Message | Sequence[Message], texts: dict[str, str]) -> list[Message]:
        blocks = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": texts[call["id"]]}
            for message in listed(answer)
            for call in filter(_is_call, _blocks(message))
        ]
        return [{"role": "user", "content": blocks}] if blocks else []

    def problems(self, messages: Sequence[Message]) -> list[str]:
        """What Anthropic answers with status 400 once neighbours of one role are merged, in words."""
        whole = merged(messages)
        if not whole:
            return ["the list is empty"]
        return [*_form_problems(whole), *_thinking_problems(whole), *_pair_problems(whole)]


# --- requests ---------------------------------------------------------------------------------------------------------


def _is_regular(message: Message) -> bool:
    """Whether role and content have the types that merging and pairing need."""
    content = message.get("content")
    return isinstance(message.get("role"), str) and (
        isinstance(content, str) or (isinstance(content, list) and all(map(_is_block, content)))
    )


def _is_block(block: Json) -> bool:
    return isinstance(block, dict) and isinstance(block.get("type"), str)


def _declaration(spec: ToolSpec) -> Json:
    return {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}


def _blocks(message: Message) -> list[Json]:
    """The content as blocks; none for an empty text, which no block may hold."""
    content = message.get("content") or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _is_call(block: Json) -> bool:
    """Whether the harness carries this block out (`server_tool_use` and its like are carried out by the provider)."""
    return bool(block.get("type") == "tool_use")


def merged(messages: Sequence[Message]) -> list[Message]:
    """The messages with neighbours of one role made one, their blocks in order and as they were.

    A user message after a system message joins the user message before that one: a system message may only be followed
    by an answer.
    """
    out: list[Message] = []
    for message in messages:
        at = _joins(out, message)
        if at is None:
            out.append(message)
        else:
            out[at] = {**out[at], "content": [*_blocks(out[at]), *_blocks(message)]}
    return out


def _joins(out: Sequence[Message], message: Message) -> int | None:
    """The place of the message that `message` joins."""
    role = message.get("role")
    at = len(out) - 1
    while role == "user" and at > 0 and out[at].get("role") == "system":
        at -= 1
    return at if at >= 0 and role in ("user", "assistant") and out[at].get("role") == role else None


def _markers(value: Json) -> int:
    """How many cache markers stand in it, at whatever depth."""
    if isinstance(value, list):
        return sum(map(_markers, value))
    if isinstance(value, dict):
        inner = (item for key, item in value.items() if key in ("content", "source"))
        return bool(value.get("cache_control")) + sum(map(_markers, inner))
    return 0


def _with_markers(messages: list[Message], allowed: int) -> list[Message]:
    """The messages with the last `allowed` of their cache markers; the first ones go.

    A history that was put together from an older request and a newer one holds the markers of both.
    """
    surplus = sum(map(_markers, messages)) - max(allowed, 0)
    out: list[Message] = []
    for message in messages:
        count = min(_markers(message), max(surplus, 0))
        out.append(_without_markers(message, count) if count else message)
        surplus -= count
    return out


def _without_markers(value: Json, count: int) -> Json:
    """A copy of the message or block without the first `count` of its cache markers, those inside it first."""
    found = dict(value)
    if isinstance(found.get("content"), list):
        found["content"] = list(found["content"])
        for at, item in enumerate(found["content"]):
            gone = min(_markers(item), count)
            if gone:
                found["content"][at] = _without_markers(item, gone)
                count -= gone
    if count:
        found.pop("cache_control", None)
    return found


# --- canonical form ---------------------------------------------------------------------------------------------------


def _canonical_content(content: Json) -> Json:
    """A single text block is that text; nothing, an empty text and an empty list are one."""
    if not isinstance(content, list):
        return content or ""
    blocks = _in_order([_canonical_block(block) for block in content if not _is_volatile(block)])
    return requests.only_text(blocks) if blocks else ""


def _in_order(blocks: list[Json]) -> list[Json]:
    """Results that stand beside each other, by the ids of their calls: harnesses send them as they come."""
    out: list[Json] = []
    for is_result, group in itertools.groupby(blocks, _is_result):
        beside = list(group)
        out += sorted(beside, key=lambda block: str(block.get("tool_use_id"))) if is_result else beside
    return out


def _is_result(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _is_volatile(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") in VOLATILE_BLOCKS


def _canonical_block(block: Json) -> Json:
    if not isinstance(block, dict):
        return block
    found = {key: value for key, value in block.items() if value is not None and key not in VOLATILE}
    if found.get("type") == "tool_result":
        found["content"] = _canonical_content(found.get("content"))
        if not found.get("is_error"):
            found.pop("is_error", None)
    return found


# --- answers ----------------------------------------------------------------------------------------------------------


def _reply(response: Json) -> Reply:
    content = response.get("content")
    if not isinstance(content, list) or response.get("role") != "assistant":
        raise ProviderError(f"The provider's answer holds no message: {answers.shown(json.dumps(response))}")
    answers.check("stop reason", response.get("stop_reason"), str, NoneType)
    for block in content:
        _check_block(block)
    sent = [_as_sent(block) for block in content if not _is_blank(block)]
    messages: tuple[Message, ...] = ({"role": "assistant", "content": sent},) if sent else ()
    text = "".join(block["text"] for block in content if block["type"] == "text")
    calls = tuple(map(_call, filter(_is_call, content)))
    return Reply(messages, text, calls, response.get("stop_reason"), _usage(response.get("usage")), response)


def _check_block(block: Json) -> None:
    """What the rest of this module takes for granted about an answer.

    Raises:
        ProviderError: it isn't so.
    """
    answers.check("block", block, dict)
    answers.check("type of a block", block.get("type"), str)
    if block["type"] == "text":
        answers.check("text", block.get("text"), str)
    if _is_call(block):
        answers.check("id of a tool call", block.get("id"), str)
        answers.check("name of a tool call", block.get("name"), str)
        answers.check("input of a tool call", block.get("input"), dict, str)


def _is_blank(block: Json) -> bool:
    """A text of nothing, which the provider says but doesn't take."""
    return bool(block["type"] == "text" and not block["text"].strip())


def _as_sent(block: Json) -> Json:
    """The block as a request may carry it: no nulls, an object as input. Thinking stays as it is, to the letter."""
    if block["type"] in THINKING:
        return block
    kept = {key: value for key, value in block.items() if value is not None}
    if _is_call(block) and isinstance(block["input"], str):
        kept["input"] = {message_events.INVALID: block["input"]}
    return kept


def _call(block: Json) -> ToolCall:
    given = block["input"]
    if isinstance(given, str):
        return ToolCall(block["id"], block["name"], None, given)
    return ToolCall(block["id"], block["name"], given, json.dumps(given))


def _usage(usage: Json) -> Usage:
    """As other dialects count: what was read from the cache, or written to it, is part of the input."""
    cached = answers.count(usage, "cache_read_input_tokens")
    written = answers.count(usage, "cache_creation_input_tokens")
    asked = answers.count(usage, "input_tokens") + written + cached
    details = usage.get("output_tokens_details") if isinstance(usage, dict) else None
    thought = answers.count(details, "thinking_tokens")
    tiers = usage.get("cache_creation") if isinstance(usage, dict) else None
    longer = min(answers.count(tiers, "ephemeral_1h_input_tokens"), written)
    output = answers.count(usage, "output_tokens")
    return Usage(asked, output, cached, thought, cache_write=written, cache_write_1h=longer)


# --- what a strict provider refuses -----------------------------------------------------------------------------------


def _form_problems(messages: Sequence[Message]) -> Iterator[str]:
    if messages[0].get("role") != "user":
        yield "the first message is not one of the user"
    for index, message in enumerate(messages):
        role = message.get("role")
        if role not in ROLES:
            yield f"message {index}: unknown role {role!r}"
        elif not _blocks(message) and (role != "assistant" or index < len(messages) - 1):
            yield f"message {index} ({role}): no content"
        elif any(
            block.get("type") == "text" and not str(block.get("text") or "").strip() for block in _blocks(message)
        ):
            yield f"message {index} ({role}): a text of nothing"


def _thinking_problems(messages: Sequence[Message]) -> Iterator[str]:
    for index, message in enumerate(messages):
        thinking = [block for block in _blocks(message) if block.get("type") in THINKING]
        if thinking and message.get("role") != "assistant":
            yield f"message {index}: thinking that is not the assistant's"
        if any(not block.get("signature" if block["type"] == "thinking" else "data") for block in thinking):
            yield f"message {index}: thinking without its signature"
        if thinking and _blocks(message)[-1] is thinking[-1]:
            yield f"message {index}: nothing after the thinking"


def _pair_problems(messages: Sequence[Message]) -> Iterator[str]:
    """Each call of an assistant message is answered once, at the beginning of the message right after it."""
    waiting: list[str] = []
    for index, message in enumerate(messages):
        answered = [block.get("tool_use_id") for block in _blocks(message) if block.get("type") == "tool_result"]
        yield from _answer_problems(index, answered, waiting)
        if any(block.get("type") != "tool_result" for block in _blocks(message)[: len(answered)]):
            yield f"message {index}: something stands before a result"
        asked = [block.get("id") for block in _blocks(message) if _is_call(block)]
        if len(set(map(str, asked))) < len(asked) or not all(isinstance(item, str) and item for item in asked):
            yield f"message {index}: tool calls without an id of their own"
        waiting = [item for item in asked if isinstance(item, str)]
    yield from _answer_problems(len(messages), [], waiting)


def _answer_problems(index: int, answered: Sequence[Json], waiting: Sequence[str]) -> Iterator[str]:
    missing = [call for call in waiting if call not in answered]
    if missing:
        yield f"message {index}: no result for {', '.join(missing)}"
    for number, call in enumerate(answered):
        if call not in waiting:
            yield f"message {index}: a result for {call!r}, which the message before it didn't call"
        elif call in answered[:number]:
            yield f"message {index}: a second result for {call!r}"
