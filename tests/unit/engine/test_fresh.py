"""The session of a fresh run: the signal in all threads, other conversations, what can't be given again."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from typing import ClassVar

import pytest

from agentrewind.core.budgets import Budget
from agentrewind.core.effects import Effect
from agentrewind.core.errors import StorageFull
from agentrewind.core.records import NodeEnded, RewindGivenUp, RewindIntended, Rewound, Warned
from agentrewind.core.wire import WireReply
from agentrewind.dialects.anthropic_messages import AnthropicMessages
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.dialects.openai_responses import OpenAIResponses
from agentrewind.engine import fresh
from agentrewind.engine.effects import Effects
from agentrewind.engine.fresh import FreshSession
from agentrewind.engine.gate import Gate
from agentrewind.engine.plans import Departure, Divergence, Plan
from agentrewind.engine.prefix import Unservable
from agentrewind.engine.signal import RewindSignal
from tests.unit.engine.wire import PATH, SHELL, Harness, Provider, answer
from tests.unit.engine.worlds import MemoryLog, MemoryWorld


def write(number: int):
    name = {"name": "f", "text": str(number)}
    return lambda _: answer(calls=[(f"c{number}", "shell", name)])


def commit(uid: str, note: str = "note"):
    return lambda _: answer(calls=[(f"k{uid}", "backtrack_commit", {"record_uid": uid, "memory_summary": note})])


def done(_):
    return answer(text="done")


class Run:
    """A session, its world and journal, and a harness that is made anew where it has to be."""

    def __init__(self, **settings) -> None:
        self.world = MemoryWorld({"f": "0"})
        self.log = MemoryLog()
        self.session = FreshSession(self.log, self.world, [OpenAIChat()], **settings)
        self.begin(Plan())

    def begin(self, plan: Plan, way: str = "served"):
        seed = self.session.begin(plan, way)
        self.harness = Harness(self.session, self.world)
        return seed

    def play(self, *turns) -> None:
        provider = Provider(list(turns))
        while provider.turns:
            self.harness.step(provider)

    def leave(self, *turns) -> Departure:
        with pytest.raises(RewindSignal):
            self.play(*turns)
        assert isinstance(self.session.leaving, Departure)
        return self.session.leaving

    def kinds(self) -> list[type]:
        return [type(event) for event in self.log.events]


def test_the_intent_is_durable_before_the_signal_and_nothing_is_touched():
    run = Run()
    run.leave(write(1), write(2), commit("rec_000003"))
    assert run.kinds()[-1] is RewindIntended
    assert run.log.tree.intent is not None
    assert run.world.files == {"f": "2"}


def test_the_rewind_is_made_once_the_process_has_ended():
    run = Run()
    plan = run.session.depart(run.leave(write(1), write(2), commit("rec_000003")))
    assert run.kinds()[-1] is Rewound
    assert run.world.files == {"f": "1"}
    assert (plan.at, plan.remembers) == ("rec_000003", True)


def test_a_commit_that_is_refused_ends_nothing():
    run = Run()
    run.play(write(1), commit("rec_000002"), commit("rec_999999"), done)
    assert run.session.leaving is None
    assert RewindIntended not in run.kinds()


def test_a_present_that_can_not_be_saved_ends_nothing():
    run = Run()
    run.play(write(1), write(2))

    def full(_):
        run.world.full = True
        return commit("rec_000003")(_)

    def again(body):
        run.world.full = False
        assert "could not be saved" in body["messages"][-1]["content"]
        return done(body)

    run.play(full, again)
    assert run.session.leaving is None


def test_a_restore_that_fails_leaves_the_agent_where_it_was_and_tells_it():
    run = Run()
    departure = run.leave(write(1), write(2), commit("rec_000003"))
    run.world.fails_to_restore.add(departure.intent.snapshot)
    plan = run.session.depart(departure)
    assert RewindGivenUp in run.kinds()
    assert run.world.files == {"f": "2"}
    run.begin(plan)

    def told(body):
        asked, result = body["messages"][-2:]
        assert asked["tool_calls"][0]["function"]["name"] == "backtrack_commit"
        assert "was not made" in result["content"]
        return done(body)

    for _ in range(2):
        run.harness.step(Provider([]))
    run.play(told)
    assert run.world.files == {"f": "2"}


def test_once_told_to_end_no_thread_gets_in_and_nothing_is_recorded():
    run = Run()
    run.leave(write(1), write(2), commit("rec_000003"))
    events, outcomes = len(run.log.events), []

    def enter(number: int) -> None:
        body = {"model": "m", "messages": [{"role": "user", "content": f"{number}"}], "tools": [SHELL]}
        for entry in (
            lambda: run.session.call(PATH, body, Provider([done])),
            lambda: run.session.tool("shell", {}, lambda: run.world.files.update(bad="x")),
            lambda: run.session.submit(lambda _: 1 / 0, None),
        ):
            try:
                entry()
            except RewindSignal:
                outcomes.append("signal")

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == ["signal"] * 24
    assert len(run.log.events) == events
    assert "bad" not in run.world.files


def test_an_answer_that_comes_after_the_signal_reaches_nobody_and_is_not_recorded():
    run = Run()
    run.play(write(1), write(2))
    asked, go_on, outcome = threading.Event(), threading.Event(), []

    def slow(_):
        asked.set()
        go_on.wait(10)
        return WireReply(200, (), answer(text="late"))

    def other() -> None:
        body = {"model": "m", "messages": [{"role": "system", "content": "another"}]}
        try:
            outcome.append(run.session.call(PATH, body, slow))
        except RewindSignal:
            outcome.append("signal")

    thread = threading.Thread(target=other)
    thread.start()
    asked.wait(10)
    run.leave(commit("rec_000003"))
    go_on.set()
    thread.join()
    assert outcome == ["signal"]
    late = next(uid for uid, node in run.log.tree.nodes.items() if node.began.thread == "t1")
    assert not any(isinstance(event, NodeEnded) and event.uid == late for event in run.log.events)


# --- conversations beside the main one -------------------------------------------------------------------------------

TITLE = {"model": "m", "messages": [{"role": "system", "content": "Give this a title."}]}


def test_a_call_of_a_conversation_that_the_prefix_does_not_hold_waits_until_the_run_is_live():
    run = Run()
    departure = run.leave(write(1), write(2), commit("rec_000003"))
    run.begin(run.session.depart(departure))
    order = []

    def title(_):
        order.append("title")
        return answer(text="A title")

    early = threading.Thread(target=lambda: run.session.call(PATH, TITLE, Provider([title])))
    early.start()
    time.sleep(0.1)
    assert order == []
    run.harness.step(Provider([]))
    run.play(lambda body: (order.append("target"), done(body))[1])
    early.join(10)
    assert sorted(order) == ["target", "title"]


def test_a_conversation_that_never_lets_the_run_get_live_is_a_divergence(monkeypatch):
    monkeypatch.setattr(fresh, "EARLY_WAIT_S", 0.1)
    run = Run()
    run.begin(run.session.depart(run.leave(write(1), write(2), commit("rec_000003"))))
    with pytest.raises(RewindSignal):
        run.session.call(PATH, TITLE, Provider([]))
    assert isinstance(run.session.leaving, Divergence)


def test_conversations_of_the_prefix_are_served_in_any_order():
    run = Run()
    run.session.call(PATH, TITLE, Provider([lambda _: answer(text="A title")]))
    other = {"model": "m", "messages": [{"role": "system", "content": "Sum this up."}]}
    run.session.call(PATH, other, Provider([lambda _: answer(text="A sum")]))
    plan = run.session.depart(run.leave(write(1), write(2), commit("rec_000005")))
    run.begin(plan)
    for body, text in ((other, "A sum"), (TITLE, "A title")):
        assert text in run.session.call(PATH, body, Provider([])).body.decode()
    run.harness.step(Provider([]))
    run.play(done)
    assert run.log.tree.warnings == []


def test_new_conversations_get_names_that_no_earlier_process_used():
    run = Run()
    run.play(write(1), write(2))
    run.session.call(PATH, TITLE, Provider([lambda _: answer(text="A title")]))
    run.begin(run.session.depart(run.leave(commit("rec_000003"))))
    run.harness.step(Provider([]))
    run.play(write(3))
    run.session.call(PATH, TITLE, Provider([lambda _: answer(text="Another")]))
    names = [node.began.thread for node in run.log.tree.nodes.values() if node.began.thread != "main"]
    assert names == ["t1", "t2"]


# --- what is asked otherwise, and what can't be given again ----------------------------------------------------------


def test_a_tool_call_that_was_never_recorded_is_not_run():
    run = Run()
    run.begin(run.session.depart(run.leave(write(1), write(2), commit("rec_000003"))))
    with pytest.raises(RewindSignal):
        run.session.tool("shell", {"name": "g"}, lambda: run.world.files.update(g="x"))
    assert run.world.files == {"f": "1"}
    assert isinstance(run.session.leaving, Divergence)
    assert "Nothing was run" in run.log.tree.warnings[-1]


def test_another_question_is_not_asked_and_the_difference_is_kept():
    run = Run()
    run.begin(run.session.depart(run.leave(write(1), write(2), commit("rec_000003"))))
    run.harness.messages[1] = {"role": "user", "content": "do that"}
    with pytest.raises(RewindSignal):
        run.harness.step(Provider([]))
    assert "messages[1].content was 'do it', is 'do that'" in run.log.tree.warnings[-1]


def test_the_target_is_compared_even_where_nothing_else_differed():
    run = Run()
    run.begin(run.session.depart(run.leave(write(1), write(2), commit("rec_000003"))))
    run.harness.step(Provider([]))
    run.harness.messages[-1] = {**run.harness.messages[-1], "content": "wrote something else"}
    with pytest.raises(RewindSignal):
        run.harness.step(Provider([done]))
    assert isinstance(run.session.leaving, Divergence)


def test_a_tool_that_raised_can_not_be_served_and_nothing_is_begun():
    run = Run()
    run.play(write(1))
    with pytest.raises(ZeroDivisionError):
        run.session.tool("shell", {}, lambda: 1 / 0)
    run.play(write(2))
    plan = run.session.depart(run.leave(write(3), commit("rec_000006")))
    with pytest.raises(Unservable, match="ZeroDivisionError"):
        run.session.begin(plan, "served")
    seed = run.begin(plan, "seeded")
    run.harness.messages = list(seed)
    run.play(done)
    assert run.world.files == {"f": "2"}


def hide(value):
    return json.loads(json.dumps(value).replace("hunter2", "[redacted password]"))


class Hiding(MemoryLog):
    """A journal that keeps no secret."""

    def put(self, content):
        return super().put(hide(content))


def test_a_secret_is_given_again_by_the_supervisor_that_saw_it_and_by_no_other():
    run = Run()
    run.log = Hiding()
    run.session = FreshSession(run.log, run.world, [OpenAIChat()], redact=hide)
    run.begin(Plan())
    secret = {"name": "f", "text": "hunter2"}
    plan = run.session.depart(
        run.leave(lambda _: answer(calls=[("c1", "shell", secret)]), write(2), commit("rec_000003"))
    )
    run.begin(plan)
    message = run.harness.step(Provider([]))
    assert "hunter2" in json.dumps(message)
    assert not any(b"hunter2" in content for content in run.log.contents.values())
    run.session = FreshSession(run.log, run.world, [OpenAIChat()], redact=hide)
    with pytest.raises(Unservable, match="held a secret"):
        run.session.begin(plan, "served")
    seed = run.begin(plan, "seeded")
    run.harness.messages = list(seed)
    run.play(done)
    assert "marks like [redacted …] in their place" in run.log.tree.warnings[-1]


def external(number: int):
    name = {"name": "g", "text": f"external {number}"}
    return lambda _: answer(calls=[(f"e{number}", "shell", name)])


def classify(name, arguments, annotations=None):
    del name, annotations
    return (Effect("external" if "external" in str(arguments) else "workspace", str(arguments)),)


@pytest.mark.parametrize("said", [None, False])
def test_a_call_that_was_held_back_is_not_run_when_the_way_to_a_target_is_served_again(said):
    """Neither asked about a second time, nor run: the harness never saw it."""
    questions = []
    run = Run()
    run.session.effects = Effects(classify, Gate("confirm", ask=lambda what: questions.append(what) or said))
    departure = run.leave(write(1), external(2), write(3), write(4), commit("rec_000006"))
    assert run.world.files == {"f": "4"}
    assert len(questions) == 1
    run.begin(run.session.depart(departure))
    run.play(write(5))
    assert len(questions) == 1
    assert run.session.leaving is None
    assert run.world.files == {"f": "5"}
    shown = [message for message in run.harness.messages if "external" in json.dumps(message)]
    assert shown == []


def test_a_call_that_a_person_allowed_is_given_again_without_being_run_or_asked_about():
    questions = []
    run = Run()
    run.session.effects = Effects(classify, Gate("confirm", ask=lambda what: not questions.append(what)))
    departure = run.leave(write(1), external(2), write(3), commit("rec_000005"))
    assert run.world.files == {"f": "3", "g": "external 2"}
    plan = run.session.depart(departure)
    run.begin(plan)
    run.world.files["g"] = "as the restore left it"
    run.session._plan = replace(plan, snapshot=None)
    run.play(write(5))
    assert len(questions) == 1
    assert run.world.files["g"] == "as the restore left it"


def test_an_answer_that_reached_the_harness_without_its_held_calls_is_served_without_them():
    """The model never stopped asking for what isn't allowed, so the harness got the last answer with no call in it."""
    run = Run(budget=Budget(internal_calls=2))
    run.session.effects = Effects(classify, Gate("block"))
    departure = run.leave(write(1), external(2), external(3), external(4), write(5), write(6), commit("rec_000008"))
    run.begin(run.session.depart(departure))
    run.play(write(7))
    assert run.session.leaving is None
    assert run.world.files == {"f": "7"}
    assert not [event for event in run.log.events if isinstance(event, Warned) and "another way" in event.text]


