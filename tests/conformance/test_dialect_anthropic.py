"""The Anthropic dialect keeps the contract, and the contract catches Anthropic dialects that don't."""

from __future__ import annotations

import itertools
import json

import pytest

from agentrewind.core.errors import ProviderError
from agentrewind.dialects import anthropic_messages
from agentrewind.dialects.anthropic_messages import AnthropicMessages
from agentrewind.testing.dialects import CALLS, TEXT, DialectContract
from agentrewind.testing.scripted import Call, Turn
from agentrewind.testing.scripted.messages import response_to

EPHEMERAL = {"type": "ephemeral"}


class Messages:
    path = "/v1/messages"

    def dialect(self):
        return AnthropicMessages()

    def request(self, *, stream=False):
        thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
        call = {"type": "tool_use", "id": "call_9", "name": "bash", "input": {"a": 1}}
        result = {"type": "tool_result", "tool_use_id": "call_9", "content": "ok", "cache_control": EPHEMERAL}
        messages = [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [thinking, call]},
            {"role": "user", "content": [result]},
        ]
        tools = [{"name": "bash", "input_schema": {"type": "object"}}]
        body = {"model": "m", "max_tokens": 9, "system": "Do it.", "messages": messages, "tools": tools}
        return body | ({"stream": True} if stream else {})

    def answer(self, text, calls):
        turn = Turn(text, tuple(Call(name, arguments) for _, name, arguments in calls), reasoning="hm")
        response = response_to({"model": "m", "messages": []}, turn, 1, 1)
        made = [block for block in response["content"] if block["type"] == "tool_use"]
        for block, (call_id, _, _) in zip(made, calls, strict=True):
            block["id"] = call_id
        if not text and not calls:
            response["content"] = []
        return response

    def error(self, *, stream):
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "out of memory"}}
        if not stream:
            return json.dumps(error).encode()
        start = {"type": "message_start", "message": {**self.answer("", ()), "content": [], "stop_reason": None}}
        events = (start, {"type": "ping"}, error)
        return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()

    def same(self, message):
        if isinstance(message["content"], str):
            return {**message, "content": [{"type": "text", "text": message["content"], "cache_control": EPHEMERAL}]}
        blocks = [block for block in message["content"] if block["type"] != "thinking"]
        return {**message, "content": [{**block, "cache_control": EPHEMERAL, "citations": None} for block in blocks]}

    def other(self, message):
        if isinstance(message["content"], str):
            return {**message, "content": "something else"}
        key = {"tool_use": "id", "tool_result": "tool_use_id", "text": "text"}
        *before, last = message["content"]
        return {**message, "content": [*before, {**last, key[last["type"]]: "call_8"}]}


class TestAnthropicMessages(Messages, DialectContract):
    pass


class Subject(Messages, DialectContract):
    __test__ = False

    def __init__(self, dialect):
        self._dialect = dialect

    def dialect(self):
        return self._dialect


class OneMessageAResult(AnthropicMessages):
    def results(self, answer, texts):
        (whole,) = super().results(answer, texts) or ({"role": "user", "content": []},)
        return [{"role": "user", "content": [block]} for block in whole["content"]][::-1]


class ComparesCacheMarkers(AnthropicMessages):
    def canonical(self, message):
        return {**super().canonical(message), "markers": json.dumps(message).count("cache_control")}


class ComparesThinking(AnthropicMessages):
    def canonical(self, message):
        return {**super().canonical(message), "thoughts": json.dumps(message).count("thinking")}


class LeavesThinkingAtTheEnd(AnthropicMessages):
    def without_calls(self, response, names):
        blocks = [block for block in response["content"] if block.get("name") not in names]
        return {**super().without_calls(response, names), "content": blocks}


class KeepsTheStopReason(AnthropicMessages):
    def without_calls(self, response, names):
        return {**super().without_calls(response, names), "stop_reason": response["stop_reason"]}


class MergesInPlace(AnthropicMessages):
    def with_messages(self, body, messages):
        for before, after in itertools.pairwise(messages):
            if before["role"] == after["role"] and isinstance(before["content"], list):
                before["content"] += after["content"]
        return super().with_messages(body, messages)


class DropsPartsOfInput(AnthropicMessages):
    def parse(self, body, *, stream):
        return super().parse(body.replace(b"partial_json", b"partial"), stream=stream)


class TakesErrorsForPings(AnthropicMessages):
    def parse(self, body, *, stream):
        if stream and b"event: error" in body:
            body = json.dumps(Messages().answer("", ())).encode()
        return super().parse(body, stream=stream)


class AllowsLateResults(AnthropicMessages):
    def problems(self, messages):
        return [
            problem for problem in super().problems(messages) if "result" not in problem and "stands" not in problem
        ]


@pytest.mark.parametrize(
    ("mutant", "check", "arguments"),
    [
        (OneMessageAResult, "test_results_answer_each_call_in_order", {}),
        (ComparesCacheMarkers, "test_canonical_form_tells_messages_apart_by_their_meaning_only", {}),
        (ComparesThinking, "test_canonical_form_tells_messages_apart_by_their_meaning_only", {}),
        (LeavesThinkingAtTheEnd, "test_an_answer_without_any_call_left_ends_as_a_text_does", {"text": ""}),
        (KeepsTheStopReason, "test_an_answer_without_any_call_left_ends_as_a_text_does", {"text": TEXT}),
        (MergesInPlace, "test_arguments_are_left_as_they_are", {}),
        (DropsPartsOfInput, "test_an_answer_is_read", {"text": TEXT, "calls": CALLS, "stream": True}),
        (TakesErrorsForPings, "test_an_error_is_an_error", {"stream": True}),
        (AllowsLateResults, "test_broken_pairs_are_seen", {}),
    ],
)
def test_a_broken_dialect_is_caught_by_the_check_meant_for_it(mutant, check, arguments):
    getattr(Subject(AnthropicMessages()), check)(**arguments)
    with pytest.raises((AssertionError, pytest.fail.Exception, ProviderError)):
        getattr(Subject(mutant()), check)(**arguments)


def test_the_id_of_a_call_says_which_it_is():
    assert "tool_use_id" not in anthropic_messages.VOLATILE
