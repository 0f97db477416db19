"""OpenAI Chat Completions, as a strict provider speaks it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from agentrewind.core.codec import Json
from agentrewind.testing.scripted.api import CREATED, Said, openai_error, pieces, text_of, tokens
from agentrewind.testing.scripted.steps import Call, Turn

_ROLES = ("system", "developer", "user", "assistant", "tool")


class Chat:
    """See `Api`."""

    name = "openai_chat"
    path = "/v1/chat/completions"
    needs: tuple[str, ...] = ()

    def key(self, headers: Mapping[str, str]) -> str:
        return headers.get("authorization", "").removeprefix("Bearer ")

    def refusal(self, body: Json) -> str | None:
        return refusal(body)

    def whole(self, body: Json) -> Json:
        return body

    def keep(self, body: Json, response: Json) -> None:
        """Nothing is kept."""

    def messages(self, body: Json) -> list[Json]:
        return list(body["messages"])

    def said(self, body: Json) -> list[Said]:
        return [_said(message) for message in body["messages"]]

    def tools(self, body: Json) -> list[str]:
        return [tool["function"]["name"] for tool in body.get("tools") or ()]

    def response(self, body: Json, turn: Turn, number: int, first_call: int) -> Json:
        return response_to(body, turn, f"chatcmpl-{number:06d}", first_call)

    def events(self, body: Json, response: Json) -> list[str]:
        parts = chunks(response, usage=bool((body.get("stream_options") or {}).get("include_usage")))
        return [*(f"data: {json.dumps(part)}\n\n" for part in parts), "data: [DONE]\n\n"]

    def broken(self, message: str) -> str:
        error = {"error": {"message": message, "type": "server_error", "code": 500}}
        return f"data: {json.dumps(error)}\n\n"

    def error(self, status: int, message: str, code: str | None) -> Json:
        return openai_error(status, message, code)


def _said(message: Json) -> Said:
    role = {"developer": "system"}.get(message["role"], message["role"])
    asked = [item.get("function") or {} for item in message.get("tool_calls") or ()]
    calls = tuple(Call(item.get("name", ""), item.get("arguments", "")) for item in asked)
    return Said(role, text_of(message.get("content")), calls)


# --- answers ----------------------------------------------------------------------------------------------------------


def response_to(body: Json, turn: Turn, answer_id: str, first_call: int) -> Json:
    """The whole response object; tool calls are numbered from `first_call`."""
    message: dict[str, Json] = {"role": "assistant", "content": turn.text or (None if turn.calls else "")}
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    message |= {"refusal": None, "annotations": []}
    if turn.calls:
        message["tool_calls"] = [_tool_call(item, first_call + at) for at, item in enumerate(turn.calls)]
    finish = turn.finish or ("tool_calls" if turn.calls else "stop")
    return {
        "id": answer_id,
        "object": "chat.completion",
        "created": CREATED,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": _usage(body, message),
    }


def _tool_call(item: Call, number: int) -> Json:
    arguments = item.arguments if isinstance(item.arguments, str) else json.dumps(item.arguments)
    return {"id": f"call_{number:06d}", "type": "function", "function": {"name": item.name, "arguments": arguments}}


def _usage(body: Json, message: Json) -> Json:
    asked = tokens([body["messages"], body.get("tools") or []])
    answered = tokens(message)
    reasoning = tokens(message["reasoning_content"]) if "reasoning_content" in message else 0
    return {
        "prompt_tokens": asked,
        "completion_tokens": answered,
        "total_tokens": asked + answered,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def _wants_usage(body: Json) -> bool:
    return bool((body.get("stream_options") or {}).get("include_usage"))


def chunks(response: Json, *, usage: bool) -> Iterator[Json]:
    """The response as the chunks of a stream, texts and arguments in pieces; `usage` adds the chunk that carries it."""
    frame = {key: response[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = response["choices"][0]
    for delta in _deltas(choice["message"]):
        yield {**frame, "choices": [_chunk_choice(delta, None)], **({"usage": None} if usage else {})}
    ended = _chunk_choice({}, choice["finish_reason"])
    yield {**frame, "choices": [ended], **({"usage": None} if usage else {})}
    if usage:
        yield {**frame, "choices": [], "usage": response["usage"]}


def _chunk_choice(delta: Json, finish: str | None) -> Json:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _deltas(message: Json) -> Iterator[Json]:
    yield {"role": "assistant", "content": None if message["content"] is None else "", "refusal": None}
    for name in ("reasoning_content", "content"):
        for piece in pieces(message.get(name) or ""):
            yield {name: piece}
    for index, item in enumerate(message.get("tool_calls", ())):
        function = item["function"]
        head = {"index": index, "id": item["id"], "type": "function"}
        yield {"tool_calls": [head | {"function": {"name": function["name"], "arguments": ""}}]}
        for piece in pieces(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


# --- what a strict provider refuses -----------------------------------------------------------------------------------


def refusal(body: Json) -> str | None:
    """Why a strict provider answers this request with status 400; None where it doesn't.

    Written apart from `agentrewind.dialects`, so that neither hides a mistake of the other.
    """
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        return "you must provide a model parameter"
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return "[] is too short - 'messages'"
    if body.get("stream_options") and not body.get("stream"):
        return "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    return _tools_refusal(body) or _messages_refusal(messages)


def _tools_refusal(body: Json) -> str | None:
    tools = body.get("tools")
    if tools is None:
        return "'tool_choice' is only allowed when 'tools' are specified." if body.get("tool_choice") else None
    if not isinstance(tools, list) or not tools:
        return "[] is too short - 'tools'"
    names = [tool.get("function", {}).get("name") for tool in tools]
    doubled = next((name for name in names if names.count(name) > 1), None)
    return f"Tool names must be unique: {doubled}" if doubled else None


def _messages_refusal(messages: Sequence[Json]) -> str | None:
    waiting: list[str] = []
    for at, message in enumerate(messages):
        where = f"messages[{at}]"
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            return f"Invalid role in {where}"
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                return f"{where}: a 'tool' message must follow a message with 'tool_calls' that has its 'tool_call_id'"
            waiting.remove(message["tool_call_id"])
        elif waiting:
            return _unanswered(waiting)
        problem = _form_refusal(message)
        if problem:
            return f"{where}: {problem}"
        waiting += [item["id"] for item in message.get("tool_calls", ())]
    return _unanswered(waiting) if waiting else None


def _unanswered(waiting: Sequence[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
        f" The following tool_call_ids did not have response messages: {', '.join(waiting)}"
    )


def _form_refusal(message: Json) -> str | None:
    asked = message.get("tool_calls")
    if "tool_calls" in message and (message["role"] != "assistant" or not isinstance(asked, list) or not asked):
        return "'tool_calls' must be a non-empty list, on an assistant message"
    ids = [item.get("id") for item in asked or ()]
    if len(set(ids)) < len(ids) or not all(isinstance(item, str) for item in ids):
        return "each tool call needs an 'id' of its own"
    content = message.get("content")
    if content is None:
        return None if asked else "'content' is missing"
    return None if isinstance(content, str | list) else "'content' must be a string or an array"
