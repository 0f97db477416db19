"""A LangGraph checkpoint and a record of ours name each other."""

from __future__ import annotations

import asyncio

import pytest

import agentrewind
from agentrewind.testing.scripted import Request, Step, call, say
from tests.lanes import needs
from tests.lanes.attached import Toolbox, goes_back, place, recorded

__all__ = ["place"]

pytestmark = needs("langchain", "langchain")
TASK = {"messages": [("user", "Write.")]}
CONFIG = {"configurable": {"thread_id": "t1"}}


def writes(request: Request) -> Step:
    """Three files, one after the other."""
    done = len(request.results)
    return say("Done.") if done == 3 else call("write", {"name": "abc"[done], "text": "x"})


def made(place, model, saver):
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(model="m", base_url=model.base_url, api_key="k")
    return create_agent(chat, [Toolbox(place).write], checkpointer=saver)


def stated():
    """A graph of one's own steps, without `create_agent`: the model is called from inside of a node."""
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    def build(place, model, saver):
        from langchain_core.tools import StructuredTool
        from langchain_openai import ChatOpenAI

        tools = [StructuredTool.from_function(Toolbox(place).write)]
        chat = ChatOpenAI(model="m", base_url=model.base_url, api_key="k").bind_tools(tools)
        graph = StateGraph(MessagesState)
        graph.add_node("think", lambda state: {"messages": [chat.invoke(state["messages"])]})
        graph.add_node("tools", ToolNode(tools))
        graph.add_edge(START, "think")
        graph.add_conditional_edges("think", tools_condition)
        graph.add_edge("tools", "think")
        return graph.compile(checkpointer=saver)

    return build


@pytest.mark.parametrize("kind", ["agent", "agent async", "steps"])
def test_each_call_names_the_state_it_was_made_from_and_each_state_the_call_it_came_after(place, kind):
    from langgraph.checkpoint.memory import InMemorySaver

    from agentrewind.integrations.harnesses.lang_checkpoints import config_at, record_at

    with recorded(place, writes) as (live, model):
        graph = (stated() if kind == "steps" else made)(place, model, InMemorySaver())
        live.attach(graph)
        if kind == "agent async":
            asyncio.run(graph.ainvoke(TASK, CONFIG))
        else:
            graph.invoke(TASK, CONFIG)
    run = agentrewind.open_run(live.id)
    calls = [node for node in run.tree.nodes.values() if node.is_llm]
    assert len(calls) == 4
    before = None
    for number, node in enumerate(calls):
        config = config_at(run, node.uid)
        state = graph.get_state(config)
        assert len(state.values["messages"]) == 1 + 2 * number == len(run.messages(node.uid))
        assert record_at(run, config) == node.uid
        assert state.metadata["agentrewind_run"] == run.id
        assert state.metadata.get("agentrewind_record") == before
        before = node.uid
    assert graph.get_state(CONFIG).metadata["agentrewind_record"] == calls[-1].uid


def test_the_graph_and_the_files_go_back_together_by_either_name(place):
    from langgraph.checkpoint.memory import InMemorySaver

    from agentrewind.integrations.harnesses.lang_checkpoints import config_at, record_at

    with recorded(place, writes) as (live, model):
        graph = live.attach(made(place, model, InMemorySaver()))
        graph.invoke(TASK, CONFIG)
    run = agentrewind.open_run(live.id)
    third = [node.uid for node in run.tree.nodes.values() if node.is_llm][2]
    config = config_at(run, third)
    assert len(graph.get_state(config).values["messages"]) == 5
    run.restore_files(record_at(run, config))
    assert sorted(path.name for path in place.iterdir()) == ["a", "b"]


def test_a_call_after_a_rewind_names_the_state_that_the_graph_is_in(place):
    from langgraph.checkpoint.memory import InMemorySaver

    from agentrewind.integrations.harnesses.lang_checkpoints import config_at, record_at

    with recorded(place, goes_back) as (live, model):
        graph = live.attach(made(place, model, InMemorySaver()))
        graph.invoke(TASK, CONFIG)
    run = agentrewind.open_run(live.id)
    asked, answered = [node.uid for node in run.tree.nodes.values() if node.is_llm][-2:]
    assert config_at(run, asked) == config_at(run, answered)
    assert record_at(run, config_at(run, answered)) < answered


def test_without_a_checkpointer_there_is_nothing_to_name(place):
    from agentrewind.integrations.harnesses.lang_checkpoints import config_at

    with recorded(place, writes) as (live, model):
        live.attach(made(place, model, None)).invoke(TASK)
        uid = next(iter(live.tree.nodes))
        with pytest.raises(KeyError, match="checkpointer"):
            config_at(live, uid)
