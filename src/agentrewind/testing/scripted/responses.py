"""OpenAI Responses, as a strict provider speaks it: with responses that it keeps."""

from __future__ import annotations

import base64
import binascii
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence

from agentrewind.core.codec import Json
from agentrewind.testing.scripted.api import CREATED, Said, openai_error, pieces, text_of, tokens
from agentrewind.testing.scripted.steps import Call, Turn

_ROLES = ("system", "developer", "user", "assistant")
_SEALED = "sealed:"
_NAMESPACE = "namespace"
"""The type of a tool that is several, under a name of their own: Codex declares those of an MCP server so."""
_LENGTH = {"length": "max_output_tokens", "content_filter": "content_filter"}


class Responses:
    """See `Api`."""

    name = "openai_responses"
    path = "/v1/responses"
    needs: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.kept: dict[str, Json] = {}
        """The responses that were stored, by their ids."""
        self._conversations: dict[str, list[Json]] = {}
        self._thoughts: set[str] = set()
        self._led_to: dict[str, str] = {}
        """The ids of items to that of the reasoning in front of them."""

    def key(self, headers: Mapping[str, str]) -> str:
        return headers.get("authorization", "").removeprefix("Bearer ")

    def refusal(self, body: Json) -> str | None:
        if not isinstance(body, dict) or not isinstance(body.get("model"), str):
            return "you must provide a model parameter"
        if not isinstance(body.get("input"), str | list) or not body["input"]:
            return "Missing required parameter: 'input'."
        if body.get("conversation"):
            return f"Conversation with id '{body['conversation']}' not found."
        if body.get("previous_response_id") and body["previous_response_id"] not in self._conversations:
            return f"Previous response with id '{body['previous_response_id']}' not found."
        if body.get("stream_options") and not body.get("stream"):
            return "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        items = self.messages(self.whole(body))
        return _tools_refusal(body) or _form_refusal(items) or self._thought_refusal(items) or _pair_refusal(items)

    def _thought_refusal(self, items: Sequence[Json]) -> str | None:
        """Reasoning is kept or sealed, is followed by what it led to, and that isn't there without it."""
        for at, item in enumerate(items):
            found = item.get("id")
            if item.get("type") == "reasoning":
                problem = self._reasoning_refusal(item)
                if problem:
                    return problem
                if at + 1 == len(items) or not _is_of_the_model(items[at + 1]):
                    return f"Item '{found}' of type 'reasoning' was provided without its required following item."
            elif found in self._led_to and not any(one.get("id") == self._led_to[found] for one in items[:at]):
                kind = f"Item '{found}' of type '{item.get('type')}' was provided"
                return f"{kind} without its required 'reasoning' item: '{self._led_to[found]}'."
        return None

    def _reasoning_refusal(self, item: Json) -> str | None:
        sealed = item.get("encrypted_content")
        if not isinstance(item.get("summary"), list):
            return "Missing required parameter: 'input.summary'."
        if sealed:
            return None if _is_sealed(sealed) else "The encrypted content could not be verified."
        if item.get("id") in self._thoughts:
            return None
        return f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false."

    def whole(self, body: Json) -> Json:
        before = self._conversations.get(body.get("previous_response_id") or "", [])
        return {**body, "input": [*before, *self.messages(body)]} if before else body

    def keep(self, body: Json, response: Json) -> None:
        reasoning = None
        for item in response["output"]:
            if item["type"] == "reasoning" and (response["store"] or "encrypted_content" in item):
                reasoning = item["id"]
            elif reasoning is not None:
                self._led_to[item["id"]] = reasoning
        if response["store"]:
            self.kept[response["id"]] = response
            self._conversations[response["id"]] = [*self.messages(body), *response["output"]]
            self._thoughts.update(item["id"] for item in response["output"] if item["type"] == "reasoning")

    def messages(self, body: Json) -> list[Json]:
        given = body["input"]
        return [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else list(given)

    def said(self, body: Json) -> list[Said]:
        head = [Said("system", body["instructions"])] if body.get("instructions") else []
        groups = itertools.groupby(self.messages(body), _is_of_the_model)
        for answered, items in groups:
            head += [_turn(list(items))] if answered else map(_entry, items)
        return head

    def tools(self, body: Json) -> list[str]:
        """Those in a namespace as `NAMESPACE.NAME`, by which a script calls them too."""
        declared = body.get("tools") or ()
        plain = [tool["name"] for tool in declared if "name" in tool and tool["type"] != _NAMESPACE]
        return [*plain, *_inside_namespaces(body)]

    def response(self, body: Json, turn: Turn, number: int, first_call: int) -> Json:
        return response_to(body, turn, number, first_call)

    def events(self, body: Json, response: Json) -> list[str]:
        del body
        numbered = ({**event, "sequence_number": number} for number, event in enumerate(events(response)))
        return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in numbered]

    def broken(self, message: str) -> str:
        error = {"type": "error", "code": "server_error", "message": message, "param": None, "sequence_number": 99}
        return f"event: error\ndata: {json.dumps(error)}\n\n"

    def error(self, status: int, message: str, code: str | None) -> Json:
        return openai_error(status, message, code)


