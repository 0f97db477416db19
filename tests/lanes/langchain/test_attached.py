"""A graph of a program's own in a session."""

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

pytestmark = needs("langchain", "langchain")
TASK = {"messages": [("user", "Write.")]}


def made(place, model):
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    tools = Toolbox(place)
    chat = ChatOpenAI(model="m", base_url=model.base_url, api_key="k")
    return create_agent(chat, [tools.write, tools.write_late, tools.boom])


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_agent_is_recorded_and_goes_back(place, asynchronous):
    with recorded(place, goes_back) as (run, model):
        agent = run.attach(made(place, model))
        answer = asyncio.run(agent.ainvoke(TASK)) if asynchronous else agent.invoke(TASK)
        assert answer["messages"][-1].text == "Done."
    went_back(run, model, place)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_record_of_what_runs_beside_a_failure_ends_when_that_does(place, asynchronous):
    with recorded(place, fails_beside) as (run, model):
        agent = run.attach(made(place, model))

        async def invoke():
            with pytest.raises(RuntimeError, match="boom"):
                await agent.ainvoke(TASK) if asynchronous else agent.invoke(TASK)
            await no_record_ends_before_its_tool(run, place)

        asyncio.run(invoke())


def test_after_the_session_the_agent_is_as_it_was(place):
    from langgraph.prebuilt import ToolNode

    with recorded(place, goes_back) as (run, model):
        agent = made(place, model)
        (node,) = (item.bound for item in agent.nodes.values() if isinstance(item.bound, ToolNode))
        before = vars(node).copy()
        run.attach(agent)
        assert vars(node) != before
    assert vars(node) == before
