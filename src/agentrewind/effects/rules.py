"""The user's own word on tools and commands: the `[effects]` table of `agentrewind.toml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, get_args

from agentrewind.core.effects import Effect, EffectClass, Mode
from agentrewind.core.errors import UsageError
from agentrewind.core.settings import table_of
from agentrewind.effects.findings import shown
from agentrewind.effects.words import base

CLASSES: tuple[str, ...] = get_args(EffectClass)
MODES: tuple[str, ...] = get_args(Mode)
_KEYS = frozenset({"tool", "command", "class", "what", "undo", "reads"})


@dataclass(frozen=True, slots=True)
class Rule:
    """What a tool, or a command inside of a shell text, does; `undo` is a shell command that takes it back.

    `tool` is a name, `command` the first words of a command; both may hold `*` and `?`.
    """

    tool: str = ""
    command: tuple[str, ...] = ()
    kind: EffectClass | None = None
    what: str = ""
    undo: str = ""
    reads: bool = False

    def fits_tool(self, name: str) -> bool:
        return bool(self.tool) and fnmatchcase(name, self.tool)

    def fits_command(self, words: Sequence[str]) -> bool:
        if not self.command or len(words) < len(self.command):
            return False
        named = [base(words[0]) if "/" not in self.command[0] else words[0], *words[1:]]
        return all(fnmatchcase(word, pattern) for word, pattern in zip(named, self.command, strict=False))

    def effect(self, said: str) -> Effect:
        return Effect(self.kind or "unknown", f"{said} ({self.what})" if self.what else said, self.reads, "rule",
                      undo=self.undo)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a workspace, and the mode that it sets; the first rule that fits wins."""

    rules: tuple[Rule, ...] = ()
    mode: Mode | None = None
    held: tuple[EffectClass, ...] = ("outside", "external")
    """The classes that the modes other than `record` are about."""

    def of_command(self, words: Sequence[str]) -> Effect | None:
        rule = next((rule for rule in self.rules if rule.fits_command(words)), None)
        return rule.effect(shown(words)) if rule is not None and rule.kind is not None else None

    def of_tool(self, name: str) -> Rule | None:
        return next((rule for rule in self.rules if rule.fits_tool(name)), None)

    def undo_of_command(self, words: Sequence[str]) -> str:
        return next((rule.undo for rule in self.rules if rule.undo and rule.fits_command(words)), "")

    @classmethod
    def load(cls, path: Path) -> Rules:
        """The `[effects]` table of a settings file; none where there is no file.

        Raises:
            UsageError: the file can't be read or says something else, with the key that is wrong.
        """
        return _rules(table_of(path, "effects", ("mode", "classes", "rule")), path)


def _rules(table: Mapping[str, Any], path: Path) -> Rules:
    mode = table.get("mode")
    if mode is not None and mode not in MODES:
        raise UsageError(f"{path}: effects.mode must be one of {', '.join(MODES)}")
    held = table.get("classes", ["outside", "external"])
    if not isinstance(held, list) or not all(item in CLASSES for item in held):
        raise UsageError(f"{path}: effects.classes must be a list of {', '.join(CLASSES)}")
    rules = table.get("rule", [])
    if not isinstance(rules, list):
        raise UsageError(f"{path}: [[effects.rule]] must be a list of tables")
    return Rules(tuple(_rule(item, path) for item in rules), mode, tuple(held))


def _rule(table: object, path: Path) -> Rule:
    if not isinstance(table, dict):
        raise UsageError(f"{path}: [[effects.rule]] must be a table")
    if unknown := sorted(table.keys() - _KEYS):
        raise UsageError(f"{path}: a rule has no setting {unknown[0]!r}; it has {', '.join(sorted(_KEYS))}")
    kind = table.get("class")
    if kind is not None and kind not in CLASSES:
        raise UsageError(f"{path}: a rule's class must be one of {', '.join(CLASSES)}")
    texts = {key: _text(table, key, path) for key in ("tool", "command", "what", "undo")}
    if bool(texts["tool"]) == bool(texts["command"]):
        raise UsageError(f"{path}: a rule names either a tool or a command")
    if kind is None and not texts["undo"]:
        raise UsageError(f"{path}: a rule says a class, an undo command, or both")
    return Rule(texts["tool"], tuple(texts["command"].split()), kind, texts["what"], texts["undo"],
                bool(table.get("reads", False)))  # fmt: skip


def _text(table: Mapping[str, Any], key: str, path: Path) -> str:
    value = table.get(key, "")
    if not isinstance(value, str):
        raise UsageError(f"{path}: a rule's {key} must be text")
    return value
