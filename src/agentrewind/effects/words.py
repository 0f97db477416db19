"""The words of a shell command as far as they can be known before it runs."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agentrewind.effects.grammar import text_of
from agentrewind.effects.places import DYNAMIC, Place

if TYPE_CHECKING:
    from tree_sitter import Node

Substitute = Callable[["Node", "State"], str | None]
"""Evaluates a command substitution: what it prints, or None where that can't be known."""

_SPLITS = frozenset({"simple_expansion", "expansion", "command_substitution"})
_DEFAULTS = frozenset({":-", "-", ":=", "="})
LONGEST_VALUE = 4096
"""Characters of a variable's value; a longer one counts as unknown, so that values can't grow without end."""
LONGEST_WORD = 1 << 20
_ESCAPED_IN_QUOTES = '"\\$`\n'


@dataclass(slots=True)
class State:
    """What a shell holds at one point of its text."""

    cwd: str | None
    variables: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    functions: dict[str, Node] = field(default_factory=dict)
    arguments: tuple[str, ...] | None = None
    """`$1` and so on; None where nobody can say."""
    name: str = DYNAMIC
    """`$0`"""
    stack: tuple[str | None, ...] = ()
    """Of `pushd`."""

    def assign(self, name: str, value: str) -> None:
        self.variables[name] = value if len(value) <= LONGEST_VALUE else DYNAMIC

    def copy(self) -> State:
        """For a subshell: what it changes ends with it."""
        return replace(self, variables=dict(self.variables), aliases=dict(self.aliases), functions=dict(self.functions))


