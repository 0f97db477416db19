"""Responses: what real servers and harnesses send, and what providers refuse."""

from __future__ import annotations

import json
import re

import pytest

from agentrewind.core.errors import ProviderError
from agentrewind.core.records import Usage
from agentrewind.core.tools import NAMES, TOOLS
from agentrewind.dialects.openai_responses import OpenAIResponses

RESPONSES = OpenAIResponses()
USER = {"role": "user", "content": "hi"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"}


def called(call_id="c", name="bash", arguments="{}", **more):
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **more}


def output(call_id="c", text="ok"):
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def said(text, **more):
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [part], **more}


def response(*items, **more):
    return {"id": "resp_1", "object": "response", "status": "completed", "error": None, "output": list(items), **more}


def plain(*items, **more):
    return RESPONSES.parse(json.dumps(response(*items, **more)).encode(), stream=False)


def stream(*events, end=""):
    return ("".join(f"data: {json.dumps(event)}\n\n" for event in events) + end).encode()


# --- requests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/v1/responses", True),
        ("post", "/backend-api/codex/responses", True),
        ("POST", "/openai/responses?api-version=1", True),
        ("GET", "/v1/responses", False),
        ("POST", "/v1/responses/resp_1/cancel", False),
        ("POST", "/v1/responses/compact", False),
        ("POST", "/v1/responses/input_tokens", False),
        ("POST", "/v1/chat/completions", False),
    ],
)
def test_which_requests_speak_it(method, path, expected):
    assert RESPONSES.matches(method, path) is expected


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ([], "not a JSON object"),
        ({}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "empty"),
        ({"input": ["hi"]}, "input"),
        ({"input": [{"content": "x"}]}, r"input\[0\]"),
        ({"input": [USER, called(arguments={})]}, r"input\[1\]"),
        ({"input": "hi", "conversation": "conv_1"}, "the provider keeps"),
        ({"input": "hi", "conversation": {"id": "conv_1"}}, "no request can cut"),
        ({"input": "hi", "background": True}, "in the background"),
        ({"input": "hi", "previous_response_id": 5}, "previous_response_id"),
        ({"input": "hi", "tools": "bash"}, "tools"),
    ],
)
def test_what_cannot_be_made_recoverable(body, reason):
    assert re.search(reason, RESPONSES.problems_with(body))


@pytest.mark.parametrize(
    "more", [{}, {"store": False}, {"previous_response_id": "r"}, {"conversation": None}, {"background": False}]
)
def test_what_can(more):
    assert RESPONSES.problems_with({"model": "m", "input": "hi", **more}) is None
    assert RESPONSES.problems_with({"model": "m", "input": [THOUGHT, called(), output()], **more}) is None


def test_input_that_is_text_is_one_message_of_the_user_and_stays_text_where_nothing_changes():
    body = {"model": "m", "input": "hi"}
    assert RESPONSES.messages(body) == [USER]
    assert RESPONSES.with_messages(body, [USER]) is body
    more = [USER, RESPONSES.memory("notes", "system")]
    assert RESPONSES.with_messages(body, more)["input"] == more


def test_what_continues_an_answer_is_made_whole():
    body = {"model": "m", "instructions": "i", "input": [output()], "previous_response_id": "resp_1", "store": True}
    assert RESPONSES.continues(body) == "resp_1"
    assert RESPONSES.continues({**body, "previous_response_id": None}) is None
    whole = RESPONSES.as_whole(body, [USER, called(), output()])
    assert whole == {"model": "m", "instructions": "i", "input": [USER, called(), output()], "store": True}
    assert RESPONSES.reply_id(plain(said("x"))) == "resp_1"
    assert RESPONSES.reply_id(plain(said("x"), store=False)) is None


def test_tools_are_declared_in_the_flat_form_and_not_strict():
    own = [{"type": "web_search"}, {"type": "custom", "name": "patch"}, {"type": "namespace", "name": "x", "tools": []}]
    changed = RESPONSES.with_tools({"input": "hi", "tools": own, "tool_choice": "auto"}, TOOLS)
    assert changed["tools"][:3] == own
    assert [(tool["type"], tool["name"], tool["strict"]) for tool in changed["tools"][3:]] == [
        ("function", spec.name, False) for spec in TOOLS
    ]
    assert RESPONSES.with_tools(changed, TOOLS) is changed


def test_params_leave_out_what_names_a_session():
    body = {"model": "m", "input": "hi", "tools": [], "prompt_cache_key": "k", "instructions": "i", "stream": True}
    assert RESPONSES.params(body) == {"instructions": "i", "stream": True}
    assert RESPONSES.params(body | {"client_metadata": {"a": "b"}, "safety_identifier": "me"}) == RESPONSES.params(body)


