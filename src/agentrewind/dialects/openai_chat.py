"""OpenAI Chat Completions, as OpenAI and the servers that imitate it (vLLM, DeepSeek, LiteLLM, OpenRouter) speak it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from types import NoneType

from agentrewind.core.codec import Json
from agentrewind.core.edits import Message
from agentrewind.core.errors import ProviderError
from agentrewind.core.records import Usage
from agentrewind.core.tools import ToolSpec
from agentrewind.dialects import answers, requests, sse
from agentrewind.dialects.base import MemoryRole, Reply, ToolCall, ToolResult, listed

VOLATILE = frozenset(
    {
        "annotations",
        "cache_control",
        "created",
        "created_at",
        "id",
        "index",
        "provider_specific_fields",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "timestamp",
    }
)
"""Fields of a message (not of its tool calls, whose ids pair) that don't say which message it is.

Reasoning is among them since harnesses drop that of older turns.
"""

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
TOOL_ROLES = frozenset({"tool", "function"})
ASKING = ("temperature", "max_tokens", "max_completion_tokens", "reasoning_effort", "chat_template_kwargs", "user")
"""Parameters that a request of ours to the same model takes over."""

_TEXT = frozenset({"content", "refusal", "reasoning", "reasoning_content", "arguments", "input"})
"""Fields of a delta that grow by appending."""
_GROWING = _TEXT | {"text", "summary", "data", "transcript"}
"""The same inside structured parts (`reasoning_details`, `audio`)."""
_OF_ANSWERS_ONLY = frozenset({"annotations"})
"""Fields of an answered message that a request may not carry."""
_TEXT_OR_NONE = (str, NoneType)
_CALLS_ENDED = frozenset({"tool_calls", "function_call"})


class OpenAIChat:
    """The Chat Completions dialect. Has no state; every method leaves its arguments as they are."""

    name = "openai_chat"

    def matches(self, method: str, path: str) -> bool:
        return method.upper() == "POST" and path.partition("?")[0].rstrip("/").endswith("/chat/completions")

    def problems_with(self, body: Json) -> str | None:
        problem = requests.list_problem(body)
        if problem is not None:
            return problem
        if body.get("n") not in (None, 1):
            return "it asks for several answers at once (`n`), and only one can be gone on from"
        return requests.tools_problem(body) or requests.form_problem("messages", body["messages"], _is_regular)

    def model(self, body: Json) -> str:
        return str(body.get("model") or "")

    def messages(self, body: Json) -> list[Message]:
        return list(body["messages"])

    def with_messages(self, body: Json, messages: Sequence[Message]) -> Json:
        return {**body, "messages": list(messages)}

    def joined(self, messages: Sequence[Message]) -> list[Message]:
        return list(messages)

    def continues(self, body: Json) -> None:
        """See `Dialect`: every request is whole."""

    def reply_id(self, reply: Reply) -> None:
        """See `Dialect`: every request is whole."""

    def as_whole(self, body: Json, messages: Sequence[Message]) -> Json:
        return self.with_messages(body, messages)

    def tools(self, body: Json) -> list[Json]:
        return list(body.get("tools") or [])

    def with_tools(self, body: Json, specs: Sequence[ToolSpec]) -> Json:
        """See `Dialect`. A body in the legacy form (`functions`) can't declare tools too and is left as it is."""
        if body.get("functions"):
            return body
        return requests.with_declared(body, specs, {_tool_name(tool) for tool in self.tools(body)}, _declaration)

    def params(self, body: Json) -> Json:
        return {key: value for key, value in body.items() if key not in ("model", "messages", "tools")}

    def streams(self, body: Json) -> bool:
        return bool(body.get("stream"))

    def canonical(self, message: Message) -> Json:
        found = {key: value for key, value in message.items() if value is not None and key not in VOLATILE}
        content = _canonical_content(found.pop("content", None))
        calls = [_canonical_call(call) for call in found.pop("tool_calls", ())]
        if content:
            found["content"] = content
        if calls:
            found["tool_calls"] = calls
        return found

    def answers(self, message: Message) -> str | None:
        return message.get("tool_call_id") if message.get("role") == "tool" else None

    def parse(self, body: bytes, *, stream: bool) -> Reply:
        return answers.read(body, stream=stream, assembled=_assembled, reply=_reply)

    def render(self, response: Json, *, stream: bool) -> bytes:
        if stream:
            return sse.write(_chunks(response), done="[DONE]")
        return json.dumps(response).encode("ascii")

    def without_calls(self, response: Json, names: frozenset[str]) -> Json:
        return {**response, "choices": [_without(choice, names) for choice in response["choices"]]}

    def refusal(self, text: str, code: str) -> Json:
        return answers.openai_refusal(text, code)

    def memory(self, text: str, role: MemoryRole) -> Message:
        return {"role": role, "content": text}

    def user(self, text: str) -> Message:
        return {"role": "user", "content": text}

    def asking(self, body: Json, text: str) -> Json:
        return {"model": self.model(body), "messages": [self.user(text)], **requests.kept(body, ASKING)}

    def tool_results(self, message: Message) -> list[ToolResult]:
        """See `Dialect`. The format has no mark for a failure."""
        return [ToolResult(requests.said(message.get("content")))] if message.get("role") in TOOL_ROLES else []

    def with_hint(self, message: Message, text: str) -> Message | None:
        if message.get("role") not in TOOL_ROLES:
            return None
        content = requests.longer(message.get("content"), text, {"type": "text", "text": text})
        return None if content is None else {**message, "content": content}

    def results(self, answer: Message | Sequence[Message], texts: dict[str, str]) -> list[Message]:
        return [
            {"role": "tool", "tool_call_id": call["id"], "content": texts[call["id"]]}
            for message in listed(answer)
            for call in message.get("tool_calls") or ()
        ]

    def problems(self, messages: Sequence[Message]) -> list[str]:
        """What OpenAI itself answers with status 400, in words."""
        return ["the list is empty"] if not messages else [*_form_problems(messages), *_pair_problems(messages)]