# --- views ------------------------------------------------------------------------------------------------------------


def _is_of_the_model(item: Json) -> bool:
    kind = item.get("type") or "message"
    return item.get("role") == "assistant" if kind == "message" else not kind.endswith("_output")


def _turn(items: Sequence[Json]) -> Said:
    text = "".join(text_of(item.get("content")) for item in items if item.get("role") == "assistant")
    calls = [Call(item["name"], item.get("arguments", item.get("input"))) for item in items if "name" in item]
    return Said("assistant", text, tuple(calls))


def _entry(item: Json) -> Said:
    if "output" in item:
        return Said("tool", text_of(item["output"]))
    return Said({"developer": "system"}.get(item["role"], item["role"]), text_of(item["content"]))


# --- answers ----------------------------------------------------------------------------------------------------------


def response_to(body: Json, turn: Turn, number: int, first_call: int) -> Json:
    """The whole response object; tool calls are numbered from `first_call`."""
    cut = turn.finish in _LENGTH
    output = _output(body, turn, number, first_call)
    return {
        "id": f"resp_{number:06d}",
        "object": "response",
        "created_at": CREATED,
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": _LENGTH[turn.finish]} if cut else None,
        "instructions": body.get("instructions"),
        "metadata": body.get("metadata") or {},
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"),
        "store": body.get("store") is not False,
        "temperature": 1.0,
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "usage": _usage(body, output),
    }


def _output(body: Json, turn: Turn, number: int, first_call: int) -> list[Json]:
    output: list[Json] = []
    if turn.reasoning:
        output.append(
            _reasoning(turn.reasoning, number, sealed="reasoning.encrypted_content" in (body.get("include") or ()))
        )
    if turn.text or not turn.calls:
        part = {"type": "output_text", "text": turn.text, "annotations": []}
        said = {"id": f"msg_{number:06d}", "type": "message", "role": "assistant", "status": "completed"}
        output.append({**said, "content": [part]})
    inside = _inside_namespaces(body)
    return [*output, *(_call(item, first_call + at, inside) for at, item in enumerate(turn.calls))]


