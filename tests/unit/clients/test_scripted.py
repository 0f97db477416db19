"""The scripted model: a strict provider that plays what it is told."""

from __future__ import annotations

import json
import threading

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
    hang,
    refusal,
    say,
)

USER = {"role": "user", "content": "hi"}


def post(model, *messages, **more):
    body = {"model": "m", "messages": [USER, *messages], **more}
    return httpx.post(f"{model.base_url}/chat/completions", json=body)


def message(response):
    return response.json()["choices"][0]["message"]


def test_a_function_sees_the_conversation():
    def script(request):
        if request.turn == 0:
            assert request.tools == ["bash"]
            return calls([("bash", {"n": 1}), ("bash", "{broken")], text="first")
        assert request.says("hi")
        return say(" ".join(request.results))

    tools = [{"type": "function", "function": {"name": "bash"}}]
    with ScriptedModel(script) as model:
        first = message(post(model, tools=tools))
        results = [{"role": "tool", "tool_call_id": item["id"], "content": item["id"]} for item in first["tool_calls"]]
        second = message(post(model, first, *results, tools=tools))
        assert model.last["messages"][1]["content"] == "first"
        assert len(model.requests) == 2
        assert "content-type" in model.header_names[0]
    assert [item["function"]["arguments"] for item in first["tool_calls"]] == ['{"n": 1}', "{broken"]
    assert second["content"] == "call_000001 call_000002"


def test_a_list_is_played_in_order_and_its_end_is_loud():
    with (
        pytest.raises(AssertionError, match="3 steps; request 4"),
        ScriptedModel([fail(503, "busy", times=2), say("a")]) as model,
    ):
        assert [post(model).status_code for _ in range(4)] == [503, 503, 200, 400]


def test_a_script_that_raises_is_loud():
    def script(request):
        raise ZeroDivisionError("no")

    with pytest.raises(ZeroDivisionError), ScriptedModel(script) as model:
        assert post(model).status_code == 400


def test_ids_count_upwards_past_those_of_an_earlier_server():
    before = {"role": "assistant", "content": None, "tool_calls": [{"id": "call_000041", "function": {"name": "f"}}]}
    with ScriptedModel(lambda _: call("f", {})) as model:
        first = message(post(model, before, {"role": "tool", "tool_call_id": "call_000041", "content": "x"}))
        second = message(post(model))
    assert [item["tool_calls"][0]["id"] for item in (first, second)] == ["call_000042", "call_000043"]


def test_attempts_with_the_same_messages_are_counted():
    with ScriptedModel(lambda request: say(str(request.attempt))) as model:
        other = {"role": "user", "content": "else"}
        assert [message(post(model))["content"] for _ in range(2)] == ["0", "1"]
        assert message(post(model, other))["content"] == "0"


def test_a_stream_and_its_usage():
    with ScriptedModel(lambda _: Turn("x" * 60, reasoning="hm", finish="length")) as model:
        plain = post(model).json()
        bare = post(model, stream=True).text
        full = post(model, stream=True, stream_options={"include_usage": True}).text
    assert "usage" not in bare
    chunks = [json.loads(line[6:]) for line in full.splitlines() if line.startswith("data: {")]
    assert chunks[-1]["usage"] == plain["usage"]
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"
    assert full.endswith("data: [DONE]\n\n")
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks[:-1]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "x" * 60
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == "hm"


def test_keys_models_and_unknown_paths():
    with ScriptedModel([], api_key="k", models=["a", "b"]) as model:
        assert post(model).status_code == 401
        headers = {"authorization": "Bearer k"}
        listed = httpx.get(f"{model.base_url}/models", headers=headers).json()
        assert [item["id"] for item in listed["data"]] == ["a", "b"]
        assert httpx.get(f"{model.base_url}/nothing", headers=headers).status_code == 404
        assert httpx.post(f"{model.base_url}/embeddings", headers=headers, json={}).status_code == 404
        assert model.requests == []


def test_connections_that_break():
    with ScriptedModel([drop(), drop(say("long" * 50), events=2), hang(0.01)]) as model:
        for stream in (False, True, False):
            with pytest.raises(httpx.RemoteProtocolError):
                post(model, stream=stream)
    with ScriptedModel([break_off(say("a"), events=1, error="no more")]) as model:
        assert "no more" in post(model, stream=True).text


def test_leaving_the_block_ends_hanging_requests_and_their_threads():
    errors = []

    def ask(model):
        try:
            post(model)
        except httpx.HTTPError as error:
            errors.append(error)

    with ScriptedModel(lambda _: hang()) as model:
        thread = threading.Thread(target=ask, args=(model,))
        thread.start()
        while not model.requests:
            threading.Event().wait(0.01)
    thread.join(5)
    assert len(errors) == 1
    assert not [item for item in threading.enumerate() if "process_request" in item.name]


def asked(*ids):
    return {"role": "assistant", "content": None, "tool_calls": [{"id": item, "function": {}} for item in ids]}


def answered(item):
    return {"role": "tool", "tool_call_id": item, "content": "x"}


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [USER]},
        {"model": "m", "messages": []},
        {"model": "m", "messages": [{"role": "robot", "content": "x"}]},
        {"model": "m", "messages": [{"role": "user", "content": None}]},
        {"model": "m", "messages": [{"role": "user", "content": 5}]},
        {"model": "m", "messages": [USER, {"role": "assistant", "content": "x", "tool_calls": []}]},
        {"model": "m", "messages": [USER, asked("a")]},
        {"model": "m", "messages": [USER, asked("a"), USER, answered("a")]},
        {"model": "m", "messages": [USER, asked("a"), answered("a"), answered("a")]},
        {"model": "m", "messages": [USER, asked("a", "a"), answered("a")]},
        {"model": "m", "messages": [USER, answered("a")]},
        {"model": "m", "messages": [USER], "stream_options": {"include_usage": True}},
        {"model": "m", "messages": [USER], "tools": []},
        {"model": "m", "messages": [USER], "tool_choice": "auto"},
        {"model": "m", "messages": [USER], "tools": [{"function": {"name": "f"}}] * 2},
    ],
)
def test_what_a_strict_provider_refuses(body):
    assert refusal(body)


def test_a_refusal_is_an_error_like_the_provider_s():
    with ScriptedModel([]) as model:
        response = post(model, answered("a"))
        assert response.status_code == 400
        assert response.json()["error"]["type"] == "invalid_request_error"
        assert model.refused == [response.json()["error"]["message"]]
