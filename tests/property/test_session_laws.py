"""Any run, any target, any order of rewinds: what the model sees and what the files are always belong together."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrewind.core.budgets import UNLIMITED
from agentrewind.core.records import Rewound
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine.offline import resume_point
from agentrewind.engine.reset import ResetSession
from agentrewind.engine.session import Session
from agentrewind.engine.signal import RewindSignal
from tests.unit.engine.wire import Harness, Provider, answer
from tests.unit.engine.worlds import MemoryLog, MemoryWorld

MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 3)),
        st.tuples(st.just("ask"), st.just(0)),
        st.tuples(st.just("say"), st.just(0)),
        st.tuples(st.just("commit"), st.integers(0, 10_000)),
        st.tuples(st.just("bad"), st.integers(0, 3)),
    ),
    max_size=30,
)


class Law:
    """Plays moves as a model would and checks the laws after each call."""

    def __init__(self) -> None:
        self.world = MemoryWorld({"start": "0"})
        self.log = MemoryLog()
        self.session = Session(self.log, self.world, [OpenAIChat()], budget=UNLIMITED)
        self.harness = Harness(self.session, self.world)
        self.sent: dict[str, list[dict]] = {}
        self.files: dict[str, dict[str, str]] = {}
        self.count = 0

    def play(self, moves: list[tuple[str, int]]) -> None:
        queue = [*moves, ("end", 0)]
        while queue:
            turns = []
            while queue:
                move = queue.pop(0)
                turns.append(self.turn(move))
                if move[0] in ("write", "say", "end"):
                    break
            self.harness.step(Provider(turns))
            if self.harness.messages[-1]["role"] == "assistant":
                self.harness.messages.append({"role": "user", "content": f"go on {self.count}"})

    def turn(self, move: tuple[str, int]):
        kind, value = move

        def play(body: dict) -> bytes:
            self.observe(body["messages"])
            self.count += 1
            if kind == "write":
                names = [
                    (f"c{self.count}-{n}", "shell", {"name": f"f{n}", "text": str(self.count)}) for n in range(value)
                ]
                return answer(calls=names)
            if kind == "ask":
                return answer(calls=[(f"q{self.count}", "backtrack_candidates", {"reason": "r"})])
            if kind == "commit":
                uids = sorted(self.sent)
                arguments = {"record_uid": uids[value % len(uids)], "memory_summary": f"NOTE<{self.count}>"}
                return answer(calls=[(f"k{self.count}", "backtrack_commit", arguments)])
            if kind == "bad":
                arguments = [{}, {"record_uid": "rec_999999", "memory_summary": "m"}, {"record_uid": 3}, None][value]
                return answer(calls=[(f"b{self.count}", "backtrack_commit", arguments)])
            return answer(text=f"said {self.count}")

        return play

    def observe(self, messages: list[dict]) -> None:
        tree = self.session.tree
        uid = tree.head
        assert [self.log.get(item) for item in tree.messages(uid)] == messages
        self.check_notes(messages)
        moved = next((event for event in reversed(self.log.events) if isinstance(event, Rewound)), None)
        if moved is not None and tree.node(uid).began.parent == tree.node(moved.target).began.parent:
            self.check_restored(moved, messages)
        self.sent[uid] = messages
        self.files[uid] = dict(self.world.files)

    def check_notes(self, messages: list[dict]) -> None:
        """Every note of the run stands in the context exactly once."""
        text = "".join(message["content"] for message in messages if message["role"] == "system")
        for note in self.session.tree.notes:
            assert text.count(note.text) == 1, note
        assert set(self.session.tree.held(self.session.tree.head)) == {n.branch for n in self.session.tree.notes}

    def check_restored(self, moved: Rewound, messages: list[dict]) -> None:
        prefix = self.sent[moved.target]
        if len(messages) == len(prefix) + 1:
            assert messages[:-1] == prefix
            assert messages[-1]["role"] == "system"
            assert self.world.files == self.files[moved.target]


@settings(max_examples=300, deadline=None)
@given(MOVES)
def test_what_the_model_sees_and_what_the_files_are_belong_together(moves) -> None:
    law = Law()
    law.play(moves)
    assert not any("backtrack" in json.dumps(message) for message in law.harness.messages)


@settings(max_examples=60, deadline=None)
@given(MOVES, MOVES)
def test_a_run_that_is_seeded_again_after_a_crash_keeps_the_laws(before, after) -> None:
    first = Law()
    first.play(before)
    point = resume_point(first.log)
    second = Law()
    second.world, second.log, second.sent, second.files = first.world, first.log, first.sent, first.files
    second.count = 1000
    second.world.restore(point.snapshot)
    second.session = Session(second.log, second.world, [OpenAIChat()], budget=UNLIMITED)
    second.session.resume_at(point)
    from agentrewind.core.records import RunResumed

    second.log.append(RunResumed(0, second.log.tree.next_branch(), point.at, serves=point.serves))
    second.harness = Harness(second.session, second.world)
    second.harness.messages = list(point.seed)
    second.play(after)


class ResetLaw(Law):
    """A harness that begins again with the restored conversation whenever it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.session = ResetSession(self.log, self.world, [OpenAIChat()], budget=UNLIMITED)
        self.harness = Harness(self.session, self.world)

    def play(self, moves: list[tuple[str, int]]) -> None:
        turns = [self.turn(move) for move in [*moves, ("end", 0)]]
        while turns:
            provider = Provider(turns)
            try:
                self.harness.step(provider)
            except RewindSignal:
                self.harness = Harness(self.session, self.world)
                self.harness.messages = list(self.session.restored())
            turns = provider.turns
            if self.harness.messages[-1]["role"] == "assistant":
                self.harness.messages.append({"role": "user", "content": f"go on {self.count}"})


@settings(max_examples=150, deadline=None)
@given(MOVES)
def test_a_harness_that_is_given_the_restored_conversation_keeps_the_laws(moves) -> None:
    law = ResetLaw()
    law.play(moves)
