"""Chat Completions: what real servers send, and what providers refuse."""

from __future__ import annotations

import json

import pytest

from agentrewind.core.errors import ProviderError
from agentrewind.core.records import Usage
from agentrewind.core.tools import NAMES, TOOLS
from agentrewind.dialects.openai_chat import OpenAIChat

CHAT = OpenAIChat()
USER = {"role": "user", "content": "hi"}


def tool_call(call_id, name="bash", arguments="{}"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def assistant(*calls, content=None):
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(call_id, content="ok"):
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def text_part(text):
    return {"type": "text", "text": text}


def response(message, finish="stop", **more):
    return {"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": finish}], **more}


def stream(*events, end="data: [DONE]\n\n"):
    return ("".join(f"data: {json.dumps(event)}\n\n" for event in events) + end).encode()


def delta(finish=None, **fields):
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def plain(message, finish="stop", **more):
    return CHAT.parse(json.dumps(response(message, finish, **more)).encode(), stream=False)


# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/v1/chat/completions", True),
        ("post", "/chat/completions", True),
        ("POST", "/openai/deployments/x/chat/completions?api-version=1", True),
        ("POST", "/v1/chat/completions/", True),
        ("GET", "/v1/chat/completions", False),
        ("POST", "/v1/completions", False),
        ("POST", "/v1/embeddings", False),
        ("POST", "/v1/chat/completions/chatcmpl-1", False),
    ],
)
def test_which_requests_speak_it(method, path, expected):
    assert CHAT.matches(method, path) is expected


@pytest.mark.parametrize(
    "body",
    [
        [],
        "text",
        {},
        {"messages": "hi"},
        {"messages": []},
        {"messages": ["hi"]},
        {"messages": [USER], "n": 2},
        {"messages": [USER], "tools": "bash"},
    ],
)
def test_what_cannot_be_made_recoverable(body):
    assert CHAT.problems_with(body)


@pytest.mark.parametrize("more", [{}, {"n": 1}, {"n": None}, {"tools": None}, {"parallel_tool_calls": False}])
def test_what_can(more):
    assert CHAT.problems_with({"model": "m", "messages": [USER], **more}) is None


def test_tools_come_once_after_the_harness_own_and_nothing_else_moves():
    own = {"type": "function", "function": {"name": "bash", "strict": True}}
    body = {"messages": [USER], "tools": [own], "tool_choice": "none", "parallel_tool_calls": False}
    once = CHAT.with_tools(body, TOOLS)
    assert once["tools"][0] is own
    assert [tool["function"]["name"] for tool in once["tools"][1:]] == [spec.name for spec in TOOLS]
    assert all("strict" not in tool["function"] for tool in once["tools"][1:])
    assert CHAT.with_tools(once, TOOLS) == once
    assert {**once, "tools": None} == {**body, "tools": None}
    assert body["tools"] == [own]


@pytest.mark.parametrize("tools", [{}, {"tools": None}, {"tools": []}])
def test_tools_are_declared_where_there_were_none(tools):
    assert len(CHAT.with_tools({"messages": [USER], **tools}, TOOLS)["tools"]) == 2


def test_a_request_with_legacy_functions_is_left_alone():
    body = {"messages": [USER], "functions": [{"name": "f"}]}
    assert CHAT.with_tools(body, TOOLS) == body


def test_params_are_all_the_rest():
    body = {"model": "m", "messages": [USER], "tools": [], "temperature": 0, "stream": True}
    assert CHAT.params(body) == {"temperature": 0, "stream": True}
    assert CHAT.streams(body)
    assert not CHAT.streams({"stream": None})
    assert CHAT.model(body) == "m"
    assert CHAT.model({}) == ""


