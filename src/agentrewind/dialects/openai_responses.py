"""OpenAI Responses, as OpenAI and the servers that imitate it (vLLM, the backend of Codex) speak it.

A conversation is a list of *items*: messages, reasoning, calls and their outputs, each an entry of its own. So an
answer is several messages of `agentrewind.dialects.base`, and reasoning stands in front of what it led to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from types import NoneType

from agentrewind.core.codec import Json
from agentrewind.core.edits import Message
from agentrewind.core.errors import ProviderError
from agentrewind.core.records import Usage
from agentrewind.core.tools import ToolSpec
from agentrewind.dialects import answers, requests, response_events, sse
from agentrewind.dialects.base import MemoryRole, Reply, ToolCall, ToolResult, listed

VOLATILE = frozenset(
    {
        "annotations",
        "cache_control",
        "caller",
        "created_by",
        "id",
        "logprobs",
        "parsed",
        "parsed_arguments",
        "phase",
        "prompt_cache_breakpoint",
        "status",
    }
)
"""Fields of an item or of a part that don't say which it is. (`call_id` pairs, and stays.)"""

VOLATILE_PARAMS = frozenset({"client_metadata", "prompt_cache_key", "safety_identifier"})
"""Fields of a request that name a session or a person: they differ from run to run."""

ROLES = frozenset({"system", "developer", "user", "assistant"})

_OUTPUTS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
}
"""The calls that the harness carries out, and the items that answer them. The provider carries out all others."""
_ANSWERS = frozenset(_OUTPUTS.values())
TEXT_OUTPUTS = _ANSWERS - {"computer_call_output", "shell_call_output"}
"""Those whose output is text, or parts that may be."""
ASKING = ("temperature", "max_output_tokens", "reasoning", "user")
"""Parameters that a request of ours to the same model takes over."""
_NAMED = {"function_call": "arguments", "custom_tool_call": "input"}
"""The calls that have a name, and where they carry what they were given."""
_KNOWN_BY_ID = frozenset({"item_reference", "local_shell_call_output", "mcp_approval_request"})
"""Items whose id says which they are."""
_NOT_OF_THE_MODEL = frozenset({"mcp_approval_response", "additional_tools", "configuration_update"})
_TEXTS = frozenset({"input_text", "output_text", "text"})
_UNFINISHED = frozenset({"queued", "in_progress", "failed", "cancelled"})
_NO_PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "YPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
"""One pixel."""


