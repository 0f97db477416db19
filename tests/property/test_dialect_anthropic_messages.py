"""What holds for every answer and every history in the Anthropic dialect."""

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
from agentrewind.dialects.anthropic_messages import AnthropicMessages, merged
from agentrewind.testing.scripted.messages import Messages, events, refusal, response_to
from tests.property.conversations import (
    Conversation,
    arguments,
    body_of,
    moves,
    names,
    odd_values,
    pieces,
    spoiled,
    turns,
)

MESSAGES = AnthropicMessages()
TOOL = {"name": "bash", "input_schema": {"type": "object"}}
EPHEMERAL = {"type": "ephemeral"}


@st.composite
def responses(draw):
    """Whole answers, with the fields and the blocks that servers add."""
    response = response_to({"model": "m", "messages": []}, draw(turns()), 1, 1)
    if draw(st.booleans()):
        del response["usage"]
    if draw(st.booleans()):
        response["stop_details"] = None
        response["container"] = draw(st.sampled_from([None, {"id": "c"}]))
    if draw(st.booleans()):
        response["content"].insert(0, {"type": "redacted_thinking", "data": "abc"})
    if draw(st.booleans()):
        searched = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": draw(arguments)}
        found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
        said = {"type": "text", "text": "x", "citations": draw(st.sampled_from([None, [], [{"type": "y"}, {"a": 1}]]))}
        response["content"] += [searched, found, said]
    return response


@settings(max_examples=200, deadline=None)
@given(responses(), st.booleans())
def test_what_is_rendered_is_parsed_to_the_same(response, stream):
    before = copy.deepcopy(response)
    rendered = MESSAGES.render(response, stream=stream)
    reply = MESSAGES.parse(rendered, stream=stream)
    assert reply.response == before == response
    assert reply == MESSAGES.parse(json.dumps(response).encode(), stream=False)
    assert MESSAGES.render(reply.response, stream=stream) == rendered


@settings(max_examples=200, deadline=None)
@given(turns(), st.data())
def test_a_stream_says_what_the_plain_answer_says(turn, data):
    response = response_to({"model": "m", "messages": []}, turn, 1, 1)
    plain = MESSAGES.parse(json.dumps(response).encode(), stream=False)
    assert MESSAGES.parse(body_of(list(events(response)), data.draw), stream=True) == plain


@settings(max_examples=100, deadline=None)
@given(responses())
def test_a_stream_that_ends_early_is_an_error(response):
    cut = MESSAGES.render(response, stream=True).split(b"\n\n")[:-3]
    for length in range(len(cut) + 1):
        with pytest.raises(ProviderError):
            MESSAGES.parse(b"".join(event + b"\n\n" for event in cut[:length]), stream=True)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40), st.data())
def test_deltas_may_be_cut_anywhere(text, given_, thought, data):
    blocks = [
        ({"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking", thought),
        ({"type": "text", "text": ""}, "text_delta", "text", text),
        ({"type": "tool_use", "id": "t", "name": "f", "input": {}}, "input_json_delta", "partial_json", given_ + "{"),
    ]
    payloads = [{"type": "message_start", "message": {"role": "assistant", "content": [], "stop_reason": None}}]
    for at, (block, kind, field, whole) in enumerate(blocks):
        payloads.append({"type": "content_block_start", "index": at, "content_block": block})
        for part in pieces(whole, data.draw):
            payloads.append({"type": "content_block_delta", "index": at, "delta": {"type": kind, field: part}})
            payloads += [{"type": "ping"}] if data.draw(st.booleans()) else []
    signed = {"type": "signature_delta", "signature": "s"}
    payloads.append({"type": "content_block_delta", "index": 0, "delta": signed})
    payloads.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}})
    reply = MESSAGES.parse(body_of(payloads, data.draw), stream=True)
    assert reply.text == text
    assert [call.raw_arguments for call in reply.calls] == [given_ + "{"]
    assert reply.messages[0]["content"][0] == {"type": "thinking", "thinking": thought, "signature": "s"}
    assert reply.messages[0]["content"][-1]["input"] == {"INVALID_JSON": given_ + "{"}


@settings(max_examples=100, deadline=None)
@given(responses(), st.sets(names))
def test_without_calls_leaves_an_answer_that_can_be_sent_back(response, gone):
    left = MESSAGES.without_calls(response, frozenset(gone))
    reply = MESSAGES.parse(MESSAGES.render(left, stream=False), stream=False)
    assert all(call.name not in gone for call in reply.calls)
    assert reply.finish_reason != "tool_use" or reply.calls
    if left != response:
        results = MESSAGES.results(reply.messages, {call.id: "" for call in reply.calls})
        assert MESSAGES.problems([MESSAGES.user("x"), *reply.messages, *results]) == []


