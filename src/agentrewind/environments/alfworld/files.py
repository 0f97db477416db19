"""Where the games are, and what a file of one holds. The games themselves are no part of this project."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from agentrewind.core.environment import IllegalAction

FILE = "game.tw-pddl"
SPLITS = ("train", "valid_seen", "valid_unseen", "valid_train")
INSIDE = "json_2.1.1"
"""Where the official download keeps its splits."""

_TASK = re.compile(r'("task": \[\s*\{\s*"rhs": ")([^"]*)(")')
_HELP = re.compile(r'action help \{.*?feedback :: "\n?(.*?)";', re.DOTALL)
_GRAMMAR = "063d42f07581dbed"
_DOMAIN = "0af55e7f92d12b09"


@dataclass(frozen=True, slots=True)
class Game:
    """What a file says, its rules and templates checked to be those that are built in here."""

    problem: str
    task: str
    help: str
    walkthrough: tuple[str, ...]


def directory_of(split: str, root: Path) -> Path:
    """Where the games of a split are, below what `ALFWORLD_DATA` names or below the download's own folder.

    Raises:
        IllegalAction: there is no such split, or it isn't there.
    """
    if split not in SPLITS:
        raise IllegalAction(f"{split!r} is no split of ALFWorld; there are {', '.join(SPLITS)}.")
    for found in (root / split, root / INSIDE / split):
        if found.is_dir():
            return found
    raise IllegalAction(f"There are no games of the split {split} in {root}.")


def games(directory: Path) -> Iterator[Path]:
    """The games below a directory, mixed, and always in the same order."""
    found = (path.relative_to(directory) for path in directory.rglob(FILE))
    for path in sorted(found, key=lambda path: sha256(path.as_posix().encode()).digest()):
        yield directory / path


def read(path: Path) -> Game:
    """The game in a file.

    Raises:
        IllegalAction: it can't be read, or its rules or its templates are others than those built in here.
    """
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        return game(**{key: held[key] for key in ("pddl_domain", "grammar", "pddl_problem", "walkthrough")})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IllegalAction(f"{path} can't be read as a game of ALFWorld ({error}).") from error


def game(pddl_domain: str, grammar: str, pddl_problem: str, walkthrough: list[str]) -> Game:
    """A game of its parts. A domain without actions, and a grammar without templates, stand for ALFWorld's own.

    Raises:
        IllegalAction: as `read`.
    """
    task = _TASK.search(grammar)
    if task is None:
        raise IllegalAction("The grammar of this game has no task.")
    templates = _TASK.sub(r"\1\3", grammar)
    if ("(:action" in pddl_domain and _digest(pddl_domain) != _DOMAIN) or (
        ".feedback" in templates and _digest(templates) != _GRAMMAR
    ):
        raise IllegalAction(
            "The rules or the templates of this game are not those of ALFWorld 0.4; it can't be played here."
        )
    helped = _HELP.search(grammar)
    return Game(pddl_problem, task.group(2), helped.group(1) if helped else "", tuple(walkthrough))


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
