"""How far every solvable state is from a solved one, exactly: a search backwards over moves and pulls."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from agentrewind.environments.sokoban.room import BACK, Room, State


@lru_cache(maxsize=64)
def distances(room: Room) -> Mapping[State, int]:
    """For each state that can still be solved the fewest moves to do it; what isn't in here is a deadlock.

    Kept for the rooms asked for last.
    """
    solved = [State(cell, room.targets) for cell in range(len(room.floor)) if not room.targets >> cell & 1]
    found = dict.fromkeys(solved, 0)
    level, distance = solved, 0
    while level:
        distance += 1
        following: list[State] = []
        for state in level:
            for before in _before(room, state):
                if before not in found:
                    found[before] = distance
                    following.append(before)
        level = following
    return found


def _before(room: Room, state: State) -> list[State]:
    """The states from which one move leads to `state`."""
    player, boxes = state
    beside = room.beside[player]
    found = []
    for move in range(4):
        came_from = beside[BACK[move]]
        if came_from < 0 or boxes >> came_from & 1:
            continue
        found.append(State(came_from, boxes))
        ahead = beside[move]
        if ahead >= 0 and boxes >> ahead & 1:
            found.append(State(came_from, boxes ^ (1 << ahead) ^ (1 << player)))
    return found


def solution(room: Room, table: Mapping[State, int], state: State) -> tuple[int, ...]:
    """A shortest list of moves from a state that is in the table."""
    moves = []
    while table[state]:
        move = next(m for m in range(4) if table.get(room.moved(state, m), -1) == table[state] - 1)
        moves.append(move)
        state = room.moved(state, move)
    return tuple(moves)