# --- canonical form ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "a"}]}),
        (
            {"role": "user", "content": "a"},
            {"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]},
        ),
        ({"role": "user", "content": "a", "name": None, "cache_control": {}}, {"role": "user", "content": "a"}),
        (
            {"role": "assistant", "content": "a", "refusal": None, "audio": None, "annotations": [], "tool_calls": []},
            {"role": "assistant", "content": "a", "id": "msg_1", "created": 5, "timestamp": 1.5},
        ),
        (
            {"role": "assistant", "content": "a", "reasoning_content": "hm", "provider_specific_fields": {"x": 1}},
            {"role": "assistant", "content": "a", "reasoning": None, "tool_calls": None},
        ),
        (assistant(tool_call("c")), {"role": "assistant", "tool_calls": [{**tool_call("c"), "index": 0}]}),
        ({"role": "user", "content": ["a", "b"]}, {"role": "user", "content": [text_part("a"), text_part("b")]}),
        (assistant(tool_call("c"), content=""), assistant(tool_call("c"), content=[])),
        (assistant(tool_call("c", arguments='{"a": 1}')), assistant(tool_call("c", arguments='{"a":1}'))),
    ],
)
def test_what_means_the_same_is_equal(one, other):
    assert CHAT.canonical(one) == CHAT.canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"role": "user", "content": "a"}, {"role": "user", "content": "b"}),
        ({"role": "user", "content": "a"}, {"role": "system", "content": "a"}),
        ({"role": "user", "content": "a"}, {"role": "user", "content": "a", "name": "ann"}),
        (assistant(tool_call("c")), assistant(tool_call("d"))),
        (assistant(tool_call("c")), assistant(tool_call("c"), tool_call("d"))),
        (assistant(tool_call("c", arguments="{}")), assistant(tool_call("c", arguments='{"a": 1}'))),
        (assistant(tool_call("c", arguments="{a")), assistant(tool_call("c", arguments="{b"))),
        (result("c"), result("d")),
        ({"role": "assistant", "content": "", "refusal": "no"}, {"role": "assistant", "content": ""}),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a"}}]},
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "b"}}]},
        ),
    ],
)
def test_what_does_not_is_not(one, other):
    assert CHAT.canonical(one) != CHAT.canonical(other)


# --- answers ----------------------------------------------------------------------------------------------------------


def test_a_plain_answer():
    reply = plain(
        {"role": "assistant", "content": "a", "refusal": None, "annotations": [], "audio": None, "tool_calls": []},
        usage={
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 3},
        },
    )
    assert reply.message == {"role": "assistant", "content": "a"}
    assert (reply.text, reply.calls, reply.finish_reason) == ("a", (), "stop")
    assert reply.usage == Usage(10, 5, 4, 3)
    assert CHAT.problems([USER, reply.message]) == []


def test_deepseek_and_vllm_fields_stay_in_the_message():
    reply = plain(
        {"role": "assistant", "content": None, "reasoning_content": "hm"}, usage={"prompt_cache_hit_tokens": 7}
    )
    assert reply.message == {"role": "assistant", "content": "", "reasoning_content": "hm"}
    assert reply.usage.cached == 7


@pytest.mark.parametrize(
    ("raw", "parsed"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        (" ", {}),
        ("{broken", None),
        ('{"a": NaN}', None),
        ("[" * 100_000, None),
        ("[1]", [1]),
    ],
)
def test_arguments(raw, parsed):
    (call,) = plain(assistant(tool_call("c", arguments=raw)), "tool_calls").calls
    assert (call.id, call.name, call.arguments, call.raw_arguments) == ("c", "bash", parsed, raw)


def test_arguments_that_a_server_sends_as_an_object():
    (call,) = plain(assistant(tool_call("c", arguments={"a": 1})), "tool_calls").calls
    assert call.arguments == {"a": 1}


def test_a_custom_tool_is_called_with_text():
    custom = {"id": "c", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    (call,) = plain(assistant(custom), "tool_calls").calls
    assert (call.name, call.arguments) == ("sql", "select 1")


def test_a_refusal_and_a_legacy_call_pass_through():
    refused = plain({"role": "assistant", "content": None, "refusal": "I can't"})
    assert refused.text == "I can't"
    assert refused.message["refusal"] == "I can't"
    legacy = plain({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}})
    assert legacy.calls == ()
    assert legacy.message["function_call"]["name"] == "f"
    assert legacy.message["content"] is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Bad gateway</html>",
        b"[]",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{}]}',
        b'{"error": {"message": "overloaded"}}',
        b'{"object": "error", "message": "overloaded"}',
        b'{"error": "overloaded"}',
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_what_is_no_answer(body, streamed):
    with pytest.raises(ProviderError) as raised:
        CHAT.parse(body, stream=streamed)
    if b"overloaded" in body:
        assert "overloaded" in str(raised.value)


