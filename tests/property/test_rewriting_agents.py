"""Agents that change what they sent: they drop their oldest messages, sum up, shorten a result, change a word of the
user, give parallel results in another order. What was abandoned never comes back to the model's sight without the
journal and the model being told that it may; what was kept never goes missing; every note stands once; a strict
provider takes every list.

Each message says which piece of the run it tells of (`<s7>`), in whatever form the agent leaves it, so what the model
may see is known without asking the code under test.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrewind.core.budgets import Budget
from agentrewind.core.records import Rewound
from agentrewind.core.wire import WireReply
from agentrewind.dialects.anthropic_messages import AnthropicMessages
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.dialects.openai_responses import OpenAIResponses
from agentrewind.engine.session import Session
from agentrewind.testing.scripted import Call, Turn
from agentrewind.testing.scripted.chat import Chat
from agentrewind.testing.scripted.messages import Messages
from agentrewind.testing.scripted.responses import Responses
from tests.unit.engine.worlds import MemoryLog, MemoryWorld

MARK = re.compile(r"<s(\d+)>")
LISTING = re.compile(r'Checkpoints, oldest first(?:[^"\\]|\\.)*')
"""A list of checkpoints tells of steps that the agent has dropped from its messages since: they are on the path."""


@dataclass
class Form:
    """How one dialect asks."""

    dialect: object
    api: object
    path: str
    key: str
    more: dict
    tool: dict

    def body(self, messages: list[dict]) -> dict:
        return {"model": "m", self.key: messages, "tools": [self.tool], **self.more}


PARAMETERS = {"type": "object", "properties": {}}
FORMS = {
    "chat": lambda: Form(
        OpenAIChat(),
        Chat(),
        "/v1/chat/completions",
        "messages",
        {},
        {"type": "function", "function": {"name": "shell", "parameters": PARAMETERS}},
    ),
    "responses": lambda: Form(
        OpenAIResponses(),
        Responses(),
        "/v1/responses",
        "input",
        {"store": False},
        {"type": "function", "name": "shell", "parameters": PARAMETERS},
    ),
    "messages": lambda: Form(
        AnthropicMessages(),
        Messages(),
        "/v1/messages",
        "messages",
        {"max_tokens": 9},
        {"name": "shell", "input_schema": PARAMETERS},
    ),
}


@dataclass
class Group:
    """Messages that only go together: an answer with the results of its calls, or a word of the user."""

    said: list[dict]
    results: list[dict] = field(default_factory=list)

    @property
    def messages(self) -> list[dict]:
        return [*self.said, *self.results]


class Agent:
    """Plays moves, and looks at every request that would go to the provider."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.log, self.world = MemoryLog(), MemoryWorld({"start": "0"})
        self.session = Session(self.log, self.world, [form.dialect], budget=Budget(rewinds=None, batch_wait_s=0))
        self.groups = [Group([form.dialect.user("<s0> do it")])]
        self.count = 0
        self.calls = 0
        self.live = {0}
        self.seen: dict[str, list[int]] = {}
        """The pieces in each request, by its record."""
        self.degraded = False
        self.told = 0
        self.plan: list[tuple[str, int]] = []
        self.moves = 0
        self.attempts = 0

    def piece(self) -> str:
        self.count += 1
        self.live.add(self.count)
        return f"<s{self.count}>"

    # --- the model ---

    def send(self, body: dict) -> WireReply:
        assert self.form.api.refusal(json.loads(json.dumps(body))) is None
        self.look(self.form.dialect.messages(body))
        self.calls += 100
        response = self.form.api.response(body, self.turn(), self.calls, self.calls + 1)
        return WireReply(200, (), json.dumps(response).encode())

    def turn(self) -> Turn:
        kind, value = self.plan.pop(0) if self.plan else ("say", 0)
        if kind == "rewind":
            here = self.session.tree.head
            uids = [uid for uid in self.seen if self.session.tree.node(uid).began.thread == self.thread and uid != here]
            if uids:
                target = uids[value % len(uids)]
                self.attempts += 1
                note = f"NOTE({self.attempts})"
                return Turn("", (Call("backtrack_commit", {"record_uid": target, "memory_summary": note}),))
        if kind == "list":
            return Turn("", (Call("backtrack_candidates", {"reason": "r"}),))
        tag = self.piece()
        calls = tuple(
            Call("shell", {"n": f"{tag} {number}"}) for number in range(1 + value % 3 if kind != "say" else 0)
        )
        return Turn(f"{tag} said", calls)

    @property
    def thread(self) -> str:
        return self.session.tree.node(self.session.tree.head).began.thread

    # --- what the provider sees ---

    def look(self, messages: list[dict]) -> None:
        tree = self.session.tree
        text = json.dumps(messages)
        pieces = [int(found) for found in MARK.findall(LISTING.sub("", text))]
        self.follow(tree)
        if not self.degraded:
            assert set(pieces) <= self.live, "something abandoned is seen, and nobody said so"
            for message in self.raw:
                told = {int(found) for found in MARK.findall(json.dumps(message))}
                assert not told <= self.live or told <= set(pieces), "something kept went missing"
        if self.thread == "main" or self.degraded:
            for note in tree.notes:
                assert text.count(note.text) == 1, note
        self.seen[tree.head] = pieces

    def follow(self, tree) -> None:
        """Take in what happened since the request before: rewinds, and what was said of the context."""
        moves = [event for event in self.log.events if isinstance(event, Rewound)]
        for move in moves[self.moves :]:
            self.live = set(self.seen[move.target])
            self.degraded = move.context == "degraded"
        self.moves = len(moves)
        warned = sum("context: degraded" in text for text in tree.warnings)
        if warned > self.told:
            self.degraded = True
            assert "agentrewind] " in json.dumps(self.log.get(tree.messages(tree.head)[-1])), "the model isn't told"
        self.told = warned

    # --- the harness ---

    @property
    def raw(self) -> list[dict]:
        """What it sends: where the provider wants roles to alternate, the agent itself sees to that."""
        found: list[dict] = []
        for message in (message for group in self.groups for message in group.messages):
            if self.form.path == "/v1/messages" and found and message["role"] == found[-1]["role"] == "user":
                found[-1] = {"role": "user", "content": [*found[-1]["content"], *message["content"]]}
            else:
                found.append(message)
        return found

    def ask(self) -> None:
        reply = self.session.call(self.form.path, self.form.body(json.loads(json.dumps(self.raw))), self.send)
        assert reply.ok
        answer = self.form.dialect.parse(reply.body, stream=False)
        texts = {call.id: f"{self.piece()} outcome" for call in answer.calls}
        results = self.form.dialect.results(answer.messages, texts)
        self.groups.append(Group(list(answer.messages), results))
        if not answer.calls:
            self.groups.append(Group([self.form.dialect.user(f"{self.piece()} go on")]))

    def play(self, moves: list[tuple[str, int]]) -> None:
        for kind, value in moves:
            if kind in ("work", "say", "rewind", "list"):
                self.plan.append((kind, value))
                if kind in ("work", "say"):
                    self.ask()
            else:
                getattr(self, kind)(value)
        self.ask()
        self.ask()

    # --- what it does to its history; the first word of the user and the newest group stay ---

    def drop(self, value: int) -> None:
        """The oldest ones."""
        del self.groups[1 : 1 + min(value % 4, max(len(self.groups) - 2, 0))]

    def sum_up(self, value: int) -> None:
        """Some in the middle become one."""
        start = 1 + value % max(len(self.groups) - 1, 1)
        stop = min(start + 1 + value % 3, len(self.groups) - 1)
        if start < stop:
            told = dict.fromkeys(MARK.findall(json.dumps([group.messages for group in self.groups[start:stop]])))
            text = f"({self.count}) summary of " + "".join(f"<s{number}>" for number in told)
            self.groups[start:stop] = [Group([self.form.dialect.user(text)])]

    def compact(self, value: int) -> None:
        """All but the first word of the user becomes one."""
        del value
        told = dict.fromkeys(MARK.findall(json.dumps([group.messages for group in self.groups[1:]])))
        text = f"({self.count}) all so far: " + "".join(f"<s{number}>" for number in told)
        self.groups[1:] = [Group([self.form.dialect.user(text)])]

    def shorten(self, value: int) -> None:
        """One result loses its text."""
        self.change(value, "outcome", "left out")

    def edit(self, value: int) -> None:
        """One word of the user is another one."""
        self.change(value, "go on", "never mind, go on")

    def change(self, value: int, old: str, new: str) -> None:
        holding = [group for group in self.groups if old in json.dumps(group.messages)]
        if holding:
            group = holding[value % len(holding)]
            where = group.results or group.said
            text = json.dumps(where[-1]).replace(old, new, 1)
            where[-1] = json.loads(text)

    def reorder(self, value: int) -> None:
        """The results of one turn come the other way round."""
        holding = [group for group in self.groups if group.results]
        if holding:
            group = holding[value % len(holding)]
            group.results.reverse()
            for message in group.results:
                if isinstance(message.get("content"), list):
                    message["content"].reverse()


