"""What curl_matrix.sh needs of JSON: bodies written, answers read, plain or as an event stream. No HTTP here."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

HERE = Path(os.environ["SCRATCH"])
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
FUNCTION = {"name": "shell", "description": "Run a command.", "parameters": PARAMETERS}
dialect, form, act = sys.argv[1:4]


def read(name: str):
    return json.loads((HERE / name).read_text())


def write(name: str, value) -> None:
    (HERE / name).write_text(json.dumps(value))


def body() -> dict:
    held, stream = read("messages"), form == "streamed"
    if dialect == "chat":
        return {"model": "m", "messages": held, "tools": [{"type": "function", "function": FUNCTION}], "stream": stream}
    if dialect == "responses":
        tool = {"type": "function", **FUNCTION}
        return {"model": "m", "input": held, "tools": [tool], "store": False, "stream": stream}
    tool = {"name": "shell", "description": "x", "input_schema": PARAMETERS}
    return {"model": "m", "max_tokens": 1000, "messages": held, "tools": [tool], "stream": stream}


def events(text: str) -> list[dict]:
    lines = (line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: "))
    return [json.loads(line) for line in lines if line != "[DONE]"]


def chat_message(answer: str) -> dict:
    if form == "plain":
        message = json.loads(answer)["choices"][0]["message"]
        return {key: message[key] for key in ("role", "content", "tool_calls") if message.get(key) is not None}
    content, calls = "", {}
    for event in events(answer):
        for choice in event["choices"]:
            delta = choice["delta"]
            content += delta.get("content") or ""
            for piece in delta.get("tool_calls") or ():
                call = calls.setdefault(piece["index"], {"type": "function", "function": {"name": "", "arguments": ""}})
                call["id"] = piece.get("id") or call.get("id")
                call["function"]["name"] += piece["function"].get("name") or ""
                call["function"]["arguments"] += piece["function"].get("arguments") or ""
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls.values())} if calls else {})}


def output(answer: str) -> list[dict]:
    if form == "plain":
        return json.loads(answer)["output"]
    return next(event["response"]["output"] for event in events(answer) if event["type"] == "response.completed")


def blocks(answer: str) -> list[dict]:
    if form == "plain":
        return json.loads(answer)["content"]
    found: dict[int, dict] = {}
    for event in events(answer):
        if event["type"] == "content_block_start":
            found[event["index"]] = {**event["content_block"], "json": ""}
        if event["type"] == "content_block_delta":
            block, delta = found[event["index"]], event["delta"]
            block["json"] += delta.get("partial_json") or ""
            block["text"] = (block.get("text") or "") + (delta.get("text") or "")
    return [_block(block) for block in found.values()]


def _block(block: dict) -> dict:
    if block["type"] == "tool_use":
        return {key: block[key] for key in ("type", "id", "name")} | {"input": json.loads(block["json"] or "{}")}
    return {"type": "text", "text": block["text"]}


def take(answer: str) -> tuple[list[tuple[str, str]], str]:
    held = read("messages")
    if dialect == "chat":
        message = chat_message(answer)
        write("messages", [*held, message])
        asked = [(call["id"], json.loads(call["function"]["arguments"])) for call in message.get("tool_calls") or ()]
        said = message.get("content") or ""
    elif dialect == "responses":
        items = output(answer)
        write("messages", [*held, *items])
        asked = [(item["call_id"], json.loads(item["arguments"])) for item in items if item["type"] == "function_call"]
        said = "".join(part["text"] for item in items if item["type"] == "message" for part in item["content"])
    else:
        found = blocks(answer)
        write("messages", [*held, {"role": "assistant", "content": found}])
        asked = [(block["id"], block["input"]) for block in found if block["type"] == "tool_use"]
        said = "".join(block["text"] for block in found if block["type"] == "text")
    return [(call_id, arguments["command"]) for call_id, arguments in asked], said


def give() -> None:
    """What the tools said, in the order of their calls."""
    held = read("messages")
    asked = [line.split("\t")[0] for line in (HERE / "calls").read_text().splitlines()]
    results = [(call_id, (HERE / "results" / call_id).read_text()) for call_id in asked]
    if dialect == "chat":
        held += [{"role": "tool", "tool_call_id": call_id, "content": text} for call_id, text in results]
    elif dialect == "responses":
        held += [{"type": "function_call_output", "call_id": call_id, "output": text} for call_id, text in results]
    else:
        content = [{"type": "tool_result", "tool_use_id": call_id, "content": text} for call_id, text in results]
        held.append({"role": "user", "content": content})
    write("messages", held)


if act == "ask":
    if (HERE / "messages").exists():
        give()
    else:
        write("messages", [{"role": "user", "content": "Put the workspace in order."}])
    print(json.dumps(body()))
else:
    calls, text = take(sys.stdin.read())
    (HERE / "said").write_text(text + "\n")
    for call_id, command in calls:
        print(call_id, command, sep="\t")
