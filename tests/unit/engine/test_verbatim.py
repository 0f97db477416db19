"""What only the provider can read (signed, sealed, encoded) goes up again as it came down, through rewinds and all."""

from __future__ import annotations

import copy
import functools
import json

import pytest

from agentrewind.core.wire import WireReply
from agentrewind.dialects.anthropic_messages import AnthropicMessages
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.dialects.openai_responses import OpenAIResponses
from agentrewind.engine.session import Session
from agentrewind.testing.scripted import chat, messages, responses
from tests.unit.engine.worlds import MemoryLog, MemoryWorld

PICTURE = "iVBORw0KGgo/+aB3=="
PAGES = "JVBERi0xLjcK/+=="
NOTE = "NOTE: the second command was wrong"
SHELL = {"type": "object", "properties": {}}


class Anthropic:
    dialect, path, key = AnthropicMessages(), "/v1/messages", "messages"
    events = staticmethod(messages.events)
    rest = {"max_tokens": 9, "tools": [{"name": "shell", "input_schema": SHELL}]}  # noqa: RUF012 (never changed)
    opening = [  # noqa: RUF012
        {
            "role": "user",
            "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": PAGES},
                    "title": "a",
                    "cache_control": {"type": "ephemeral"},
                },
                {"type": "text", "text": "what is this?"},
            ],
        }
    ]

    def response(self, number: int, name: str, arguments: dict) -> dict:
        content = [
            {"type": "thinking", "thinking": f"hm {number}\n \u2028é", "signature": f"EqQBCgIYAhIM{number}/+=="},
            {"type": "redacted_thinking", "data": f"EmwKAhgBEgy3va{number}/+=="},
            {"type": "text", "text": "let me see"},
            {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments},
        ]
        head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "m", "content": content}
        return head | {
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }

    def result(self, number: int) -> list[dict]:
        picture = {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": f"{number}{PICTURE}"},
        }
        return [
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": [picture]}],
            }
        ]

    def parts(self, sent: list[dict]) -> list[object]:
        """A note may stand in the last message of the user: what counts is each block and its role."""
        return [(item["role"], block) for item in sent for block in item["content"]]


class Sealed:
    dialect, path, key = OpenAIResponses(), "/v1/responses", "input"
    events = staticmethod(responses.events)
    rest = {  # noqa: RUF012
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "tools": [{"type": "function", "name": "shell", "parameters": SHELL}],
    }
    opening = [  # noqa: RUF012
        {
            "role": "user",
            "content": [
                {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}", "detail": "high"},
                {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PAGES}"},
                {"type": "input_text", "text": "what is this?"},
            ],
        }
    ]

    def response(self, number: int, name: str, arguments: dict) -> dict:
        thought = {"type": "summary_text", "text": f"hm {number}\n \u2028é"}
        reasoning = {"id": f"rs_{number}", "type": "reasoning", "summary": [thought]}
        call = {"id": f"fc_{number}", "type": "function_call", "status": "completed", "call_id": f"call_{number}"}
        output = [
            reasoning | {"encrypted_content": f"gAAAAAB{number}_-=="},
            call | {"name": name, "arguments": json.dumps(arguments, indent=1)},
        ]
        head = {"id": f"resp_{number}", "object": "response", "created_at": 1, "status": "completed", "model": "m"}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        return head | {"output": output, "store": False, "usage": usage}

    def result(self, number: int) -> list[dict]:
        picture = {"type": "input_image", "image_url": f"data:image/png;base64,{number}{PICTURE}"}
        return [{"type": "function_call_output", "call_id": f"call_{number}", "output": [picture]}]

    def parts(self, sent: list[dict]) -> list[object]:
        return list(sent)


