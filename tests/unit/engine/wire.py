"""A harness, a model and a wire between them, without any HTTP: messages in, messages out."""

from __future__ import annotations

import json
from collections.abc import Callable

from agentrewind.core.wire import WireReply
from agentrewind.dialects.openai_chat import OpenAIChat

SHELL = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object", "properties": {}}}}
PATH = "/v1/chat/completions"


def answer(*, text: str = "", calls: list[tuple[str, str, dict]] = ()) -> bytes:
    """A whole response: calls are (id, name, arguments)."""
    message = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
            for call_id, name, arguments in calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return json.dumps(
        {"id": "r", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    ).encode()


class Provider:
    """Plays `turns`: each is a function of the request body that gives response bytes, or raises, or a WireReply."""

    def __init__(self, turns: list[Callable[[dict], bytes | WireReply]]) -> None:
        self.turns = list(turns)
        self.bodies: list[dict] = []

    def __call__(self, body: dict) -> WireReply:
        self.bodies.append(json.loads(json.dumps(body)))
        problems = OpenAIChat().problems(body["messages"])
        assert problems == [], problems
        reply = self.turns.pop(0)(body)
        return reply if isinstance(reply, WireReply) else WireReply(200, (), reply)


class Harness:
    """Keeps a message list and one shell tool that writes into the world."""

    def __init__(self, session, world, task: str = "do it") -> None:
        self.session = session
        self.world = world
        self.messages: list[dict] = [
            {"role": "system", "content": "You are an agent."},
            {"role": "user", "content": task},
        ]

    def step(self, provider: Provider) -> dict:
        """One call, and the tool calls that it asks for."""
        body = {"model": "m", "messages": list(self.messages), "tools": [SHELL], "temperature": 0}
        reply = self.session.call(PATH, body, provider)
        message = json.loads(reply.body)["choices"][0]["message"] if reply.ok else None
        if message is None:
            return json.loads(reply.body)
        self.messages.append(message)
        for call in message.get("tool_calls") or ():
            arguments = json.loads(call["function"]["arguments"])
            text = self.session.tool("shell", arguments, lambda a=arguments: self.write(a), call_id=call["id"])
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        return message

    def write(self, arguments: dict) -> str:
        self.world.files[arguments["name"]] = arguments["text"]
        return f"wrote {arguments['name']}"
