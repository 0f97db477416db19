"""The same agent in the other dialects.

    python dialect_loop.py responses|kept|messages plain|streamed

`responses` sends all of its items each time, `kept` only what is new (the provider keeps the rest).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

from anthropic import Anthropic
from openai import OpenAI

TASK = "Put the workspace in order."
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
Ask = Callable[[list], tuple[list, str]]


def shell(command: str) -> str:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr or "(nothing)"


def responses(client: OpenAI, *, streamed: bool, kept: bool) -> str:
    tool = {"type": "function", "name": "shell", "description": "Run a command.", "parameters": PARAMETERS}
    items: list = [{"role": "user", "content": TASK}]
    last = None
    while True:
        body = {"model": "any", "input": items, "tools": [tool], "store": kept}
        if last is not None:
            body["previous_response_id"] = last
        if streamed:
            with client.responses.stream(**body) as stream:
                answer = stream.get_final_response()
        else:
            answer = client.responses.create(**body)
        calls = [item for item in answer.output if item.type == "function_call"]
        said = [item.model_dump(exclude_none=True) for item in answer.output]
        for item in said:
            item.pop("parsed_arguments", None)
        results = [
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": shell(json.loads(call.arguments)["command"]),
            }
            for call in calls
        ]
        if not calls:
            return answer.output_text
        items = results if kept else [*items, *said, *results]
        last = answer.id if kept else None


def messages(client: Anthropic, *, streamed: bool) -> str:
    tool = {"name": "shell", "description": "Run a command.", "input_schema": PARAMETERS}
    held: list = [{"role": "user", "content": TASK}]
    while True:
        body = {"model": "any", "max_tokens": 1000, "messages": held, "tools": [tool]}
        if streamed:
            with client.messages.stream(**body) as stream:
                answer = stream.get_final_message()
        else:
            answer = client.messages.create(**body)
        calls = [part for part in answer.content if part.type == "tool_use"]
        if not calls:
            return "".join(part.text for part in answer.content if part.type == "text")
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": shell(call.input["command"])} for call in calls
        ]
        said = [part.model_dump(exclude_none=True) for part in answer.content]
        held = [*held, {"role": "assistant", "content": said}, {"role": "user", "content": results}]


def main() -> None:
    streamed = sys.argv[2] == "streamed"
    if sys.argv[1] == "messages":
        with Anthropic(max_retries=0) as client:
            print(messages(client, streamed=streamed))
    else:
        with OpenAI(max_retries=0) as client:
            print(responses(client, streamed=streamed, kept=sys.argv[1] == "kept"))


if __name__ == "__main__":
    main()
