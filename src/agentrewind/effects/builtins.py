"""Commands of the shell itself: they change what the text after them means."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from agentrewind.effects.findings import Ran, Running
from agentrewind.effects.places import DYNAMIC
from agentrewind.effects.words import State

if TYPE_CHECKING:
    from tree_sitter import Node


class Calling(Running, Protocol):
    """Which also runs functions of the text."""

    def call(self, body: Node, words: list[str], state: State, stdin: str | None) -> str | None: ...


def run(shell: Calling, words: list[str], state: State, stdin: str | None) -> Ran | None:
    """None where it is no builtin, function or alias."""
    name = words[0]
    if name in state.functions:
        return Ran(_function(shell, words, state, stdin))
    if name in state.aliases:
        return Ran(_alias(shell, words, state, stdin))
    builtin = _BUILTINS.get(name)
    return None if builtin is None else Ran(builtin(shell, words, state, stdin))


def _function(shell: Calling, words: list[str], state: State, stdin: str | None) -> str | None:
    body = state.functions.pop(words[0])  # one that calls itself does nothing new the second time
    try:
        return shell.call(body, words, state, stdin)
    finally:
        state.functions[words[0]] = body


def _alias(shell: Calling, words: list[str], state: State, stdin: str | None) -> str | None:
    text = state.aliases.pop(words[0])
    try:
        return shell.text(" ".join([text, *map(quoted, words[1:])]), state, stdin)
    finally:
        state.aliases[words[0]] = text


def quoted(word: str) -> str:
    """A word as it can stand in a text again; an unknown part stays unknown."""
    return '"' + "".join("\\" + sign if sign in '"\\$`' else sign for sign in word) + '"'


def _cd(shell: Calling, words: list[str], state: State, _stdin: str | None) -> str | None:
    plain = [word for word in words[1:] if not word.startswith("-") or word == "-"]
    target = plain[0] if plain else shell.place.home
    if target == "-":
        state.cwd = None
        return None
    absolute = shell.place.absolute(target, state.cwd)
    state.cwd = None if absolute is None or DYNAMIC in absolute else absolute
    return ""


def _pushd(shell: Calling, words: list[str], state: State, stdin: str | None) -> str | None:
    state.stack = (*state.stack, state.cwd)
    return _cd(shell, words, state, stdin)


def _popd(_shell: Calling, _words: list[str], state: State, _stdin: str | None) -> str | None:
    if state.stack:
        state.cwd, state.stack = state.stack[-1], state.stack[:-1]
    return None


def _set_alias(_shell: Calling, words: list[str], state: State, _stdin: str | None) -> str | None:
    for word in words[1:]:
        name, equals, text = word.partition("=")
        if equals:
            state.aliases[name] = text
    return ""


def _eval(shell: Calling, words: list[str], state: State, stdin: str | None) -> str | None:
    return shell.text(" ".join(words[1:]), state, stdin)


def _source(shell: Calling, words: list[str], state: State, stdin: str | None) -> str | None:
    if len(words) == 1:
        return ""
    if words[1].endswith("bin/activate"):
        state.variables["VIRTUAL_ENV"] = words[1].removesuffix("/bin/activate")
        return ""
    text = shell.file(words[1], state)
    if text is None:
        shell.findings.say("unknown", words, "runs a script that can't be read here")
        return None
    with shell.findings.of_file():
        return shell.text(text, state, stdin)


def _trap(shell: Calling, words: list[str], state: State, _stdin: str | None) -> str | None:
    plain = [word for word in words[1:] if word != "--"]
    if len(plain) > 1 and not plain[0].startswith("-"):
        shell.text(plain[0], state, None)
    return ""


def _read(_shell: Calling, words: list[str], state: State, stdin: str | None) -> str | None:
    line = next((item for item in (stdin or "").splitlines() if item), DYNAMIC)
    for name in words[1:]:
        if not name.startswith("-"):
            state.assign(name, line)
    return ""


def _set(_shell: Calling, words: list[str], state: State, _stdin: str | None) -> str | None:
    if "--" in words:
        state.arguments = tuple(words[words.index("--") + 1 :])
    return ""


def _shift(_shell: Calling, _words: list[str], state: State, _stdin: str | None) -> str | None:
    state.arguments = state.arguments[1:] if state.arguments else None
    return ""


_BUILTINS: dict[str, Callable[[Calling, list[str], State, str | None], str | None]] = {
    "cd": _cd,
    "chdir": _cd,
    "pushd": _pushd,
    "popd": _popd,
    "alias": _set_alias,
    "eval": _eval,
    "source": _source,
    ".": _source,
    "trap": _trap,
    "read": _read,
    "set": _set,
    "shift": _shift,
}
