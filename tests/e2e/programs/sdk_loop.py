"""An agent that knows nothing of agentrewind: the OpenAI SDK, a shell tool, a list of messages.

python sdk_loop.py plain|streamed|async
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

from openai import AsyncOpenAI, OpenAI

TASK = "Put the workspace in order."
SHELL = {
    "type": "function",
    "function": {
        "name": "shell",
        "description": "Run a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}
RETRIES = 0


def plain(messages: list[dict]) -> dict:
    with OpenAI(max_retries=RETRIES) as client:
        answer = client.chat.completions.create(model="any", messages=messages, tools=[SHELL])
    return message_of(answer)


def streamed(messages: list[dict]) -> dict:
    with (
        OpenAI(max_retries=RETRIES) as client,
        client.chat.completions.stream(model="any", messages=messages, tools=[SHELL]) as stream,
    ):
        return message_of(stream.get_final_completion())


def asynchronous(messages: list[dict]) -> dict:
    async def ask() -> dict:
        async with AsyncOpenAI(max_retries=RETRIES) as client:
            return message_of(await client.chat.completions.create(model="any", messages=messages, tools=[SHELL]))

    return asyncio.run(ask())


def message_of(answer) -> dict:
    message = answer.choices[0].message
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.function.name, "arguments": call.function.arguments},
        }
        for call in message.tool_calls or ()
    ]
    return {"role": "assistant", "content": message.content or "", **({"tool_calls": calls} if calls else {})}


def shell(command: str) -> str:
    done = subprocess.run(command, shell=True, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    return done.stdout + done.stderr or "(nothing)"


def main() -> None:
    ask = {"plain": plain, "streamed": streamed, "async": asynchronous}[sys.argv[1]]
    messages: list[dict] = [{"role": "user", "content": TASK}]
    while True:
        message = ask(messages)
        messages.append(message)
        for call in message.get("tool_calls", ()):
            result = shell(json.loads(call["function"]["arguments"])["command"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        if "tool_calls" not in message:
            break
    print(message["content"])


if __name__ == "__main__":
    main()
