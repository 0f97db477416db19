"""Several requests at once, of one conversation or of several, while one of them is rewound."""

from __future__ import annotations

import json
import threading
import time

import pytest

from agentrewind.core.budgets import Budget
from agentrewind.core.records import NodeBegan, NodeEnded, RewindRejected, Rewound, Warned
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.dialects.openai_responses import OpenAIResponses
from agentrewind.dialects.requests import forced_tool
from agentrewind.engine.at_work import FORSAKEN, GONE
from agentrewind.engine.processes import Process
from agentrewind.engine.session import Session
from agentrewind.engine.turn import AGAIN, ENDED
from tests.unit.engine.test_session import Rig, commit, say, shell
from tests.unit.engine.wire import PATH, SHELL, Harness, Provider, answer
from tests.unit.engine.worlds import MemoryLog, MemoryWorld


class Held:
    """A provider whose answers are given out when the test says so: one for each request, known by what it holds."""

    def __init__(self) -> None:
        self.arrived: list[tuple[dict, threading.Event, list[bytes]]] = []
        self.changed = threading.Condition()

    def __call__(self, body):
        from agentrewind.core.wire import WireReply

        assert OpenAIChat().problems(body["messages"]) == []
        go, given = threading.Event(), []
        with self.changed:
            self.arrived.append((json.loads(json.dumps(body)), go, given))
            self.changed.notify_all()
        assert go.wait(10)
        return WireReply(200, (), given[0])

    def request(self, number: int) -> dict:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.arrived) > number, 10)
        return self.arrived[number][0]

    def give(self, number: int, data: bytes) -> None:
        self.request(number)
        _, go, given = self.arrived[number]
        given.append(data)
        go.set()


class AtOnce:
    """A session, and requests that are under way in threads of their own."""

    def __init__(self, rig: Rig) -> None:
        self.rig, self.held = rig, Held()
        self.replies: dict[str, dict] = {}
        self.threads: list[threading.Thread] = []

    def ask(self, name: str, messages: list[dict]) -> None:
        """Returns once the request has come to the provider."""
        body = {"model": "m", "messages": list(messages), "tools": [SHELL]}
        count = len(self.held.arrived)

        def work() -> None:
            reply = self.rig.session.call(PATH, body, self.held)
            self.replies[name] = {"status": reply.status, **json.loads(reply.body)}

        self.threads.append(threading.Thread(target=work))
        self.threads[-1].start()
        self.held.request(count)

    def text(self, name: str) -> str:
        return self.replies[name]["choices"][0]["message"]["content"]

    def join(self) -> None:
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()


def test_an_answer_to_the_abandoned_context_is_not_given_out_but_asked_for_again() -> None:
    rig = Rig([shell(1), shell(2)])
    rig.step()
    rig.step()
    both = AtOnce(rig)
    both.ask("one", rig.harness.messages)
    both.ask("two", rig.harness.messages)
    both.held.give(0, commit("rec_000003", "NOTE")(None))
    restored = both.held.request(2)["messages"]
    both.held.give(2, answer(text="from the restored point"))
    both.held.give(1, answer(calls=[("late", "shell", {"name": "a", "text": "from what was abandoned"})]))
    assert both.held.request(3)["messages"] == restored
    both.held.give(3, answer(text="from there too"))
    both.join()
    assert both.text("one") == "from the restored point"
    assert both.text("two") == "from there too"
    (lost,) = [event for event in rig.events(NodeEnded) if event.note == AGAIN]
    assert "shell" in lost.calls[0]
    assert not any("abandoned" in json.dumps(message) for message in restored[:-1])


def test_two_commits_at_once_are_one_rewind() -> None:
    rig = Rig([shell(1), shell(2)])
    rig.step()
    rig.step()
    both = AtOnce(rig)
    both.ask("one", rig.harness.messages)
    both.ask("two", rig.harness.messages)
    both.held.give(0, commit("rec_000003", "NOTE")(None))
    both.held.request(2)
    both.held.give(1, commit("rec_000001", "SECOND")(None))
    both.held.give(2, answer(text="one"))
    both.held.give(3, answer(text="two"))
    both.join()
    assert [event.target for event in rig.events(Rewound)] == ["rec_000003"]
    assert rig.world.files["a"] == "1"


def test_a_conversation_that_a_rewind_ends_gets_no_answer_that_was_under_way() -> None:
    rig = Rig([shell(1)])
    rig.step()
    both = AtOnce(rig)
    both.ask("sub", [{"role": "user", "content": "sub task"}])
    both.ask("main", rig.harness.messages)
    both.held.give(1, commit("rec_000001", "NOTE")(None))
    both.held.give(2, answer(text="main"))
    both.held.give(0, answer(calls=[("c9", "shell", {"name": "a", "text": "too late"})]))
    both.join()
    assert both.replies["sub"]["status"] == 400
    assert "ended by a rewind" in both.replies["sub"]["error"]["message"]
    assert [event.note for event in rig.events(NodeEnded) if event.note] == [ENDED]


