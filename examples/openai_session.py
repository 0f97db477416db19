"""An agent of your own, in twenty lines of loop, made recoverable: the OpenAI SDK and one tool.

Nothing in the loop knows of rewinds. When the model asks to go back, the files return to what they were, the
conversation that it sees ends there, its note stands in it, and the loop gets the answer from that point.

Usage: openai_session.py DIRECTORY TASK
OPENAI_API_KEY must be set; OPENAI_BASE_URL names another endpoint, MODEL another model.
"""

import json
import os
import subprocess
import sys

from openai import OpenAI

import agentrewind

MODEL = os.environ.get("MODEL", "gpt-5-mini")
SHELL = {
    "type": "function",
    "function": {
        "name": "shell",
        "description": "Run a command in the workspace and return its output.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


@agentrewind.tool
def shell(directory: str, command: str) -> str:
    done = subprocess.run(["sh", "-c", command], cwd=directory, capture_output=True, text=True, check=False)
    return f"{done.stdout}{done.stderr}[exit code {done.returncode}]"


def main(directory: str, task: str) -> None:
    with agentrewind.session(directory, task=task) as run, OpenAI() as client:
        messages = [{"role": "user", "content": task}]
        while True:
            answer = client.chat.completions.create(model=MODEL, messages=messages, tools=[SHELL])
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                break
            for call in message.tool_calls:
                result = shell(directory, json.loads(call.function.arguments)["command"])
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        print(message.content)
    print(f"{run.id}: {run.tree.rewinds} rewinds; look with: agentrewind log {run.id}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