def test_a_full_journal_breaks_the_run_and_is_no_signal():
    run = Run()
    run.play(write(1))
    run.log.full = True
    with pytest.raises(StorageFull):
        run.harness.step(Provider([done]))
    assert run.session.broken is not None


# --- the other dialects ----------------------------------------------------------------------------------------------


class Messages:
    """A harness and a provider of Anthropic Messages."""

    path = "/v1/messages"
    tool: ClassVar[dict] = {"name": "shell", "description": "", "input_schema": {"type": "object", "properties": {}}}

    def __init__(self) -> None:
        self.list = [{"role": "user", "content": "do it"}]

    def body(self) -> dict:
        return {"model": "m", "max_tokens": 9, "system": "Be brief.", "messages": self.list, "tools": [self.tool]}

    def answer(self, number: int, name: str, arguments: dict) -> bytes:
        content = [{"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}]
        usage = {"input_tokens": 1, "output_tokens": 1}
        kind = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use"}
        return json.dumps({**kind, "content": content, "usage": usage}).encode()

    def take(self, reply: dict) -> tuple[str, dict]:
        (block,) = reply["content"]
        self.list += [
            {"role": "assistant", "content": reply["content"]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block["id"], "content": "did it"}]},
        ]
        return block["id"], block["input"]

    def seen(self, body: dict) -> str:
        return json.dumps(body["messages"])