def test_a_request_that_the_next_one_has_led_on_is_answered_in_its_own_context() -> None:
    """One asks with a list, another at the same time with one message more; the first one's model looks at its ways."""
    rig = Rig([shell(1)])
    rig.step()
    both = AtOnce(rig)
    both.ask("short", rig.harness.messages)
    both.ask("long", [*rig.harness.messages, {"role": "user", "content": "and hurry"}])
    both.held.give(0, answer(calls=[("q", "backtrack_candidates", {"reason": "r"})]))
    asked = both.held.request(2)["messages"]
    assert not any(message.get("content") == "and hurry" for message in asked)
    assert asked[:-2] == both.held.request(0)["messages"]
    both.held.give(2, answer(text="short"))
    both.held.give(1, answer(text="long"))
    both.join()
    longer = [*rig.harness.messages, {"role": "user", "content": "and hurry"}, {"role": "assistant", "content": "long"}]
    rig.provider.turns = [say("more")]
    rig.session.call(
        PATH,
        {"model": "m", "messages": [*longer, {"role": "user", "content": "go on"}], "tools": [SHELL]},
        rig.provider,
    )
    assert not any("tool_calls" in item and "backtrack" in json.dumps(item) for item in rig.last)


def test_a_kept_answer_is_gone_on_from_with_what_was_sent_for_it() -> None:
    """`previous_response_id`: the conversation grew meanwhile; what the other request added is not of this one."""
    log = MemoryLog()
    session = Session(log, MemoryWorld(), [OpenAIResponses()])
    arrived, go = threading.Event(), threading.Event()

    def response(number: int, text: str) -> bytes:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        item = {"type": "message", "id": f"m{number}", "role": "assistant", "status": "completed", "content": content}
        head = {"id": f"r{number}", "object": "response", "created_at": 1, "status": "completed", "model": "m"}
        return json.dumps({**head, "output": [item], "usage": {}}).encode()

    seen: list[dict] = []

    def send(body):
        from agentrewind.core.wire import WireReply

        seen.append(body)
        number = len(seen)
        if number == 2:
            arrived.set()
            assert go.wait(10)
        return WireReply(200, (), response(number, f"answer {number}"))

    def ask(previous, text):
        more = {"previous_response_id": previous} if previous else {}
        session.call("/v1/responses", {"model": "m", "input": text, **more}, send)

    def ask_items(items):
        session.call("/v1/responses", {"model": "m", "input": items}, send)

    ask(None, "one")
    first = [{"role": "user", "content": "one"}, log.get(log.events[-1].output)["output"][0]]
    slow = threading.Thread(target=ask, args=("r1", "two"))
    slow.start()
    assert arrived.wait(10)
    ask_items([*first, {"role": "user", "content": "two"}, {"role": "user", "content": "and more"}])
    go.set()
    slow.join(10)
    ask("r2", "three")
    assert "and more" not in json.dumps(seen[-1]["input"])
    assert "answer 2" in json.dumps(seen[-1]["input"])


def test_an_answer_that_never_arrived_leaves_no_tool_open() -> None:
    rig = Rig([shell(1), shell(2), commit("rec_000001"), say("done")], budget=Budget(batch_wait_s=0.1))
    rig.step()
    sub = {"model": "m", "messages": [{"role": "user", "content": "sub"}], "tools": [SHELL]}
    reply = rig.session.call(PATH, sub, rig.provider)
    rig.session.undelivered(reply)
    rig.step()
    assert rig.events(RewindRejected) == []
    assert rig.events(Rewound)[0].ended_threads == ("t1",)


def test_tools_that_have_ended_are_not_waited_for_although_their_harness_never_comes_back() -> None:
    rig = Rig([shell(1), shell(2), commit("rec_000001"), say("done")], budget=Budget(batch_wait_s=0.1))
    rig.step()
    other = Harness(rig.session, rig.world, "another task")
    other.step(rig.provider)
    rig.step()
    assert rig.events(RewindRejected) == []
    assert rig.events(Rewound)[0].ended_threads == ("t1",)


def test_an_answer_that_arrived_is_waited_for() -> None:
    rig = Rig([shell(1), shell(2), commit("rec_000001"), say("done")], budget=Budget(batch_wait_s=0.1))
    rig.step()
    sub = {"model": "m", "messages": [{"role": "user", "content": "sub"}], "tools": [SHELL]}
    rig.session.call(PATH, sub, rig.provider)
    rig.step()
    assert "still running: shell (conversation t1)" in rig.events(RewindRejected)[0].told


