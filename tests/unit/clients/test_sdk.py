"""The real OpenAI SDK, over a real server on loopback, with an interposer in between: it must not notice."""

from __future__ import annotations

import asyncio
import json

import httpx
import httpx2
import openai
import pydantic
import pytest

from agentrewind.core.wire import WireReply
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.integrations.clients import install
from agentrewind.testing.scripted import ScriptedModel, break_off, call, drop, fail, hang, say

MESSAGES = [{"role": "user", "content": "hi"}]
TURN = call("bash", {"command": "ls -la " * 9}, text="Let me look — \N{GRINNING FACE}")


class Twice:
    """Asks a second time and gives the second answer, as after a rewind."""

    def __init__(self) -> None:
        self.bodies = []
        self.replies: list[WireReply] = []

    def undelivered(self, reply):
        pass

    def wants(self, method, host, path):
        return OpenAIChat().matches(method, path)

    def call(self, path, body, send):
        self.bodies.append(body)
        first = send(body)
        if not first.ok:
            return first
        more = {"role": "system", "content": "again"}
        self.replies.append(send({**body, "messages": [*body["messages"], more]}))
        return self.replies[-1]


@pytest.fixture
def interposer():
    found = Twice()
    with install(found):
        yield found


@pytest.fixture(params=["httpx2", "httpx"])
def legacy(request):
    """Whether the SDK is given a client of the older library, as LiteLLM does."""
    return request.param == "httpx"


def script(request):
    return TURN if request.says("again") else say("never seen")


@pytest.fixture
def model():
    with ScriptedModel(script, api_key="k") as found:
        yield found


def sdk(model, legacy, **more):
    http = httpx.Client() if legacy else None
    return openai.OpenAI(base_url=model.base_url, api_key="k", http_client=http, **more)


def async_sdk(model, legacy, **more):
    http = httpx.AsyncClient() if legacy else None
    return openai.AsyncOpenAI(base_url=model.base_url, api_key="k", http_client=http, **more)


def is_the_turn(message):
    assert message.content == TURN.text
    assert [item.function.name for item in message.tool_calls] == ["bash"]
    assert json.loads(message.tool_calls[0].function.arguments) == TURN.calls[0].arguments


class Answer(pydantic.BaseModel):
    word: str


def test_create(interposer, model, legacy):
    with sdk(model, legacy) as client:
        answer = client.chat.completions.create(model="m", messages=MESSAGES, temperature=0)
    is_the_turn(answer.choices[0].message)
    assert answer.usage.prompt_tokens > 0
    assert interposer.bodies == [{"model": "m", "messages": MESSAGES, "temperature": 0}]
    assert [len(body["messages"]) for body in model.requests] == [1, 2]
    assert all("authorization" in names for names in model.header_names)


def test_create_async(interposer, model, legacy):
    async def work():
        async with async_sdk(model, legacy) as client:
            return await client.chat.completions.create(model="m", messages=MESSAGES)

    is_the_turn(asyncio.run(work()).choices[0].message)
    assert len(interposer.bodies) == 1
    assert len(model.requests) == 2


def test_stream(interposer, model, legacy):
    with sdk(model, legacy) as client:
        options = {"stream": True, "stream_options": {"include_usage": True}}
        chunks = list(client.chat.completions.create(model="m", messages=MESSAGES, **options))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == TURN.text
    assert chunks[-1].usage.completion_tokens > 0
    assert interposer.bodies[0]["stream"] is True


def test_stream_async(interposer, model, legacy):
    async def work():
        async with async_sdk(model, legacy) as client:
            stream = await client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
            return [chunk async for chunk in stream]

    chunks = asyncio.run(work())
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == TURN.text
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_a_stream_that_is_left_early(interposer, model, legacy):
    with (
        sdk(model, legacy) as client,
        client.chat.completions.create(model="m", messages=MESSAGES, stream=True) as all_,
    ):
        assert next(iter(all_)).choices[0].delta.role == "assistant"
    assert len(interposer.bodies) == 1


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_stream_helper(interposer, model, asynchronous):
    async def work():
        client = async_sdk(model, legacy=False)
        async with client, client.chat.completions.stream(model="m", messages=MESSAGES) as stream:
            return [event.type async for event in stream], await stream.get_final_completion()

    if asynchronous:
        types, final = asyncio.run(work())
    else:
        client = sdk(model, legacy=False)
        with client, client.chat.completions.stream(model="m", messages=MESSAGES) as stream:
            types, final = [event.type for event in stream], stream.get_final_completion()
    assert "content.delta" in types
    is_the_turn(final.choices[0].message)
    assert len(interposer.bodies) == 1


@pytest.mark.parametrize("asynchronous", [False, True])
def test_parse(interposer, asynchronous):
    options = {"model": "m", "messages": MESSAGES, "response_format": Answer}

    async def work(model):
        async with async_sdk(model, legacy=False) as client:
            return await client.chat.completions.parse(**options)

    with ScriptedModel(lambda _: say('{"word": "x"}')) as model, sdk(model, legacy=False) as client:
        answer = asyncio.run(work(model)) if asynchronous else client.chat.completions.parse(**options)
    assert answer.choices[0].message.parsed == Answer(word="x")
    assert len(interposer.bodies) == 1


