"""The dialects keep their contract, and the contract catches dialects that don't."""

from __future__ import annotations

import json

import pytest

from agentrewind.core.errors import ProviderError
from agentrewind.dialects import openai_chat
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.testing.dialects import CALLS, TEXT, DialectContract
from agentrewind.testing.scripted import Call, Turn, response_to


class Chat:
    path = "/v1/chat/completions"

    def dialect(self):
        return OpenAIChat()

    def request(self, *, stream=False):
        call = {"id": "call_9", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        messages = [
            {"role": "system", "content": "Do it."},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_9", "content": "ok"},
        ]
        tools = [{"type": "function", "function": {"name": "bash", "parameters": {}}}]
        return {"model": "m", "messages": messages, "tools": tools, "temperature": 0} | (
            {"stream": True} if stream else {}
        )

    def answer(self, text, calls):
        turn = Turn(text, tuple(Call(name, arguments) for _, name, arguments in calls))
        response = response_to({"model": "m", "messages": []}, turn, "chatcmpl-1", 1)
        for made, (call_id, _, _) in zip(response["choices"][0]["message"].get("tool_calls", ()), calls, strict=True):
            made["id"] = call_id
        return response

    def error(self, *, stream):
        body = json.dumps({"error": {"message": "out of memory"}})
        if not stream:
            return body.encode()
        chunk = {"choices": [{"index": 0, "delta": {"content": "a"}}]}
        return f"data: {json.dumps(chunk)}\n\ndata: {body}\n\ndata: [DONE]\n\n".encode()

    def same(self, message):
        return {**message, "id": "msg_1", "cache_control": {"type": "ephemeral"}, "refusal": None, "annotations": []}

    def other(self, message):
        if message.get("tool_calls"):
            (first, *rest) = message["tool_calls"]
            return {**message, "tool_calls": [{**first, "id": "call_8"}, *rest]}
        return {**message, "content": "something else"}


class TestOpenAIChat(Chat, DialectContract):
    pass


class Subject(Chat, DialectContract):
    __test__ = False

    def __init__(self, dialect):
        self._dialect = dialect

    def dialect(self):
        return self._dialect


class ChangesTheBody(OpenAIChat):
    def with_tools(self, body, specs):
        body["tools"] = super().with_tools(body, specs)["tools"]
        return body


class PutsToolsFirst(OpenAIChat):
    def with_tools(self, body, specs):
        own = self.tools(body)
        return {**body, "tools": [*super().with_tools({**body, "tools": []}, specs)["tools"], *own]}


class KeepsTheFinishReason(OpenAIChat):
    def without_calls(self, response, names):
        left = super().without_calls(response, names)
        left["choices"][0]["finish_reason"] = response["choices"][0]["finish_reason"]
        return left


class TakesOutAllCalls(OpenAIChat):
    def without_calls(self, response, names):
        return super().without_calls(response, frozenset({*names, "bash"}))


class ForgetsAResult(OpenAIChat):
    def results(self, message, texts):
        return super().results(message, texts)[:1]


class DropsCallIds(OpenAIChat):
    def canonical(self, message):
        found = super().canonical(message)
        return {**found, "tool_calls": [{**call, "id": ""} for call in found.get("tool_calls", ())]}


class TakesNoMessageForAResult(OpenAIChat):
    def answers(self, message):
        return None


class ComparesCacheMarkers(OpenAIChat):
    def canonical(self, message):
        return {**super().canonical(message), "cache": message.get("cache_control")}


class TakesErrorsForAnswers(OpenAIChat):
    def parse(self, body, *, stream):
        try:
            return super().parse(body, stream=stream)
        except ProviderError:
            return super().parse(json.dumps(Chat().answer("", ())).encode(), stream=False)


class TakesHalfAStream(OpenAIChat):
    def parse(self, body, *, stream):
        return super().parse(body + b"data: [DONE]\n\n" if stream and b"data: {" in body else body, stream=stream)


class ReadsLinesByNewlineOnly(OpenAIChat):
    def parse(self, body, *, stream):
        if stream and b"\r\n" in body:
            raise ProviderError("what is this?")
        return super().parse(body, stream=stream)


class AllowsOrphans(OpenAIChat):
    def problems(self, messages):
        return [problem for problem in super().problems(messages) if "didn't call" not in problem]


class LosesUsage(OpenAIChat):
    def parse(self, body, *, stream):
        if stream:
            body = body.replace(b'"usage": {', b'"used": {')
        return super().parse(body, stream=stream)


@pytest.mark.parametrize(
    ("mutant", "check", "arguments"),
    [
        (ChangesTheBody, "test_arguments_are_left_as_they_are", {}),
        (PutsToolsFirst, "test_tools_are_declared_once_and_after_the_others", {}),
        (KeepsTheFinishReason, "test_an_answer_without_any_call_left_ends_as_a_text_does", {"text": ""}),
        (TakesOutAllCalls, "test_calls_are_taken_out_and_the_rest_stays", {}),
        (ForgetsAResult, "test_results_answer_each_call_in_order", {}),
        (DropsCallIds, "test_canonical_form_tells_messages_apart_by_their_meaning_only", {}),
        (ComparesCacheMarkers, "test_canonical_form_tells_messages_apart_by_their_meaning_only", {}),
        (TakesErrorsForAnswers, "test_an_error_is_an_error", {"stream": True}),
        (TakesHalfAStream, "test_a_stream_cut_off_before_its_end_is_an_error", {}),
        (ReadsLinesByNewlineOnly, "test_line_ends_and_comments_of_a_stream_do_not_matter", {}),
        (AllowsOrphans, "test_broken_pairs_are_seen", {}),
        (TakesNoMessageForAResult, "test_results_that_come_in_another_order_are_known_as_such", {}),
        (LosesUsage, "test_an_answer_is_read", {"text": TEXT, "calls": CALLS, "stream": True}),
    ],
)
def test_a_broken_dialect_is_caught_by_the_check_meant_for_it(mutant, check, arguments):
    getattr(Subject(OpenAIChat()), check)(**arguments)
    with pytest.raises((AssertionError, pytest.fail.Exception, ProviderError)):
        getattr(Subject(mutant()), check)(**arguments)


def test_the_id_of_a_call_says_which_it_is():
    assert "tool_call_id" not in openai_chat.VOLATILE