def test_what_a_program_that_has_ended_was_to_run_holds_nobody_up() -> None:
    """It got an answer with a call, and was killed; another one goes on with the run."""
    rig = Rig([shell(1), shell(2), commit("rec_000001"), say("done")], budget=Budget(batch_wait_s=0.1))
    rig.step()
    sub = {"model": "m", "messages": [{"role": "user", "content": "sub"}], "tools": [SHELL]}
    rig.session.call(PATH, sub, rig.provider)
    gone = Process(99, 1, 5, zombie=False, command="sub agent")
    rig.session.departed = lambda thread: gone if thread == "t1" else None
    rig.step()
    assert rig.events(RewindRejected) == []
    assert len(rig.events(Rewound)) == 1
    told = [event.text for event in rig.events(Warned)]
    assert told == [GONE.format(thread="t1", names="shell", process="99 (sub agent)")]


def asking(rig: Rig, *messages: dict, **fields: object) -> list[dict]:
    """A request of another conversation, which gets the provider's next answer; its list then."""
    sent = [{"role": "user", "content": "a sub-agent's task"}, *messages]
    reply = rig.session.call(PATH, {"model": "m", "messages": sent, "tools": [SHELL], **fields}, rig.provider)
    return [*messages, json.loads(reply.body)["choices"][0]["message"]]


def result_of(message: dict) -> dict:
    return {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "done"}


def open_call(rig: Rig) -> dict:
    """The main conversation gets an answer, whose call begins and doesn't end."""
    body = {"model": "m", "messages": list(rig.harness.messages), "tools": [SHELL]}
    message = json.loads(rig.session.call(PATH, body, rig.provider).body)["choices"][0]["message"]
    rig.harness.messages.append(message)
    return message


def test_the_open_calls_of_a_sub_agent_are_let_go_when_the_call_that_it_was_is_over() -> None:
    """It was given up in the middle: at a limit of its steps, say."""
    rig = Rig([shell(1), shell(2), commit("rec_000001"), say("done")], budget=Budget(batch_wait_s=0.1))
    task = open_call(rig)
    asking(rig)
    rig.harness.messages.append(result_of(task))
    rig.step()
    assert rig.events(RewindRejected) == []
    assert rig.events(Rewound)[0].ended_threads == ("t1",)
    why = "the call inside of which it began is over"
    assert [event.text for event in rig.events(Warned)] == [FORSAKEN.format(thread="t1", names="shell", why=why)]


def test_they_are_waited_for_while_that_call_is_open_and_when_it_goes_on_by_itself_after_that() -> None:
    rig = Rig(
        [shell(1), shell(2), say("noted"), shell(3), commit("rec_000001"), say("on")], budget=Budget(batch_wait_s=0.1)
    )
    task = open_call(rig)
    begun = asking(rig)
    rig.harness.messages.append(result_of(task))
    open_call(rig)
    asking(rig, *begun, result_of(begun[-1]))
    rig.step()
    assert "still running: shell (conversation t1)" in rig.events(RewindRejected)[0].told


def test_a_batch_that_is_open_anew_is_not_the_one_inside_of_which_a_conversation_began() -> None:
    rig = Rig([shell(1), shell(2), shell(3), shell(4), commit("rec_000002")], budget=Budget(batch_wait_s=0.1))
    task = open_call(rig)
    asking(rig)
    rig.harness.messages.append(result_of(task))
    open_call(rig)
    assert rig.session._threads.get("t1").outlived


def test_a_call_that_a_request_forced_is_waited_for_and_then_let_go() -> None:
    """Programs get answers in a fixed form by a tool that nobody runs."""
    rig = Rig([shell(1), shell(2), commit("rec_000001"), say("done")], budget=Budget(batch_wait_s=0.3))
    rig.step()
    asking(rig, tool_choice={"type": "function", "function": {"name": "shell"}})
    begun = time.monotonic()
    rig.step()
    assert time.monotonic() - begun >= 0.3
    assert rig.events(RewindRejected) == []
    (told,) = [event.text for event in rig.events(Warned)]
    assert told.startswith("t1: nobody has come back from shell, and its request made the model call just that")


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"tool_choice": {"type": "function", "function": {"name": "a"}}}, "a"),
        ({"tool_choice": {"type": "function", "name": "a"}}, "a"),
        ({"tool_choice": {"type": "tool", "name": "a"}}, "a"),
        ({"tool_choice": {"type": "any"}, "tools": [{"name": "a", "input_schema": {}}]}, "a"),
        ({"tool_choice": "required", "tools": [{"type": "function", "function": {"name": "a"}}]}, "a"),
        ({"tool_choice": "required", "tools": [{"type": "function", "name": "a"}]}, "a"),
        ({"tool_choice": "required", "tools": [{"name": "a"}, {"name": "b"}]}, None),
        ({"tool_choice": "auto", "tools": [{"name": "a"}]}, None),
        ({"tool_choice": {"type": "auto"}, "tools": [{"name": "a"}]}, None),
        ({"tool_choice": "required", "tools": [1]}, None),
        ({"tool_choice": {"type": "function", "function": {"name": 1}}}, None),
        ({"tool_choice": 7, "tools": "odd"}, None),
        ({}, None),
    ],
)
def test_which_tool_a_request_forces(fields: dict, name: str | None) -> None:
    assert forced_tool(fields) == name