def _is_regular(message: Message) -> bool:
    """Whether the fields that pair messages have the types that they must have."""
    if not isinstance(message.get("role"), str) or not isinstance(message.get("tool_call_id"), _TEXT_OR_NONE):
        return False
    calls = message.get("tool_calls")
    if not calls:
        return True
    return isinstance(calls, (list, tuple)) and all(
        isinstance(_inner(call), dict) and isinstance(call.get("id"), _TEXT_OR_NONE) for call in calls
    )


# --- tools ------------------------------------------------------------------------------------------------------------


def _declaration(spec: ToolSpec) -> Json:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


def _tool_name(tool: Json) -> str | None:
    """The name in a declaration or in a call; both carry it under the key that their type names."""
    inner = _inner(tool)
    name = inner.get("name") if isinstance(inner, dict) else None
    return name if isinstance(name, str) else None


def _inner(tool: Json) -> Json:
    """What stands under that key: the function, or what another type of tool has in its place."""
    kind = (tool.get("type") or "function") if isinstance(tool, dict) else None
    return tool.get(kind) if isinstance(kind, str) else None


def _call(call: Json) -> ToolCall:
    inner = _inner(call) or {}
    raw = inner.get("input") if call.get("type") == "custom" else inner.get("arguments")
    text = raw if isinstance(raw, str) else json.dumps(raw if raw is not None else {})
    arguments = text if call.get("type") == "custom" else answers.arguments(text)
    return ToolCall(str(call.get("id") or ""), str(inner.get("name") or ""), arguments, text)


def _without(choice: Json, names: frozenset[str]) -> Json:
    message = dict(choice["message"])
    calls = [call for call in message.pop("tool_calls", None) or () if _tool_name(call) not in names]
    if calls:
        message["tool_calls"] = calls
    if (message.get("function_call") or {}).get("name") in names:
        del message["function_call"]
    left = {**choice, "message": message}
    if not calls and not message.get("function_call"):
        message["content"] = message.get("content") or ""
        if choice.get("finish_reason") in _CALLS_ENDED:
            left["finish_reason"] = "stop"
    return left


