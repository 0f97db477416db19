"""The real SDKs on the Responses and the Messages API, with an interposer that knows the dialect in between."""

from __future__ import annotations

import asyncio
import json

import anthropic
import openai
import pydantic
import pytest

from agentrewind.core.tools import NAMES, TOOLS
from agentrewind.core.wire import WireReply
from agentrewind.dialects.anthropic_messages import AnthropicMessages
from agentrewind.dialects.openai_responses import OpenAIResponses
from agentrewind.integrations.clients import install
from agentrewind.testing.scripted import ScriptedModel, Turn, break_off, call, calls, say

TURN = Turn("Let me look — \N{GRINNING FACE}", call("bash", {"command": "ls -la " * 9}).calls, reasoning="hm " * 20)
ARGUMENTS = TURN.calls[0].arguments
OPENAI_TOOLS = [
    {"type": "function", "name": "bash", "parameters": {"type": "object", "properties": {}}, "strict": False}
]
ANTHROPIC_TOOLS = [{"name": "bash", "input_schema": {"type": "object"}}]


class Interposer:
    """Declares the rewind tools, and answers the model's call of one by itself: the harness gets what comes after.

    Does with `continues`, `reply_id` and `as_whole` what a session must do.
    """

    def __init__(self, *dialects) -> None:
        self.dialects = dialects
        self.bodies = []
        self.history: dict[str, list] = {}

    def undelivered(self, reply):
        pass

    def wants(self, method, host, path):
        return any(dialect.matches(method, path) for dialect in self.dialects)

    def call(self, path, body, send):
        self.bodies.append(body)
        dialect = next(item for item in self.dialects if item.matches("POST", path))
        assert dialect.problems_with(body) is None
        prior = dialect.continues(body)
        raw = [*(self.history[prior] if prior else ()), *dialect.messages(body)]
        inserted = []
        while True:
            whole = dialect.with_tools(dialect.as_whole(body, [*raw, *inserted]), TOOLS)
            found = send(whole)
            if not found.ok:
                return found
            reply = dialect.parse(found.body, stream=dialect.streams(body))
            if not any(item.name in NAMES for item in reply.calls):
                self.history[dialect.reply_id(reply) or ""] = [*raw, *reply.messages]
                rendered = dialect.render(reply.response, stream=dialect.streams(body))
                return WireReply(found.status, found.headers, rendered)
            texts = {item.id: "the list" for item in reply.calls}
            inserted += [*reply.messages, *dialect.results(reply.messages, texts)]
            assert dialect.problems([*raw, *inserted]) == []


def script(request):
    """Looks at the candidates first, which only the interposer sees."""
    assert set(request.tools) >= NAMES
    if not request.says("the list"):
        return Turn(
            "Where was I?", calls([("backtrack_candidates", {"reason": "x"}), ("bash", {})]).calls, reasoning="oh"
        )
    if "a b" in request.results:
        return say(f"{request.turn} turns; {request.results[0]}", reasoning="ah")
    return TURN


@pytest.fixture
def interposer():
    found = Interposer(OpenAIResponses(), AnthropicMessages())
    with install(found):
        yield found


@pytest.fixture
def model():
    with ScriptedModel(script, api_key="k") as found:
        yield found


def sdk(model, **more):
    return openai.OpenAI(base_url=model.base_url, api_key="k", max_retries=0, **more)


def async_sdk(model):
    return openai.AsyncOpenAI(base_url=model.base_url, api_key="k", max_retries=0)


def claude(model):
    return anthropic.Anthropic(base_url=model.root_url, api_key="k", max_retries=0)


def async_claude(model):
    return anthropic.AsyncAnthropic(base_url=model.root_url, api_key="k", max_retries=0)


# --- OpenAI Responses -------------------------------------------------------------------------------------------------

ASKED = {"model": "m", "input": "hi", "instructions": "Be brief.", "tools": OPENAI_TOOLS}
SEALED = {"store": False, "include": ["reasoning.encrypted_content"]}


def is_the_response(response):
    reasoning, message, asked = response.output
    assert response.output_text == message.content[0].text == TURN.text
    assert reasoning.summary[0].text == TURN.reasoning
    assert json.loads(asked.arguments) == ARGUMENTS
    assert response.usage.input_tokens > 0


@pytest.mark.parametrize("params", [{}, SEALED])
def test_responses_create(interposer, model, params):
    with sdk(model) as client:
        is_the_response(client.responses.create(**ASKED, **params))
    assert len(interposer.bodies) == 1
    assert [item["type"] for item in model.last["input"][1:]] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
    ]


def test_responses_create_async(interposer, model):
    async def work():
        async with async_sdk(model) as client:
            return await client.responses.create(**ASKED)

    is_the_response(asyncio.run(work()))
    assert len(model.requests) == 2


def test_responses_stream(interposer, model):
    with sdk(model) as client:
        events = list(client.responses.create(**ASKED, stream=True))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == TURN.text
    assert [event.sequence_number for event in events] == list(range(len(events)))
    is_the_response(events[-1].response)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_stream_helper_of_responses(interposer, model, asynchronous):
    async def work():
        client = async_sdk(model)
        async with client, client.responses.stream(**ASKED) as stream:
            return [event.type async for event in stream], await stream.get_final_response()

    if asynchronous:
        types, final = asyncio.run(work())
    else:
        client = sdk(model)
        with client, client.responses.stream(**ASKED) as stream:
            types, final = [event.type for event in stream], stream.get_final_response()
    assert {"response.output_text.delta", "response.function_call_arguments.delta"} <= set(types)
    is_the_response(final)


class Answer(pydantic.BaseModel):
    word: str


