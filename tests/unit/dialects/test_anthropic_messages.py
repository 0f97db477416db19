"""Anthropic Messages: what real servers and harnesses send, and what providers refuse."""

from __future__ import annotations

import json

import pytest

from agentrewind.core.errors import ProviderError
from agentrewind.core.records import Usage
from agentrewind.core.tools import NAMES, TOOLS
from agentrewind.dialects.anthropic_messages import AnthropicMessages

MESSAGES = AnthropicMessages()
USER = {"role": "user", "content": "hi"}
EPHEMERAL = {"type": "ephemeral"}
THINKING = {"type": "thinking", "thinking": " hm \n", "signature": "abc"}
REDACTED = {"type": "redacted_thinking", "data": "abc"}


def text(words, **more):
    return {"type": "text", "text": words, **more}


def use(call_id="t", name="bash", given=None, **more):
    return {"type": "tool_use", "id": call_id, "name": name, "input": given or {}, **more}


def result(call_id="t", content="ok", **more):
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks):
    return {"role": "assistant", "content": list(blocks)}


def response(*blocks, **more):
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": list(blocks)}
    return {**head, "stop_reason": "tool_use", "stop_sequence": None, **more}


def plain(*blocks, **more):
    return MESSAGES.parse(json.dumps(response(*blocks, **more)).encode(), stream=False)


def body(*messages, **more):
    return {"model": "m", "max_tokens": 9, "messages": list(messages), **more}


# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/v1/messages", True),
        ("POST", "/anthropic/v1/messages?beta=true", True),
        ("POST", "/v1/messages/", True),
        ("POST", "/v1/messages/count_tokens", False),
        ("POST", "/v1/messages/batches", False),
        ("POST", "/v1/threads/t/messages", False),
        ("GET", "/v1/messages", False),
        ("POST", "/v1/chat/completions", False),
    ],
)
def test_which_requests_speak_it(method, path, expected):
    assert MESSAGES.matches(method, path) is expected


@pytest.mark.parametrize(
    "found",
    [
        [],
        {},
        {"messages": []},
        {"messages": ["hi"]},
        {"messages": [{"role": "user", "content": None}]},
        {"messages": [{"role": "user", "content": ["hi"]}]},
        {"messages": [{"role": "user", "content": [{"text": "hi"}]}]},
        {"messages": [USER], "tools": "bash"},
    ],
)
def test_what_cannot_be_made_recoverable(found):
    assert MESSAGES.problems_with(found)


def test_no_request_continues_an_answer():
    assert MESSAGES.continues(body(USER)) is None
    assert MESSAGES.reply_id(plain(text("x"))) is None
    assert MESSAGES.as_whole(body(USER), [USER, user(text("x"))])["messages"] == [user(text("hi"), text("x"))]


def test_tools_are_declared_in_its_own_schema_and_the_choice_stays():
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    own = {"name": "bash", "input_schema": {"type": "object"}, "cache_control": EPHEMERAL}
    changed = MESSAGES.with_tools(body(USER, tools=[own], tool_choice=choice), TOOLS)
    assert changed["tools"] == [
        own,
        *({"name": spec.name, "description": spec.description, "input_schema": spec.parameters} for spec in TOOLS),
    ]
    assert changed["tool_choice"] == choice


def test_params_leave_out_who_asks():
    asked = body(USER, system="s", metadata={"user_id": "session-1", "team": "a"}, thinking={"type": "adaptive"})
    other = body(USER, system="s", metadata={"user_id": "session-2", "team": "a"}, thinking={"type": "adaptive"})
    assert MESSAGES.params(asked) == MESSAGES.params(other)
    assert MESSAGES.params(asked)["metadata"] == {"team": "a"}
    assert "metadata" not in MESSAGES.params(body(USER, metadata={"user_id": "x"}))
    assert MESSAGES.params(asked)["system"] == "s"


# --- merging ----------------------------------------------------------------------------------------------------------


def test_the_memory_follows_the_results_in_one_message():
    talk = [USER, assistant(THINKING, use()), user(result())]
    sent = MESSAGES.with_messages(body(*talk), [*talk, MESSAGES.memory("the notes", "system")])
    assert sent["messages"] == [*talk[:2], user(result(), text("the notes"))]
    assert talk[2] == user(result())


