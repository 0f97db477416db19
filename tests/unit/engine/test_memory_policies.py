"""Memory policies in a run: what the model sees after a rewind, the internal call, and what it costs."""

from __future__ import annotations

import itertools
import json

import pytest

from agentrewind.core.cost import costs
from agentrewind.core.records import NotesMerged, Rewound
from agentrewind.core.wire import WireReply
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine.session import Session
from agentrewind.strategies.rewind_rules import RuleNames
from tests.unit.engine.wire import Harness, Provider, answer
from tests.unit.engine.worlds import MemoryLog, MemoryWorld

LONG = ["first: a.txt must not be removed " * 6, "second: b.txt is wrong too " * 6, "third: try c.txt instead " * 6]
NUMBERS = itertools.count()


class Run:
    """Steps, and rewinds to the second step with the notes of `LONG`."""

    def __init__(self, memory: str, merged=lambda _: answer(text="SHORT: a.txt and b.txt are settled")) -> None:
        self.world, self.log = MemoryWorld({"start": "0"}), MemoryLog()
        rules = RuleNames(memory=memory).rules()
        self.session = Session(self.log, self.world, [OpenAIChat()], rules=rules)
        self.harness = Harness(self.session, self.world)
        self.seen: list[dict] = []
        self.internal: list[dict] = []
        self.merged = merged

    def send(self, body: dict) -> WireReply:
        if "Write one note" in str(body["messages"][0]["content"]):
            self.internal.append(json.loads(json.dumps(body)))
            reply = self.merged(body)
            return reply if isinstance(reply, WireReply) else WireReply(200, (), reply)
        self.seen.append(body)
        return Provider([self.turns.pop(0)])(body)

    def play(self, *turns) -> None:
        self.turns = list(turns)
        while self.turns:
            self.harness.step(self.send)

    def rewinds(self) -> None:
        step = lambda _: answer(calls=[(f"c{next(NUMBERS)}", "shell", {"name": "f", "text": str(next(NUMBERS))})])  # noqa: E731
        self.play(step, step)
        for note in LONG:
            arguments = {"record_uid": "rec_000003", "memory_summary": note}
            self.play(step, lambda _, a=arguments: answer(calls=[(f"k{next(NUMBERS)}", "backtrack_commit", a)]), step)

    @property
    def memory(self) -> list[str]:
        return [
            m["content"] for m in self.seen[-1]["messages"] if m["content"] and m["content"].startswith("[agentrew")
        ]

    @property
    def moves(self) -> list[Rewound]:
        return [event for event in self.log.events if isinstance(event, Rewound)]


def test_latest_brings_the_newest_note_alone() -> None:
    run = Run("latest")
    run.rewinds()
    assert [note in run.memory[-1] for note in map(str.strip, LONG)] == [False, False, True]
    assert [move.memory for move in run.moves] == ["latest"] * 3


def test_cumulative_brings_all() -> None:
    run = Run("cumulative")
    run.rewinds()
    assert all(note.strip() in run.memory[-1] for note in LONG)
    assert run.internal == []


def test_over_the_budget_the_model_puts_the_oldest_into_one_once_by_a_recorded_call() -> None:
    run = Run("budget:100")
    run.rewinds()
    assert len(run.internal) == 1
    (asked,) = run.internal
    assert asked["model"] == "m"
    assert "tools" not in asked
    assert [note.strip() in asked["messages"][0]["content"] for note in LONG] == [True, True, False]
    assert "SHORT: a.txt" in run.memory[-1]
    assert [note.strip() in run.memory[-1] for note in LONG] == [False, False, True]
    (merged,) = (event for event in run.log.events if isinstance(event, NotesMerged))
    assert merged.covers == ("b1", "b2")
    assert merged.usage.input == 10
    assert run.log.get(merged.request) == asked
    assert run.log.get(merged.output)["choices"]
    cost = costs(run.log.events)
    assert cost.total.input == cost.models["m"].input == 10 * (len(run.seen) + 1), "the call is paid for too"
    assert cost.retained + cost.abandoned == cost.total
    assert run.session.tree.held(run.session.tree.head) == {"b1", "b2", "b3"}


def _fails(_body):
    raise ConnectionError("the line is dead")


@pytest.mark.parametrize(
    ("merged", "why"),
    [
        (lambda _: WireReply(503, (), b"busy"), "HTTP 503: busy"),
        (_fails, "ConnectionError: the line is dead"),
        (lambda _: b"<html>", "answer"),
        (lambda _: answer(text=" "), "empty"),
        (lambda _: answer(text="x" * 5000), "no shorter"),
    ],
)
def test_where_the_call_fails_every_note_stands_as_it_was_and_the_run_says_so(merged, why) -> None:
    run = Run("budget:100", merged)
    run.rewinds()
    assert all(note.strip() in run.memory[-1] for note in LONG)
    (event,) = (event for event in run.log.events if isinstance(event, NotesMerged))
    assert why in event.failed
    assert not event.text
    assert run.session.tree.merges == []


def test_a_rewind_to_before_a_merge_says_nothing_twice() -> None:
    """The retained messages hold one of the notes that were merged: the others are said by themselves again."""
    run = Run("budget:100")
    run.rewinds()
    first_after = next(n.uid for n in run.session.tree.nodes.values() if n.began.branch == "b1")
    step = lambda _: answer(calls=[(f"c{next(NUMBERS)}", "shell", {"name": "f", "text": str(next(NUMBERS))})])  # noqa: E731
    arguments = {"record_uid": first_after, "memory_summary": "short"}
    run.play(lambda _: answer(calls=[("z", "backtrack_commit", arguments)]), step)
    text = "".join(run.memory)
    assert [text.count(note.strip()) for note in (*LONG, "\nshort\n")] == [1, 1, 1, 1]
    assert "SHORT" not in text


def test_what_the_notes_take_is_estimated_and_taken_from_the_providers_counts_where_they_tell() -> None:
    run = Run("cumulative")
    run.rewinds()
    for move in run.moves:
        assert move.memory_tokens > 40
        assert run.session.tree.memory_tokens(move) == (move.memory_tokens, "estimate")
    counted = Run("cumulative")
    counted.send = _counting(counted.send)
    counted.rewinds()
    tokens, by = counted.session.tree.memory_tokens(counted.moves[0])
    assert by == "provider"
    assert tokens == len(counted_memory(counted, counted.moves[0]))


def _counting(send):
    """A provider that counts characters of content."""

    def count(body):
        reply = send(body)
        response = json.loads(reply.body)
        response["usage"]["prompt_tokens"] = sum(len(m["content"] or "") for m in body["messages"])
        return WireReply(200, (), json.dumps(response).encode())

    return count


def counted_memory(run: Run, move: Rewound) -> str:
    first = next(n for n in run.session.tree.nodes.values() if n.began.branch == move.branch)
    return run.log.get(run.session.tree.messages(first.uid)[-1])["content"]