# --- canonical form ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (USER, {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}),
        (said("x"), {"role": "assistant", "content": "x"}),
        (said("x", status="completed", phase="final_answer"), said("x", id=None)),
        (said(""), {"role": "assistant", "content": ""}),
        (called(id="fc_1", status="completed"), called()),
        (called(arguments='{"a": 1}'), called(arguments='{"a":1}')),
        (THOUGHT, {**THOUGHT, "id": "rs_2", "status": "completed", "content": None}),
        (output(), output(text=[{"type": "input_text", "text": "ok"}])),
    ],
)
def test_what_means_the_same_is_equal(one, other):
    assert RESPONSES.canonical(one) == RESPONSES.canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (USER, {**USER, "role": "developer"}),
        (called(), called(name="read")),
        (called(), called("d")),
        (called(arguments="{broken"), called(arguments="{")),
        (called(), {**called(), "type": "custom_tool_call", "input": "{}"}),
        (output(), output(text="no")),
        (THOUGHT, {**THOUGHT, "encrypted_content": "other"}),
        ({**THOUGHT, "encrypted_content": None}, {**THOUGHT, "encrypted_content": None, "id": "rs_2"}),
        ({"type": "item_reference", "id": "a"}, {"type": "item_reference", "id": "b"}),
        (USER, {**USER, "content": [{"type": "input_image", "image_url": "x"}]}),
    ],
)
def test_what_differs_is_not(one, other):
    assert RESPONSES.canonical(one) != RESPONSES.canonical(other)


# --- answers ----------------------------------------------------------------------------------------------------------


def test_an_answer_is_several_messages_in_order_and_to_the_letter():
    custom = {"type": "custom_tool_call", "id": "ctc", "call_id": "d", "name": "patch", "input": "*** Begin"}
    reply = plain(THOUGHT, said("I look."), called(arguments='{"a": 1}', id="fc_1"), custom)
    assert list(reply.messages) == [THOUGHT, said("I look."), called(arguments='{"a": 1}', id="fc_1"), custom]
    assert [(call.id, call.name, call.arguments) for call in reply.calls] == [
        ("c", "bash", {"a": 1}),
        ("d", "patch", "*** Begin"),
    ]
    with pytest.raises(ValueError, match="unpack"):
        _ = reply.message


def test_reasoning_that_nobody_kept_is_not_sent_back():
    lost = {**THOUGHT, "encrypted_content": None}
    assert plain(lost, said("x"), store=False).messages == (said("x"),)
    assert len(plain(lost, said("x")).messages) == 2


def test_built_in_calls_are_the_provider_s_own_and_pass_through():
    searched = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
    reply = plain(searched, said("x"))
    assert reply.calls == ()
    assert reply.messages == (searched, said("x"))
    assert RESPONSES.problems([USER, *reply.messages, USER]) == []


def test_a_hosted_shell_call_comes_with_its_output_and_a_local_one_waits_for_it():
    shell = {"type": "shell_call", "id": "sh_1", "call_id": "s", "action": {"commands": ["ls"]}}
    result = {"type": "shell_call_output", "id": "sho_1", "call_id": "s", "output": []}
    assert plain(shell, result, said("x")).calls == ()
    assert [call.name for call in plain(shell).calls] == ["shell"]


@pytest.mark.parametrize(
    "call",
    [
        called(),
        {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "x"},
        {"type": "local_shell_call", "id": "l", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "shell_call", "id": "s", "call_id": "c", "action": {"commands": ["ls"]}},
        {"type": "apply_patch_call", "id": "a", "call_id": "c", "operation": {"type": "delete_file", "path": "x"}},
        {
            "type": "computer_call",
            "id": "p",
            "call_id": "c",
            "action": {"type": "screenshot"},
            "pending_safety_checks": [{"id": "z"}],
        },
    ],
)
def test_each_kind_of_call_gets_its_kind_of_output(call):
    reply = plain(call)
    (result,) = RESPONSES.results(reply.messages, {"c": "not executed"})
    assert result["type"] == call["type"] + "_output"
    assert result["call_id"] == "c"
    assert RESPONSES.problems([USER, *reply.messages, result, USER]) == []
    assert RESPONSES.problems([USER, *reply.messages, USER]) != []


def test_usage_refusals_and_incomplete_answers():
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    assert plain(said("x"), usage=usage).usage == Usage(10, 5, 4, 2)
    refused = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    assert plain(refused).text == "No."
    cut = plain(said("x"), status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert cut.finish_reason == "max_output_tokens"


@pytest.mark.parametrize("status", ["failed", "cancelled", "queued", "in_progress"])
def test_an_answer_that_is_none_yet_or_never_is_an_error(status):
    with pytest.raises(ProviderError, match=status):
        plain(status=status)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "server_error", "message": "too much", "param": None, "sequence_number": 3},
        {"type": "error", "error": {"message": "too much"}},
        {"type": "response.failed", "response": {"status": "failed", "error": {"message": "too much"}}},
    ],
)
def test_errors_in_a_stream(event):
    begun = {"type": "response.created", "response": response()}
    with pytest.raises(ProviderError, match="too much"):
        RESPONSES.parse(stream(begun, event), stream=True)