@pytest.mark.parametrize("asynchronous", [False, True])
def test_responses_parse(interposer, asynchronous):
    options = {"model": "m", "input": "hi", "text_format": Answer}

    async def work(model):
        async with async_sdk(model) as client:
            return await client.responses.parse(**options)

    with ScriptedModel(lambda _: say('{"word": "x"}')) as model, sdk(model) as client:
        answer = asyncio.run(work(model)) if asynchronous else client.responses.parse(**options)
    assert answer.output_parsed == Answer(word="x")
    assert len(interposer.bodies) == 1


def test_a_whole_list_goes_on(interposer, model):
    with sdk(model) as client:
        first = client.responses.create(**ASKED, **SEALED)
        items = [{"role": "user", "content": "hi"}, *first.output]
        items.append({"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "a b"})
        second = client.responses.create(**{**ASKED, **SEALED, "input": items})
    assert second.output_text == "2 turns; a b"
    assert model.refused == []


def test_a_request_goes_on_from_a_response_that_is_kept(interposer, model):
    with sdk(model) as client:
        first = client.responses.create(**ASKED)
        output = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "a b"}
        second = client.responses.create(**{**ASKED, "input": [output]}, previous_response_id=first.id)
        assert client.responses.retrieve(first.id).output == first.output
    assert "previous_response_id" in interposer.bodies[1]
    assert "previous_response_id" not in model.last
    assert model.last["input"][0] == {"role": "user", "content": "hi"}
    assert second.output_text == "2 turns; a b"


def test_a_wrong_key_of_openai(interposer, model):
    with openai.OpenAI(base_url=model.base_url, api_key="x") as client, pytest.raises(openai.AuthenticationError):
        client.responses.create(**ASKED)
    assert model.requests == []


def test_an_error_in_the_middle_of_a_response_reaches_the_sdk():
    with ScriptedModel([break_off(TURN, events=5, error="out of memory")]) as model, sdk(model) as client:
        *_, last = client.responses.create(**ASKED, stream=True)
    assert (last.type, last.message) == ("error", "out of memory")


# --- Anthropic Messages -----------------------------------------------------------------------------------------------

TALK = [{"role": "user", "content": "hi"}]
THINKING = {"type": "enabled", "budget_tokens": 1024}
TOLD = {"model": "m", "max_tokens": 2000, "messages": TALK, "system": "Be brief.", "tools": ANTHROPIC_TOOLS}


def is_the_message(message):
    thinking, text, asked = message.content
    assert (thinking.thinking, text.text) == (TURN.reasoning, TURN.text)
    assert asked.input == ARGUMENTS
    assert message.stop_reason == "tool_use"
    assert message.usage.input_tokens > 0


def test_messages_create(interposer, model):
    with claude(model) as client:
        is_the_message(client.messages.create(**TOLD, thinking=THINKING))
    assert [message["role"] for message in model.last["messages"]] == ["user", "assistant", "user"]
    assert model.last["messages"][1]["content"][0]["signature"]


def test_messages_create_async(interposer, model):
    async def work():
        async with async_claude(model) as client:
            return await client.messages.create(**TOLD)

    is_the_message(asyncio.run(work()))
    assert len(model.requests) == 2


@pytest.mark.parametrize("asynchronous", [False, True])
def test_messages_create_streamed(interposer, model, asynchronous):
    async def work():
        async with async_claude(model) as client:
            return [event async for event in await client.messages.create(**TOLD, stream=True)]

    if asynchronous:
        events = asyncio.run(work())
    else:
        with claude(model) as client:
            events = list(client.messages.create(**TOLD, stream=True))
    deltas = [event.delta for event in events if event.type == "content_block_delta"]
    assert "".join(delta.text for delta in deltas if delta.type == "text_delta") == TURN.text
    assert json.loads("".join(delta.partial_json for delta in deltas if delta.type == "input_json_delta")) == ARGUMENTS


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_stream_helper_of_messages(interposer, model, asynchronous):
    async def work():
        async with async_claude(model) as client, client.messages.stream(**TOLD) as stream:
            return await stream.get_final_message()

    if asynchronous:
        message = asyncio.run(work())
    else:
        with claude(model) as client, client.messages.stream(**TOLD) as stream:
            message = stream.get_final_message()
    is_the_message(message)
    assert len(interposer.bodies) == 1


def test_a_conversation_goes_on_with_its_thinking(interposer, model):
    with claude(model) as client:
        first = client.messages.create(**TOLD, thinking=THINKING)
        result = {"type": "tool_result", "tool_use_id": first.content[-1].id, "content": "a b"}
        talk = [*TALK, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
        client.messages.create(**{**TOLD, "messages": talk}, thinking=THINKING)
    assert model.refused == []
    assert model.last["messages"][1]["content"][0]["thinking"] == TURN.reasoning


def test_a_wrong_key_of_anthropic(interposer, model):
    client = anthropic.Anthropic(base_url=model.root_url, api_key="x")
    with client, pytest.raises(anthropic.AuthenticationError):
        client.messages.create(**TOLD)
    assert model.requests == []


def test_an_error_in_the_middle_of_a_message_reaches_the_sdk():
    steps = [break_off(TURN, events=5, error="out of memory")]
    with (
        ScriptedModel(steps) as model,
        claude(model) as client,
        pytest.raises(anthropic.APIStatusError, match="out of memory"),
    ):
        list(client.messages.create(**TOLD, stream=True))


def test_counting_tokens_is_not_a_conversation():
    dialect = AnthropicMessages()
    assert not dialect.matches("POST", "/v1/messages/count_tokens")
    assert not OpenAIResponses().matches("POST", "/v1/responses/resp_1/cancel")