# --- streams ----------------------------------------------------------------------------------------------------------


def test_parallel_calls_interleaved():
    body = stream(
        delta(role="assistant", content=None),
        delta(tool_calls=[{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]),
        delta(tool_calls=[{"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": '{"x'}}]),
        delta(
            tool_calls=[{"index": 0, "function": {"arguments": "{}"}}, {"index": 1, "function": {"arguments": '":1}'}}]
        ),
        delta("tool_calls"),
    )
    reply = CHAT.parse(body, stream=True)
    assert [(call.id, call.name, call.arguments) for call in reply.calls] == [("a", "f", {}), ("b", "g", {"x": 1})]
    assert reply.response["object"] == "chat.completion"
    assert reply.message["content"] is None


def test_calls_without_an_index_or_all_with_the_same():
    one = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    other = {"id": "b", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    for numbering in ({}, {"index": 0}):
        body = stream(
            delta(tool_calls=[{**one, **numbering}]), delta("tool_calls", tool_calls=[{**other, **numbering}])
        )
        assert [call.id for call in CHAT.parse(body, stream=True).calls] == ["a", "b"]


def test_an_id_or_name_said_again_is_said_once():
    first = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}
    again = {"index": 0, "id": "", "function": {"name": "f", "arguments": "}"}}
    (call,) = CHAT.parse(stream(delta(tool_calls=[first]), delta("stop", tool_calls=[again])), stream=True).calls
    assert (call.id, call.name, call.raw_arguments) == ("a", "f", "{}")


def test_reasoning_and_structured_details_grow():
    body = stream(
        delta(reasoning_content="a", reasoning_details=[{"index": 0, "type": "reasoning.text", "text": "a"}]),
        delta(reasoning_content="b", reasoning_details=[{"index": 0, "type": "reasoning.text", "text": "b"}]),
        delta(audio={"id": "x", "data": "AA"}),
        delta("stop", content="c", audio={"data": "BB", "expires_at": 5}),
    )
    message = CHAT.parse(body, stream=True).message
    assert message["reasoning_content"] == "ab"
    assert message["reasoning_details"] == [{"index": 0, "type": "reasoning.text", "text": "ab"}]
    assert message["audio"] == {"id": "x", "data": "AABB", "expires_at": 5}


def test_log_probabilities_and_a_legacy_call_grow():
    first = {"index": 0, "delta": {"function_call": {"name": "f", "arguments": "{"}}, "logprobs": {"content": [1]}}
    second = {"index": 0, "delta": {"function_call": {"arguments": "}"}}, "logprobs": {"content": [2]}}
    body = stream({"choices": [first]}, {"choices": [second]}, delta("function_call"))
    reply = CHAT.parse(body, stream=True)
    assert reply.message["function_call"] == {"name": "f", "arguments": "{}"}
    assert reply.response["choices"][0]["logprobs"] == {"content": [1, 2]}


def test_usage_in_the_last_chunk_and_null_before():
    chunk = {**delta("stop", content="a"), "usage": None}
    body = stream(chunk, {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}})
    assert CHAT.parse(body, stream=True).usage == Usage(3, 1)


def test_a_surrogate_pair_cut_in_two():
    body = stream(delta(content="\ud83d"), delta("stop", content="\ude00"))
    assert b"\\ud83d" in body
    assert CHAT.parse(body, stream=True).text == "\N{GRINNING FACE}"


def test_a_lone_surrogate_survives():
    lone = response({"role": "assistant", "content": "\ud83d"})
    for streamed in (False, True):
        assert CHAT.parse(CHAT.render(lone, stream=streamed), stream=streamed).text == "\ud83d"


