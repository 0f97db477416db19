"""An agent of the OpenAI Agents SDK of a program's own in a session."""

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

pytestmark = needs("agents", "openai-agents")


async def played(run, model, place, *, streamed=False, handoff=False):
    import agents
    from openai import AsyncOpenAI

    tools = Toolbox(place)
    made = [
        agents.function_tool(tool, failure_error_function=None) for tool in (tools.write, tools.write_late, tools.boom)
    ]
    async with AsyncOpenAI(base_url=model.base_url, api_key="k") as client:
        chat = agents.OpenAIChatCompletionsModel("m", client)
        agent = agents.Agent("worker", instructions="Work.", model=chat, tools=made)
        if handoff:
            agent = agents.Agent("front", instructions="Hand over.", model=chat, handoffs=[agent])
        run.attach(agent)
        config = agents.RunConfig(tracing_disabled=True)
        if not streamed:
            return (await agents.Runner.run(agent, "Write.", run_config=config)).final_output
        result = agents.Runner.run_streamed(agent, "Write.", run_config=config)
        async for _ in result.stream_events():
            pass
        return result.final_output


@pytest.mark.parametrize("streamed", [False, True])
def test_an_agent_is_recorded_and_goes_back(place, streamed):
    with recorded(place, goes_back) as (run, model):
        assert asyncio.run(played(run, model, place, streamed=streamed)) == "Done."
    went_back(run, model, place)


def test_whoever_is_handed_over_to_is_recorded_too(place):
    from agentrewind.testing.scripted import call

    def script(request):
        if "transfer_to_worker" in request.tools:
            return call("transfer_to_worker", {})
        return goes_back(request) if len(request.results) > 1 else _first(request)

    def _first(request):
        return (
            call("write", {"name": "a", "text": "one"}) if "wrote" not in str(request.results) else goes_back(request)
        )

    with recorded(place, script) as (run, model):
        asyncio.run(played(run, model, place, handoff=True))
        tools = [node.began.tool.name for node in run.tree.nodes.values() if node.began.tool]
    assert tools
    assert set(tools) == {"write"}


def test_the_record_of_what_runs_beside_a_failure_ends_when_that_does(place):
    async def failing(run, model):
        with pytest.raises(Exception, match="boom"):
            await played(run, model, place)
        await no_record_ends_before_its_tool(run, place)

    with recorded(place, fails_beside) as (run, model):
        asyncio.run(failing(run, model))


def test_after_the_session_the_agent_is_as_it_was(place):
    import agents

    agent = agents.Agent("worker")
    with recorded(place, goes_back) as (run, _):
        before = vars(agent).copy()
        run.attach(agent)
        assert vars(agent) != before
    assert vars(agent) == before
