"""What holds for every answer and every history in the Responses dialect."""

from __future__ import annotations

import contextlib
import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrewind.core.edits import splice
from agentrewind.core.errors import ProviderError
from agentrewind.core.tools import TOOLS
from agentrewind.dialects.openai_responses import OpenAIResponses
from agentrewind.testing.scripted.responses import Responses, events, response_to
from tests.property.conversations import (
    Conversation,
    body_of,
    moves,
    names,
    odd_values,
    pieces,
    spoiled,
    turns,
)

RESPONSES = OpenAIResponses()
SEALED = {"store": False, "include": ["reasoning.encrypted_content"]}
TOOL = {"type": "function", "name": "bash", "parameters": {}}


@st.composite
def responses(draw):
    """Whole answers, with the fields and the items that servers add."""
    body = {"model": "m", "input": "hi", **draw(st.sampled_from([{}, SEALED, {"store": False}]))}
    response = response_to(body, draw(turns()), 1, 1)
    if draw(st.booleans()):
        del response["usage"]
    if draw(st.booleans()):
        custom = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_9", "name": "patch", "input": "*** Begin"}
        response["output"].append(custom)
    if draw(st.booleans()):
        searched = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
        response["output"].insert(0, searched)
    if draw(st.booleans()):
        part = {"type": "refusal", "refusal": draw(st.text(max_size=9))}
        said = {"type": "message", "id": "msg_9", "role": "assistant", "status": "completed", "content": [part]}
        response["output"].append(said)
    return response


@settings(max_examples=200, deadline=None)
@given(responses(), st.booleans())
def test_what_is_rendered_is_parsed_to_the_same(response, stream):
    before = copy.deepcopy(response)
    rendered = RESPONSES.render(response, stream=stream)
    reply = RESPONSES.parse(rendered, stream=stream)
    assert reply.response == before == response
    assert reply == RESPONSES.parse(json.dumps(response).encode(), stream=False)
    assert RESPONSES.render(reply.response, stream=stream) == rendered


@settings(max_examples=200, deadline=None)
@given(turns(), st.booleans(), st.data())
def test_a_stream_says_what_the_plain_answer_says(turn, sealed, data):
    response = response_to({"model": "m", "input": "hi"} | (SEALED if sealed else {}), turn, 1, 1)
    plain = RESPONSES.parse(json.dumps(response).encode(), stream=False)
    payloads = list(events(response))
    if data.draw(st.booleans()):
        payloads[-1] = {**payloads[-1], "response": {**response, "output": []}}  # as the backend of Codex does
    assert RESPONSES.parse(body_of(payloads, data.draw), stream=True) == plain


@settings(max_examples=100, deadline=None)
@given(responses())
def test_events_alone_make_up_the_items(response):
    payloads = [event for event in RESPONSES.render(response, stream=True).split(b"\n\n") if event]
    *payloads, last = [json.loads(event.partition(b"data: ")[2]) for event in payloads]
    ended = {**last, "response": {**response, "output": []}}
    grown = [event for event in payloads if event["type"] != "response.output_item.done"]
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in [*grown, ended]).encode()
    found = RESPONSES.parse(body, stream=True).response["output"]
    known = [{**item, "status": None} for item in response["output"]]
    assert [{**item, "status": None} for item in found] == known


@settings(max_examples=100, deadline=None)
@given(responses())
def test_a_stream_that_ends_early_is_an_error(response):
    cut = RESPONSES.render(response, stream=True).split(b"\n\n")[:-2]
    for length in range(len(cut) + 1):
        with pytest.raises(ProviderError):
            RESPONSES.parse(b"".join(event + b"\n\n" for event in cut[:length]), stream=True)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40), st.data())
