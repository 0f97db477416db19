"""What is known of programs: `programs.toml` as values."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any, Literal

from agentrewind.core.effects import EffectClass

Writes = Literal["", "all", "first", "last", "rest", "none"]


@dataclass(frozen=True, slots=True)
class Case:
    """What holds where one of `options` is given, or a plain argument begins with one of `words`."""

    options: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    kind: EffectClass | None = None
    does: str = ""
    reads: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """One program, or one subcommand of one. The fields are those of `programs.toml`."""

    kind: EffectClass | None = None
    does: str = ""
    reads: bool = False
    values: tuple[str, ...] = ()
    writes: Writes = ""
    write_options: tuple[str, ...] = ()
    into: tuple[str, ...] = ()
    when: tuple[Case, ...] = ()
    subs: Mapping[str, Program] = field(default_factory=dict)
    other: EffectClass | None = None
    bare: EffectClass | None = None
    in_place: tuple[str, ...] = ()
    assigned: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    sends: tuple[str, ...] = ()
    method: tuple[str, ...] = ()
    gets: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    interpreter: str = ""
    build: str = ""
    skip: int = 0
    http: bool = False
    remote: bool = False
    database: bool = False
    clones: bool = False
    passes: bool = False
    scripts: bool = False
    runs_package: bool = False
    wraps: bool = False
    assigns: bool = False
    joined: bool = False
    feeds: bool = False
    finds: bool = False


_FLAGS = (
    "reads", "http", "remote", "database", "clones", "passes", "scripts", "runs_package", "wraps", "assigns", "joined",
    "feeds", "finds", "does", "writes", "other", "bare", "interpreter", "build", "skip",
)  # fmt: skip
_LISTS = (
    "values", "write_options", "into", "in_place", "assigned", "moves", "verbs", "sends", "method", "gets", "text",
    "runs",
)  # fmt: skip


@functools.cache
def programs() -> Mapping[str, Program]:
    """Every program that is known, by its name."""
    text = resources.files("agentrewind.effects").joinpath("programs.toml").read_text("utf-8")
    raw = tomllib.loads(text)
    found: dict[str, Program] = {}
    for group in raw["group"]:
        found |= dict.fromkeys(group["programs"].split(), _program(group))
    tables: dict[str, Any] = raw["program"]
    found |= {name: _program(table) for name, table in tables.items() if "alias" not in table}
    found |= {name: found[table["alias"]] for name, table in tables.items() if "alias" in table}
    return found


def _program(table: Mapping[str, Any]) -> Program:
    values = {key: table[key] for key in _FLAGS if key in table}
    values |= {key: tuple(table[key]) for key in _LISTS if key in table}
    cases = tuple(_case(item) for item in table.get("when", ()))
    return Program(kind=table.get("class"), when=cases, subs=_subs(table), **values)


def _case(table: Mapping[str, Any]) -> Case:
    lists = {key: tuple(table[key]) for key in ("options", "words") if key in table}
    return Case(kind=table.get("class"), does=table.get("does", ""), reads=table.get("reads", False), **lists)


def _subs(table: Mapping[str, Any]) -> dict[str, Program]:
    found: dict[str, Program] = {}
    for group in table.get("group", ()):
        found |= dict.fromkeys(group["subs"], _program(group))
    for name, sub in table.get("sub", {}).items():
        found[name] = _program(sub)
    if table.get("when"):
        found = {name: _with_cases(name, sub, table["when"]) for name, sub in found.items()}
    return found


def _with_cases(name: str, sub: Program, cases: list[Mapping[str, Any]]) -> Program:
    """A subcommand with the cases of its program that name it."""
    own = tuple(_case(case) for case in cases if name in case.get("subs", ()))
    return replace(sub, when=(*own, *sub.when)) if own else sub
