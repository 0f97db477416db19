"""The event stream of the Responses dialect: a whole response from its events, and the other way round."""

from __future__ import annotations

import json
from collections.abc import Iterator

from agentrewind.core.codec import Json
from agentrewind.core.errors import ProviderError
from agentrewind.dialects import answers

_BEGUN = frozenset({"response.created", "response.queued", "response.in_progress"})
_ENDED = frozenset({"response.completed", "response.incomplete"})

_GROWING = {
    "response.output_text.delta": ("content", "text"),
    "response.refusal.delta": ("content", "refusal"),
    "response.reasoning_text.delta": ("content", "text"),
    "response.reasoning_summary_text.delta": ("summary", "text"),
    "response.function_call_arguments.delta": ("", "arguments"),
    "response.mcp_call_arguments.delta": ("", "arguments"),
    "response.custom_tool_call_input.delta": ("", "input"),
    "response.code_interpreter_call_code.delta": ("", "code"),
}
"""Where the `delta` of an event goes: to a field of a part in this list of the item, or of the item itself."""

_SAID = {kind.replace(".delta", ".done"): place for kind, place in _GROWING.items()}
"""The same for events that say a whole value again, under the name of the field."""

_PARTS = {
    "response.content_part.added": "content",
    "response.content_part.done": "content",
    "response.reasoning_summary_part.added": "summary",
    "response.reasoning_summary_part.done": "summary",
}
_INDEX = {"content": "content_index", "summary": "summary_index"}
_NEW_PART: dict[Json, dict[str, Json]] = {
    "response.output_text.delta": {"type": "output_text", "text": "", "annotations": []},
    "response.refusal.delta": {"type": "refusal", "refusal": ""},
    "response.reasoning_text.delta": {"type": "reasoning_text", "text": ""},
    "response.reasoning_summary_text.delta": {"type": "summary_text", "text": ""},
}


# --- assembling -------------------------------------------------------------------------------------------------------


def assembled(body: bytes) -> Json:
    """The whole response of a stream: that of its last event, with the items of the events before where it has none.

    Raises:
        ProviderError: it is none, holds an error, or ended before the answer did: without a last event, and without
            a `[DONE]` after items that are all done.
    """
    begun: dict[str, Json] = {}
    items: dict[Json, _Item] = {}
    done = False
    for payload in answers.payloads(body):
        kind = payload.get("type") if payload is not None else None
        if payload is None:
            done = True
        elif kind == "response.failed":
            raise _failure(payload)
        elif kind in _ENDED:
            return _with_items(payload["response"], items)
        elif kind in _BEGUN:
            answers.check("response", payload["response"], dict)
            begun.update(payload["response"])
        elif "output_index" in payload:
            items.setdefault(payload["output_index"], _Item()).add(kind, payload)
    if not (done and items and all(item.done for item in items.values())):
        raise ProviderError(f"The provider's stream ended before the answer did: {answers.shown_end(body)}")
    return _with_items({**begun, "status": "completed", "output": []}, items)


def _failure(payload: Json) -> ProviderError:
    response = payload.get("response")
    error = response.get("error") if isinstance(response, dict) else None
    text = error.get("message") if isinstance(error, dict) else None
    return ProviderError(f"The provider answered with an error: {answers.shown(text or json.dumps(payload))}")


def _with_items(response: Json, items: dict[Json, _Item]) -> Json:
    answers.check("response", response, dict)
    if response.get("output") or not items:
        return response
    return {**response, "output": [items[index].assembled() for index in sorted(items)]}