# --- canonical form ---------------------------------------------------------------------------------------------------


def _canonical_content(content: Json) -> Json:
    """A single text part is that text; nothing, an empty text and an empty list are one."""
    if not isinstance(content, list):
        return content
    return requests.only_text([_canonical_part(part) for part in content])


def _canonical_part(part: Json) -> Json:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        return part
    return {key: value for key, value in part.items() if value is not None and key != "cache_control"}


def _canonical_call(call: Json) -> Json:
    """The id stays: it pairs. The arguments are compared as values, since harnesses write them anew."""
    parsed = _call(call)
    kind = call.get("type") or "function"
    arguments = parsed.raw_arguments if parsed.arguments is None else parsed.arguments
    return {"id": parsed.id, "type": kind, "name": parsed.name, "arguments": arguments}


# --- answers ----------------------------------------------------------------------------------------------------------


def _reply(response: Json) -> Reply:
    choices = response.get("choices")
    if not isinstance(choices, list) or not choices:
        raise ProviderError(f"The provider's answer holds no message: {answers.shown(json.dumps(response))}")
    for choice in choices:
        _check_choice(choice)
    message = _as_sent(choices[0]["message"])
    calls = tuple(_call(call) for call in message.get("tool_calls", ()))
    text = _text(message.get("content")) or str(message.get("refusal") or "")
    return Reply((message,), text, calls, choices[0].get("finish_reason"), usage_of(response.get("usage")), response)


def _check_choice(choice: Json) -> None:
    """What the rest of this module takes for granted about an answer.

    Raises:
        ProviderError: it isn't so.
    """
    answers.check("choice", choice, dict)
    answers.check("finish reason", choice.get("finish_reason"), str, NoneType)
    message = choice.get("message")
    answers.check("message", message, dict)
    answers.check("content", message.get("content"), str, list, NoneType)
    answers.check("function call", message.get("function_call"), dict, NoneType)
    answers.check("tool calls", message.get("tool_calls"), list, NoneType)
    for call in message.get("tool_calls") or ():
        answers.check("tool call", call, dict)
        answers.check("type of a tool call", call.get("type"), str, NoneType)
        answers.check("id of a tool call", call.get("id"), str, NoneType)
        answers.check("function of a tool call", _inner(call), dict)
        answers.check("name of a tool call", _tool_name(call), str)


def _as_sent(answered: Message) -> Message:
    """The answered message as a request may carry it: no nulls, no empty list of calls, ids and content where due."""
    kept = {key: value for key, value in answered.items() if value is not None and key not in _OF_ANSWERS_ONLY}
    asked = kept.pop("tool_calls", None)
    if asked:
        kept["tool_calls"] = [{**call, "id": call.get("id") or f"call_{at}"} for at, call in enumerate(asked)]
    calls = "tool_calls" in kept or "function_call" in kept
    head: Message = {"role": kept.pop("role", "assistant"), "content": kept.pop("content", None if calls else "")}
    return {**head, **kept}


def _text(content: Json) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))


def usage_of(usage: Json) -> Usage:
    """The tokens that the `usage` of a response counts; none where it holds no counts."""
    if not isinstance(usage, dict):
        return Usage()
    details = usage.get("prompt_tokens_details")
    cached = answers.count(details, "cached_tokens") or answers.count(usage, "prompt_cache_hit_tokens")
    written = answers.count(details, "cache_write_tokens") or answers.count(usage, "cache_creation_input_tokens")
    reasoning = answers.count(usage.get("completion_tokens_details"), "reasoning_tokens")
    asked, answered = answers.count(usage, "prompt_tokens"), answers.count(usage, "completion_tokens")
    return Usage(asked, answered, cached, reasoning, cache_write=written)


# --- streams ----------------------------------------------------------------------------------------------------------


