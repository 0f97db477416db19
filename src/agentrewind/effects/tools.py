"""What a tool call does, from the name of the tool and its arguments."""

from __future__ import annotations

import functools
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from agentrewind.core.codec import Json
from agentrewind.effects import code
from agentrewind.effects.places import DYNAMIC
from agentrewind.effects.shell import Shell
from agentrewind.effects.words import State

_DIRECTORIES = ("workdir", "cwd", "working_directory", "dir")
_OURS = re.compile(r"(?:(?:mcp_+)?agentrewind_+)?(?:backtrack_candidates|backtrack_commit)")
"""The tools of `agentrewind mcp`, as clients name them; with a namespace beside it (Codex) the name stands alone."""
_PATCH_HEADS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ", "+++ ", "--- ")


@dataclass(frozen=True, slots=True)
class Tool:
    kind: str
    text: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    does: str = ""
    reads: bool = False


@functools.cache
def tools() -> Mapping[str, Tool]:
    """Every tool that is known, by its name."""
    raw = tomllib.loads(resources.files("agentrewind.effects").joinpath("tools.toml").read_text("utf-8"))
    found: dict[str, Tool] = {}
    for group in raw["group"]:
        tool = Tool(group["kind"], tuple(group.get("text", ())), tuple(group.get("paths", ())), group.get("does", ""),
                    group.get("reads", False))  # fmt: skip
        found |= dict.fromkeys(group["tools"].split(), tool)
    return found


def known(name: str) -> Tool | None:
    """The entry of a tool. One of a server (`mcp__server__tool`) isn't taken for one of the agent's own."""
    plain = name.strip().lower().replace("-", "_")
    if _OURS.fullmatch(plain):
        return Tool("agent")
    if plain.startswith("mcp__"):
        return None
    return tools().get(plain) or tools().get(plain.rpartition(".")[2])


def read(shell: Shell, name: str, arguments: Json, state: State) -> None:
    """Find what a call does; unknown where the name says nothing and no argument is a command."""
    tool = known(name)
    findings = shell.findings
    if tool is None:
        findings.say("unknown", [_said(name, arguments)], "a tool that isn't known")
        return
    match tool.kind:
        case "shell":
            _shell(shell, tool, name, arguments, state)
        case "python":
            text = _first_text(arguments, tool.text)
            code.python(shell, text or DYNAMIC, [name], state)
        case "writes":
            _writes(shell, tool, name, arguments, state)
        case "patch":
            _patch(shell, tool, name, arguments, state)
        case "external":
            findings.say("external", [_said(name, arguments)], tool.does, reads=tool.reads)
        case "outside":
            findings.say("outside", [_said(name, arguments)], tool.does)
        case "agent" | "read":
            return


def _shell(shell: Shell, tool: Tool, name: str, arguments: Json, state: State) -> None:
    value = _first(arguments, tool.text)
    named = dict(_items(arguments))
    cwd = next((named[key] for key in _DIRECTORIES if isinstance(named.get(key), str)), None)
    if cwd:
        state.cwd = shell.place.absolute(cwd, state.cwd)
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        shell.run(list(value), state, None)
    elif isinstance(value, dict):  # Responses: {"action": {"command": […]}}
        _shell(shell, tool, name, value, state)
    elif isinstance(value, str):
        shell.text(value, state, None)
    else:
        shell.findings.say("unknown", [_said(name, arguments)], "its command can't be found in the arguments")


def _writes(shell: Shell, tool: Tool, name: str, arguments: Json, state: State) -> None:
    if isinstance(arguments, dict) and arguments.get("command") == "view":
        return
    paths = [value for key, value in _items(arguments) if key in tool.paths and isinstance(value, str)]
    for path in paths or [DYNAMIC]:
        shell.findings.place(shell.place.where(path, state.cwd), [f"{name} {path}"], "writes a file")


def _patch(shell: Shell, tool: Tool, name: str, arguments: Json, state: State) -> None:
    text = arguments if isinstance(arguments, str) else _first_text(arguments, tool.text)
    paths = [line.removeprefix(head).split("\t")[0].strip() for line in (text or "").splitlines()
             for head in _PATCH_HEADS if line.startswith(head)]  # fmt: skip
    paths = [path.removeprefix("a/").removeprefix("b/") for path in paths if path != "/dev/null"]
    for path in paths or [DYNAMIC]:
        shell.findings.place(shell.place.where(path, state.cwd), [f"{name} {path}"], "writes a file")


def _items(arguments: Json) -> list[tuple[str, Json]]:
    return list(arguments.items()) if isinstance(arguments, dict) else []


def _first(arguments: Json, keys: tuple[str, ...]) -> Json:
    if isinstance(arguments, str | list):
        return arguments
    found = dict(_items(arguments))
    if "action" in found and isinstance(found["action"], dict):
        return found["action"]
    value = next((found[key] for key in keys if key in found), None)
    if value is None and len(found) == 1:
        value = next(iter(found.values()))
    return value


def _first_text(arguments: Json, keys: tuple[str, ...]) -> str | None:
    value = _first(arguments, keys) if keys else None
    return value if isinstance(value, str) else None


def _said(name: str, arguments: Json) -> str:
    if arguments in (None, {}):
        return name
    try:
        return f"{name} {json.dumps(arguments, ensure_ascii=False)}"
    except (TypeError, ValueError, RecursionError):
        return name
