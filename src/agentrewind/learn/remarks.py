"""Remarks in a form that can be carried out: what not to do again, and what to do next; `not (2,3); next (4,5)`.

Also those that stand in for a policy's own, to measure what its own are worth: none, one of somebody who sees
everything, one at random, and the abandoned actions word for word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agentrewind.core.errors import UsageError
from agentrewind.environments.draws import Draws
from agentrewind.environments.minesweeper.board import cells
from agentrewind.environments.minesweeper.game import MineSweeper
from agentrewind.environments.sokoban.distances import solution
from agentrewind.environments.sokoban.game import TURN, Sokoban
from agentrewind.environments.sokoban.room import MOVES

Remarks = Literal["own", "none", "oracle", "random", "suffix"]
STEPS = 3
"""So many decisions a remark plans, at most."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Actions as their world writes them."""

    avoid: tuple[str, ...] = ()
    plan: tuple[str, ...] = ()
    """The next decisions from the checkpoint on, in order."""

    def __str__(self) -> str:
        return "; ".join((*(f"not {action}" for action in self.avoid), *(f"next {action}" for action in self.plan)))


def read(note: str) -> Remark:
    """What of a note can be carried out; the rest is left aside."""
    parts = [part.split(maxsplit=1) for part in note.split(";")]
    said = [(part[0], " ".join(part[1].split())) for part in parts if len(part) > 1]
    return Remark(
        tuple(action for word, action in said if word == "not"),
        tuple(action for word, action in said if word == "next"),
    )


def given(
    kind: Remarks, own: str, *, environment: Any, write: Callable[[Any], str], suffix: Sequence[str] = (), seed: str
) -> str:
    """The note that a policy is told.

    Args:
        kind: whose.
        own: the policy's.
        environment: in the state that is gone back to.
        write: its actions as text.
        suffix: the abandoned actions, as text.
        seed: of what is drawn.

    Raises:
        UsageError: nobody sees everything in this environment.
    """
    if kind == "own":
        return own
    if kind == "none":
        return ""
    if kind == "suffix":
        return "; ".join(f"did {action}" for action in suffix)
    planner = _PLANNERS[kind].get(environment.name)
    if planner is None:
        raise UsageError(f"There is no {kind} remark for {environment.name}; there is one for {', '.join(PLANNED)}.")
    plan = planner(environment, Draws(f"remark/{seed}"))
    return str(Remark(tuple(suffix[-1:]) if kind == "oracle" else (), tuple(map(write, plan))))


def _safe_reveals(game: MineSweeper, draws: Draws) -> list[Any]:
    """Reveals without a mine that open as much as possible, each given those before it."""
    del draws
    board, revealed = game.board, game.checkpoint()
    found: list[Any] = []
    while len(found) < STEPS and revealed != board.safe:
        closed = cells(board.safe & ~revealed)
        best = max(closed, key=lambda cell: board.reveal(revealed, cell).bit_count())
        revealed = board.reveal(revealed, best)
        found.append((best // board.size + 1, best % board.size + 1))
    return found


def _shortest_way(game: Sokoban, draws: Draws) -> list[Any]:
    """The next turns of a shortest solution."""
    del draws
    moves = solution(game.room, game.table, game.checkpoint())
    turns = [tuple(MOVES[move] for move in moves[first:][:TURN]) for first in range(0, len(moves), TURN)]
    return list(turns[:STEPS])


def _anything(environment: Any, draws: Draws) -> list[Any]:
    actions = list(environment.actions())
    return draws.some(actions, min(STEPS, len(actions)))


_PLANNERS: dict[str, dict[str, Callable[[Any, Draws], list[Any]]]] = {
    "oracle": {MineSweeper.name: _safe_reveals, Sokoban.name: _shortest_way},
    "random": {MineSweeper.name: _anything, Sokoban.name: _anything},
}
PLANNED = tuple(_PLANNERS["oracle"])
"""The environments for which there are remarks of those who see everything."""
