"""One script, three APIs: what the scripted model says in each, and what each refuses."""

from __future__ import annotations

import json

import httpx
import pytest

from agentrewind.testing.scripted import (
    ScriptedModel,
    Turn,
    break_off,
    call,
    calls,
    drop,
    fail,
    say,
)
from agentrewind.testing.scripted.messages import Messages
from agentrewind.testing.scripted.messages import refusal as message_refusal
from agentrewind.testing.scripted.responses import Responses

USER = {"role": "user", "content": "hi"}
VERSION = {"anthropic-version": "2023-06-01"}


class Chat:
    path = "chat/completions"

    def request(self, *turns):
        body = {"model": "m", "messages": [{"role": "system", "content": "Do it."}, USER]}
        body["tools"] = [{"type": "function", "function": {"name": "bash"}}]
        for answer, results in turns:
            message = answer["choices"][0]["message"]
            found = zip(message["tool_calls"], results, strict=True)
            made = [{"role": "tool", "tool_call_id": item["id"], "content": text} for item, text in found]
            body["messages"] += [message, *made]
        return body

    def read(self, answer):
        message = answer["choices"][0]["message"]
        made = [(item["function"]["name"], item["function"]["arguments"]) for item in message.get("tool_calls", ())]
        return message["content"], message.get("reasoning_content"), made


class InResponses:
    path = "responses"

    def request(self, *turns):
        tools = [{"type": "function", "name": "bash", "parameters": {}}, {"type": "web_search"}]
        body = {"model": "m", "instructions": "Do it.", "input": "hi" if not turns else [USER], "tools": tools}
        for answer, results in turns:
            asked = [item for item in answer["output"] if item["type"] == "function_call"]
            found = zip(asked, results, strict=True)
            made = [
                {"type": "function_call_output", "call_id": item["call_id"], "output": text} for item, text in found
            ]
            body["input"] += [*answer["output"], *made]
        return body

    def read(self, answer):
        items = {item["type"]: item for item in answer["output"]}
        made = [(item["name"], item["arguments"]) for item in answer["output"] if item["type"] == "function_call"]
        return items["message"]["content"][0]["text"], items["reasoning"]["summary"][0]["text"], made