class Chat:
    dialect, path, key = OpenAIChat(), "/v1/chat/completions", "messages"
    events = staticmethod(functools.partial(chat.chunks, usage=True))
    rest = {"tools": [{"type": "function", "function": {"name": "shell", "parameters": SHELL}}]}  # noqa: RUF012
    opening = [  # noqa: RUF012
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}", "detail": "low"}},
                {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PAGES}"}},
                {"type": "input_audio", "input_audio": {"data": PAGES, "format": "wav"}},
                {"type": "text", "text": "what is this?"},
            ],
        }
    ]

    def response(self, number: int, name: str, arguments: dict) -> dict:
        function = {"name": name, "arguments": json.dumps(arguments, indent=1)}
        calls = [{"id": f"call_{number}", "type": "function", "function": function}]
        message = {"role": "assistant", "content": None, "refusal": None, "reasoning_content": f"hm {number}\n \u2028é"}
        choice = {
            "index": 0,
            "message": message | {"tool_calls": calls},
            "logprobs": None,
            "finish_reason": "tool_calls",
        }
        head = {"id": f"r{number}", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        return head | {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}

    def result(self, number: int) -> list[dict]:
        return [{"role": "tool", "tool_call_id": f"call_{number}", "content": [{"type": "text", "text": "a\u2028"}]}]

    def parts(self, sent: list[dict]) -> list[object]:
        return list(sent)


class Wire:
    """A harness that keeps what it gets, and a provider that answers with what only it can read."""

    def __init__(self, api: Anthropic | Sealed | Chat, *, stream: bool) -> None:
        self.api, self.stream = api, stream
        self.log = MemoryLog()
        self.session = Session(self.log, MemoryWorld({"a": "0"}), [api.dialect])
        self.held = copy.deepcopy(api.opening)
        self.sent: list[list[dict]] = []
        self.said: list[dict] = []
        self.turns: list[tuple[str, dict]] = []

    def provide(self, body: dict) -> WireReply:
        assert self.api.dialect.problems(body[self.api.key]) == []
        self.sent.append(json.loads(json.dumps(body[self.api.key])))
        name, arguments = self.turns.pop(0)
        response = self.api.response(len(self.sent), name, arguments)
        self.said.append(response)
        if not self.stream:
            return WireReply(200, (), json.dumps(response).encode())
        events = [f"data: {json.dumps(event)}\n\n" for event in self.api.events(copy.deepcopy(response))]
        return WireReply(200, (), "".join([*events, "data: [DONE]\n\n"]).encode())

    def step(self, *turns: tuple[str, dict]) -> None:
        """One call of the harness, which takes these answers; the last one is for it, and its tool runs."""
        self.turns = list(turns)
        body = {"model": "m", **self.api.rest, self.api.key: copy.deepcopy(self.held)}
        body |= {"stream": True} if self.stream else {}
        reply = self.session.call(self.api.path, body, self.provide)
        assert self.turns == []
        self.held += [*self.answer(reply.body), *self.api.result(len(self.sent))]

    def answer(self, body: bytes) -> list[dict]:
        found = self.api.dialect.parse(body, stream=self.stream)
        assert found.response == self.said[-1], "the harness gets what the provider said"
        return list(found.messages)

    def answered(self, number: int) -> list[object]:
        """Answer `number`, as it has to go up again."""
        plain = self.api.dialect.parse(json.dumps(self.said[number - 1]).encode(), stream=False)
        return self.api.parts(list(plain.messages))


def run(number: int) -> tuple[str, dict]:
    return "shell", {"command": "é\u2028", "n": number + 0.5}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("api", [Anthropic, Sealed, Chat])
def test_what_only_the_provider_can_read_goes_up_as_it_came_down(api, stream):
    wire = Wire(api(), stream=stream)
    parts = wire.api.parts
    wire.step(run(1))
    wire.step(run(2))
    kept = copy.deepcopy(wire.held[: len(wire.sent[1])])
    go_back = ("backtrack_commit", {"record_uid": "rec_000002", "memory_summary": NOTE})
    held = copy.deepcopy(wire.held)
    wire.step(("backtrack_candidates", {"reason": "x"}), go_back, run(3))

    assert wire.sent[2] == held
    before = parts(wire.sent[2])
    asked = parts(wire.sent[3])
    assert asked[: len(before)] == before
    assert asked[len(before) :][: len(wire.answered(3))] == wire.answered(3), "the model's own words, unchanged"

    back = parts(wire.sent[4])
    assert back[: len(parts(kept))] == parts(kept) == parts(wire.sent[1])
    assert len(back) == len(parts(kept)) + 1
    assert NOTE in json.dumps(back[-1])

    wire.step(run(4))
    assert parts(wire.sent[5]) == [*back, *wire.answered(5), *parts(wire.api.result(5))]
    last = wire.log.tree.messages("rec_000006")
    assert parts([wire.log.get(item) for item in last]) == parts(wire.sent[5]), "and so it is recorded"