class Words:
    """Expands nodes of the tree. `substitute` is called for each command in a substitution, once."""

    def __init__(self, place: Place, substitute: Substitute) -> None:
        self._place = place
        self._substitute = substitute

    def of(self, node: Node, state: State) -> list[str]:
        """The words that a node stands for: usually one; more where an unquoted value is split."""
        if node.type == "string" and text_of(node) in ('"$@"', '"${@}"'):
            return self._all_arguments(state)
        if node.type == "simple_expansion" and text_of(node) in ("$@", "$*"):
            return self._all_arguments(state)
        value = self.value(node, state)
        return value.split() if node.type in _SPLITS else [value]

    def _all_arguments(self, state: State) -> list[str]:
        return [DYNAMIC] if state.arguments is None else list(state.arguments)

    def value(self, node: Node, state: State) -> str:
        """A node as one text, with `DYNAMIC` for what can't be known."""
        text = text_of(node)
        match node.type:
            case "word" | "extglob_pattern" | "regex" | "variable_name" | "special_variable_name" | "number":
                return self._tilde(_unescaped(text))
            case "raw_string" | "ansi_c_string":
                return text[1:-1] if node.type == "raw_string" else _ansi(text[2:-1])
            case "simple_expansion":
                return self._variable(text[1:], state)
            case _:
                return self._compound(node, state)

    def _compound(self, node: Node, state: State) -> str:
        """A node with others in it."""
        kinds: dict[str, Callable[[Node, State], str]] = {
            "string": self._string,
            "translated_string": self._string,
            "concatenation": self._concatenation,
            "expansion": self._expansion,
            "command_substitution": self._output,
            "process_substitution": self._piped,
            "array": lambda array, at: joined([self.value(child, at) + " " for child in array.named_children]),
        }
        if node.type in kinds:
            return kinds[node.type](node, state)
        self.visit(node, state)
        return DYNAMIC

    def _piped(self, node: Node, state: State) -> str:
        self._substitute(node, state)
        return "/dev/fd/63"

    def visit(self, node: Node, state: State) -> None:
        """Evaluate the substitutions below a node whose own value doesn't matter."""
        for child in substitutions(node):
            self._substitute(child, state)

    def _output(self, node: Node, state: State) -> str:
        output = self._substitute(node, state)
        return DYNAMIC if output is None else output.rstrip("\n")

    def _tilde(self, word: str) -> str:
        if word == "~" or word.startswith("~/"):
            return self._place.home + word[1:]
        return word

    def _concatenation(self, node: Node, state: State) -> str:
        parts = [self.value(child, state) for child in node.named_children]
        text = joined(parts)
        return text if "{" not in text else text.split("{", 1)[0] + DYNAMIC if "," in text else text

    def _string(self, node: Node, state: State) -> str:
        """Text between the parts stands in no node of its own."""
        raw = node.text or b""
        start = node.start_byte
        at, end = 1 + (node.type == "translated_string"), len(raw) - 1
        parts: list[str] = []
        for child in node.named_children:
            if child.type == "string":  # within a translated string
                return self._string(child, state)
            parts.append(_in_quotes(raw[at : child.start_byte - start]))
            literal = child.type == "string_content"
            parts.append(_in_quotes(child.text or b"") if literal else self.value(child, state))
            at = child.end_byte - start
        parts.append(_in_quotes(raw[at:end]))
        return joined(parts)

    def _expansion(self, node: Node, state: State) -> str:
        names = [child for child in node.named_children if child.type in ("variable_name", "special_variable_name")]
        signs = [child.type for child in node.children if not child.is_named and child.type not in ("${", "}")]
        name = text_of(names[0]) if names else ""
        rest = [child for child in node.named_children if child not in names[:1]]
        if not signs and not rest:
            return self._variable(name, state)
        known = self._variable(name, state)
        if signs and signs[0] in _DEFAULTS and (known == DYNAMIC or not known):
            found = "".join(self.value(child, state) for child in rest)
            return found if known != DYNAMIC else DYNAMIC + found if DYNAMIC in found else found
        for child in rest:
            self.visit(child, state)
        return DYNAMIC

    def _variable(self, name: str, state: State) -> str:
        name = name.strip("{}")
        if name in state.variables:
            return state.variables[name]
        if name.isdigit():
            return self._argument(int(name), state)
        match name:
            case "HOME":
                return self._place.home
            case "PWD":
                return state.cwd or DYNAMIC
            case "@" | "*":
                return " ".join(self._all_arguments(state))
            case _:
                return DYNAMIC

    def _argument(self, number: int, state: State) -> str:
        if number == 0:
            return state.name
        if state.arguments is None:
            return DYNAMIC
        return state.arguments[number - 1] if number <= len(state.arguments) else ""


def joined(parts: Sequence[str]) -> str:
    """The parts as one text; unknown where that would be very long."""
    return DYNAMIC if sum(map(len, parts)) > LONGEST_WORD else "".join(parts)


def substitutions(node: Node) -> Iterator[Node]:
    """The outermost command and process substitutions below a node, without a stack of our own making."""
    waiting = [node]
    while waiting:
        at = waiting.pop()
        if at.type in ("command_substitution", "process_substitution"):
            yield at
        else:
            waiting.extend(reversed(at.named_children))


def _unescaped(word: str) -> str:
    """A word outside of quotes: a backslash stands for nothing, the sign after it for itself."""
    if "\\" not in word:
        return word
    parts: list[str] = []
    signs = iter(word)
    for sign in signs:
        following = next(signs, "") if sign == "\\" else sign
        parts.append("" if sign == "\\" and following == "\n" else following)
    return "".join(parts)


def _in_quotes(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    if "\\" not in text:
        return text
    parts: list[str] = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text) and text[at + 1] in _ESCAPED_IN_QUOTES:
            parts.append("" if text[at + 1] == "\n" else text[at + 1])
            at += 2
        else:
            parts.append(text[at])
            at += 1
    return "".join(parts)


def _ansi(text: str) -> str:
    try:
        return codecs.decode(text.encode("latin-1", "backslashreplace"), "unicode_escape")
    except (UnicodeDecodeError, ValueError):
        return text


def base(word: str) -> str:
    """The program that a word names, without its directory."""
    return os.path.basename(word)
