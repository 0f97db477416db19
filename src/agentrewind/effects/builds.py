"""Recipes of the workspace that a command runs by name: targets of a Makefile, scripts of a package.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentrewind.effects.findings import Running
from agentrewind.effects.options import parsed
from agentrewind.effects.places import DYNAMIC
from agentrewind.effects.table import Program
from agentrewind.effects.words import State, base

_MAKE_VALUES = ("-C", "-f", "-I", "-j", "-l", "-o", "-W", "--directory", "--file", "--makefile")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_IMPLICIT = {"MAKE": "make", "CC": "cc", "CXX": "g++", "AR": "ar", "RM": "rm -f", "LD": "ld", "SHELL": "/bin/sh"}
_LIFECYCLE = frozenset({"test", "start", "stop", "restart", "t", "tst"})
_RUNS = frozenset({"run", "run-script", "rum", "urn"})


@dataclass(slots=True)
class Makefile:
    """The rules of a Makefile as far as they stand in it as plain text."""

    variables: dict[str, str]
    needs: dict[str, list[str]]
    recipes: dict[str, list[str]]
    first: str = ""

    @classmethod
    def of(cls, text: str) -> Makefile:
        made = cls(dict(_IMPLICIT), {}, {})
        targets: list[str] = []
        for line in text.replace("\\\n", " ").split("\n"):
            if line.startswith("\t"):
                for target in targets:
                    made.recipes[target].append(line.strip())
            elif line.strip() and not line.lstrip().startswith("#"):
                targets = made.take(line)
        return made

    def take(self, line: str) -> list[str]:
        """A line that is no recipe; the targets whose recipe comes next."""
        head, colon, rest = line.partition(":")
        name, equals, value = line.partition("=")
        if equals and (not colon or len(name) <= len(head) + 1):
            self.variables[name.strip(" ?:+!")] = value.strip()
            return []
        if not colon:
            return []
        needs, _, recipe = rest.lstrip(":").partition(";")
        targets = self.expand(head).split()
        for target in targets:
            self.needs.setdefault(target, []).extend(self.expand(needs).split())
            self.recipes.setdefault(target, []).extend([recipe] if recipe.strip() else [])
            if not self.first and not target.startswith("."):
                self.first = target
        return targets

    def expand(self, text: str, depth: int = 0) -> str:
        """A text with the values of the Makefile's variables; others stay unknown."""
        parts: list[str] = []
        at = 0
        while at < len(text):
            sign = text.find("$", at)
            if sign < 0 or sign + 1 >= len(text):
                break
            parts.append(text[at:sign])
            at = self._reference(text, sign, parts, depth)
        return "".join([*parts, text[at:]])

    def _reference(self, text: str, sign: int, parts: list[str], depth: int) -> int:
        """One `$…` into `parts`; where the text goes on."""
        opening = text[sign + 1]
        if opening == "$":
            parts.append("$")
            return sign + 2
        if opening not in "({":
            parts.append(DYNAMIC)
            return sign + 2
        end = text.find(")" if opening == "(" else "}", sign)
        name = text[sign + 2 : end] if end > 0 else ""
        value = self.variables.get(name)
        parts.append(DYNAMIC if value is None or depth > 8 else self.expand(value, depth + 1))  # noqa: PLR2004
        return end + 1 if end > 0 else len(text)


def ran(shell: Running, words: list[str], program: Program, state: State) -> bool:
    """Evaluate a recipe that a command names; False where it names none."""
    if program.build:
        _built(shell, words, program, state)
        return True
    return program.scripts and _script_run(shell, words, program, state)


def _built(shell: Running, words: list[str], program: Program, state: State) -> None:
    """`make`: the recipes of its targets and of what they need."""
    if program.build != "make":
        shell.findings.say("unknown", words, "runs a recipe that isn't read")
        return
    arguments = parsed(words[1:], _MAKE_VALUES)
    if arguments.has(("-n", "--dry-run", "--just-print", "-q", "--question")):
        return
    inner = state.copy()
    for directory in arguments.values(("-C", "--directory")):
        inner.cwd = shell.place.absolute(directory, inner.cwd)
    names = arguments.values(("-f", "--file", "--makefile")) or list(_MAKEFILES)
    text = next((found for found in (shell.file(name, inner) for name in names) if found is not None), None)
    if text is None:
        shell.findings.say("unknown", words, "there is no Makefile that could be read")
        return
    makefile = Makefile.of(text)
    settings = [word.partition("=") for word in arguments.plain if "=" in word]
    makefile.variables |= {name: value for name, _, value in settings}
    targets = [word for word in arguments.plain if "=" not in word] or [makefile.first]
    making = _Making(shell, words, makefile, replace(inner, variables={}))
    for target in targets:
        making.target(target)


class _Making:
    """One call of make. `done` are the targets whose recipes were looked at."""

    def __init__(self, shell: Running, words: list[str], makefile: Makefile, state: State) -> None:
        self._shell, self._words, self._makefile, self._state = shell, words, makefile, state
        self._done: set[str] = set()

    def target(self, target: str, *, needed: bool = False) -> None:
        """A target that is only needed may be a file without a rule."""
        if target in self._done:
            return
        self._done.add(target)
        if target in self._makefile.recipes:
            self._recipe(target)
        elif not needed or DYNAMIC in target:
            named = target.replace(DYNAMIC, "…") or "anything"
            self._shell.findings.say("unknown", self._words, f"there is no rule for {named}")

    def _recipe(self, target: str) -> None:
        findings = self._shell.findings
        with findings.deeper():
            findings.spend()
            for need in self._makefile.needs[target]:
                self.target(need, needed=True)
            for line in self._makefile.recipes[target]:
                text = self._makefile.expand(line.lstrip("@-+ ").replace("$@", target))
                with findings.of_file():
                    self._shell.text(text, self._state.copy(), None)
        if self._makefile.recipes[target]:
            findings.say("workspace", self._words, "runs a recipe of the project")


def _script_run(shell: Running, words: list[str], program: Program, state: State) -> bool:
    """`npm run X` and its kin: the script that package.json has under this name. False where none is meant."""
    arguments = parsed(words[1:], program.values, stop=False)
    plain = list(arguments.plain)
    if not plain:
        return False
    explicit = plain[0] in _RUNS
    name = plain[1] if explicit and len(plain) > 1 else "" if explicit else plain[0]
    scripts = _scripts(shell, state)
    own = base(words[0]) != "npm" and base(words[0]) != "cnpm" and name in (scripts or {})
    if not explicit and name not in _LIFECYCLE and not (own and name not in program.subs):
        return False
    if explicit and not name:
        return True
    name = "test" if name in ("t", "tst") else name
    if scripts is None or name not in scripts:
        shell.findings.say("unknown", words, f"there is no script {name.replace(DYNAMIC, '…')!r} that could be read")
        return True
    _script(shell, words, scripts, name, state)
    return True


def _scripts(shell: Running, state: State) -> Mapping[str, Any] | None:
    text = shell.file("package.json", state)
    try:
        found = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    scripts = found.get("scripts") if isinstance(found, dict) else None
    return scripts if isinstance(scripts, dict) else None


def _script(shell: Running, words: list[str], scripts: Mapping[str, Any], name: str, state: State) -> None:
    with shell.findings.deeper(), shell.findings.of_file():
        for part in (f"pre{name}", name, f"post{name}"):
            if isinstance(scripts.get(part), str):
                shell.text(scripts[part], state.copy(), None)
    shell.findings.say("workspace", words, "runs a script of the project")