def _assembled(body: bytes) -> Json:
    """The whole response that the chunks of a stream add up to.

    Raises:
        ProviderError: it is none, holds an error, or ended before the answer did (no finish reason, no `[DONE]`).
    """
    response: dict[str, Json] = {}
    choices: dict[int, _Choice] = {}
    done = False
    for chunk in answers.payloads(body):
        if chunk is None:
            done = True
            continue
        for delta in chunk.get("choices") or ():
            choices.setdefault(delta.get("index") or 0, _Choice()).add(delta)
        answers.update(response, {key: value for key, value in chunk.items() if key != "choices"})
    if not done and not any(choice.finished for choice in choices.values()):
        raise ProviderError(f"The provider's stream ended before the answer did: {answers.shown_end(body)}")
    if response.get("object") == "chat.completion.chunk":
        response["object"] = "chat.completion"
    return {**response, "choices": [choices[index].assembled() for index in sorted(choices)]}


class _Choice:
    """One answer as it grows."""

    def __init__(self) -> None:
        self._fields: dict[str, Json] = {}
        self._message: dict[str, Json] = {"role": "assistant", "content": None}
        self._calls: list[dict[str, Json]] = []
        self._at: dict[Json, dict[str, Json]] = {}

    @property
    def finished(self) -> bool:
        return self._fields.get("finish_reason") is not None

    def add(self, choice: Json) -> None:
        fields = dict(choice)
        delta = fields.pop("delta", None) or {}
        logprobs = fields.pop("logprobs", None)
        answers.update(self._fields, fields)
        if logprobs is not None or "logprobs" in choice:
            self._fields["logprobs"] = _longer(self._fields.get("logprobs"), logprobs)
        for key, value in delta.items():
            if key == "tool_calls":
                for call in value or ():
                    self._add_call(call)
            else:
                self._message[key] = _grown(self._message.get(key), value, growing=key in _TEXT)

    def _add_call(self, delta: Json) -> None:
        call = self._call_of(delta)
        for key, value in delta.items():
            if key == "index" or value is None:
                continue
            call[key] = _with_function(call.get(key), value) if isinstance(value, dict) else value or call.get(key)

    def _call_of(self, delta: Json) -> dict[str, Json]:
        """The call that a delta belongs to: by index, except where a server numbers all of them alike or not at all."""
        index = delta.get("index")
        call = self._at.get(index)
        named = bool(_tool_name(delta))
        if call is None or (named and delta.get("id") and call.get("id") not in (None, "", delta["id"])):
            call = {}
            self._calls.append(call)
            self._at[index] = call
        return call

    def assembled(self) -> Json:
        message = {key: answers.joined(value) for key, value in self._message.items()}
        if self._calls:
            message["tool_calls"] = [answers.joined({"type": "function", **call}) for call in self._calls]
        return {**self._fields, "message": message}


def _with_function(known: Json, delta: dict[str, Json]) -> Json:
    """A call's function, longer by a delta: arguments grow, and so does a name unless it is just said again."""
    grown = dict(known or {})
    for key, value in delta.items():
        if key == "name" and grown.get("name") != value:
            grown[key] = _grown(grown.get(key), value, growing=True)
        else:
            grown[key] = _grown(grown.get(key), value, growing=key in _TEXT)
    return grown


def _grown(known: Json, value: Json, *, growing: bool) -> Json:
    if value is None:
        return known
    if isinstance(value, str) and isinstance(known, str) and growing:
        return known + value
    if isinstance(value, dict) and isinstance(known, dict):
        return _grown_object(known, value)
    if isinstance(value, list) and isinstance(known, list):
        return _grown_list(known, value)
    return value


def _grown_object(known: dict[str, Json], value: dict[str, Json]) -> dict[str, Json]:
    grown = {key: _grown(known.get(key), item, growing=key in _GROWING) for key, item in value.items()}
    return {**known, **grown}


