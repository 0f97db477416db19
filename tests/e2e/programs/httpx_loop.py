"""The same agent without an SDK: httpx and the environment.

    python httpx_loop.py [HISTORY]

With HISTORY, a file, it keeps its messages there and goes on with them when it is started again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx

SHELL = {
    "type": "function",
    "function": {"name": "shell", "description": "Run a command.", "parameters": {"type": "object"}},
}


def main() -> None:
    history = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    messages: list[dict] = [{"role": "user", "content": "Put the workspace in order."}]
    if history is not None and history.exists():
        messages = json.loads(history.read_text())
    with httpx.Client(base_url=os.environ["OPENAI_BASE_URL"], timeout=30) as client:
        while True:
            body = {"model": "any", "messages": messages, "tools": [SHELL]}
            answer = client.post("/chat/completions", json=body)
            answer.raise_for_status()
            message = answer.json()["choices"][0]["message"]
            messages.append(message)
            for call in message.get("tool_calls", ()):
                command = json.loads(call["function"]["arguments"])["command"]
                done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
                text = done.stdout + done.stderr or "(nothing)"
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
            if history is not None:
                history.write_text(json.dumps(messages))
            if not message.get("tool_calls"):
                break
    print(message["content"])


if __name__ == "__main__":
    main()
