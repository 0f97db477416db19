"""Laws of the tree over any run that an engine could make."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrewind.core.errors import JournalError
from agentrewind.core.records import (
    FIRST_BRANCH,
    MAIN_THREAD,
    LlmInput,
    MessageId,
    MessageList,
    NodeBegan,
    NodeEnded,
    RewindGivenUp,
    RewindIntended,
    Rewound,
    RunStarted,
    record_uid,
)
from agentrewind.core.tree import RunTree
from agentrewind.core.world import SnapshotId

LIVE = SnapshotId("live")


class Model:
    """The same run, kept the plain way: whole lists of messages, whole paths."""

    def __init__(self):
        self.events = [RunStarted("r", "/w", 1, "0")]
        self.tree = RunTree.fold(self.events)
        self.lists: dict[str, list[str]] = {}
        self.paths: dict[str, list[str]] = {}
        self.path: list[str] = []

    def add(self, event):
        self.events.append(event)
        self.tree.apply(event)

    def call(self, keep_share, new):
        uid = record_uid(len(self.lists) + 1)
        base = self.path[-1] if self.path else None
        before = self.lists[base] if base else []
        keep = round(keep_share * len(before))
        added = [f"m{len(self.lists)}-{i}" for i in range(new)]
        parts = MessageList(base, keep, tuple(map(MessageId, added)))
        inputs = LlmInput("m", parts)
        began = NodeBegan(uid, "llm", self.tree.head, self.tree.branch, MAIN_THREAD, "i", SnapshotId("s"), 1, inputs)
        self.add(began)
        self.add(NodeEnded(uid))
        self.lists[uid] = before[:keep] + added
        self.path = [*self.path, uid]
        self.paths[uid] = self.path

    def rewind(self, at, *, commit, undo):
        if not self.path:
            return
        target, source = self.path[round(at * (len(self.path) - 1))], self.path[-1]
        branch, why = self.tree.next_branch(), "undo" if undo else "rewind"
        self.add(RewindIntended(source, target, SnapshotId("s"), LIVE, "n", branch, MAIN_THREAD, why=why))
        if not commit:
            self.add(RewindGivenUp(branch, "x"))
            return
        self.add(Rewound(branch, source, target, LIVE, "n", why=why))
        self.path = self.paths[target] if undo else self.paths[target][:-1]


calls = st.tuples(st.just("call"), st.floats(0, 1), st.integers(0, 4))
rewinds = st.tuples(st.just("rewind"), st.floats(0, 1), st.booleans(), st.booleans())


@given(st.lists(calls | rewinds, max_size=40))
@settings(max_examples=150, deadline=None)
def test_paths_and_messages_are_those_of_the_plain_model(steps):
    model = Model()
    for step in steps:
        if step[0] == "call":
            model.call(*step[1:])
        else:
            model.rewind(step[1], commit=step[2], undo=step[3])
        tree = model.tree
        assert [node.uid for node in tree.path()] == model.path
        assert tree.head == (model.path[-1] if model.path else None)
        assert [node.uid for node in tree.checkpoints()] == model.path
    assert tree_is_a_fold(model)
    for uid, messages in model.lists.items():
        assert list(model.tree.messages(uid)) == messages
        assert [node.uid for node in model.tree.path(uid)] == model.paths[uid]


def tree_is_a_fold(model) -> bool:
    return RunTree.fold(model.events) == model.tree


@given(st.lists(calls | rewinds, min_size=1, max_size=12), st.data())
@settings(max_examples=100, deadline=None)
def test_any_event_that_is_refused_leaves_the_tree_as_it_was(steps, data):
    """Events out of their order, or of another run: taken or refused, never half taken."""
    model = Model()
    for step in steps:
        if step[0] == "call":
            model.call(*step[1:])
        else:
            model.rewind(step[1], commit=step[2], undo=step[3])
    cut = data.draw(st.integers(0, len(model.events) - 1))
    tree = RunTree.fold(model.events[:cut])
    for event in data.draw(st.permutations(model.events[cut:])):
        before = RunTree.fold(model.events[:cut])
        try:
            before.check(event)
            fits = True
        except JournalError:
            fits = False
        try:
            tree.apply(event)
        except JournalError:
            assert not fits
            assert tree == RunTree.fold(model.events[:cut])
        else:
            assert fits
            break


def test_the_first_branch_is_open_from_the_start():
    assert list(RunTree().branches) == [FIRST_BRANCH]