def test_thinking_stays_where_it_is_and_as_it_is():
    said = assistant(THINKING, text("a"), REDACTED, use())
    talk = [USER, said, user(result())]
    sent = MESSAGES.with_messages(body(USER), [*talk, user(text("x"))])
    assert sent["messages"][1] is said


def test_what_the_harness_sends_itself_is_not_merged():
    odd = body(USER, USER, assistant(text("a")), assistant(text("b")))
    assert MESSAGES.with_messages(odd, MESSAGES.messages(odd)) is odd


def test_a_message_of_the_system_in_the_middle_stays_the_last_before_the_answer():
    told = {"role": "system", "content": "be quick"}
    sent = MESSAGES.with_messages(body(USER), [USER, told, MESSAGES.user("notes"), assistant(text("a"))])
    assert sent["messages"] == [user(text("hi"), text("notes")), told, assistant(text("a"))]


def test_of_too_many_cache_markers_the_last_ones_stay():
    def marked(words):
        return user(text(words, cache_control=EPHEMERAL))

    inner = user(result(content=[text("x", cache_control=EPHEMERAL)], cache_control=EPHEMERAL))
    system = [text("s", cache_control=EPHEMERAL)]
    talk = [marked("a"), assistant(use()), inner, assistant(text("b")), marked("c"), assistant(text("d")), marked("e")]
    sent = MESSAGES.with_messages(body(USER, system=system), talk)
    assert json.dumps(sent).count("cache_control") == 4
    assert sent["messages"][0] == user(text("a"))
    assert sent["messages"][2] == user(result(content=[text("x")], cache_control=EPHEMERAL))
    assert sent["messages"][3:] == talk[3:]
    assert json.dumps(talk).count("cache_control") == 5


# --- canonical form ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (USER, user(text("hi"))),
        (USER, user(text("hi", cache_control=EPHEMERAL, citations=None))),
        (assistant(THINKING, use()), assistant(use(caller={"type": "direct"}))),
        (assistant(REDACTED, text("a")), {"role": "assistant", "content": "a"}),
        (user(result()), user(result(content=[text("ok", cache_control=EPHEMERAL)], is_error=False))),
        (assistant(), {"role": "assistant", "content": ""}),
        ({**USER, "id": "x"}, USER),
    ],
)
def test_what_means_the_same_is_equal(one, other):
    assert MESSAGES.canonical(one) == MESSAGES.canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (USER, {**USER, "role": "assistant"}),
        (assistant(use()), assistant(use("u"))),
        (assistant(use()), assistant(use(given={"a": 1}))),
        (user(result()), user(result(is_error=True))),
        (user(result(), text("x")), user(result())),
        (user({"type": "image", "source": {"type": "url", "url": "a"}}), user(text("a"))),
    ],
)
def test_what_differs_is_not(one, other):
    assert MESSAGES.canonical(one) != MESSAGES.canonical(other)


# --- answers ----------------------------------------------------------------------------------------------------------


def test_an_answer_goes_back_to_the_letter_without_nulls_and_without_texts_of_nothing():
    reply = plain(THINKING, text(" \n"), text("a", citations=None), use(given={"a": 1}, caller=None))
    assert reply.messages == (assistant(THINKING, text("a"), use(given={"a": 1})),)
    assert (reply.text, reply.finish_reason) == (" \na", "tool_use")
    assert plain(text("")).messages == ()


def test_tools_of_the_provider_are_not_the_harness_s():
    searched = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    reply = plain(searched, found, text("a"), stop_reason="end_turn")
    assert reply.calls == ()
    assert MESSAGES.problems([USER, *reply.messages, USER]) == []


def test_what_the_cache_holds_is_part_of_the_input():
    usage = {
        "input_tokens": 1,
        "cache_creation_input_tokens": 10,
        "cache_read_input_tokens": 100,
        "cache_creation": {"ephemeral_5m_input_tokens": 6, "ephemeral_1h_input_tokens": 4},
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    assert plain(text("x"), usage=usage).usage == Usage(111, 7, 100, 3, cache_write=10, cache_write_1h=4)
    assert plain(text("x"), usage={"input_tokens": 1, "cache_read_input_tokens": None}).usage == Usage(1)


START = {"type": "message_start", "message": response(stop_reason=None, usage={"input_tokens": 5, "output_tokens": 1})}
STOP = [
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn", "stop_sequence": None},
        "usage": {"output_tokens": 9, "input_tokens": None},
    },
    {"type": "message_stop"},
]