class _Item:
    """One item of the output as it grows."""

    def __init__(self) -> None:
        self._item: dict[str, Json] = {}
        self.done = False

    def add(self, kind: Json, payload: Json) -> None:
        """Take in an event; one that changes nothing of the item (progress, pictures under way) is passed over."""
        if kind in ("response.output_item.added", "response.output_item.done"):
            answers.check("item", payload["item"], dict)
            self._item = dict(payload["item"])
            self.done = kind == "response.output_item.done"
        elif kind in _PARTS:
            answers.check("part", payload["part"], dict)
            self._parts(_PARTS[kind], payload)[payload[_INDEX[_PARTS[kind]]]] = dict(payload["part"])
        elif kind in _GROWING:
            place, field = _GROWING[kind]
            holder = self._holder(place, payload, _NEW_PART.get(kind, {}))
            holder[field] = (holder.get(field) or "") + payload["delta"]
        elif kind in _SAID:
            place, field = _SAID[kind]
            self._holder(place, payload, {})[field] = payload[field]
        elif kind == "response.output_text.annotation.added":
            part = self._holder("content", payload, {})
            part["annotations"] = [*(part.get("annotations") or ()), payload["annotation"]]

    def _parts(self, place: str, payload: Json) -> list[Json]:
        """The list of parts, long enough for the one that the event is about, and ours to change."""
        parts = list(self._item.get(place) or ())
        answers.check("index of a part", payload[_INDEX[place]], int)
        if payload[_INDEX[place]] > len(parts):
            raise ProviderError("In the provider's stream, parts of an item are missing.")
        if payload[_INDEX[place]] == len(parts):
            parts.append({})
        self._item[place] = parts
        return parts

    def _holder(self, place: str, payload: Json, new: dict[str, Json]) -> dict[str, Json]:
        """The object that the event is about: the item, or one of its parts."""
        if not place:
            return self._item
        parts = self._parts(place, payload)
        index = payload[_INDEX[place]]
        parts[index] = {**(parts[index] or new)}
        held: dict[str, Json] = parts[index]
        return held

    def assembled(self) -> Json:
        return answers.joined(self._item)


# --- rendering --------------------------------------------------------------------------------------------------------


def events(response: Json) -> Iterator[Json]:
    """A stream that assembles to `response`, with every event that a client may wait for."""
    for number, event in enumerate(_events(response)):
        yield {**event, "sequence_number": number}


def _events(response: Json) -> Iterator[Json]:
    silent = {key: None for key in ("usage", "completed_at", "incomplete_details") if key in response}
    begun = {**response, **silent, "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        yield from _item_events(index, item)
    ended = "incomplete" if response.get("status") == "incomplete" else "completed"
    yield {"type": f"response.{ended}", "response": response}


def _item_events(index: int, item: Json) -> Iterator[Json]:
    where = {"output_index": index, "item_id": item.get("id") or ""}
    yield {"type": "response.output_item.added", "output_index": index, "item": _opened(item)}
    match item.get("type"):
        case "message":
            yield from _part_events(item["content"], where)
        case "reasoning":
            yield from _summary_events(item.get("summary") or (), where)
            yield from _part_events(item.get("content") or (), where)
        case "function_call":
            yield from _said("response.function_call_arguments", "arguments", item, where)
        case "custom_tool_call":
            yield from _said("response.custom_tool_call_input", "input", item, where)
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


_EMPTY = {"content": [], "summary": [], "arguments": "", "input": "", "status": "in_progress"}
_OPENED = {
    "message": ("content", "status"),
    "reasoning": ("content", "summary", "status"),
    "function_call": ("arguments", "status"),
    "custom_tool_call": ("input", "status"),
}


def _opened(item: Json) -> Json:
    """The item before anything in it was said."""
    fields = [key for key in _OPENED.get(item.get("type"), ()) if item.get(key) is not None]
    return {**item, **{key: _EMPTY[key] for key in fields}}


_PART_FIELDS = {"output_text": "text", "refusal": "refusal", "reasoning_text": "text"}


def _part_events(parts: Json, where: Json) -> Iterator[Json]:
    for index, part in enumerate(parts):
        at = {**where, "content_index": index}
        kind = part.get("type")
        field = _PART_FIELDS.get(kind)
        opened = part if field is None else {**part, field: ""}
        yield {"type": "response.content_part.added", **at, "part": opened}
        if field is not None:
            yield from _said(f"response.{kind}", field, part, at)
        yield {"type": "response.content_part.done", **at, "part": part}


def _summary_events(parts: Json, where: Json) -> Iterator[Json]:
    for index, part in enumerate(parts):
        at = {**where, "summary_index": index}
        yield {"type": "response.reasoning_summary_part.added", **at, "part": {**part, "text": ""}}
        yield from _said("response.reasoning_summary_text", "text", part, at)
        yield {"type": "response.reasoning_summary_part.done", **at, "part": part}


def _said(kind: str, field: str, part: Json, at: Json) -> Iterator[Json]:
    """A delta (none for an empty text) and the whole again."""
    more = {"logprobs": part.get("logprobs") or []} if field == "text" and kind.endswith("output_text") else {}
    named = {"name": part.get("name")} if field == "arguments" else {}
    if part.get(field):
        yield {"type": f"{kind}.delta", **at, "delta": part[field], **more}
    yield {"type": f"{kind}.done", **at, field: part.get(field) or "", **more, **named}