@settings(max_examples=300, deadline=None)
@given(turns(), st.booleans(), odd_values, st.data())
def test_whatever_a_server_sends_is_an_answer_or_a_provider_error(turn, stream, odd, data):
    response = response_to({"model": "m", "messages": []}, turn, 1, 1)
    payloads = spoiled(list(events(response)) if stream else [response], odd, data.draw)
    body = "".join(f"data: {json.dumps(payload)}\n\n" for payload in payloads) if stream else json.dumps(payloads[0])
    with contextlib.suppress(ProviderError):
        reply = MESSAGES.parse(body.encode(), stream=stream)
        MESSAGES.results(reply.messages, {call.id: "" for call in reply.calls})
        [MESSAGES.canonical(message) for message in reply.messages]
        MESSAGES.problems(reply.messages)
        MESSAGES.without_calls(reply.response, frozenset({"bash"}))
        MESSAGES.render(reply.response, stream=stream)


class Harness:
    """Says what it has to say in the message that carries the results; marks its newest message for the cache."""

    start = ({"role": "user", "content": "task"},)

    def __init__(self, **params):
        self.params = params

    def request(self, raw, last, length):
        body = {"model": "m", "max_tokens": 99, "messages": list(raw), "tools": [TOOL], **self.params}
        if isinstance(raw[-1]["content"], list):
            *before, block = raw[-1]["content"]
            marked = {**raw[-1], "content": [*before, {**block, "cache_control": EPHEMERAL}]}
            body["messages"][-1] = marked
        return body

    def spoken(self, results, text):
        blocks = [block for message in results for block in message["content"]]
        blocks += [{"type": "text", "text": text}] if text else []
        return [{"role": "user", "content": blocks}] if blocks else []


@settings(max_examples=60, deadline=None)
@given(moves, st.sampled_from([{}, {"thinking": {"type": "enabled", "budget_tokens": 1024}}]))
def test_after_any_rewinds_the_list_is_valid_and_holds_what_it_must(moves, params):
    Conversation(MESSAGES, Messages(), Harness(**params)).play(moves)


@settings(max_examples=60, deadline=None)
@given(moves)
def test_without_edits_a_list_is_what_the_harness_sent(moves):
    run = Conversation(MESSAGES, Messages(), Harness())
    for _, number, user, reasoning in moves:
        run.step(number, user, reasoning)
    body = run.harness.request(run.raw, "", 0)
    assert splice(run.raw, ()) == run.raw
    assert MESSAGES.with_messages(body, MESSAGES.messages(body)) is body


@settings(max_examples=100, deadline=None)
@given(moves, st.data())
def test_a_broken_list_is_seen_by_the_dialect_and_by_the_provider(moves, data):
    run = Conversation(MESSAGES, Messages(), Harness())
    run.step(2, user=False, reasoning="hm")
    for _, number, user, reasoning in moves:
        run.step(number, user, reasoning)
    results = [
        index
        for index, message in enumerate(run.raw)
        if isinstance(message["content"], list) and message["content"][0]["type"] == "tool_result"
    ]
    index = data.draw(st.sampled_from(results))
    first, *rest = run.raw[index]["content"]
    late = [*rest, {"type": "text", "text": "x"}, first]
    for blocks in (rest or [{"type": "text", "text": "x"}], [first, first, *rest], late):
        broken = [*run.raw[:index], {"role": "user", "content": blocks}, *run.raw[index + 1 :]]
        assert MESSAGES.problems(broken)
        assert refusal({"model": "m", "max_tokens": 9, "messages": broken})


texts_ = st.text(min_size=1, max_size=5).filter(str.strip)
messages = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["user", "assistant"]),
    texts_
    | st.lists(st.builds(lambda text: {"type": "text", "text": text, "cache_control": EPHEMERAL}, texts_), min_size=1),
)


def blocks_of(items):
    """Role and text of each block."""
    found = []
    for message in items:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [(message["role"], block["text"]) for block in blocks]
    return found


@settings(max_examples=200, deadline=None)
@given(st.lists(messages, min_size=1, max_size=9), st.integers(0, 4))
def test_merging_loses_nothing_alternates_and_keeps_to_the_number_of_markers(items, elsewhere):
    system = [{"type": "text", "text": "s", "cache_control": EPHEMERAL}] * elsewhere
    body = {"model": "m", "max_tokens": 9, "messages": [], "system": system}
    sent = MESSAGES.with_messages(body, [{"role": "user", "content": "first"}, *items])
    assert blocks_of(sent["messages"])[1:] == blocks_of(items)
    assert refusal(sent) is None
    marks = [
        (block, "cache_control" in block)
        for message in sent["messages"]
        for block in message["content"]
        if "type" in block
    ]
    left = sum(marked for _, marked in marks)
    assert left == min(4 - elsewhere, sum(isinstance(item["content"], list) and len(item["content"]) for item in items))
    assert merged(sent["messages"]) == sent["messages"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=4), odd_values, st.data())
def test_whatever_a_harness_sends_is_understood_or_passed_through(calls, odd, data):
    run = Conversation(MESSAGES, Messages(), Harness())
    for number in calls:
        run.step(number, user=False, reasoning="hm")
    body = spoiled(run.request(), odd, data.draw)
    if MESSAGES.problems_with(body) is None:
        items = MESSAGES.messages(body)
        MESSAGES.problems(items)
        json.dumps([MESSAGES.canonical(message) for message in items])
        MESSAGES.with_messages(body, [*items, *items])
        MESSAGES.with_tools(body, TOOLS)
        MESSAGES.params(body)
        MESSAGES.model(body)