def stream(*events):
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


def begin(index, block):
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index, kind, **more):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **more}}


def test_a_stream_as_it_comes():
    events = [
        START,
        {"type": "ping"},
        begin(0, {"type": "thinking", "thinking": "", "signature": ""}),
        delta(0, "thinking_delta", thinking=" hm"),
        delta(0, "thinking_delta", thinking=" \n"),
        delta(0, "signature_delta", signature="abc"),
        {"type": "content_block_stop", "index": 0},
        begin(1, text("")),
        delta(1, "text_delta", text="a"),
        delta(1, "citations_delta", citation={"cited_text": "x"}),
        begin(2, use()),
        delta(2, "input_json_delta", partial_json=""),
        delta(2, "input_json_delta", partial_json='{"a":'),
        {"type": "ping"},
        delta(2, "input_json_delta", partial_json=" 1}"),
        {"type": "something_new", "index": 7},
        *STOP,
    ]
    reply = MESSAGES.parse(stream(*events), stream=True)
    cited = text("a", citations=[{"cited_text": "x"}])
    assert reply.messages == (assistant(THINKING, cited, use(given={"a": 1})),)
    assert reply.usage == Usage(5, 9)
    assert reply.finish_reason == "end_turn"


def test_input_that_is_cut_off_is_text_and_goes_back_in_the_documented_wrapping():
    events = [START, begin(0, use()), delta(0, "input_json_delta", partial_json='{"a": '), *STOP]
    reply = MESSAGES.parse(stream(*events), stream=True)
    (call,) = reply.calls
    assert (call.arguments, call.raw_arguments) == (None, '{"a": ')
    assert reply.messages == (assistant(use(given={"INVALID_JSON": '{"a": '})),)


@pytest.mark.parametrize(
    "events",
    [
        [START],
        [START, begin(0, text("a"))],
        [begin(0, text("a")), *STOP],
        [START, delta(0, "text_delta", text="a"), *STOP],
        STOP,
    ],
)
def test_streams_that_are_no_answer(events):
    with pytest.raises(ProviderError):
        MESSAGES.parse(stream(*events), stream=True)


def test_errors():
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "r"}
    with pytest.raises(ProviderError, match="Overloaded"):
        MESSAGES.parse(stream(START, error), stream=True)
    with pytest.raises(ProviderError, match="Overloaded"):
        MESSAGES.parse(json.dumps(error).encode(), stream=True)


def test_thinking_goes_with_the_only_thing_that_it_led_to():
    ours = use("b", next(iter(NAMES)))
    left = MESSAGES.without_calls(response(THINKING, text("a"), REDACTED, ours), NAMES)
    assert (left["content"], left["stop_reason"]) == ([THINKING, text("a")], "end_turn")
    left = MESSAGES.without_calls(response(THINKING, ours, use()), NAMES)
    assert (left["content"], left["stop_reason"]) == ([THINKING, use()], "tool_use")


# --- what providers refuse --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "talk",
    [
        [],
        [assistant(text("a"))],
        [USER, {"role": "tool", "content": "x"}],
        [user()],
        [USER, assistant(), USER],
        [user(text(" \n"))],
        [USER, assistant(use())],
        [USER, assistant(use()), USER],
        [USER, assistant(use(), use()), user(result(), result())],
        [USER, assistant(use()), user(result(), result())],
        [USER, assistant(use()), user(text("x"), result())],
        [USER, assistant(use()), user(result("u"))],
        [USER, user(result())],
        [USER, assistant(THINKING), USER],
        [USER, assistant({**THINKING, "signature": ""}, text("a"))],
        [user(THINKING, text("a"))],
    ],
)
def test_what_a_strict_provider_refuses(talk):
    assert MESSAGES.problems(talk)


@pytest.mark.parametrize(
    "talk",
    [
        [USER, assistant(THINKING, use(), use("u")), user(result("u"), result(), text("x"))],
        [USER, assistant(use()), user(result()), USER],
        [USER, assistant(use()), user(result(content=[{"type": "image", "source": {}}])), assistant(text("a"))],
        [USER, assistant()],
        [user(text("x"), {"type": "document", "source": {"type": "file", "file_id": "f"}})],
    ],
)
def test_what_it_takes(talk):
    assert MESSAGES.problems(talk) == []
