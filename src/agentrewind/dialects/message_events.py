"""The event stream of the Anthropic Messages dialect: a whole message from its events, and the other way round."""

from __future__ import annotations

import json
from collections.abc import Iterator

from agentrewind.core.codec import Json
from agentrewind.core.errors import ProviderError
from agentrewind.dialects import answers

INVALID = "INVALID_JSON"
"""The key under which input of a tool that isn't a JSON object goes back to the provider (its documentation of
fine-grained tool streaming)."""

_ENDING = ("stop_reason", "stop_sequence", "stop_details", "container")
"""Fields of a message that are known at its end."""


# --- assembling -------------------------------------------------------------------------------------------------------


def assembled(body: bytes) -> Json:
    """The whole message that the events of a stream add up to.

    Input of a tool that isn't a JSON object stands in it as text.

    Raises:
        ProviderError: it is none, holds an error, or ended before the message did (no stop reason, no last event).
    """
    message: dict[str, Json] = {}
    blocks: dict[int, _Block] = {}
    stopped = False
    for payload in answers.payloads(body):
        kind = payload.get("type") if payload is not None else None
        match kind:
            case "message_start":
                answers.check("message", payload["message"], dict)
                message.update(payload["message"])
            case "content_block_start":
                blocks[payload["index"]] = _Block(payload["content_block"])
            case "content_block_delta":
                blocks[payload["index"]].add(payload["delta"])
            case "message_delta":
                _end(message, payload)
            case "message_stop":
                stopped = True
    if not message or not (stopped or message.get("stop_reason")):
        raise ProviderError(f"The provider's stream ended before the answer did: {answers.shown_end(body)}")
    return {**message, "content": [blocks[index].assembled() for index in sorted(blocks)]}


def _end(message: dict[str, Json], payload: Json) -> None:
    """Take in how the message ended and what it used: totals, not additions."""
    answers.update(message, payload.get("delta") or {})
    if payload.get("usage"):
        usage = dict(message.get("usage") or {})
        answers.update(usage, payload["usage"])
        message["usage"] = usage


class _Block:
    """One block as it grows."""

    def __init__(self, begun: Json) -> None:
        answers.check("block", begun, dict)
        self._block: dict[str, Json] = dict(begun)
        self._input: str | None = None

    def add(self, delta: Json) -> None:
        match delta["type"]:
            case "input_json_delta":
                self._input = (self._input or "") + delta["partial_json"]
            case "signature_delta":
                self._block["signature"] = delta["signature"]
            case "citations_delta":
                self._block["citations"] = [*(self._block.get("citations") or ()), delta["citation"]]
            case _:
                self._grow({key: value for key, value in delta.items() if key != "type"})

    def _grow(self, pieces: dict[str, Json]) -> None:
        """`text_delta`, `thinking_delta` and their like add to the field that they name."""
        for key, value in pieces.items():
            if isinstance(value, str):
                self._block[key] = (self._block.get(key) or "") + value

    def assembled(self) -> Json:
        if self._input:
            self._block["input"] = _input(self._input)
        return answers.joined(self._block)


def _input(text: str) -> Json:
    parsed = answers.arguments(text)
    return parsed if isinstance(parsed, dict) else text


# --- rendering --------------------------------------------------------------------------------------------------------


def events(response: Json) -> Iterator[Json]:
    """A stream that assembles to `response`, with every event that a client may wait for."""
    usage = response.get("usage")
    ended = {key: response[key] for key in _ENDING if key in response}
    yield {"type": "message_start", "message": {**response, **dict.fromkeys(ended), "content": []}}
    for index, block in enumerate(response["content"]):
        yield {"type": "content_block_start", "index": index, "content_block": _opened(block)}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": ended, **({"usage": usage} if usage else {})}
    yield {"type": "message_stop"}


def _opened(block: Json) -> Json:
    """The block before anything in it was said; blocks that come as a whole stay as they are."""
    empty: dict[str, Json] = {"text": "", "thinking": "", "signature": "", "input": {}, "citations": []}
    fields = {
        "text": ("text", "citations"),
        "thinking": ("thinking", "signature"),
        "tool_use": ("input",),
        "server_tool_use": ("input",),
        "mcp_tool_use": ("input",),
    }.get(block.get("type"), ())
    return {**block, **{key: empty[key] for key in fields if block.get(key)}}


def _deltas(block: Json) -> Iterator[Json]:
    opened = _opened(block)
    for key in ("thinking", "signature", "text"):
        if opened.get(key) != block.get(key):
            yield {"type": f"{key}_delta", key: block[key]}
    if opened.get("citations") != block.get("citations"):
        for citation in block["citations"]:
            yield {"type": "citations_delta", "citation": citation}
    if opened.get("input") != block.get("input"):
        given = block["input"]
        yield {"type": "input_json_delta", "partial_json": given if isinstance(given, str) else json.dumps(given)}
