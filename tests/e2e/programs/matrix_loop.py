"""One agent, written with the SDKs that there are: a shell tool, a list of messages, nothing else.

    python matrix_loop.py openai|anthropic|litellm chat|responses|kept|messages plain|streamed

`responses` sends all of its items each time, `kept` only what is new (the provider keeps the rest). It knows nothing of
agentrewind; `tests.e2e.matrix` also runs it as a harness.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable

TASK = "Put the workspace in order."
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
FUNCTION = {"name": "shell", "description": "Run a command.", "parameters": PARAMETERS}
CHAT_TOOL = {"type": "function", "function": FUNCTION}
RESPONSES_TOOL = {"type": "function", **FUNCTION}
MESSAGES_TOOL = {"name": "shell", "description": "Run a command.", "input_schema": PARAMETERS}

Calls = list[tuple[str, str]]
"""The id and the command of each."""


class OpenAIChat:
    def __init__(self, url: str, key: str, seed: list[dict], *, streamed: bool) -> None:
        from openai import OpenAI

        self.client = OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
        self.streamed = streamed
        self.messages = seed or [{"role": "user", "content": TASK}]

    def ask(self) -> dict:
        body = {"model": "m", "messages": self.messages, "tools": [CHAT_TOOL]}
        if not self.streamed:
            return self.client.chat.completions.create(**body).choices[0].message.model_dump(exclude_none=True)
        with self.client.chat.completions.stream(**body) as stream:
            return stream.get_final_completion().choices[0].message.model_dump(exclude_none=True)

    def turn(self) -> tuple[Calls, str]:
        said = self.ask()
        asked = [
            {
                "id": call["id"],
                "type": "function",
                "function": {key: call["function"][key] for key in ("name", "arguments")},
            }
            for call in said.get("tool_calls") or ()
        ]
        content = said.get("content") or ""
        self.messages.append({"role": "assistant", "content": content, **({"tool_calls": asked} if asked else {})})
        return [(call["id"], json.loads(call["function"]["arguments"])["command"]) for call in asked], content

    def give(self, results: list[tuple[str, str]]) -> None:
        self.messages += [{"role": "tool", "tool_call_id": call_id, "content": text} for call_id, text in results]


class LiteLLMChat(OpenAIChat):
    """`openai/` speaks Chat Completions; `anthropic/` makes Messages of them, and back."""

    def __init__(self, url: str, key: str, seed: list[dict], *, streamed: bool, provider: str = "openai") -> None:
        base = f"{url}/v1" if provider == "openai" else url
        self.common = {"model": f"{provider}/m", "api_base": base, "api_key": key, "num_retries": 0}
        if provider == "anthropic":
            self.common["max_tokens"] = 1000
        self.streamed = streamed
        self.messages = seed or [{"role": "user", "content": TASK}]

    def ask(self) -> dict:
        import litellm

        body = {**self.common, "messages": self.messages, "tools": [CHAT_TOOL]}
        if not self.streamed:
            return litellm.completion(**body).choices[0].message.model_dump(exclude_none=True)
        chunks = list(litellm.completion(**body, stream=True))
        whole = litellm.stream_chunk_builder(chunks, messages=self.messages)
        return whole.choices[0].message.model_dump(exclude_none=True)


class LiteLLMMessages(LiteLLMChat):
    def __init__(self, url: str, key: str, seed: list[dict], *, streamed: bool) -> None:
        chat = [entry for message in seed for entry in _as_chat(message)]
        super().__init__(url, key, chat, streamed=streamed, provider="anthropic")


def _as_chat(message: dict) -> list[dict]:
    """A seed is in the provider's form; this loop holds chat messages."""
    given = message["content"]
    parts = [{"type": "text", "text": given}] if isinstance(given, str) else given
    text = "".join(part["text"] for part in parts if part["type"] == "text")
    if message["role"] == "assistant":
        calls = [
            {
                "id": part["id"],
                "type": "function",
                "function": {"name": part["name"], "arguments": json.dumps(part["input"])},
            }
            for part in parts
            if part["type"] == "tool_use"
        ]
        return [{"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}]
    results = [
        {"role": "tool", "tool_call_id": part["tool_use_id"], "content": _text(part["content"])}
        for part in parts
        if part["type"] == "tool_result"
    ]
    return [*results, *([{"role": "user", "content": text}] if text else [])]


def _text(content: str | list) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


class OpenAIResponses:
    kept = False

    def __init__(self, url: str, key: str, seed: list[dict], *, streamed: bool) -> None:
        from openai import OpenAI

        self.client = OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
        self.streamed = streamed
        self.items: list[dict] = seed or [{"role": "user", "content": TASK}]
        self.last: str | None = None

    def body(self) -> dict:
        more = {"previous_response_id": self.last} if self.kept and self.last else {}
        return {"model": "m", "input": self.items, "tools": [RESPONSES_TOOL], "store": self.kept, **more}

    def ask(self) -> dict:
        if not self.streamed:
            return self.client.responses.create(**self.body()).model_dump(exclude_none=True)
        with self.client.responses.stream(**self.body()) as stream:
            return stream.get_final_response().model_dump(exclude_none=True)

    def turn(self) -> tuple[Calls, str]:
        answer = self.ask()
        self.last = answer["id"]
        for item in answer["output"]:
            item.pop("parsed_arguments", None)
        self.items = [] if self.kept else [*self.items, *answer["output"]]
        asked = [item for item in answer["output"] if item["type"] == "function_call"]
        texts = [part["text"] for item in answer["output"] if item["type"] == "message" for part in item["content"]]
        return [(item["call_id"], json.loads(item["arguments"])["command"]) for item in asked], "".join(texts)

    def give(self, results: list[tuple[str, str]]) -> None:
        self.items += [{"type": "function_call_output", "call_id": call, "output": text} for call, text in results]


class OpenAIKept(OpenAIResponses):
    kept = True


class LiteLLMResponses(OpenAIResponses):
    def __init__(self, url: str, key: str, seed: list[dict], *, streamed: bool) -> None:
        self.common = {"api_base": f"{url}/v1", "api_key": key}
        self.streamed = streamed
        self.items = seed or [{"role": "user", "content": TASK}]
        self.last = None

    def ask(self) -> dict:
        import litellm

        body = {**self.body(), **self.common, "model": "openai/m"}
        if not self.streamed:
            return litellm.responses(**body).model_dump(exclude_none=True)
        last = None
        for event in litellm.responses(**body, stream=True):
            last = getattr(event, "response", None) or last
        return last.model_dump(exclude_none=True)


class AnthropicMessages:
    def __init__(self, url: str, key: str, seed: list[dict], *, streamed: bool) -> None:
        from anthropic import Anthropic

        self.client = Anthropic(base_url=url, api_key=key, max_retries=0)
        self.streamed = streamed
        self.messages: list[dict] = seed or [{"role": "user", "content": TASK}]

    def turn(self) -> tuple[Calls, str]:
        body = {"model": "m", "max_tokens": 1000, "messages": self.messages, "tools": [MESSAGES_TOOL]}
        if self.streamed:
            with self.client.messages.stream(**body) as stream:
                answer = stream.get_final_message()
        else:
            answer = self.client.messages.create(**body)
        said = [part.model_dump(exclude_none=True) for part in answer.content]
        for part in said:
            part.pop("parsed_output", None)
        self.messages = [*self.messages, {"role": "assistant", "content": said}]
        calls = [(part["id"], part["input"]["command"]) for part in said if part["type"] == "tool_use"]
        return calls, "".join(part["text"] for part in said if part["type"] == "text")

    def give(self, results: list[tuple[str, str]]) -> None:
        blocks = [{"type": "tool_result", "tool_use_id": call_id, "content": text} for call_id, text in results]
        self.messages = [*self.messages, {"role": "user", "content": blocks}]


AGENTS = {
    ("openai", "chat"): OpenAIChat,
    ("openai", "responses"): OpenAIResponses,
    ("openai", "kept"): OpenAIKept,
    ("anthropic", "messages"): AnthropicMessages,
    ("litellm", "chat"): LiteLLMChat,
    ("litellm", "responses"): LiteLLMResponses,
    ("litellm", "messages"): LiteLLMMessages,
}


def converse(agent, run: Callable[[str, str], str]) -> str:
    """`run(call id, command)` until the model calls nothing more; what it said then."""
    while True:
        calls, text = agent.turn()
        if not calls:
            return text
        agent.give([(call_id, run(call_id, command)) for call_id, command in calls])


def shell(command: str, cwd: str | None = None) -> str:
    done = subprocess.run(
        ["bash", "-c", command], cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    return done.stdout + done.stderr or "(nothing)"


def main() -> None:
    kind, dialect, form = sys.argv[1:4]
    if dialect == "messages":
        url, key = os.environ["ANTHROPIC_BASE_URL"], os.environ["ANTHROPIC_API_KEY"]
    else:
        url, key = os.environ["OPENAI_BASE_URL"].removesuffix("/v1"), os.environ["OPENAI_API_KEY"]
    agent = AGENTS[kind, dialect](url, key, [], streamed=form == "streamed")
    print(converse(agent, lambda _, command: shell(command)))
    if hasattr(agent, "client"):
        agent.client.close()


if __name__ == "__main__":
    main()