class Items(Messages):
    """A harness and a provider of OpenAI Responses, which keeps what came before."""

    path = "/v1/responses"
    tool: ClassVar[dict] = {"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}}

    def __init__(self) -> None:
        self.list = [{"role": "user", "content": "do it"}]
        self.previous: dict = {}

    def body(self) -> dict:
        return {"model": "m", "input": self.list, "tools": [self.tool], **self.previous}

    def answer(self, number: int, name: str, arguments: dict) -> bytes:
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name}
        output = [{**item, "arguments": json.dumps(arguments), "status": "completed"}]
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        kind = {"id": f"resp_{number}", "object": "response", "created_at": 1, "status": "completed", "model": "m"}
        return json.dumps({**kind, "output": output, "usage": usage}).encode()

    def take(self, reply: dict) -> tuple[str, dict]:
        (item,) = reply["output"]
        self.previous = {"previous_response_id": reply["id"]}
        self.list = [{"type": "function_call_output", "call_id": item["call_id"], "output": "did it"}]
        return item["call_id"], json.loads(item["arguments"])

    def seen(self, body: dict) -> str:
        return json.dumps(body["input"])


@pytest.mark.parametrize("kind", [Messages, Items])
def test_a_rewind_in_another_dialect_serves_the_prefix_and_goes_live_with_the_note(kind):
    world, log = MemoryWorld({"f": "0"}), MemoryLog()
    session = FreshSession(log, world, [AnthropicMessages(), OpenAIResponses()])
    bodies: list[dict] = []

    def step(harness, *answers) -> None:
        turns = list(answers)

        def send(body: dict) -> WireReply:
            bodies.append(body)
            return WireReply(200, (), turns.pop(0))

        reply = json.loads(session.call(harness.path, harness.body(), send).body)
        call_id, arguments = harness.take(reply)
        session.tool("shell", arguments, lambda: world.files.update(f=arguments["text"]), call_id=call_id)

    session.begin(Plan(), "served")
    first = kind()
    for number in (1, 2):
        step(first, first.answer(number, "shell", {"text": str(number)}))
    listed = first.answer(3, "backtrack_candidates", {"reason": "r"})
    back = {"record_uid": "rec_000003", "memory_summary": "NOTE"}
    with pytest.raises(RewindSignal):
        step(first, listed, first.answer(4, "backtrack_commit", back))
    plan = session.depart(session.leaving)
    assert world.files == {"f": "1"}

    session.begin(plan, "served")
    second, asked = kind(), len(bodies)
    step(second)
    assert len(bodies) == asked, "a recorded call was made again"
    step(second, second.answer(5, "shell", {"text": "3"}))
    assert world.files == {"f": "3"}
    seen = second.seen(bodies[-1])
    assert seen.count("NOTE") == 1
    assert "backtrack" not in seen
    assert seen.count("did it") == 1
    assert log.tree.warnings == []
