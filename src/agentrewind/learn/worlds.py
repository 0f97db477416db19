"""An environment as text: how its actions are written and read, which words belong to it, how contexts come back."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentrewind.core.codec import Json
from agentrewind.core.environment import Environment
from agentrewind.environments.alfworld.game import AlfWorld
from agentrewind.environments.minesweeper.game import MineSweeper
from agentrewind.environments.scienceworld.game import ScienceWorld
from agentrewind.environments.sokoban.game import TURN, Sokoban
from agentrewind.environments.sokoban.room import MOVES
from agentrewind.learn.contexts import (
    BuildsAnew,
    Conversation,
    RestoresThePrefix,
    RestoresThePrefixAndTells,
    ShowsThePresent,
    Wording,
)
from agentrewind.learn.methods import RETROSPECTIVE, Method
from agentrewind.learn.prompts.alfworld import AlfWorldWords
from agentrewind.learn.prompts.minesweeper import saying
from agentrewind.learn.prompts.scienceworld import ScienceWorldWords
from agentrewind.learn.prompts.shared import Words
from agentrewind.learn.prompts.sokoban import SAYING
from agentrewind.learn.rules import Rules

Style = Literal["full", "compact"]
_CONVERSATIONS: dict[Style, Callable[[Wording], Conversation]] = {"full": RestoresThePrefix, "compact": ShowsThePresent}
"""Of worlds whose state is a board."""
_CELL = re.compile(r"\(?\s*(-?\d{1,4})\s*[,; ]\s*(-?\d{1,4})\s*\)?")
_SEPARATORS = re.compile(r"[\s,;>→-]+")


@dataclass(frozen=True)
class World:
    """One instance, ready for a trial. `read` returns None for text that is no action of this environment."""

    task: str
    environment: Environment[Any, Any]
    words: Wording
    read: Callable[[str], Any]
    write: Callable[[Any], str]
    plain: Callable[[Any], Json]
    """An action as JSON: its identity in a history."""
    converse: Callable[[Wording], Conversation]
    fenced: bool = False
    offers: Callable[[], Sequence[Any]] | None = None
    """What may be done, where that is more than what changes the state: looking about, examining."""

    def offered(self) -> Sequence[Any]:
        return self.environment.actions() if self.offers is None else self.offers()


def minesweeper(
    task: str, game: MineSweeper, rules: Rules, style: Style = "full", method: Method = RETROSPECTIVE
) -> World:
    words = Words(saying(game.board.size, game.board.mines.bit_count()), rules, style, method.answer)
    return World(task, game, words, _cell, lambda cell: f"({cell[0]},{cell[1]})", list, _CONVERSATIONS[style])


def sokoban(task: str, game: Sokoban, rules: Rules, style: Style = "full", method: Method = RETROSPECTIVE) -> World:
    words = Words(SAYING, rules, style, method.answer)
    return World(task, game, words, _turn, ", ".join, list, _CONVERSATIONS[style])


def alfworld(task: str, game: AlfWorld, rules: Rules, style: Style = "full", method: Method = RETROSPECTIVE) -> World:
    words = AlfWorldWords(game.game.task, rules, style, method.answer)
    return World(task, game, words, _command, str, str, BuildsAnew, fenced=True, offers=game.admissible)


def scienceworld(
    task: str, game: ScienceWorld, rules: Rules, style: Style = "full", method: Method = RETROSPECTIVE
) -> World:
    words = ScienceWorldWords(game.description, game.templates, rules, style, method.answer)
    return World(task, game, words, _line, str, str, RestoresThePrefixAndTells, offers=game.offers)


def _line(text: str) -> str | None:
    """One line as it is: the simulator knows which commands there are."""
    return " ".join(text.strip("`'\"> .\n").split()) or None


def _command(text: str) -> str | None:
    """One line, its spaces and letters as the games have them; which commands there are the game knows."""
    return _line(text.lower())


def _cell(text: str) -> tuple[int, int] | None:
    found = _CELL.fullmatch(text)
    return None if found is None else (int(found.group(1)), int(found.group(2)))


def _turn(text: str) -> tuple[str, ...] | None:
    """Words for moves, in any case, with any separators. A turn that is too long means something else: not taken."""
    moves = tuple(part for part in _SEPARATORS.split(text.lower().strip("[]() \n")) if part)
    return moves if moves and all(move in MOVES for move in moves) and len(moves) <= TURN else None
