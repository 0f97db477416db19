"""Sokoban as an environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from agentrewind.core.codec import digest
from agentrewind.core.environment import Branch, IllegalAction, Outcome, Transition
from agentrewind.environments.sokoban.distances import distances
from agentrewind.environments.sokoban.room import MOVES, Room, State

Turn = tuple[str, ...]
"""Up to `TURN` moves, carried out in order."""

TURN = 3


@dataclass(frozen=True, slots=True)
class Rewards:
    """`δ` of one move (retrospective.md, section 6; gym-sokoban)."""

    move: float = -0.1
    home: float = 1.0
    """A box came onto a target; as much is lost when one leaves it."""
    solved: float = 10.0


class Sokoban:
    """One room with its boxes. A state from which no solution is left has failed, proven by the table of distances."""

    name = "sokoban"

    def __init__(self, room: Room, start: State, *, rewards: Rewards = Rewards()) -> None:
        self.room = room
        self._start = start
        self._state = start
        self._rewards = rewards
        if start not in self.table:
            raise IllegalAction("This room can't be solved from where it begins.")

    @cached_property
    def table(self) -> Mapping[State, int]:
        """Each solvable state and the fewest moves from it. For the evaluator: never shown to a policy."""
        return distances(self.room)

    def reset(self) -> str:
        self._state = self._start
        return self.observe()

    def checkpoint(self) -> State:
        return self._state

    def restore(self, checkpoint: State) -> None:
        self._state = checkpoint

    def fingerprint(self) -> str:
        room = self.room
        return digest(["sokoban", room.height, room.width, room.floor, room.targets, list(self._state)])

    def observe(self) -> str:
        return self.room.render(self._state)

    def actions(self) -> list[Turn]:
        """Turns of one move; longer ones are made of them."""
        if self.outcome is not None:
            return []
        return [(name,) for move, name in enumerate(MOVES) if self.room.moved(self._state, move) != self._state]

    def step(self, action: Turn) -> Transition:
        """Carry out the moves until the attempt ends; what is left of the turn is then dropped."""
        moves = self._moves(action)
        before, reward = self._state, 0.0
        for move in moves:
            reward += self._move(move)
            if self.outcome is not None:
                break
        return Transition(self.observe(), round(reward, 9), self.outcome, moved=self._state != before)

    @property
    def outcome(self) -> Outcome | None:
        if self._state.boxes == self.room.targets:
            return "solved"
        return None if self._state in self.table else "failed"

    def progress(self) -> float:
        """The share of the shortest way that is done, never below 0; 0 in a deadlock."""
        return max(self._nearer(self._state), 0) / self.reference_length if self.reference_length else 1.0

    def endpoint_score(self, path: Branch[State]) -> float:
        """`d0 - d_end`."""
        return float(self._nearer(path.states[-1]))

    def branch_score(self, branch: Branch[State]) -> float:
        """`d0 - d_end` too: what lies before the anchor cancels where two branches of it are compared."""
        return float(self._nearer(branch.states[-1]))

    @property
    def reference_length(self) -> int:
        """The fewest moves that solve it."""
        return self.table[self._start]

    def _nearer(self, state: State) -> int:
        """`d0 - d`; 0 for a deadlock, which counts as if nothing had been done (paper, appendix C.2)."""
        return self.reference_length - self.table.get(state, self.reference_length)

    def _moves(self, action: Turn) -> list[int]:
        if self.outcome is not None:
            raise IllegalAction(f"The attempt has ended ({self.outcome}); only going back leads on.")
        if not 1 <= len(action) <= TURN:
            raise IllegalAction(f"A turn has 1 to {TURN} moves, not {len(action)}.")
        unknown = [name for name in action if name not in MOVES]
        if unknown:
            raise IllegalAction(f"{unknown[0]!r} is not a move; there are {', '.join(MOVES)}.")
        return [MOVES.index(name) for name in action]

    def _move(self, move: int) -> float:
        before = self._home()
        self._state = self.room.moved(self._state, move)
        solved = self._rewards.solved if self.outcome == "solved" else 0.0
        return self._rewards.move + self._rewards.home * (self._home() - before) + solved

    def _home(self) -> int:
        return (self._state.boxes & self.room.targets).bit_count()