def test_deltas_may_be_cut_anywhere(text, args, thought, data):
    items = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
        {"type": "message", "id": "msg_1", "role": "assistant", "content": []},
        {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": ""},
    ]
    payloads = [
        {"type": "response.output_item.added", "output_index": at, "item": item} for at, item in enumerate(items)
    ]
    for kind, at, whole, index in (
        ("response.reasoning_summary_text", 0, thought, {"summary_index": 0}),
        ("response.output_text", 1, text, {"content_index": 0}),
        ("response.function_call_arguments", 2, args, {}),
    ):
        parts = pieces(whole, data.draw)
        payloads += [{"type": f"{kind}.delta", "output_index": at, **index, "delta": part} for part in parts]
    payloads.append({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": []}})
    reply = RESPONSES.parse(body_of(payloads, data.draw), stream=True)
    assert reply.text == text
    assert [call.raw_arguments for call in reply.calls] == [args]
    assert reply.messages[0]["summary"][0]["text"] == thought


@settings(max_examples=100, deadline=None)
@given(responses(), st.sets(names))
def test_without_calls_leaves_an_answer_that_can_be_sent_back(response, gone):
    left = RESPONSES.without_calls(response, frozenset(gone))
    reply = RESPONSES.parse(RESPONSES.render(left, stream=False), stream=False)
    assert all(call.name not in gone for call in reply.calls)
    results = RESPONSES.results(reply.messages, {call.id: "" for call in reply.calls})
    assert RESPONSES.problems([RESPONSES.user("x"), *reply.messages, *results]) == []


@settings(max_examples=300, deadline=None)
@given(turns(), st.booleans(), odd_values, st.data())
def test_whatever_a_server_sends_is_an_answer_or_a_provider_error(turn, stream, odd, data):
    response = response_to({"model": "m", "input": "hi"}, turn, 1, 1)
    payloads = spoiled(list(events(response)) if stream else [response], odd, data.draw)
    body = "".join(f"data: {json.dumps(payload)}\n\n" for payload in payloads) if stream else json.dumps(payloads[0])
    with contextlib.suppress(ProviderError):
        reply = RESPONSES.parse(body.encode(), stream=stream)
        RESPONSES.results(reply.messages, {call.id: "" for call in reply.calls})
        [RESPONSES.canonical(message) for message in reply.messages]
        RESPONSES.problems(reply.messages)
        RESPONSES.reply_id(reply)
        RESPONSES.without_calls(reply.response, frozenset({"bash"}))
        RESPONSES.render(reply.response, stream=stream)


class Harness:
    """Sends the whole list, or only what is new after an answer that the provider keeps."""

    start = ({"role": "user", "content": "task"},)

    def __init__(self, *, continues=False, **params):
        self.continues = continues
        self.params = params

    def request(self, raw, last, length):
        body = {"model": "m", "input": raw, "tools": [TOOL], **self.params}
        return {**body, "input": raw[length:], "previous_response_id": last} if self.continues and last else body

    def spoken(self, results, text):
        return [*results, *([{"role": "user", "content": [{"type": "input_text", "text": text}]}] if text else [])]


@settings(max_examples=60, deadline=None)
@given(moves, st.sampled_from([{}, SEALED, {"store": False}, {"continues": True}]))
def test_after_any_rewinds_the_list_is_valid_and_holds_what_it_must(moves, params):
    Conversation(RESPONSES, Responses(), Harness(**params)).play(moves)


@settings(max_examples=60, deadline=None)
@given(moves, st.sampled_from([{}, SEALED]))
def test_without_edits_a_list_is_what_the_harness_sent(moves, params):
    run = Conversation(RESPONSES, Responses(), Harness(**params))
    for _, number, user, reasoning in moves:
        run.step(number, user, reasoning)
    body = run.harness.request(run.raw, "", 0)
    assert splice(run.raw, ()) == run.raw
    assert RESPONSES.with_messages(body, run.effective) is body
    assert run.request() == body


@settings(max_examples=100, deadline=None)
@given(moves, st.data())
def test_a_broken_list_is_seen_by_the_dialect_and_by_the_provider(moves, data):
    api = Responses()
    run = Conversation(RESPONSES, api, Harness(**SEALED))
    run.step(2, user=False, reasoning="hm")
    for _, number, user, reasoning in moves:
        run.step(number, user, reasoning)
    outputs = [index for index, item in enumerate(run.raw) if item.get("type", "").endswith("_output")]
    index = data.draw(st.sampled_from(outputs))
    gone = [*run.raw[:index], *run.raw[index + 1 :]]
    doubled = [*run.raw[: index + 1], *run.raw[index:]]
    lone = [*run.raw, run.raw[1]]
    for broken in (gone, doubled, lone):
        assert RESPONSES.problems(broken)
        assert api.refusal({"model": "m", "input": broken})


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), odd_values, st.data())
def test_whatever_a_harness_sends_is_understood_or_passed_through(calls, odd, data):
    run = Conversation(RESPONSES, Responses(), Harness(**SEALED))
    for number in calls:
        run.step(number, user=False, reasoning="hm")
    body = spoiled(run.request(), odd, data.draw)
    if RESPONSES.problems_with(body) is None:
        messages = RESPONSES.messages(body)
        RESPONSES.problems(messages)
        json.dumps([RESPONSES.canonical(message) for message in messages])
        RESPONSES.with_messages(body, messages[:1])
        RESPONSES.as_whole(body, messages)
        RESPONSES.with_tools(body, TOOLS)
        RESPONSES.params(body)
        RESPONSES.model(body)
