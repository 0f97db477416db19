"""An agent of PydanticAI of a program's own in a session."""

from __future__ import annotations

import asyncio

import pytest

from tests.lanes import needs
from tests.lanes.attached import (
    Toolbox,
    fails_beside,
    goes_back,
    no_record_ends_before_its_tool,
    place,
    recorded,
    went_back,
)

__all__ = ["place"]

pytestmark = needs("pydantic_ai", "pydantic-ai")


async def played(run, model, place, *, streamed=False):
    from openai import AsyncOpenAI
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async def read(_ctx, events):
        async for _ in events:
            pass

    tools = Toolbox(place)
    async with AsyncOpenAI(base_url=model.base_url, api_key="k") as client:
        chat = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))
        agent = run.attach(Agent(chat, tools=[tools.write, tools.write_late, tools.boom]))
        return (await agent.run("Write.", event_stream_handler=read if streamed else None)).output


@pytest.mark.parametrize("streamed", [False, True])
def test_an_agent_is_recorded_and_goes_back(place, streamed):
    with recorded(place, goes_back) as (run, model):
        assert asyncio.run(played(run, model, place, streamed=streamed)) == "Done."
    went_back(run, model, place)


def test_the_record_of_what_runs_beside_a_failure_ends_when_that_does(place):
    async def failing(run, model):
        with pytest.raises(RuntimeError, match="boom"):
            await played(run, model, place)
        await no_record_ends_before_its_tool(run, place)

    with recorded(place, fails_beside) as (run, model):
        asyncio.run(failing(run, model))


def test_a_retry_that_a_tool_asks_for_is_recorded_as_its_result(place):
    from pydantic_ai import ModelRetry
    from pydantic_ai.messages import ToolCallPart

    from agentrewind.integrations.harnesses import pydai_classes

    call = ToolCallPart("write", {}, "call_1")
    again = pydai_classes._given_again({"asks for another try": "the other way round"}, call)
    assert again.tool_retry.content == "the other way round"
    assert again.tool_retry.outcome == "retried"
    assert issubclass(ModelRetry, Exception)


def test_after_the_session_the_agent_is_as_it_was(place):
    from pydantic_ai import Agent

    agent = Agent()
    with recorded(place, goes_back) as (run, _):
        before = vars(agent).copy()
        run.attach(agent)
        assert vars(agent) != before
    assert vars(agent) == before
