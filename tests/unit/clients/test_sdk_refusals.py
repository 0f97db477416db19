"""A conversation that a rewind has ended is refused in words that the real SDK of its provider understands."""

from __future__ import annotations

import anthropic
import openai
import pytest

from agentrewind.dialects.anthropic_messages import AnthropicMessages
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.dialects.openai_responses import OpenAIResponses
from agentrewind.engine.session import Session
from agentrewind.integrations.clients import install
from agentrewind.testing.scripted import ScriptedModel, say
from tests.unit.engine.worlds import MemoryLog, MemoryWorld


def chat(model, **more):
    with openai.OpenAI(base_url=model.base_url, api_key="k", max_retries=0) as client:
        return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], **more)


def responses(model, **more):
    with openai.OpenAI(base_url=model.base_url, api_key="k", max_retries=0) as client:
        return client.responses.create(model="m", input="hi", **more)


def messages(model, **more):
    with anthropic.Anthropic(base_url=model.root_url, api_key="k", max_retries=0) as client:
        return client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}], **more)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("ask", "error"),
    [(chat, openai.BadRequestError), (responses, openai.BadRequestError), (messages, anthropic.BadRequestError)],
)
def test_the_sdk_raises_its_own_error_with_the_reason(ask, error, stream):
    session = Session(MemoryLog(), MemoryWorld(), [OpenAIChat(), OpenAIResponses(), AnthropicMessages()])
    with ScriptedModel([say("hello")]) as model, install(session):
        ask(model)
        (thread,) = session._threads.all()
        thread.ended = True
        with pytest.raises(error) as caught:
            ask(model, stream=stream)
        assert len(model.requests) == 1
    said = caught.value.body.get("error", caught.value.body)
    assert "was ended by a rewind" in said["message"]
    assert said["type"] == "invalid_request_error"
