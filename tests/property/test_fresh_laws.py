"""Any run, any target, any order of rewinds, each in a new process: what the model sees and what the files are belong
together, nothing recorded is asked or done again, and all notes stand in one message."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrewind.core.budgets import UNLIMITED
from agentrewind.core.records import Rewound, RunResumed
from agentrewind.core.wire import WireReply
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine.fresh import FreshSession
from agentrewind.engine.offline import resume_point, unanswered_move
from agentrewind.engine.plans import Departure, Plan
from agentrewind.engine.signal import RewindSignal
from tests.property.test_session_laws import MEMORIES, MOVES, Law, Merging
from tests.unit.engine.wire import Harness


class Counting(Harness):
    """Counts what its tool really does."""

    done = 0

    def write(self, arguments: dict) -> str:
        self.done += 1
        return super().write(arguments)


class FreshLaw(Law):
    """The same laws. A process is a new harness that knows nothing but its task."""

    kind = FreshSession

    def __init__(self, **rules: str) -> None:
        super().__init__(**rules)
        self.session.begin(Plan(), "served")
        self.harness = Counting(self.session, self.world)

    def play(self, moves: list[tuple[str, int]]) -> None:
        self.turns = [self.turn(move) for move in [*moves, ("end", 0)]]
        while self.turns:
            try:
                self.step()
            except RewindSignal:
                self.restart()

    def step(self) -> None:
        self.harness.step(self.provide)
        if self.harness.messages[-1]["role"] == "assistant":
            self.harness.messages.append({"role": "user", "content": f"go on after {len(self.harness.messages)}"})

    def provide(self, body: dict):
        """The provider: an answer that is asked for when the script is over is one too many."""
        assert self.session.live, "a recorded call was made again"
        assert OpenAIChat().problems(body["messages"]) == []
        if Merging.wants(body):
            return Merging([])(body)
        turn = self.turns.pop(0) if self.turns else self.turn(("end", 0))
        return WireReply(200, (), turn(body))

    def restart(self) -> None:
        leaving = self.session.leaving
        assert isinstance(leaving, Departure)
        self.is_sticky()
        before = len(self.log.tree.nodes)
        self.session.begin(self.session.depart(leaving), "served")
        done = self.harness.done
        self.harness = Counting(self.session, self.world)
        while not self.session.live:
            assert self.harness.done == 0, "a recorded tool was run again"
            left = len(self.turns)
            if self.is_next_live(leaving.intent.target):
                break
            self.step()
            assert len(self.turns) == left
        self.harness.done = done
        assert len(self.log.tree.nodes) == before, "what is given out is not recorded again"

    def is_next_live(self, target: str) -> bool:
        return len(self.harness.messages) == self.log.tree.node(target).began.raw_length

    def is_sticky(self) -> None:
        events = len(self.log.events)
        for entry in (
            lambda: self.harness.step(self.provide),
            lambda: self.session.tool("shell", {}, lambda: 1 / 0),
        ):
            try:
                entry()
            except RewindSignal:
                continue
            raise AssertionError("a process that must end was let in")
        assert len(self.log.events) == events

    def check_restored(self, moved: Rewound, messages: list[dict]) -> None:
        """The retained messages without earlier notes, then one message with all notes."""
        prefix = [message for message in self.sent[moved.target] if not is_memory(message)]
        if sum(node.began.branch == moved.branch for node in self.session.tree.nodes.values()) > 1:
            return  # a later call whose parent happens to be that of the target
        assert messages[:-1] == prefix
        assert is_memory(messages[-1])
        assert self.world.files == self.files[moved.target]

    def check_notes(self, messages: list[dict]) -> None:
        super().check_notes(messages)
        assert sum(map(is_memory, messages)) == bool(self.session.tree.notes)


class WokenLaw(FreshLaw):
    """The same laws where the process of the target goes on, as it was, instead of a new one."""

    def __init__(self, **rules: str) -> None:
        self.parked: dict[str, list[dict]] = {}
        super().__init__(**rules)

    def provide(self, body: dict):
        uid = self.session.asking()
        if uid is not None:
            self.parked[uid] = list(self.harness.messages)
        return super().provide(body)

    def restart(self) -> None:
        leaving = self.session.leaving
        assert isinstance(leaving, Departure)
        before = len(self.log.tree.nodes)
        plan = self.session.depart(leaving)
        target = self.session.wakes(plan)
        assert target == leaving.intent.target
        self.session.begin(plan, "woken")
        self.harness.messages = list(self.parked[target])
        assert not self.session.live
        assert len(self.log.tree.nodes) == before


def is_memory(message: dict) -> bool:
    return message["role"] == "system" and message["content"].startswith("[agentrewind]")


@settings(max_examples=200, deadline=None)
@given(MOVES, MEMORIES, st.sampled_from(["never", "loop"]))
def test_what_the_model_sees_and_what_the_files_are_belong_together(moves, memory, trigger) -> None:
    law = FreshLaw(memory=memory, trigger=trigger)
    law.play(moves)
    assert not any("backtrack" in json.dumps(message) for message in law.harness.messages)
    assert not law.log.tree.warnings


@settings(max_examples=100, deadline=None)
@given(MOVES, MEMORIES, st.sampled_from(["never", "loop"]))
def test_a_woken_process_keeps_the_laws(moves, memory, trigger) -> None:
    law = WokenLaw(memory=memory, trigger=trigger)
    law.play(moves)
    assert not any("backtrack" in json.dumps(message) for message in law.harness.messages)
    assert not law.log.tree.warnings


@settings(max_examples=100, deadline=None)
@given(MOVES, MOVES, MEMORIES)
def test_a_run_that_is_resumed_by_another_supervisor_keeps_the_laws(before, after, memory) -> None:
    first = FreshLaw(memory=memory)
    first.play(before)
    point = resume_point(first.log)
    plan = Plan(point.at, point.serves, unanswered_move(first.log.tree) is not None, snapshot=point.snapshot)
    second = FreshLaw(memory=memory)
    second.world, second.log, second.sent, second.files = first.world, first.log, first.sent, first.files
    second.count = 1000
    second.world.restore(point.snapshot)
    second.session = FreshSession(second.log, second.world, [OpenAIChat()], budget=UNLIMITED, rules=second.rules)
    second.log.append(RunResumed(0, second.log.tree.next_branch(), point.at, serves=point.serves))
    second.session.begin(plan, "served")
    second.harness = Counting(second.session, second.world)
    second.play(after)
    assert not second.log.tree.warnings
