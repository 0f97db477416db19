"""What is noticed is told once, in the next tool result, in every dialect; the harness keeps what it sent."""

from __future__ import annotations

import copy
import itertools
import json

import pytest

from agentrewind.core.wire import WireReply
from agentrewind.dialects.anthropic_messages import AnthropicMessages
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.dialects.openai_responses import OpenAIResponses
from agentrewind.engine.session import Session
from agentrewind.strategies.rewind_rules import RuleNames
from agentrewind.testing.scripted import Call, Turn
from agentrewind.testing.scripted.chat import Chat
from agentrewind.testing.scripted.messages import Messages
from agentrewind.testing.scripted.responses import Responses
from tests.unit.engine.worlds import MemoryLog, MemoryWorld

PARAMETERS = {"type": "object", "properties": {}}
DIALECTS = {
    "chat": (
        OpenAIChat(),
        Chat,
        "/v1/chat/completions",
        {"tools": [{"type": "function", "function": {"name": "shell", "parameters": PARAMETERS}}]},
    ),
    "responses": (
        OpenAIResponses(),
        Responses,
        "/v1/responses",
        {"tools": [{"type": "function", "name": "shell", "parameters": PARAMETERS}]},
    ),
    "messages": (
        AnthropicMessages(),
        Messages,
        "/v1/messages",
        {"max_tokens": 100, "tools": [{"name": "shell", "input_schema": PARAMETERS}]},
    ),
}
ALL = pytest.mark.parametrize("name", DIALECTS)


class Agent:
    """A harness of any dialect: each step is a command and what its tool says."""

    def __init__(self, name: str, notice: str = "on") -> None:
        self.dialect, api, self.path, self.rest = DIALECTS[name]
        self.api = api()
        self.world, self.log = MemoryWorld({"start": "0"}), MemoryLog()
        rules = RuleNames(notice=notice).rules()
        self.session = Session(self.log, self.world, [self.dialect], rules=rules)
        self.messages = [self.dialect.user("do it")]
        self.seen: list[list[dict]] = []
        self.numbers = itertools.count(1)

    def step(self, command: str, result: str = "fine", *, writes: bool = False) -> None:
        body = self.dialect.with_messages({"model": "m", **self.rest, "messages": [], "input": []}, self.messages)
        body.pop("input" if "messages" in self.path or "chat" in self.path else "messages")
        before = copy.deepcopy(self.messages)

        def send(sent: dict) -> WireReply:
            assert self.api.refusal(sent) is None
            self.seen.append(self.dialect.messages(sent))
            turn = Turn("", (Call("shell", {"command": command}),))
            response = self.api.response(sent, turn, next(self.numbers), next(self.numbers))
            return WireReply(200, (), json.dumps(response).encode())

        reply = self.dialect.parse(self.session.call(self.path, body, send).body, stream=False)
        assert self.messages == before
        self.messages += [
            *reply.messages,
            *self.dialect.results(reply.messages, {call.id: result for call in reply.calls}),
        ]
        if writes:
            self.world.files["f"] = command

    @property
    def hints(self) -> list:
        return [node.began.hint for node in self.session.tree.nodes.values() if node.began.hint]

    def told(self) -> list[str]:
        """The tool results that the newest call showed with a hint."""
        results = [result.text for message in self.seen[-1] for result in self.dialect.tool_results(message)]
        return [text for text in results if "[agentrewind]" in text]


@ALL
def test_a_loop_is_told_once_in_the_next_result_and_stays_in_view(name) -> None:
    agent = Agent(name)
    agent.step("make", writes=True)
    agent.step("ls")
    agent.step("ls", "fine again")
    assert agent.told() == []
    agent.step("cat f")
    (text,) = agent.told()
    assert text.startswith("fine again\n\n[agentrewind] You did exactly this before")
    assert "shell(ls)" in text
    agent.step("cat g", writes=True)
    agent.step("cat h")
    assert agent.told() == [text]
    (hint,) = agent.hints
    assert hint.kind == "loop"
    assert hint.seen == ("rec_000002", "rec_000003")
    assert agent.log.get(hint.original) == agent.messages[hint.place]
    assert "[agentrewind]" not in json.dumps(agent.messages)


@ALL
def test_the_same_command_on_other_files_is_no_loop(name) -> None:
    agent = Agent(name)
    for number in range(5):
        agent.step("make", writes=True)
        agent.world.files["f"] = str(number)
    assert agent.hints == []


@ALL
def test_the_same_error_is_told_at_its_third_time(name) -> None:
    agent = Agent(name, "loop=0")
    for number in range(5):
        agent.step(f"try {number}", "error: no such file x.txt (0.3 s) [exit code 1]", writes=True)
    (text,) = agent.told()
    assert "given this error 3 times: error: no such file x.txt" in text
    assert [hint.kind for hint in agent.hints] == ["error"]


def test_a_result_that_the_format_marks_as_good_is_no_error() -> None:
    agent = Agent("messages", "loop=0")
    for number in range(5):
        agent.step(f"try {number}", "error.log is empty [exit code 1]")
        agent.messages[-1]["content"][0]["is_error"] = False
    assert agent.hints == []


def test_what_went_well_is_no_error_though_it_speaks_of_some() -> None:
    agent = Agent("chat", "loop=0")
    for number in range(5):
        agent.step(f"try {number}", "0 errors found [exit code 0]")
    assert agent.hints == []


@ALL
def test_a_standstill_is_told_and_told_again_after_the_next_change(name) -> None:
    agent = Agent(name, "loop=0,stall=4")
    agent.step("make", writes=True)
    for number in range(8):
        agent.step(f"look {number}")
    assert [hint.kind for hint in agent.hints] == ["stall"]
    assert "not changed in the last 4 steps" in agent.hints[0].text
    agent.step("make again", writes=True)
    for number in range(8):
        agent.step(f"look {number}")
    assert [hint.kind for hint in agent.hints] == ["stall", "stall"]


@ALL
def test_nothing_is_told_where_it_is_off(name) -> None:
    agent = Agent(name, "off")
    for _ in range(50):
        agent.step("ls", "error: the same [exit code 1]")
    assert agent.hints == []
    assert agent.told() == []
