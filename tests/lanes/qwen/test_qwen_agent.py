"""The adapter of the real Qwen-Agent keeps the contract of rewinds; what is peculiar to FnCallAgent."""

from __future__ import annotations

import itertools
import json

import pytest

from agentrewind.integrations.harnesses.contract import Job
from agentrewind.integrations.harnesses.qwen import FnCallAgent
from agentrewind.testing.harnesses import HarnessContract, RewindContract, script
from agentrewind.testing.scripted import Turn, say
from tests.lanes import needs

pytestmark = needs("qwen_agent", "qwen")


CATCHES = "Qwen-Agent makes texts of errors in tools; a run that can't be recorded ends at its next call of the model"


def in_words(text, calls):
    """As Qwen's own template has it; arguments that are text stand there as they are."""
    made = (json.dumps(call.arguments) if not isinstance(call.arguments, str) else call.arguments for call in calls)
    named = (f'{{"name": "{call.name}", "arguments": {item}}}' for call, item in zip(calls, made, strict=True))
    return Turn("\n".join((text, *(f"<tool_call>\n{item}\n</tool_call>" for item in named))))


class Alone(HarnessContract):
    def harness(self):
        return FnCallAgent()

    def job(self, **fields):
        return Job(**fields)

    def submission(self, answer):
        return say(answer)


class TestAloneDeclared(Alone):
    not_applicable = {  # noqa: RUF012
        "record_call_and_result_have_one_id": "Qwen-Agent doesn't tell a tool the id of its call",
        "an_error_of_the_recorder_travels_through": CATCHES,
    }

    def job(self, **fields):
        return Job(**{**fields, "settings": {"raw": True, **fields.get("settings", {})}})


class TestAloneInWords(Alone):
    not_applicable = {  # noqa: RUF012
        "record_call_and_result_have_one_id": "calls in words have no ids",
        "an_error_of_the_recorder_travels_through": CATCHES,
    }

    def said(self, text, calls):
        return in_words(text, calls)


class Qwen(RewindContract):
    agent = "qwen-agent"
    place = "agentrewind.integrations.harnesses.qwen:FnCallAgent"
    streamed = {}  # it always does  # noqa: RUF012
    not_applicable = {"async": "Qwen-Agent is synchronous"}  # noqa: RUF012


class TestInWords(Qwen):
    """As it comes: calls are written in the text of the answer."""

    def said(self, text, calls):
        return in_words(text, calls)


class TestDeclared(Qwen):
    """With tools declared to the provider."""

    options = {"raw": True}  # noqa: RUF012


@pytest.fixture
def play(tmp_path):
    def played(story, **options):
        return TestInWords().play(tmp_path, "in-place", story, options=options)

    return played


def working(count):
    """So many commands, then an answer."""

    def story(scripted, seen):
        done = len(scripted.seen) - 1
        if done == count:
            return scripted.speaker.submission("Done.")
        return scripted.speaker.shell(f"echo number {done}", text="On.")

    return story


def test_more_calls_than_its_own_limit_of_twenty(play, monkeypatch):
    monkeypatch.setattr(script, "PATIENCE", 99)
    played = play(working(25))
    assert played.exit_code == 0, played.errors
    assert len(played.requests) == 26


def test_the_limit_that_is_asked_for_ends_the_run(play):
    played = play(working(9), max_steps=3)
    assert played.exit_code == 1
    assert played.log["reason"] == "The limit of 3 model calls was reached."
    assert len(played.requests) == 3


def test_every_request_has_the_same_seed_and_no_heat(play):
    played = play(working(2))
    assert [(request["seed"], request["temperature"]) for request in played.requests] == [(0, 0)] * 3
    assert all(node["usage"]["output"] for node in played.nodes("llm")), "what it cost is not known"


def test_a_long_conversation_is_not_cut(play):
    def story(scripted, seen):
        if len(scripted.seen) < 6:
            return scripted.speaker.shell("python3 -c \"print('word ' * 3000)\"", text="On.")
        return scripted.speaker.submission("Done.")

    played = play(story)
    lists = [request["messages"] for request in played.requests]
    assert all(longer[: len(shorter)] == shorter for shorter, longer in itertools.pairwise(lists))


def test_a_result_names_its_call_as_providers_want_it(tmp_path):
    played = TestDeclared().play(tmp_path, "in-place", working(1))
    assert played.refused == []
    *_, asked, result = played.requests[-1]["messages"]
    assert result["tool_call_id"] == asked["tool_calls"][0]["id"]
    assert set(result) == {"role", "tool_call_id", "content"}


def test_arguments_that_are_no_json_run_nothing(play):
    def story(scripted, seen):
        if len(scripted.seen) == 1:
            return Turn('On.\n<tool_call>\n{"name": "shell", "arguments": "ls"}\n</tool_call>')
        return scripted.speaker.submission("Done.")

    played = play(story)
    assert played.exit_code == 0, played.errors
    assert "Nothing was run" in played.seen[-1].text