ACTS = ("work", "work", "work", "say", "rewind", "rewind", "list")
CHANGES = ("drop", "sum_up", "compact", "shorten", "edit", "reorder")
MOVES = st.lists(st.tuples(st.sampled_from(ACTS + CHANGES), st.integers(0, 1000)), min_size=4, max_size=16)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=100, deadline=None, derandomize=True)
@given(moves=MOVES)
def test_what_was_abandoned_is_out_of_sight_or_it_is_said(form: str, moves: list[tuple[str, int]]) -> None:
    Agent(FORMS[form]()).play(moves)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=1500, deadline=None)
@given(moves=MOVES)
def test_the_same_for_long_and_at_random(form: str, moves: list[tuple[str, int]]) -> None:
    Agent(FORMS[form]()).play(moves)


def test_the_first_words_alone_do_not_make_a_list_that_of_an_older_conversation() -> None:
    """It was shortened to nothing known, and later to what only the oldest list begins with."""
    moves = [("say", 0), ("drop", 1), ("work", 0), ("rewind", 0), ("work", 0), ("drop", 1)]
    Agent(FORMS["messages"]()).play(moves)


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=20, deadline=None)
@given(moves=st.lists(st.tuples(st.sampled_from((*ACTS, "reorder")), st.integers(0, 1000)), min_size=4, max_size=16))
def test_results_in_another_order_are_nothing_special(form: str, moves: list[tuple[str, int]]) -> None:
    agent = Agent(FORMS[form]())
    agent.play(moves)
    assert agent.session.tree.warnings == []
    assert agent.thread == "main"


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=20, deadline=None)
@given(
    moves=st.lists(
        st.tuples(st.sampled_from(("work", "say", "list", *CHANGES)), st.integers(0, 1000)), min_size=4, max_size=16
    )
)
def test_without_a_rewind_a_rewritten_history_is_nothing_special(form: str, moves: list[tuple[str, int]]) -> None:
    agent = Agent(FORMS[form]())
    agent.play(moves)
    assert agent.session.tree.warnings == []