class OpenAIResponses:
    """The Responses dialect. Has no state; every method leaves its arguments as they are."""

    name = "openai_responses"

    def matches(self, method: str, path: str) -> bool:
        return method.upper() == "POST" and path.partition("?")[0].rstrip("/").endswith("/responses")

    def problems_with(self, body: Json) -> str | None:
        if not isinstance(body, dict):
            return "the request body is not a JSON object"
        if body.get("conversation"):
            return "its history is a `conversation` that the provider keeps and adds to, which no request can cut"
        if body.get("background"):
            return "it is answered in the background (`background`), and the answer is fetched by other requests"
        if not isinstance(body.get("previous_response_id"), str | NoneType):
            return "`previous_response_id` is not text"
        return requests.tools_problem(body) or _input_problem(body.get("input"))

    def model(self, body: Json) -> str:
        return str(body.get("model") or "")

    def messages(self, body: Json) -> list[Message]:
        given = body["input"]
        return [self.user(given)] if isinstance(given, str) else list(given)

    def with_messages(self, body: Json, messages: Sequence[Message]) -> Json:
        items = list(messages)
        return body if items == self.messages(body) else {**body, "input": items}

    def joined(self, messages: Sequence[Message]) -> list[Message]:
        return list(messages)

    def continues(self, body: Json) -> str | None:
        return body.get("previous_response_id") or None

    def reply_id(self, reply: Reply) -> str | None:
        found = reply.response.get("id")
        return found if isinstance(found, str) and reply.response.get("store") is not False else None

    def as_whole(self, body: Json, messages: Sequence[Message]) -> Json:
        rest = {key: value for key, value in body.items() if key != "previous_response_id"}
        return self.with_messages(rest, messages)

    def tools(self, body: Json) -> list[Json]:
        return list(body.get("tools") or [])

    def with_tools(self, body: Json, specs: Sequence[ToolSpec]) -> Json:
        names = [tool.get("name") for tool in self.tools(body) if isinstance(tool, dict)]
        return requests.with_declared(body, specs, names, _declaration)

    def params(self, body: Json) -> Json:
        left_out = {"model", "input", "tools", *VOLATILE_PARAMS}
        return {key: value for key, value in body.items() if key not in left_out}

    def streams(self, body: Json) -> bool:
        return bool(body.get("stream"))

    def canonical(self, message: Message) -> Json:
        kind = _type(message)
        found = {key: value for key, value in message.items() if value is not None and key not in VOLATILE}
        found["type"] = kind
        if _is_known_by_id(message):
            found["id"] = message.get("id")
        if kind == "function_call":
            found["arguments"] = _arguments_of(message)
        for key in ("content", "output", "summary"):
            content = _canonical_content(found.pop(key, None))
            if content:
                found[key] = content
        return found

    def answers(self, message: Message) -> str | None:
        return _pairing(message) if _type(message) in _ANSWERS else None

    def parse(self, body: bytes, *, stream: bool) -> Reply:
        return answers.read(body, stream=stream, assembled=response_events.assembled, reply=_reply)

    def render(self, response: Json, *, stream: bool) -> bytes:
        if stream:
            return sse.write_named(response_events.events(response))
        return json.dumps(response).encode("ascii")

    def without_calls(self, response: Json, names: frozenset[str]) -> Json:
        """See `Dialect`. Reasoning with nothing left behind it goes too: the provider refuses it alone."""
        output: list[Json] = []
        for item in reversed(response["output"]):
            gone = item.get("type") in _NAMED and item.get("name") in names
            if not gone and (item.get("type") != "reasoning" or (output and _is_of_the_model(output[-1]))):
                output.append(item)
        return {**response, "output": output[::-1]}

    def refusal(self, text: str, code: str) -> Json:
        return answers.openai_refusal(text, code)

    def memory(self, text: str, role: MemoryRole) -> Message:
        return {"type": "message", "role": role, "content": text}

    def user(self, text: str) -> Message:
        return {"role": "user", "content": text}

    def asking(self, body: Json, text: str) -> Json:
        kept = requests.kept(body, ASKING)
        return {"model": self.model(body), "input": [self.user(text)], **kept, "store": False}

    def tool_results(self, message: Message) -> list[ToolResult]:
        if _type(message) not in TEXT_OUTPUTS:
            return []
        failed = True if message.get("status") == "failed" or message.get("error") else None
        return [ToolResult(requests.said(message.get("output")), failed)]

    def with_hint(self, message: Message, text: str) -> Message | None:
        if _type(message) not in TEXT_OUTPUTS:
            return None
        output = requests.longer(message.get("output"), text, {"type": "input_text", "text": text})
        return None if output is None else {**message, "output": output}

    def results(self, answer: Message | Sequence[Message], texts: dict[str, str]) -> list[Message]:
        return [_result(item, texts[item["call_id"]]) for item in _calls_to_answer(listed(answer))]

    def problems(self, messages: Sequence[Message]) -> list[str]:
        """What OpenAI answers with status 400 (or what the servers do that turn items into chat messages), in words."""
        if not messages:
            return ["the list is empty"]
        return [*_form_problems(messages), *_reasoning_problems(messages), *_pair_problems(messages)]


# --- requests ---------------------------------------------------------------------------------------------------------


def _input_problem(given: Json) -> str | None:
    if isinstance(given, str) and given:
        return None
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        return "`input` is neither text nor a list of objects"
    if not given:
        return "`input` is empty"
    return requests.form_problem("input", given, _is_regular)


def _is_regular(item: Message) -> bool:
    """Whether the fields that order and pair items have the types that they must have."""
    kind = item.get("type")
    if not isinstance(kind, str) and not (kind is None and isinstance(item.get("role"), str)):
        return False
    if _type(item) == "message" and not isinstance(item.get("role"), str):
        return False
    texts = (item.get("call_id"), item.get("id"), item.get("arguments") if kind == "function_call" else None)
    return all(isinstance(text, str | NoneType) for text in texts)