def _grown_list(known: list[Json], value: list[Json]) -> list[Json]:
    """Items with an index already seen grow; others are new."""
    grown = list(known)
    places = {item["index"]: place for place, item in enumerate(grown) if isinstance(item, dict) and "index" in item}
    for item in value:
        place = places.get(item.get("index")) if isinstance(item, dict) else None
        if place is None:
            grown.append(item)
        else:
            grown[place] = _grown_object(grown[place], item)
    return grown


def _longer(known: Json, value: Json) -> Json:
    """Token log probabilities: lists that go on from chunk to chunk."""
    if not isinstance(known, dict) or not isinstance(value, dict):
        return known if value is None else value
    return {**known, **{key: [*(known.get(key) or ()), *(item or ())] or item for key, item in value.items()}}


def _chunks(response: Json) -> Iterator[Json]:
    """A stream that assembles to `response`: what is said, how it ended, what it used."""
    frame = {key: value for key, value in response.items() if key not in ("choices", "usage")}
    frame["object"] = "chat.completion.chunk"
    usage = response.get("usage")
    silent = {"usage": None} if "usage" in response else {}
    for place, choice in enumerate(response["choices"]):
        index = choice.get("index", place)
        rest = {key: value for key, value in choice.items() if key not in ("message", "index", "finish_reason")}
        said = {"index": index, "delta": _delta(choice["message"]), "finish_reason": None, **rest}
        ended = {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason")}
        yield {**frame, "choices": [said], **silent}
        yield {**frame, "choices": [ended], **silent}
    if usage is not None:
        yield {**frame, "choices": [], "usage": usage}


def _delta(message: Message) -> Message:
    calls = message.get("tool_calls")
    if not calls:
        return message
    return {**message, "tool_calls": [{"index": index, **call} for index, call in enumerate(calls)]}


# --- what a strict provider refuses -----------------------------------------------------------------------------------


def _form_problems(messages: Iterable[Message]) -> Iterator[str]:
    for index, message in enumerate(messages):
        role = message.get("role")
        content = message.get("content")
        if role not in ROLES:
            yield f"message {index}: unknown role {role!r}"
        elif content is None and not (role == "assistant" and (message.get("tool_calls") or _legacy(message))):
            yield f"message {index} ({role}): no content"
        elif content is not None and not isinstance(content, str | list):
            yield f"message {index} ({role}): content is neither text nor a list of parts"


def _legacy(message: Message) -> bool:
    return bool(message.get("function_call") or message.get("audio") or message.get("refusal"))


def _pair_problems(messages: Sequence[Message]) -> Iterator[str]:
    """Each call of an assistant message is answered once, by the tool messages right after it."""
    open_calls: dict[str, bool] = {}
    for index, message in enumerate(messages):
        if message.get("role") == "tool":
            yield from _answer_problems(index, message.get("tool_call_id"), open_calls)
            continue
        yield from _unanswered(f"before message {index}", open_calls)
        calls = message.get("tool_calls")
        if calls is not None and (message.get("role") != "assistant" or not calls):
            yield f"message {index}: `tool_calls` is empty, or not on an assistant message"
        ids = [call.get("id") for call in calls or ()]
        if len(set(ids)) < len(ids) or not all(isinstance(item, str) and item for item in ids):
            yield f"message {index}: tool calls without an id of their own"
        open_calls = dict.fromkeys((item for item in ids if isinstance(item, str)), False)
    yield from _unanswered("at the end", open_calls)


def _answer_problems(index: int, call_id: Json, open_calls: dict[str, bool]) -> Iterator[str]:
    if call_id not in open_calls:
        yield f"message {index}: a result for {call_id!r}, which the assistant message before it didn't call"
    elif open_calls[call_id]:
        yield f"message {index}: a second result for {call_id!r}"
    else:
        open_calls[call_id] = True


def _unanswered(where: str, open_calls: dict[str, bool]) -> Iterator[str]:
    missing = [call for call, answered in open_calls.items() if not answered]
    if missing:
        yield f"{where}: no result for {', '.join(missing)}"
