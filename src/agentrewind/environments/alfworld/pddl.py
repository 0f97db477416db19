"""As much of PDDL as the problem of an ALFWorld game is written in: objects with types, ground facts, a goal."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias, cast

from agentrewind.core.environment import IllegalAction

Expression: TypeAlias = "str | list[Expression]"
Fact = tuple[str, ...]
"""A predicate and the names that it is about."""

_COMMENT = re.compile(r";[^\n]*")
_TOKEN = re.compile(r"[()]|[^\s()]+")


@dataclass(frozen=True, slots=True)
class Problem:
    """Names in small letters, as PDDL has it."""

    types: dict[str, str]
    facts: frozenset[Fact]
    goal: Expression


def problem(text: str) -> Problem:
    """What a problem says.

    Raises:
        IllegalAction: this is no problem with objects, facts and a goal.
    """
    found = expression(text)
    parts = {part[0]: part[1:] for part in found if isinstance(part, list) and part and isinstance(part[0], str)}
    if not {":objects", ":init", ":goal"} <= parts.keys() or len(parts[":goal"]) != 1:
        raise IllegalAction("The problem of this game has no objects, facts or goal.")
    facts = (tuple(fact) for fact in parts[":init"] if all(isinstance(name, str) for name in fact))
    return Problem(_typed(parts[":objects"]), frozenset(cast("list[Fact]", facts)), parts[":goal"][0])


def expression(text: str) -> list[Expression]:
    """The one expression in parentheses that a text is.

    Raises:
        IllegalAction: parentheses that don't match, or none.
    """
    stack: list[list[Expression]] = [[]]
    for word in _TOKEN.findall(_COMMENT.sub("", text).lower()):
        if word == "(":
            stack.append([])
        elif word != ")":
            stack[-1].append(word)
        elif len(stack) > 1:
            done = stack.pop()
            stack[-1].append(done)
        else:
            raise IllegalAction("The parentheses of this game's problem don't match.")
    if len(stack) != 1 or len(stack[0]) != 1 or not isinstance(stack[0][0], list):
        raise IllegalAction("The parentheses of this game's problem don't match.")
    return stack[0][0]


def _typed(words: list[Expression]) -> dict[str, str]:
    """`a b - type c - type` as a table."""
    types: dict[str, str] = {}
    waiting: list[str] = []
    following = iter(words)
    for word in following:
        if word == "-":
            types.update(dict.fromkeys(waiting, str(next(following, ""))))
            waiting = []
        else:
            waiting.append(str(word))
    return types