def _reasoning(text: str, number: int, *, sealed: bool) -> Json:
    item = {"id": f"rs_{number:06d}", "type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}
    return item | ({"encrypted_content": _SEALED + base64.b64encode(text.encode()).decode()} if sealed else {})


def _is_sealed(text: str) -> bool:
    try:
        return text.startswith(_SEALED) and bool(base64.b64decode(text.removeprefix(_SEALED), validate=True))
    except binascii.Error:
        return False


def _inside_namespaces(body: Json) -> dict[str, Json]:
    """The tools that are declared in a namespace, and what names each in a call."""
    spaces = [tool for tool in body.get("tools") or () if tool["type"] == _NAMESPACE]
    return {
        f"{space['name']}.{tool['name']}": {"namespace": space["name"], "name": tool["name"]}
        for space in spaces
        for tool in space["tools"]
    }


def _call(item: Call, number: int, inside: Mapping[str, Json]) -> Json:
    arguments = item.arguments if isinstance(item.arguments, str) else json.dumps(item.arguments)
    ids = {"id": f"fc_{number:06d}", "type": "function_call", "status": "completed", "call_id": f"call_{number:06d}"}
    return {**ids, **inside.get(item.name, {"name": item.name}), "arguments": arguments}


def _usage(body: Json, output: list[Json]) -> Json:
    asked, answered = tokens([body["input"], body.get("tools") or []]), tokens(output)
    thought = sum(tokens(item["summary"]) for item in output if item["type"] == "reasoning")
    return {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": asked + answered,
    }


def events(response: Json) -> Iterator[Json]:
    """The response as the events of a stream, texts and arguments in pieces."""
    begun = {**response, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for at, item in enumerate(response["output"]):
        inner = {"message": _message_events, "reasoning": _reasoning_events, "function_call": _call_events}
        empty: dict[str, Json] = {
            "message": {"content": []},
            "reasoning": {"summary": []},
            "function_call": {"arguments": ""},
        }
        yield {"type": "response.output_item.added", "output_index": at, "item": {**item, **empty[item["type"]]}}
        for event in inner[item["type"]](item):
            yield {**event, "output_index": at, "item_id": item["id"]}
        yield {"type": "response.output_item.done", "output_index": at, "item": item}
    yield {"type": f"response.{response['status']}", "response": response}


def _message_events(item: Json) -> Iterator[Json]:
    for at, part in enumerate(item["content"]):
        where = {"content_index": at}
        yield {"type": "response.content_part.added", **where, "part": {**part, "text": ""}}
        for piece in pieces(part["text"]):
            yield {"type": "response.output_text.delta", **where, "delta": piece, "logprobs": []}
        yield {"type": "response.output_text.done", **where, "text": part["text"], "logprobs": []}
        yield {"type": "response.content_part.done", **where, "part": part}


def _reasoning_events(item: Json) -> Iterator[Json]:
    for at, part in enumerate(item["summary"]):
        where = {"summary_index": at}
        yield {"type": "response.reasoning_summary_part.added", **where, "part": {**part, "text": ""}}
        for piece in pieces(part["text"]):
            yield {"type": "response.reasoning_summary_text.delta", **where, "delta": piece}
        yield {"type": "response.reasoning_summary_text.done", **where, "text": part["text"]}
        yield {"type": "response.reasoning_summary_part.done", **where, "part": part}


def _call_events(item: Json) -> Iterator[Json]:
    for piece in pieces(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", "delta": piece}
    yield {"type": "response.function_call_arguments.done", "name": item["name"], "arguments": item["arguments"]}


# --- what a strict provider refuses -----------------------------------------------------------------------------------


def _tools_refusal(body: Json) -> str | None:
    tools = body.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) and tool.get("type") for tool in tools):
        return "Missing required parameter: 'tools[].type'."
    functions = [tool for tool in tools if tool["type"] in ("function", "custom")]
    names = [tool.get("name") for tool in functions]
    if not all(isinstance(name, str) and name for name in names):
        return "Missing required parameter: 'tools[].name'."
    doubled = next((name for name in names if names.count(name) > 1), None)
    if doubled:
        return f"Tool names must be unique: {doubled}"
    loose = next((tool for tool in functions if tool.get("strict") and not _is_strict(tool["parameters"])), None)
    return f"Invalid schema for function '{loose['name']}': 'required' must name every property." if loose else None


def _is_strict(schema: Json) -> bool:
    return schema.get("additionalProperties") is False and set(schema.get("required", ())) == set(schema["properties"])


def _form_refusal(items: Sequence[Json]) -> str | None:
    for at, item in enumerate(items):
        if not isinstance(item, dict) or not (item.get("type") or item.get("role")):
            return f"Invalid value for input[{at}]"
        kind = item.get("type") or "message"
        problem = _message_refusal(item) if kind == "message" else _fields_refusal(kind, item)
        if problem:
            return f"input[{at}]: {problem}"
    return None


def _message_refusal(item: Json) -> str | None:
    if item.get("role") not in _ROLES:
        return f"Invalid role '{item.get('role')}'"
    content = item.get("content")
    if not isinstance(content, str | list):
        return "'content' must be a string or an array"
    allowed = ("output_text", "refusal") if item["role"] == "assistant" else ("input_text", "input_image", "input_file")
    odd = (
        next((part for part in content if part.get("type") not in allowed), None)
        if content and not isinstance(content, str)
        else None
    )
    return f"Invalid value: '{odd.get('type')}'. Supported values are: {allowed}" if odd is not None else None


_FIELDS = {
    "function_call": ("call_id", "name", "arguments"),
    "custom_tool_call": ("call_id", "name", "input"),
    "function_call_output": ("call_id",),
    "custom_tool_call_output": ("call_id",),
    "item_reference": ("id",),
}


def _fields_refusal(kind: str, item: Json) -> str | None:
    missing = next((key for key in _FIELDS.get(kind, ()) if not isinstance(item.get(key), str)), None)
    if missing is None and kind.endswith("_call_output") and not isinstance(item.get("output"), str | list):
        missing = "output"
    return f"Missing required parameter: '{missing}' of {kind}" if missing else None


def _pair_refusal(items: Sequence[Json]) -> str | None:
    waiting: dict[str, str] = {}
    called: set[str] = set()
    for item in items:
        kind, call_id = item.get("type") or "message", item.get("call_id")
        if kind in ("function_call", "custom_tool_call"):
            if call_id in called:
                return f"Duplicate call_id {call_id}"
            called.add(call_id)
            waiting[call_id] = f"{kind}_output"
        elif kind in ("function_call_output", "custom_tool_call_output"):
            if waiting.pop(call_id, None) != kind:
                return f"No tool call found for function call output with call_id {call_id}."
        elif waiting and not _is_of_the_model(item):
            break
    return f"No tool output found for function call {next(iter(waiting))}." if waiting else None