def test_line_ends_comments_and_a_last_event_without_its_blank_line():
    text = json.dumps(delta("stop", content="é"), ensure_ascii=False)
    for end in ("\n", "\r\n", "\r"):
        body = f"\ufeff: ping{end}{end}event: x{end}id: 1{end}data:{text}"
        assert CHAT.parse(body.encode(), stream=True).text == "é"


def test_an_error_in_mid_stream_is_an_error():
    body = stream(delta(content="a"), {"error": {"message": "out of memory", "code": 500}})
    with pytest.raises(ProviderError, match="out of memory"):
        CHAT.parse(body, stream=True)


@pytest.mark.parametrize(
    "body",
    [
        stream(delta(content="a"), end=""),
        stream(delta(content="a"), end='data: {"choices": [{"del'),
        stream(delta("stop", content="a"), end="data: nonsense\n\n"),
        b"data: \xff\xfe\n\n",
        b": only a comment\n\n",
        b"data: [DONE]\n\n",
    ],
)
def test_a_stream_that_is_no_whole_answer(body):
    with pytest.raises(ProviderError):
        CHAT.parse(body, stream=True)


def test_a_missing_done_is_forgiven():
    assert CHAT.parse(stream(delta("stop", content="a"), end=""), stream=True).text == "a"


def test_a_stream_has_usage_exactly_where_the_answer_has():
    with_usage = response({"role": "assistant", "content": "a"}, usage={"prompt_tokens": 1})
    assert b'"usage"' in CHAT.render(with_usage, stream=True)
    assert b'"choices": []' not in CHAT.render(response({"role": "assistant", "content": "a"}), stream=True)


# --- calls taken out --------------------------------------------------------------------------------------------------


def test_an_answer_whose_calls_are_all_ours_ends_as_a_text_does():
    left = CHAT.without_calls(response(assistant(tool_call("c", "backtrack_commit")), "tool_calls"), NAMES)
    assert left["choices"][0] == {
        "index": 0,
        "message": {"role": "assistant", "content": ""},
        "finish_reason": "stop",
    }


def test_other_calls_and_their_finish_reason_stay():
    both = response(assistant(tool_call("c", "backtrack_commit"), tool_call("d")), "tool_calls")
    choice = CHAT.without_calls(both, NAMES)["choices"][0]
    assert [call["id"] for call in choice["message"]["tool_calls"]] == ["d"]
    assert choice["finish_reason"] == "tool_calls"
    assert len(both["choices"][0]["message"]["tool_calls"]) == 2


# --- what providers refuse --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "messages",
    [
        [],
        [{"role": "robot", "content": "x"}],
        [{"role": "user"}],
        [{"role": "user", "content": 5}],
        [{"role": "assistant", "content": None}],
        [USER, assistant(content="x")],
        [{"role": "user", "content": "x", "tool_calls": [tool_call("c")]}, result("c")],
        [USER, assistant(tool_call("c"))],
        [USER, assistant(tool_call("c")), USER, result("c")],
        [USER, assistant(tool_call("c")), result("c"), result("c")],
        [USER, assistant(tool_call("c")), result("d")],
        [USER, assistant(tool_call("c"), tool_call("c")), result("c")],
        [USER, assistant(tool_call("c"), tool_call("d")), result("d")],
        [USER, assistant(tool_call(None)), result(None)],
        [USER, result("c")],
        [USER, assistant(tool_call("c")), result("c"), USER, result("c")],
    ],
)
def test_lists_that_a_strict_provider_refuses(messages):
    assert CHAT.problems(messages)


@pytest.mark.parametrize(
    "messages",
    [
        [USER],
        [{"role": "developer", "content": [{"type": "text", "text": "x"}]}, USER],
        [USER, assistant(tool_call("c"), tool_call("d")), result("d"), result("c"), {"role": "system", "content": "x"}],
        [USER, assistant(tool_call("c")), result("c"), assistant(tool_call("c")), result("c")],
        [USER, {"role": "assistant", "content": ""}],
        [
            USER,
            {"role": "assistant", "function_call": {"name": "f"}},
            {"role": "function", "name": "f", "content": "x"},
        ],
    ],
)
def test_lists_that_it_takes(messages):
    assert CHAT.problems(messages) == []