class InMessages:
    path = "messages"

    def request(self, *turns):
        body = {"model": "m", "max_tokens": 9, "system": [{"type": "text", "text": "Do it."}], "messages": [USER]}
        body["tools"] = [{"name": "bash", "input_schema": {"type": "object"}}]
        for answer, results in turns:
            asked = [block for block in answer["content"] if block["type"] == "tool_use"]
            found = zip(asked, results, strict=True)
            made = [{"type": "tool_result", "tool_use_id": block["id"], "content": text} for block, text in found]
            body["messages"] += [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": made}]
        return body

    def read(self, answer):
        blocks = {block["type"]: block for block in answer["content"]}
        made = [
            (block["name"], json.dumps(block["input"])) for block in answer["content"] if block["type"] == "tool_use"
        ]
        return blocks["text"]["text"], blocks["thinking"]["thinking"], made


every = pytest.mark.parametrize("api", [Chat(), InResponses(), InMessages()], ids=lambda api: api.path)


def post(model, api, body, **headers):
    return httpx.post(f"{model.base_url}/{api.path}", json=body, headers={**VERSION, **headers})


def script(request):
    assert request.tools == ["bash"]
    assert request.says("Do it.")
    assert request.says("hi")
    assert [item.role for item in request.said[:2]] == ["system", "user"]
    if request.turn == 0:
        asked = calls([("bash", {"n": 1}), ("bash", {"n": 2})]).calls
        return Turn("first", asked, reasoning="hm")
    (answer,) = [item for item in request.said if item.role == "assistant"]
    assert answer.text == "first"
    assert [item.name for item in answer.calls] == ["bash", "bash"]
    return say(" ".join(request.results), reasoning="ah")


@every
def test_one_script_plays_in_every_dialect(api):
    with ScriptedModel(script) as model:
        first = post(model, api, api.request()).json()
        second = post(model, api, api.request((first, ["a", "b"]))).json()
    assert api.read(first) == ("first", "hm", [("bash", '{"n": 1}'), ("bash", '{"n": 2}')])
    assert api.read(second) == ("a b", "ah", [])


@every
def test_keys_stand_where_each_api_has_them(api):
    key = {"x-api-key": "k"} if api.path == "messages" else {"authorization": "Bearer k"}
    wrong = {"x-api-key": "k"} if api.path != "messages" else {"authorization": "Bearer x"}
    with ScriptedModel([say("a")], api_key="k") as model:
        assert post(model, api, api.request()).status_code == 401
        assert post(model, api, api.request(), **wrong).status_code == 401
        assert post(model, api, api.request(), **key).status_code == 200


@every
def test_errors_are_those_of_the_provider(api):
    with ScriptedModel([fail(429, "slow down")]) as model:
        refused, limited = post(model, api, {}), post(model, api, api.request())
    assert (refused.status_code, limited.status_code) == (400, 429)
    assert (limited.json().get("type") == "error") == (api.path == "messages")
    assert limited.json()["error"]["type"] == "rate_limit_error"
    assert limited.json()["error"]["message"] == "slow down"
    assert refused.json()["error"]["type"] == "invalid_request_error"


@every
def test_streams_that_break(api):
    steps = [break_off(say("a" * 60), events=4, error="no more"), drop(say("a" * 60), events=4)]
    with ScriptedModel(steps) as model:
        body = {**api.request(), "stream": True}
        assert "no more" in post(model, api, body).text
        with pytest.raises(httpx.RemoteProtocolError):
            post(model, api, body)


@every
def test_the_length_of_an_answer_may_be_why_it_ends(api):
    with ScriptedModel([Turn("a", finish="length", reasoning="x")]) as model:
        answer = json.dumps(post(model, api, api.request()).json())
    assert {"chat/completions": '"length"', "responses": '"max_output_tokens"', "messages": '"max_tokens"'}[
        api.path
    ] in answer


def test_the_version_of_anthropic_s_api_is_asked_for():
    with ScriptedModel([]) as model:
        response = httpx.post(f"{model.base_url}/messages", json=InMessages().request())
    assert "anthropic-version" in response.json()["error"]["message"]


def test_thinking_comes_where_it_must():
    body = {**InMessages().request(), "thinking": {"type": "enabled", "budget_tokens": 1024}}
    with ScriptedModel([call("bash", {})]) as model:
        assert post(model, InMessages(), body).json()["content"][0]["type"] == "thinking"


# --- responses that are kept ------------------------------------------------------------------------------------------


def test_a_kept_response_is_gone_on_from():
    api = InResponses()
    with ScriptedModel(script) as model:
        first = post(model, api, api.request()).json()
        outputs = api.request((first, ["a", "b"]))["input"][-2:]
        second = {**api.request(), "input": outputs, "previous_response_id": first["id"]}
        assert api.read(post(model, api, second).json())[0] == "a b"
        assert httpx.get(f"{model.base_url}/responses/{first['id']}").json() == first
        assert "not found" in post(model, api, {**second, "previous_response_id": "resp_9"}).json()["error"]["message"]
        missing = post(model, api, {**second, "input": outputs[:1]})
        assert "No tool output" in missing.json()["error"]["message"]


def test_what_is_not_kept_can_not_be_referred_to():
    api = InResponses()
    with ScriptedModel(script) as model:
        first = post(model, api, {**api.request(), "store": False}).json()
        assert httpx.get(f"{model.base_url}/responses/{first['id']}").status_code == 404
        assert "encrypted_content" not in first["output"][0]
        refused = post(model, api, {**api.request((first, ["a", "b"])), "store": False})
        assert "not persisted" in refused.json()["error"]["message"]
        sealed = {"store": False, "include": ["reasoning.encrypted_content"]}
        first = post(model, api, {**api.request(), **sealed}).json()
        assert post(model, api, {**api.request((first, ["a", "b"])), **sealed}).status_code == 200


# --- what strict providers refuse -------------------------------------------------------------------------------------


def called(call_id="c", **more):
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}", **more}


def output(call_id="c"):
    return {"type": "function_call_output", "call_id": call_id, "output": "x"}


THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed:aG0="}


@pytest.mark.parametrize(
    "body",
    [
        {"input": "hi"},
        {"model": "m"},
        {"model": "m", "input": []},
        {"model": "m", "input": "hi", "conversation": "conv_1"},
        {"model": "m", "input": "hi", "previous_response_id": "resp_1"},
        {"model": "m", "input": "hi", "stream_options": {"include_obfuscation": False}},
        {"model": "m", "input": "hi", "tools": [{"name": "f"}]},
        {"model": "m", "input": "hi", "tools": [{"type": "function", "function": {"name": "f"}}]},
        {"model": "m", "input": "hi", "tools": [{"type": "function", "name": "f"}] * 2},
        {
            "model": "m",
            "input": "hi",
            "tools": [{"type": "function", "name": "f", "strict": True, "parameters": {"properties": {"a": {}}}}],
        },
        {"model": "m", "input": [{"content": "x"}]},
        {"model": "m", "input": [{"role": "robot", "content": "x"}]},
        {"model": "m", "input": [{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}]},
        {"model": "m", "input": [{"role": "user", "content": [{"type": "output_text", "text": "x"}]}]},
        {"model": "m", "input": [{"role": "user", "content": None}]},
        {"model": "m", "input": [USER, called(call_id=None)]},
        {"model": "m", "input": [USER, called()]},
        {"model": "m", "input": [USER, called(), USER, output()]},
        {"model": "m", "input": [USER, called(), output(), output()]},
        {"model": "m", "input": [USER, called(), called(), output()]},
        {"model": "m", "input": [USER, output()]},
        {"model": "m", "input": [USER, called(), {**output(), "type": "custom_tool_call_output"}]},
        {"model": "m", "input": [USER, called(), {**output(), "output": None}]},
        {"model": "m", "input": [USER, THOUGHT]},
        {"model": "m", "input": [USER, THOUGHT, USER]},
        {"model": "m", "input": [USER, {**THOUGHT, "summary": None}, called(), output()]},
        {"model": "m", "input": [USER, {**THOUGHT, "encrypted_content": "sealed:?"}, called(), output()]},
        {"model": "m", "input": [USER, {**THOUGHT, "encrypted_content": None}, called(), output()]},
    ],
)
def test_what_the_responses_api_refuses(body):
    assert Responses().refusal(body)


