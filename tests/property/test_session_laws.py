"""Any run, any target, any order of rewinds: what the model sees and what the files are always belong together."""

from __future__ import annotations

import itertools
import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentrewind.core.budgets import UNLIMITED
from agentrewind.core.records import Rewound
from agentrewind.core.wire import WireReply
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine.offline import resume_point
from agentrewind.engine.reset import ResetSession
from agentrewind.engine.session import Session
from agentrewind.engine.signal import RewindSignal
from agentrewind.strategies.rewind_rules import RuleNames
from tests.unit.engine.wire import Harness, Provider, answer
from tests.unit.engine.worlds import MemoryLog, MemoryWorld

MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 3)),
        st.tuples(st.just("again"), st.just(0)),
        st.tuples(st.just("ask"), st.just(0)),
        st.tuples(st.just("say"), st.just(0)),
        st.tuples(st.just("commit"), st.integers(0, 10_000)),
        st.tuples(st.just("bad"), st.integers(0, 3)),
    ),
    max_size=30,
)


class Merging(Provider):
    """Puts notes into one where it is asked to; each third time it can't."""

    def __call__(self, body: dict) -> WireReply:
        if not self.wants(body):
            return super().__call__(body)
        number = len(body["messages"][0]["content"])
        if number % 3 == 0:
            return WireReply(500, (), b"no")
        return WireReply(200, (), answer(text=f"M<{next(NUMBERS)}>"))

    @staticmethod
    def wants(body: dict) -> bool:
        return str(body["messages"][0]["content"]).startswith("You are at work on a long task")


NUMBERS = itertools.count()


class Law:
    """Plays moves as a model would and checks the laws after each call."""

    kind = Session

    def __init__(self, **rules: str) -> None:
        self.world = MemoryWorld({"start": "0"})
        self.log = MemoryLog()
        self.rules = RuleNames(**rules).rules()
        self.session = self.kind(self.log, self.world, [OpenAIChat()], budget=UNLIMITED, rules=self.rules)
        self.harness = Harness(self.session, self.world)
        self.sent: dict[str, list[dict]] = {}
        self.files: dict[str, dict[str, str]] = {}
        self.count = 0
        self.seeded = False

    def play(self, moves: list[tuple[str, int]]) -> None:
        queue = [*moves, ("end", 0)]
        while queue:
            turns = []
            while queue:
                move = queue.pop(0)
                turns.append(self.turn(move))
                if move[0] in ("write", "again", "say", "end"):
                    break
            self.harness.step(Merging(turns))
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
            if kind == "again":
                return answer(calls=[(f"a{self.count}", "shell", {"name": "same", "text": "same"})])
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
        self.check_hints(messages)
        moved = next((event for event in reversed(self.log.events) if isinstance(event, Rewound)), None)
        if moved is not None and tree.node(uid).began.parent == tree.node(moved.target).began.parent:
            self.check_restored(moved, messages)
        self.sent[uid] = messages
        self.files[uid] = dict(self.world.files)

    def check_notes(self, messages: list[dict]) -> None:
        """Every note that the policy keeps stands in the context exactly once: itself, or one text in its place."""
        tree, policy = self.session.tree, self.rules.memory.kind
        text = "".join(message["content"] for message in messages if message["role"] == "system")
        held = tree.held(tree.head)
        for note in tree.notes:
            alike = [other.branch for other in tree.notes if other.text == note.text]
            merged = sum(text.count(item.text) for item in tree.merges for name in alike if name in item.branches)
            assert text.count(note.text) + merged == sum(name in held for name in alike), note
            assert policy == "budget" or not merged
        if policy != "latest":
            assert held == {note.branch for note in tree.notes}

    def check_hints(self, messages: list[dict]) -> None:
        """Nothing is told twice; what was told stays in the context that goes on from it; the harness never has it."""
        said = [str(message["content"]) for message in messages if message["role"] == "tool"]
        tree = self.session.tree
        hints = [(node, node.began.hint) for node in tree.nodes.values() if node.began.hint]
        on_path = {node.uid for node in tree.path()}
        found = 0
        for node, hint in hints:
            times = sum(hint.text in text for text in said)
            assert times == 1 if node.uid in on_path else times <= 1, hint
            found += times
        assert sum(text.count("[agentrewind]") for text in said) == found
        assert "(Said once" not in json.dumps(self.harness.messages) or self.seeded

    def check_restored(self, moved: Rewound, messages: list[dict]) -> None:
        prefix = self.sent[moved.target]
        if len(messages) == len(prefix) + 1:
            assert messages[:-1] == prefix
            assert messages[-1]["role"] == "system"
            assert self.world.files == self.files[moved.target]


MEMORIES = st.sampled_from(["cumulative", "latest", "budget:3", "budget:8"])
SELECTORS = st.sampled_from(["agent", "random:7", "previous", "best-progress", "oracle:rec_000003"])


@settings(max_examples=400, deadline=None)
@given(MOVES, MEMORIES, SELECTORS, st.sampled_from(["never", "loop"]))
@example([("again", 0), ("again", 0), ("commit", 0), ("again", 0), ("commit", 1), ("again", 0)],
         "budget:3", "agent", "loop")  # fmt: skip
def test_what_the_model_sees_and_what_the_files_are_belong_together(moves, memory, selector, trigger) -> None:
    law = Law(memory=memory, selector=selector, trigger=trigger)
    law.play(moves)
    for move in (event for event in law.log.events if isinstance(event, Rewound)):
        assert (move.asked is None) == (move.selector == "")
        assert move.asked != move.target
    assert not any("backtrack" in json.dumps(message) for message in law.harness.messages)


@settings(max_examples=80, deadline=None)
@given(MOVES, MOVES, MEMORIES)
def test_a_run_that_is_seeded_again_after_a_crash_keeps_the_laws(before, after, memory) -> None:
    first = Law(memory=memory)
    first.play(before)
    point = resume_point(first.log)
    second = Law(memory=memory)
    second.seeded = True
    second.world, second.log, second.sent, second.files = first.world, first.log, first.sent, first.files
    second.count = 1000
    second.world.restore(point.snapshot)
    second.session = Session(second.log, second.world, [OpenAIChat()], budget=UNLIMITED, rules=second.rules)
    second.session.resume_at(point)
    from agentrewind.core.records import RunResumed

    second.log.append(RunResumed(0, second.log.tree.next_branch(), point.at, serves=point.serves))
    second.harness = Harness(second.session, second.world)
    second.harness.messages = list(point.seed)
    second.play(after)


class ResetLaw(Law):
    """A harness that begins again with the restored conversation whenever it is told to."""

    kind = ResetSession

    def play(self, moves: list[tuple[str, int]]) -> None:
        turns = [self.turn(move) for move in [*moves, ("end", 0)]]
        while turns:
            provider = Merging(turns)
            try:
                self.harness.step(provider)
            except RewindSignal:
                self.harness = Harness(self.session, self.world)
                self.harness.messages = list(self.session.restored())
                self.seeded = True
            turns = provider.turns
            if self.harness.messages[-1]["role"] == "assistant":
                self.harness.messages.append({"role": "user", "content": f"go on {self.count}"})


@settings(max_examples=150, deadline=None)
@given(MOVES, MEMORIES)
def test_a_harness_that_is_given_the_restored_conversation_keeps_the_laws(moves, memory) -> None:
    law = ResetLaw(memory=memory)
    law.play(moves)