@pytest.mark.parametrize("asynchronous", [False, True])
def test_raw_responses(interposer, model, asynchronous):
    async def work():
        async with async_sdk(model, legacy=False) as client:
            return await client.chat.completions.with_raw_response.create(model="m", messages=MESSAGES)

    if asynchronous:
        raw = asyncio.run(work())
    else:
        with sdk(model, legacy=False) as client:
            raw = client.chat.completions.with_raw_response.create(model="m", messages=MESSAGES)
    is_the_turn(raw.parse().choices[0].message)
    assert raw.status_code == 200
    assert raw.headers["content-type"] == "application/json"
    assert raw.http_response.request.url.path == "/v1/chat/completions"
    assert raw.elapsed.total_seconds() > 0
    assert interposer.replies[-1].body == raw.http_response.content


def test_streamed_responses(interposer, model):
    with sdk(model, legacy=False) as client:
        create = client.chat.completions.with_streaming_response.create
        with create(model="m", messages=MESSAGES) as response:
            assert json.loads(b"".join(response.iter_bytes()))["choices"]
        with create(model="m", messages=MESSAGES) as response:
            is_the_turn(response.parse().choices[0].message)
        with create(model="m", messages=MESSAGES, stream=True) as response:
            lines = [line for line in response.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    assert len(interposer.bodies) == 3


def test_streamed_responses_async(interposer, model):
    async def work():
        async with async_sdk(model, legacy=False) as client:
            create = client.chat.completions.with_streaming_response.create
            async with create(model="m", messages=MESSAGES, stream=True) as response:
                return [line async for line in response.iter_lines() if line]

    assert asyncio.run(work())[-1] == "data: [DONE]"
    assert len(interposer.bodies) == 1


def test_other_requests_are_not_seen(interposer, model):
    with sdk(model, legacy=False) as client:
        assert [item.id for item in client.models.list().data] == ["scripted"]
    assert interposer.bodies == []


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_wrong_key_is_the_sdk_error_of_a_wrong_key(interposer, model, asynchronous):
    def work():
        with openai.OpenAI(base_url=model.base_url, api_key="x") as client:
            client.chat.completions.create(model="m", messages=MESSAGES)

    async def work_async():
        async with openai.AsyncOpenAI(base_url=model.base_url, api_key="x") as client:
            await client.chat.completions.create(model="m", messages=MESSAGES)

    with pytest.raises(openai.AuthenticationError, match="Incorrect API key"):
        _ = asyncio.run(work_async()) if asynchronous else work()
    assert model.requests == []
    assert len(interposer.bodies) == 1


class Fast(openai.OpenAI):
    """Retries without waiting."""

    def _calculate_retry_timeout(self, *args, **kwargs):
        return 0


def test_the_sdk_retries_as_ever_and_each_attempt_is_seen(interposer):
    steps = [fail(500, "overloaded", times=2), say("a"), say("b")]
    with ScriptedModel(steps) as model, Fast(base_url=model.base_url, api_key="k") as client:
        assert client.chat.completions.create(model="m", messages=MESSAGES).choices[0].message.content == "b"
    assert len(interposer.bodies) == 3


def test_a_dropped_connection_is_the_sdk_error_of_one(interposer, legacy):
    with (
        ScriptedModel([drop()]) as model,
        sdk(model, legacy, max_retries=0) as client,
        pytest.raises(openai.APIConnectionError) as raised,
    ):
        client.chat.completions.create(model="m", messages=MESSAGES)
    library = httpx if legacy else httpx2
    assert isinstance(raised.value.__cause__, library.RemoteProtocolError)
    assert len(interposer.bodies) == 1


def test_a_stream_that_is_dropped_half_way_is_an_error_not_half_an_answer(interposer):
    with (
        ScriptedModel([drop(TURN, events=2)]) as model,
        sdk(model, legacy=False, max_retries=0) as client,
        pytest.raises(openai.APIConnectionError),
    ):
        list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True))
    assert len(interposer.bodies) == 1


def test_an_error_in_mid_stream_reaches_the_sdk(interposer):
    steps = [say("a"), break_off(TURN, events=2, error="out of memory")]
    with (
        ScriptedModel(steps) as model,
        sdk(model, legacy=False, max_retries=0) as client,
        pytest.raises(openai.APIError, match="out of memory"),
    ):
        list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True))
    assert len(interposer.replies) == 1


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_time_limit_of_the_sdk_holds(interposer, asynchronous):
    def work(model):
        with sdk(model, legacy=False, max_retries=0, timeout=0.2) as client:
            client.chat.completions.create(model="m", messages=MESSAGES)

    async def work_async(model):
        async with async_sdk(model, legacy=False, max_retries=0, timeout=0.2) as client:
            await client.chat.completions.create(model="m", messages=MESSAGES)

    with ScriptedModel(lambda _: hang()) as model, pytest.raises(openai.APITimeoutError):
        _ = asyncio.run(work_async(model)) if asynchronous else work(model)
    assert len(interposer.bodies) == 1


def test_a_strict_provider_refuses_broken_pairs(interposer, model):
    broken = [*MESSAGES, {"role": "tool", "tool_call_id": "c", "content": "x"}]
    with sdk(model, legacy=False) as client, pytest.raises(openai.BadRequestError, match="tool_call"):
        client.chat.completions.create(model="m", messages=broken)
    assert len(interposer.bodies) == 1