ADDED = {"type": "response.output_item.added", "output_index": 0, "item": said("")}
DONE = {"type": "response.output_item.done", "output_index": 0, "item": said("whole")}


def test_a_stream_without_its_last_event_counts_where_all_items_are_done_and_it_says_so():
    created = {"type": "response.created", "response": response(status="in_progress")}
    reply = RESPONSES.parse(stream(created, ADDED, DONE, end="data: [DONE]\n\n"), stream=True)
    assert (reply.text, reply.finish_reason, reply.response["id"]) == ("whole", "completed", "resp_1")
    for events, end in (((created, ADDED, DONE), ""), ((created, ADDED), "data: [DONE]\n\n")):
        with pytest.raises(ProviderError, match="ended before"):
            RESPONSES.parse(stream(*events, end=end), stream=True)


def test_events_that_say_nothing_of_an_item_are_passed_over():
    noise = [
        {"type": "response.web_search_call.searching", "output_index": 0, "item_id": "x"},
        {"type": "response.image_generation_call.partial_image", "output_index": 0, "partial_image_b64": "AA"},
        {"type": "response.audio.delta", "delta": "AA"},
        {"type": "response.shell_call_command.delta", "output_index": 0, "command_index": 0, "delta": "l"},
    ]
    noted = {
        "type": "response.output_text.annotation.added",
        "output_index": 0,
        "content_index": 0,
        "annotation": {"type": "url_citation"},
    }
    last = {"type": "response.completed", "response": response()}
    reply = RESPONSES.parse(stream(ADDED, *noise, noted, last), stream=True)
    assert reply.messages[0]["content"][0]["annotations"] == [{"type": "url_citation"}]


def test_a_rendered_stream_has_the_names_and_numbers_that_clients_wait_for():
    body = RESPONSES.render(response(THOUGHT, said("x"), called()), stream=True).decode()
    events = [json.loads(line[6:]) for line in body.split("\n") if line.startswith("data: ")]
    assert [line[7:] for line in body.split("\n") if line.startswith("event: ")] == [event["type"] for event in events]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    assert events[0]["response"]["output"] == []
    assert events[-1]["type"] == "response.completed"


def test_reasoning_goes_with_the_only_thing_that_it_led_to():
    left = RESPONSES.without_calls(response(THOUGHT, called("d"), THOUGHT, called(name=next(iter(NAMES)))), NAMES)
    assert left["output"] == [THOUGHT, called("d")]


# --- what providers refuse --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "items",
    [
        [USER, {"role": "robot", "content": "x"}],
        [USER, {"role": "user", "content": None}],
        [USER, {"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}],
        [{"role": "user", "content": [{"type": "output_text", "text": "x"}]}],
        [USER, THOUGHT],
        [USER, THOUGHT, USER],
        [USER, called(), THOUGHT, output()],
        [USER, called()],
        [USER, called(), USER, output()],
        [USER, called(), called(), output()],
        [USER, output(), called()],
        [USER, called(), output(), output()],
    ],
)
def test_what_a_strict_provider_refuses(items):
    assert RESPONSES.problems(items)


@pytest.mark.parametrize(
    "items",
    [
        [USER, THOUGHT, called(), output()],
        [USER, THOUGHT, THOUGHT, called(), called("d"), output("d"), output(), USER],
        [USER, called(), output(), called("d"), output("d")],
        [USER, called(), said("meanwhile"), output()],
        [USER, {"type": "item_reference", "id": "fc_1"}, output()],
        [RESPONSES.memory("notes", "system"), USER],
    ],
)
def test_what_it_takes(items):
    assert RESPONSES.problems(items) == []


def test_the_namespace_of_a_call_is_kept_and_tells_it_from_others():
    call = {"type": "function_call", "call_id": "c1", "name": "back", "namespace": "mcp__x", "arguments": "{}"}
    whole = {"id": "r", "object": "response", "status": "completed", "output": [{"id": "fc", **call}]}
    for stream in (False, True):
        (again,) = RESPONSES.parse(RESPONSES.render(whole, stream=stream), stream=stream).response["output"]
        assert again["namespace"] == "mcp__x"
    assert RESPONSES.canonical(call) != RESPONSES.canonical({**call, "namespace": "mcp__y"})
