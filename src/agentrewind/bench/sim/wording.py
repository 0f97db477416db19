"""How a simulated model talks to harnesses that say tools in words: calls and results stand in texts there."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from agentrewind.core.tools import TOOLS
from agentrewind.testing.scripted import Call, Request, Said, Turn


@dataclass(frozen=True, slots=True)
class Heard:
    """A request as one with declared tools would be, and how an answer to it is said."""

    said: Sequence[Said]
    tools: Sequence[str]
    turn: Callable[[Turn], Turn]


def heard(request: Request) -> Heard:
    """What a request says, whichever words its harness uses. Raises: nothing."""
    said, tools = request.said, request.tools
    prompt = "\n".join(item.text for item in said if item.role == "system")
    for mark, words in _WORDINGS.items():
        if not tools and mark in prompt:
            offered = ["shell", *(tool.name for tool in TOOLS if tool.name in prompt)]
            return _in_words(words, said, offered)
    return Heard(said, tools, lambda turn: turn)


def _in_words(words: _InJson | _InCode, said: Sequence[Said], offered: Sequence[str]) -> Heard:
    found = [one for item in said for one in words.heard(item)]
    return Heard(found, offered, lambda turn: words.turn(_headed(turn)))


def _headed(turn: Turn) -> Turn:
    """Begins with the head of its command: by its first line an answer in words is known in a list of checkpoints."""
    given = turn.calls[0].arguments if turn.calls else None
    command = given.get("command", "") if isinstance(given, dict) else ""
    if not command.strip():
        return turn
    return replace(turn, text=f"shell({command.strip().splitlines()[0]})\n{turn.text}")


class _InJson:
    """Qwen-Agent's own: calls as JSON between marks, and results between others, in a message of the user."""

    _CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
    _RESULT = re.compile(r"<tool_response>\n(.*?)\n</tool_response>\n?", re.DOTALL)

    def heard(self, item: Said) -> Iterator[Said]:
        if item.role == "assistant":
            calls = tuple(map(_json_call, self._CALL.findall(item.text)))
            yield Said("assistant", self._CALL.sub("", item.text).strip(), calls)
            return
        results = self._RESULT.findall(item.text) if item.role == "user" else []
        yield from (Said("tool", text) for text in results)
        rest = self._RESULT.sub("", item.text) if results else item.text
        if rest.strip() or not results:
            yield Said(item.role, rest)

    def turn(self, turn: Turn) -> Turn:
        made = (json.dumps({"name": call.name, "arguments": call.arguments}) for call in turn.calls)
        return Turn("\n".join((turn.text, *(f"<tool_call>\n{call}\n</tool_call>" for call in made))))


class _InCode:
    """That of smolagents' CodeAgent: a call is a line of Python, an answer without calls too, and what the line prints
    is the result, in a message of the user, which may hold the next task as well.
    """

    _CODE = re.compile(r"<code>\n(.*?)\n</code>", re.DOTALL)
    _OBSERVED = re.compile(r"Observation:\n(?:Execution logs:\n)?|(?:Call id: [^\n]*\n)?Error:\n")
    _NEXT = re.compile(r"\n?New task:\n")
    _FINAL = "final_answer"

    def heard(self, item: Said) -> Iterator[Said]:
        code = self._CODE.search(item.text) if item.role == "assistant" else None
        if code is not None:
            calls = tuple(_calls_in(code[1]))
            ends = any(call.name == self._FINAL for call in calls)
            yield Said("assistant", item.text[: code.start()].strip(), () if ends else calls)
        elif item.role == "user" and self._OBSERVED.match(item.text):
            observed, *tasks = self._NEXT.split(item.text)
            yield Said("tool", self._OBSERVED.sub("", observed, count=1))
            yield from (Said("user", task) for task in tasks)
        else:
            yield item

    def turn(self, turn: Turn) -> Turn:
        lines = [_line(call) for call in turn.calls] or [f"{self._FINAL}({turn.text!r})"]
        return Turn("\n".join((turn.text, "<code>", *lines, "</code>")))


def _json_call(text: str) -> Call:
    """A call without a name where the text is none."""
    try:
        found = json.loads(text)
        return Call(found["name"], found["arguments"])
    except (ValueError, TypeError, KeyError):
        return Call("", text)


def _line(call: Call) -> str:
    """A call as a line of Python; one whose arguments break off does so there too."""
    if isinstance(call.arguments, str):
        return f"print({call.name}({call.arguments}"
    return f"print({call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())}))"


def _calls_in(code: str) -> Iterator[Call]:
    """The calls of a piece of code that a turn was said in; one without a name where it is none that can be read."""
    try:
        found = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
        for node in found:
            if isinstance(node.func, ast.Name) and node.func.id != "print":
                yield Call(node.func.id, {item.arg: ast.literal_eval(item.value) for item in node.keywords})
    except (SyntaxError, ValueError):
        yield Call("", code)


_WORDINGS: dict[str, _InJson | _InCode] = {"<tool_call>": _InJson(), "<code>": _InCode()}
"""By what the instructions of a harness show."""