def _declaration(spec: ToolSpec) -> Json:
    """Not strict, which would make every parameter a required one."""
    declared = {"type": "function", "name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {**declared, "strict": False}


def _type(item: Message) -> str:
    return str(item.get("type") or "message")


def _pairing(item: Message) -> str | None:
    """What names the call that an item is or answers."""
    found = item.get("call_id") or (item.get("id") if _type(item) in _KNOWN_BY_ID else None)
    return found if isinstance(found, str) and found else None


def _is_of_the_model(item: Message) -> bool:
    """Whether the provider made this item: an assistant's message, reasoning, a call."""
    kind = _type(item)
    if kind == "message":
        return bool(item.get("role") == "assistant")
    return not kind.endswith("_output") and kind not in _NOT_OF_THE_MODEL


# --- canonical form ---------------------------------------------------------------------------------------------------


def _is_known_by_id(item: Message) -> bool:
    """Encrypted reasoning is known by what is encrypted; other reasoning, as the provider keeps it, by its id alone."""
    kind = _type(item)
    return kind in _KNOWN_BY_ID or (kind == "reasoning" and not item.get("encrypted_content"))


def _arguments_of(call: Message) -> Json:
    """Compared as values, since harnesses write them anew."""
    raw = call.get("arguments")
    parsed = answers.arguments(raw) if isinstance(raw, str) else raw
    return raw if parsed is None else parsed


def _canonical_content(content: Json) -> Json:
    """A single text part is that text, whoever said it; nothing, an empty text and an empty list are one."""
    if not isinstance(content, list):
        return content
    return requests.only_text([_canonical_part(part) for part in content])


def _canonical_part(part: Json) -> Json:
    if not isinstance(part, dict):
        return part
    found = {key: value for key, value in part.items() if value is not None and key not in VOLATILE}
    kind = found.get("type")
    return {**found, "type": "text"} if isinstance(kind, str) and kind in _TEXTS else found


# --- answers ----------------------------------------------------------------------------------------------------------


def _reply(response: Json) -> Reply:
    output = response.get("output")
    if not isinstance(output, list):
        raise ProviderError(f"The provider's answer holds no output: {answers.shown(json.dumps(response))}")
    answers.check("status", response.get("status"), str, NoneType)
    if response.get("status") in _UNFINISHED:
        raise ProviderError(f"The provider's answer is not finished: its status is {response['status']}.")
    for item in output:
        _check_item(item)
    calls = tuple(map(_call, _calls_to_answer(output)))
    messages = tuple(_as_sent(item) for item in output if not _is_lost(item, response))
    return Reply(messages, _text(output), calls, _finish(response), usage_of(response.get("usage")), response)


def _check_item(item: Json) -> None:
    """What the rest of this module takes for granted about an answer.

    Raises:
        ProviderError: it isn't so.
    """
    answers.check("item", item, dict)
    kind = item.get("type")
    answers.check("type of an item", kind, str)
    if kind == "message":
        answers.check("role of a message", item.get("role"), str)
        _check_parts("content", item.get("content"))
    if kind == "reasoning":
        _check_parts("summary", item.get("summary") or [])
        _check_parts("content", item.get("content") or [])
    if kind in _OUTPUTS:
        answers.check("id of a call", item.get("call_id"), str)
    if kind in _NAMED:
        answers.check("name of a call", item.get("name"), str)
        answers.check("input of a call", item.get(_NAMED[kind]), str)


def _check_parts(what: str, parts: Json) -> None:
    answers.check(what, parts, list)
    for part in parts:
        answers.check(f"part of the {what}", part, dict)
        for key in ("type", "text", "refusal"):
            answers.check(f"{key} of the {what}", part.get(key), str, NoneType)


def _is_lost(item: Json, response: Json) -> bool:
    """Reasoning that can't be sent back: the provider neither keeps it nor has given it away encrypted."""
    return bool(item["type"] == "reasoning" and response.get("store") is False and not item.get("encrypted_content"))


def _as_sent(item: Json) -> Message:
    return {key: value for key, value in item.items() if value is not None}


def _text(output: Sequence[Json]) -> str:
    parts = [part for item in output if item["type"] == "message" for part in item["content"]]
    text = "".join(part.get("text") or "" for part in parts if part.get("type") in _TEXTS)
    return text or "".join(part.get("refusal") or "" for part in parts)


def _finish(response: Json) -> str | None:
    """Why it ended: the status, or what made it incomplete."""
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    return str(reason) if reason else response.get("status")


def usage_of(usage: Json) -> Usage:
    """The tokens that the `usage` of a response counts; none where it holds no counts."""
    if not isinstance(usage, dict):
        return Usage()
    details = usage.get("input_tokens_details")
    cached, written = answers.count(details, "cached_tokens"), answers.count(details, "cache_write_tokens")
    reasoning = answers.count(usage.get("output_tokens_details"), "reasoning_tokens")
    asked, answered = answers.count(usage, "input_tokens"), answers.count(usage, "output_tokens")
    return Usage(asked, answered, cached, reasoning, cache_write=written)


# --- calls and their outputs ------------------------------------------------------------------------------------------


def _calls_to_answer(items: Sequence[Message]) -> list[Message]:
    """The calls among these that the harness has to carry out: not those that came with their output."""
    answered = {_pairing(item) for item in items if _type(item) in _ANSWERS}
    return [item for item in items if _type(item) in _OUTPUTS and _pairing(item) not in answered]


def _call(item: Json) -> ToolCall:
    kind = item["type"]
    name = item["name"] if kind in _NAMED else kind.removesuffix("_call")
    if kind == "function_call":
        raw = item["arguments"]
        return ToolCall(item["call_id"], name, answers.arguments(raw), raw)
    given = item["input"] if kind == "custom_tool_call" else item.get("action") or item.get("operation")
    return ToolCall(item["call_id"], name, given, given if isinstance(given, str) else json.dumps(given))


def _result(call: Message, text: str) -> Message:
    kind = _type(call)
    return {"type": _OUTPUTS[kind], "call_id": call["call_id"], **_RESULTS[kind](call, text)}


def _plain_result(call: Message, text: str) -> Message:
    del call
    return {"output": text}


def _shell_result(call: Message, text: str) -> Message:
    del call
    return {"output": [{"stdout": "", "stderr": text, "outcome": {"type": "exit", "exit_code": 1}}]}


def _patch_result(call: Message, text: str) -> Message:
    del call
    return {"status": "failed", "output": text}


def _computer_result(call: Message, text: str) -> Message:
    """A picture is all that this answer may hold, so the text can't be said."""
    del text
    checks = call.get("pending_safety_checks")
    picture = {"type": "computer_screenshot", "image_url": _NO_PICTURE}
    return {"output": picture} | ({"acknowledged_safety_checks": checks} if checks else {})


_RESULTS: dict[str, Callable[[Message, str], Message]] = {
    "function_call": _plain_result,
    "custom_tool_call": _plain_result,
    "local_shell_call": _plain_result,
    "shell_call": _shell_result,
    "apply_patch_call": _patch_result,
    "computer_call": _computer_result,
}


# --- what a strict provider refuses -----------------------------------------------------------------------------------


def _form_problems(items: Sequence[Message]) -> Iterator[str]:
    for index, item in enumerate(items):
        if _type(item) != "message":
            continue
        role, content = item.get("role"), item.get("content")
        if role not in ROLES:
            yield f"item {index}: unknown role {role!r}"
        elif not isinstance(content, str | list):
            yield f"item {index} ({role}): content is neither text nor a list of parts"
        elif isinstance(content, list):
            wrong = "input_text" if role == "assistant" else "output_text"
            if any(isinstance(part, dict) and part.get("type") == wrong for part in content):
                yield f"item {index} ({role}): a part of type {wrong}"


def _reasoning_problems(items: Sequence[Message]) -> Iterator[str]:
    for index, item in enumerate(items):
        following = items[index + 1] if index + 1 < len(items) else None
        if _type(item) == "reasoning" and (following is None or not _is_of_the_model(following)):
            yield f"item {index}: reasoning without the item that followed it"


def _pair_problems(items: Sequence[Message]) -> Iterator[str]:
    """Each call is answered once, before anybody but the model speaks.

    Where items are mere references, a call may be among them: then outputs without one are no problem.
    """
    open_calls: dict[str, bool] = {}
    references = any(_type(item) == "item_reference" for item in items)
    for index, item in enumerate(items):
        kind = _type(item)
        if kind in _OUTPUTS:
            yield from _call_problems(index, item, open_calls)
        elif kind in _ANSWERS:
            yield from _answer_problems(index, _pairing(item), open_calls, references=references)
        elif not _is_of_the_model(item) and not kind.endswith("_output"):
            yield from _unanswered(f"before item {index}", open_calls)
    yield from _unanswered("at the end", open_calls)


def _call_problems(index: int, item: Message, calls: dict[str, bool]) -> Iterator[str]:
    call_id = item.get("call_id")
    if not isinstance(call_id, str) or not call_id or call_id in calls:
        yield f"item {index}: a call without a `call_id` of its own"
    else:
        calls[call_id] = False


def _answer_problems(index: int, call_id: str | None, calls: dict[str, bool], *, references: bool) -> Iterator[str]:
    if call_id is None or call_id not in calls:
        if not references:
            yield f"item {index}: an output for {call_id!r}, which nothing before it called"
    elif calls[call_id]:
        yield f"item {index}: a second output for {call_id!r}"
    else:
        calls[call_id] = True


def _unanswered(where: str, calls: dict[str, bool]) -> Iterator[str]:
    """Each missing output is said once."""
    missing = [call for call, answered in calls.items() if not answered]
    calls.update(dict.fromkeys(missing, True))
    if missing:
        yield f"{where}: no output for {', '.join(missing)}"
