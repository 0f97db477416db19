"""A run with a rewind, a sub-agent, failures and unknown numbers, in each dialect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentrewind.core.records import RunStarted
from agentrewind.core.wire import WireReply
from agentrewind.dialects.anthropic_messages import AnthropicMessages
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.dialects.openai_responses import OpenAIResponses
from agentrewind.engine.session import Session
from agentrewind.journal.reader import RunLog, read_run
from agentrewind.journal.writer import JournalWriter
from tests.unit.engine.wire import Harness, Provider, answer
from tests.unit.engine.worlds import MemoryWorld


def shell(number: int, text: str = "thinking"):
    arguments = {"name": "a", "text": str(number)}
    return lambda _: answer(text=text, calls=[(f"c{number}", "shell", arguments)])


def commit(uid: str):
    arguments = {"record_uid": uid, "memory_summary": "it failed; do otherwise"}
    return lambda _: answer(calls=[("k1", "backtrack_commit", arguments)])


def say(text: str, *, usage: bool = True):
    def turn(_: dict) -> bytes:
        body = json.loads(answer(text=text))
        return json.dumps(body if usage else {k: v for k, v in body.items() if k != "usage"}).encode()

    return turn


@pytest.fixture
def log(tmp_path: Path) -> RunLog:
    """rec 1..5 on b0 (shell, shell, commit), 6.. on b1; a second conversation; an error of the provider; no usage."""
    started = RunStarted("20261201-003812-x-0001", "/w", 1_790_000_000 * 10**9, "0.1", "do it", "builtin", "m")
    with JournalWriter.create(tmp_path / "run", started) as writer:
        world = MemoryWorld({"a": "0"})
        session = Session(writer, world, [OpenAIChat()])
        harness = Harness(session, world)
        provider = Provider([shell(1), shell(2), commit("rec_000003"), shell(3), say("done", usage=False)])
        for _ in range(4):
            harness.step(provider)
        other = Harness(session, world, task="another task, of a sub-agent")
        other.messages[0]["content"] = "You are another agent."
        other.step(Provider([say("done too")]))
        other.messages.append({"role": "user", "content": "more"})
        other.step(Provider([lambda _: WireReply(500, (), b'{"error": {"message": "overloaded"}}')]))
        session.end("accepted", ok=True, answer="done")
    return read_run(tmp_path / "run")


@pytest.fixture(params=["openai_responses", "anthropic_messages"])
def other_dialect(request: pytest.FixtureRequest, tmp_path: Path) -> RunLog:
    """A call with a tool, its result, and an answer; with thoughts."""
    started = RunStarted("20261201-003812-x-0002", "/w", 1, "0.1", "do it", "builtin", "m")
    with JournalWriter.create(tmp_path / "run", started) as writer:
        session = Session(writer, MemoryWorld(), [OpenAIResponses(), AnthropicMessages()])
        (_responses if request.param == "openai_responses" else _messages)(session)
        session.end("accepted", ok=True)
    return read_run(tmp_path / "run")


def _sent(session: Session, path: str, body: dict, response: dict) -> None:
    session.call(path, body, lambda _: WireReply(200, (), json.dumps(response).encode()))


def _responses(session: Session) -> None:
    thought = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "I ponder"}]}
    call = {"type": "function_call", "id": "fc", "call_id": "c1", "name": "shell", "arguments": '{"command": "ls"}'}
    usage = {"input_tokens": 7, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 2}}
    base = {"id": "r1", "object": "response", "model": "m", "status": "completed", "usage": usage}
    items: list[dict] = [{"role": "user", "content": "list the files"}]
    tools = [{"type": "function", "name": "shell", "parameters": {"type": "object"}}]
    body = {"model": "m", "instructions": "You are an agent.", "tools": tools}
    _sent(session, "/v1/responses", {**body, "input": list(items)}, {**base, "output": [thought, call]})
    items += [thought, call, {"type": "function_call_output", "call_id": "c1", "output": "a.txt"}]
    text = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "One."}]}
    _sent(session, "/v1/responses", {**body, "input": items}, {**base, "id": "r2", "output": [text]})


def _messages(session: Session) -> None:
    use = {"type": "tool_use", "id": "c1", "name": "shell", "input": {"command": "ls"}}
    thought = {"type": "thinking", "thinking": "I ponder", "signature": "s"}
    usage = {"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": 2}
    base = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "usage": usage}
    messages: list[dict] = [{"role": "user", "content": "list the files"}]
    tools = [{"name": "shell", "input_schema": {"type": "object"}}]
    body = {"model": "m", "max_tokens": 99, "system": "You are an agent.", "tools": tools}
    first = {**base, "content": [thought, use], "stop_reason": "tool_use"}
    _sent(session, "/v1/messages", {**body, "messages": list(messages)}, first)
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a.txt"}]}
    messages += [{"role": "assistant", "content": [thought, use]}, {"role": "user", "content": [result]}]
    last = {**base, "content": [{"type": "text", "text": "One."}], "stop_reason": "end_turn"}
    _sent(session, "/v1/messages", {**body, "messages": messages}, last)
