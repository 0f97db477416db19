"""The Responses dialect keeps the contract, and the contract catches Responses dialects that don't."""

from __future__ import annotations

import json

import pytest

from agentrewind.core.errors import ProviderError
from agentrewind.dialects import openai_responses
from agentrewind.dialects.openai_responses import OpenAIResponses
from agentrewind.testing.dialects import CALLS, TEXT, DialectContract
from agentrewind.testing.scripted import Call, Turn
from agentrewind.testing.scripted.responses import response_to

PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto"}


class Responses:
    path = "/v1/responses"

    def dialect(self):
        return OpenAIResponses()

    def request(self, *, stream=False):
        items = [
            {"role": "developer", "content": "Do it."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}, PICTURE]},
            {"type": "reasoning", "id": "rs_9", "summary": [], "encrypted_content": "x"},
            {"type": "function_call", "id": "fc_9", "call_id": "call_9", "name": "bash", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "call_9", "output": "ok"},
        ]
        tools = [{"type": "function", "name": "bash", "parameters": {}, "strict": True}, {"type": "web_search"}]
        body = {"model": "m", "instructions": "Be brief.", "input": items, "tools": tools, "store": False}
        return body | ({"stream": True} if stream else {})

    def continuing(self, response=None):
        output = {"type": "function_call_output", "call_id": "call_1", "output": "ok"}
        return {**self.request(), "input": [output], "previous_response_id": response["id"] if response else "resp_1"}

    def answer(self, text, calls):
        turn = Turn(text, tuple(Call(name, arguments) for _, name, arguments in calls), reasoning="hm")
        body = {"model": "m", "input": "hi", "include": ["reasoning.encrypted_content"]}
        response = response_to(body, turn, 1, 1)
        made = [item for item in response["output"] if item["type"] == "function_call"]
        for item, (call_id, _, _) in zip(made, calls, strict=True):
            item["call_id"] = call_id
        if not text and not calls:
            response["output"] = []
        return response

    def error(self, *, stream):
        if not stream:
            return json.dumps({"error": {"message": "out of memory", "type": "server_error"}}).encode()
        begun = {"type": "response.created", "response": {"id": "resp_1", "output": [], "status": "in_progress"}}
        failed = {
            "type": "response.failed",
            "response": {"error": {"code": "server_error", "message": "out of memory"}},
        }
        return "".join(f"data: {json.dumps(event)}\n\n" for event in (begun, failed)).encode()

    def same(self, message):
        if message.get("type") == "reasoning":
            return {**message, "id": "rs_8", "status": None}
        return {"type": "message", **message, "id": "item_1", "status": "completed", "phase": None}

    def other(self, message):
        if message.get("type") == "reasoning":
            return {**message, "encrypted_content": "y"}
        if "call_id" in message:
            return {**message, "call_id": "call_8"}
        return {**message, "content": "something else"}


class TestOpenAIResponses(Responses, DialectContract):
    pass


class Subject(Responses, DialectContract):
    __test__ = False

    def __init__(self, dialect):
        self._dialect = dialect

    def dialect(self):
        return self._dialect


class ForgetsThatItContinues(OpenAIResponses):
    def as_whole(self, body, messages):
        return self.with_messages(body, messages)


class NamesNoAnswer(OpenAIResponses):
    def reply_id(self, reply):
        return None


class LeavesReasoningBehind(OpenAIResponses):
    def without_calls(self, response, names):
        return {**response, "output": [item for item in response["output"] if item.get("name") not in names]}


class TakesTheIdOfAReasoningForItsMeaning(OpenAIResponses):
    def canonical(self, message):
        return {**super().canonical(message), "id": message.get("id")}


class AnswersTheFirstCallOnly(OpenAIResponses):
    def results(self, answer, texts):
        return super().results(answer, texts)[:1]


class TakesAFailureForAnAnswer(OpenAIResponses):
    def parse(self, body, *, stream):
        try:
            return super().parse(body, stream=stream)
        except ProviderError:
            return super().parse(json.dumps(Responses().answer("", ())).encode(), stream=False)


class TakesHalfAStream(OpenAIResponses):
    def parse(self, body, *, stream):
        begun = stream and b"response.created" in body and b"response.completed" not in body
        return super().parse(json.dumps(Responses().answer("", ())).encode() if begun else body, stream=stream)


class DeclaresInTheFormOfChat(OpenAIResponses):
    def with_tools(self, body, specs):
        changed = super().with_tools(body, specs)
        tools = [{"type": "function", "function": tool} if "description" in tool else tool for tool in changed["tools"]]
        return {**changed, "tools": tools}


@pytest.mark.parametrize(
    ("mutant", "check", "arguments"),
    [
        (ForgetsThatItContinues, "test_a_whole_request_continues_nothing_and_holds_what_it_is_given", {}),
        (NamesNoAnswer, "test_a_request_that_continues_an_answer_names_it", {}),
        (LeavesReasoningBehind, "test_an_answer_without_any_call_left_ends_as_a_text_does", {"text": ""}),
        (TakesTheIdOfAReasoningForItsMeaning, "test_canonical_form_tells_messages_apart_by_their_meaning_only", {}),
        (AnswersTheFirstCallOnly, "test_results_answer_each_call_in_order", {}),
        (TakesAFailureForAnAnswer, "test_an_error_is_an_error", {"stream": True}),
        (TakesHalfAStream, "test_a_stream_cut_off_before_its_end_is_an_error", {}),
        (DeclaresInTheFormOfChat, "test_tools_are_declared_once_and_after_the_others", {}),
    ],
)
def test_a_broken_dialect_is_caught_by_the_check_meant_for_it(mutant, check, arguments):
    getattr(Subject(OpenAIResponses()), check)(**arguments)
    with pytest.raises((AssertionError, pytest.fail.Exception, ProviderError)):
        getattr(Subject(mutant()), check)(**arguments)


def test_a_plain_answer_may_be_cut_to_its_text():
    left = OpenAIResponses().without_calls(Responses().answer(TEXT, CALLS), frozenset({"bash"}))
    assert [item["type"] for item in left["output"]] == ["reasoning", "message"]


def test_the_id_of_a_call_says_which_it_is():
    assert "call_id" not in openai_responses.VOLATILE