def test_what_it_takes():
    items = [USER, THOUGHT, called(), output(), {"role": "assistant", "content": "x"}]
    assert Responses().refusal({"model": "m", "input": items}) is None


def test_an_item_is_not_taken_without_the_reasoning_that_led_to_it():
    api = Responses()
    body = {"model": "m", "input": "hi"}
    answer = api.response(body, Turn("x", reasoning="hm"), 1, 1)
    api.keep(body, answer)
    reasoning, message = answer["output"]
    assert api.refusal({"model": "m", "input": [USER, reasoning, message]}) is None
    assert "required 'reasoning'" in api.refusal({"model": "m", "input": [USER, message]})


def use(call_id="t", **more):
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {}, **more}


def result(call_id="t"):
    return {"type": "tool_result", "tool_use_id": call_id, "content": "x"}


def talk(*contents, **more):
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": content} for at, content in enumerate(contents)]
    return {"model": "m", "max_tokens": 9, "messages": messages, **more}


TEXT = {"type": "text", "text": "x"}
MARKED = {**TEXT, "cache_control": {"type": "ephemeral"}}
SIGNED = Messages().response(talk("hi"), Turn("x", reasoning="hm"), 1, 1)["content"][0]
TOOL = {"name": "f", "input_schema": {"type": "object"}}


@pytest.mark.parametrize(
    "body",
    [
        {**talk("hi"), "model": None},
        {**talk("hi"), "max_tokens": None},
        talk(),
        {**talk("hi"), "messages": [USER, USER]},
        {**talk("hi"), "messages": [{"role": "assistant", "content": "x"}]},
        {**talk("hi"), "messages": [{"role": "system", "content": "x"}]},
        talk(None),
        talk([]),
        talk(" "),
        talk([{"type": "text", "text": ""}]),
        talk([use()]),
        talk("hi", [result()]),
        talk("hi", [use()]),
        talk("hi", [use()], "go on"),
        talk("hi", [use(), use()], [result()]),
        talk("hi", [use()], [result(), result()]),
        talk("hi", [use()], [TEXT, result()]),
        talk("hi", [use(input="{broken")], [result()]),
        talk("hi", [TEXT], [result()]),
        talk("hi", [SIGNED], "go on"),
        talk("hi", [{**SIGNED, "thinking": "other"}, TEXT]),
        talk("hi", [use()], [result()], thinking={"type": "enabled"}),
        talk([MARKED] * 5),
        talk([MARKED] * 4, system=[MARKED]),
        talk("hi", tools=[TOOL, TOOL]),
        talk("hi", tools=[{"name": "f", "parameters": {}}]),
        talk("hi", tool_choice={"type": "auto"}),
    ],
)
def test_what_the_messages_api_refuses(body):
    assert message_refusal(body)


def test_what_the_messages_api_takes():
    whole = talk("hi", [SIGNED, use()], [result(), TEXT], [TEXT], [MARKED] * 4, thinking={"type": "enabled"})
    assert message_refusal(whole) is None
    assert message_refusal(talk("hi", [])) is None


def test_a_tool_in_a_namespace_is_called_by_both_names():
    inside = {"type": "namespace", "name": "mcp__x", "tools": [{"type": "function", "name": "back", "parameters": {}}]}
    body = {"model": "m", "input": "hi", "tools": [inside, {"type": "function", "name": "bash", "parameters": {}}]}
    api = Responses()
    assert api.tools(body) == ["bash", "mcp__x.back"]
    first, second = api.response(body, calls([("mcp__x.back", {}), ("bash", {})]), 1, 1)["output"]
    assert (first["namespace"], first["name"]) == ("mcp__x", "back")
    assert (second["name"], "namespace" in second) == ("bash", False)