def test_a_program_that_ends_while_a_rewind_waits_for_it_is_waited_for_no_more() -> None:
    rig = Rig([shell(1), shell(2), commit("rec_000001"), say("done")], budget=Budget(batch_wait_s=0.3))
    rig.step()
    sub = {"model": "m", "messages": [{"role": "user", "content": "sub"}], "tools": [SHELL]}
    rig.session.call(PATH, sub, rig.provider)
    gone = Process(99, 1, 5, zombie=False, command="sub agent")
    asked = []
    rig.session.departed = lambda thread: asked.append(thread) or (gone if len(asked) > 1 else None)
    rig.step()
    assert len(rig.events(Rewound)) == 1


@pytest.mark.parametrize("first", [True, False])
def test_a_title_writer_that_is_given_the_task_is_another_conversation(first: bool) -> None:
    """As opencode asks, at the same time as it begins: its list holds the message that the agent's list holds too."""
    rig = Rig([say("A title"), shell(1)] if first else [shell(1), say("A title")])
    asks = [{"role": "system", "content": "You write titles."}, {"role": "user", "content": "For this:"}]
    title = {"model": "m", "messages": [*asks, {"role": "user", "content": "do it"}]}
    if not first:
        rig.step()
    rig.session.call(PATH, title, rig.provider)
    if first:
        rig.step()
    rig.provider.turns += [shell(2), commit("rec_000004"), say("done")]
    for _ in range(2):
        rig.step()
    threads = {node.uid: node.began.thread for node in rig.session.tree.nodes.values() if node.is_llm}
    assert sorted(threads.values()) == ["main"] * 4 + ["t1"]
    (move,) = rig.events(Rewound)
    assert (move.context, rig.world.files) == ("exact", {"a": "1"})
    assert not rig.events(Warned)


def test_what_writes_a_title_first_is_not_the_conversation_of_the_run() -> None:
    rig = Rig([say("A title"), shell(1), shell(2), say("done")])
    title = {"model": "m", "messages": [{"role": "user", "content": "Write a title for: do it"}]}
    rig.session.call(PATH, title, rig.provider)
    for _ in range(3):
        rig.step()
    threads = [event.thread for event in rig.events(NodeBegan) if event.kind == "llm"]
    assert threads == ["t1", "main", "main", "main"]
    assert rig.session.tree.main == "main"


def test_a_conversation_in_a_later_process_takes_no_name_of_an_earlier_one() -> None:
    rig = Rig([shell(1), say("sub"), say("other sub"), shell(2)])
    rig.step()
    rig.session.call(PATH, {"model": "m", "messages": [{"role": "user", "content": "sub"}]}, rig.provider)
    again = Session(rig.log, rig.world, [OpenAIChat()])
    again.call(PATH, {"model": "m", "messages": [{"role": "user", "content": "other"}]}, rig.provider)
    harness = Harness(again, rig.world)
    harness.messages = list(rig.harness.messages)
    harness.step(rig.provider)
    threads = [event.thread for event in rig.events(NodeBegan) if event.kind == "llm"]
    assert threads == ["main", "t1", "t2", "main"]


def test_a_run_without_any_tools_is_about_its_first_conversation() -> None:
    log, world = MemoryLog(), MemoryWorld()
    provider = Provider([say("one"), say("two"), say("three")])
    session = Session(log, world, [OpenAIChat()])
    first = [{"role": "user", "content": "first"}]
    for messages in (first, [{"role": "user", "content": "second"}]):
        session.call(PATH, {"model": "m", "messages": messages}, provider)
    assert session.tree.main == log.events[1].thread
    again = Session(log, world, [OpenAIChat()])
    again.call(PATH, {"model": "m", "messages": first}, provider)
    assert [event.thread for event in log.events if isinstance(event, NodeBegan)][-1] == session.tree.main


def test_time_passes_only_where_somebody_waits() -> None:
    """A commit with nothing open doesn't wait for the time-out."""
    rig = Rig([shell(1), commit("rec_000001"), say("done")], budget=Budget(batch_wait_s=30))
    begun = time.monotonic()
    rig.step()
    rig.step()
    assert time.monotonic() - begun < 20
