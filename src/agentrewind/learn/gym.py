"""The worlds as Gymnasium environments, for loops of other people. Needs Gymnasium (the extra `gym`).

Importing this module registers `agentrewind/MineSweeper-v0`, `agentrewind/Sokoban-v0`, `agentrewind/AlfWorld-v0` and
`agentrewind/ScienceWorld-v0`; `gymnasium.make("agentrewind.learn.gym:agentrewind/Sokoban-v0")` imports it by itself.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np

from agentrewind.core.environment import IllegalAction
from agentrewind.environments.sokoban.room import MOVES
from agentrewind.learn.methods import RETROSPECTIVE
from agentrewind.learn.rules import Rules
from agentrewind.learn.suites import suite
from agentrewind.learn.worlds import World

LONGEST_ACTION, LONGEST_OBSERVATION = 200, 20_000
CHARACTERS = string.printable + "√"
IDS = {
    "agentrewind/MineSweeper-v0": "minesweeper",
    "agentrewind/Sokoban-v0": "sokoban",
    "agentrewind/AlfWorld-v0": "alfworld",
    "agentrewind/ScienceWorld-v0": "scienceworld",
}
Info = dict[str, Any]


class RewindableEnv(gymnasium.Env[str, str]):  # type: ignore[misc]
    """One instance after another of a suite, in words: an observation is a text, and so is an action.

    An action that means nothing here changes nothing, is worth nothing, and `info["invalid"]` says why. `info` also has
    the `task`, the `actions` on offer, the `outcome` and the `fingerprint` of the state. `checkpoint` and `restore`
    lead back and forth within an episode; through a wrapper they are reached by `env.unwrapped`.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["ansi"], "render_fps": 4}

    def __init__(
        self,
        spec: str,
        *,
        split: str = "train",
        count: int = 100,
        data: str | Path | None = None,
        render_mode: str | None = None,
    ) -> None:
        """The first `count` instances that `spec` names, as `agentrewind eval --env` has it; `data` is for ALFWorld.

        Raises:
            UsageError: there is no such environment.
        """
        self._worlds = suite(spec, count, split, Path(data) if data is not None else None).worlds
        self._world: World | None = None
        self._next = 0
        self.render_mode = render_mode
        self.observation_space = gymnasium.spaces.Text(LONGEST_OBSERVATION, min_length=0, charset=CHARACTERS)
        self.action_space = gymnasium.spaces.Text(LONGEST_ACTION, charset=CHARACTERS)

    @property
    def world(self) -> World:
        """The present instance.

        Raises:
            IllegalAction: there was no reset yet.
        """
        if self._world is None:
            raise IllegalAction("Nothing is played yet; reset() begins an episode.")
        return self._world

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        """Begin the next instance, or that of `options["instance"]`; a seed says with which one they begin."""
        super().reset(seed=seed)
        if seed is not None:
            self._next = int(self.np_random.integers(len(self._worlds)))
        number = int((options or {}).get("instance", self._next)) % len(self._worlds)
        self._next = number + 1
        self._world = self._worlds[number](Rules(), "full", RETROSPECTIVE)
        return self._world.environment.reset(), self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        """Never truncated: budgets are the affair of the loop (`gymnasium.wrappers.TimeLimit`)."""
        environment = self.world.environment
        meant = self.world.read(action)
        try:
            if meant is None:
                raise IllegalAction(f"{action[:80]!r} is no action here; nothing was done.")  # noqa: TRY301
            done = environment.step(meant)
        except IllegalAction as error:
            ended = environment.outcome is not None
            return environment.observe(), 0.0, ended, False, {**self._info(), "invalid": str(error)}
        return done.observation, float(done.reward), done.outcome is not None, False, self._info()

    def checkpoint(self) -> tuple[str, Any]:
        """The present state of the present instance, a hashable value that later steps don't change."""
        return self.world.task, self.world.environment.checkpoint()

    def restore(self, checkpoint: tuple[str, Any]) -> tuple[str, Info]:
        """Make a checkpoint of the present instance the present state; an episode that had ended goes on.

        Raises:
            IllegalAction: it is of another instance. Nothing was changed.
            ReplayDiverged: the world replays, and could not be led there.
        """
        task, state = checkpoint
        if task != self.world.task:
            raise IllegalAction(f"This checkpoint is of {task}, and {self.world.task} is played; nothing was changed.")
        self.world.environment.restore(state)
        return self.world.environment.observe(), self._info()

    def render(self) -> str | None:
        return self.world.environment.observe() if self.render_mode == "ansi" else None

    def _info(self) -> Info:
        world = self.world
        return {
            "task": world.task,
            "actions": tuple(map(world.write, world.offered())),
            "outcome": world.environment.outcome,
            "fingerprint": world.environment.fingerprint(),
        }


class Numbered(gymnasium.Wrapper[str, int, str, str]):  # type: ignore[misc]
    """Actions by number, for agents that have a fixed number of them: single moves, or the cells of a board.

    `info["action_mask"]` has a 1 for each that is on offer now.
    """

    def __init__(self, env: gymnasium.Env[str, str], actions: Sequence[str]) -> None:
        super().__init__(env)
        self.texts = tuple(actions)
        self.action_space = gymnasium.spaces.Discrete(len(self.texts))

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, self._masked(info)

    def step(self, action: int) -> tuple[str, float, bool, bool, Info]:
        observation, reward, terminated, truncated, info = self.env.step(self.texts[action])
        return observation, float(reward), terminated, truncated, self._masked(info)

    def restore(self, checkpoint: tuple[str, Any]) -> tuple[str, Info]:
        observation, info = self.env.unwrapped.restore(checkpoint)
        return observation, self._masked(info)

    def _masked(self, info: Info) -> Info:
        offered = set(info["actions"])
        return {**info, "action_mask": np.array([text in offered for text in self.texts], dtype=np.int8)}


def cells(size: int) -> list[str]:
    """The actions of MineSweeper for `Numbered`, row by row."""
    return [f"({row},{column})" for row in range(1, size + 1) for column in range(1, size + 1)]


def moves() -> list[str]:
    """The actions of Sokoban for `Numbered`, one move each."""
    return list(MOVES)


for _id, _spec in IDS.items():
    gymnasium.register(_id, entry_point=RewindableEnv, kwargs={"spec": _spec})
