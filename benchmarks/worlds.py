"""Steps a second of the worlds, side by side with a plain loop of Gymnasium, and trials a second of an evaluation.

    python benchmarks/worlds.py [--seconds 2] [--json FILE]

Every world plays random actions. `bare` is the world itself; `legal` asks for the legal actions at every step too, as a
policy needs them (ALFWorld is always asked); `back` saves the state, steps, and goes back. With Gymnasium installed,
`gym` is the same loop through `agentrewind.learn.gym`, and its own FrozenLake stands beside as what a plain loop costs.
ScienceWorld is measured where it and Java are. ALFWorld plays games written here, or those below ALFWORLD_DATA; its
official engine is compared by native_alfworld.py.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentrewind.core.environment import Environment
from agentrewind.environments.alfworld import files
from agentrewind.environments.alfworld.game import AlfWorld
from agentrewind.environments.minesweeper import instances as boards
from agentrewind.environments.minesweeper.game import MineSweeper
from agentrewind.environments.sokoban import instances as rooms
from agentrewind.environments.sokoban.game import Sokoban
from agentrewind.learn.evaluation import Plan, evaluate
from agentrewind.learn.workers import processes

ROOT = Path(__file__).parents[1]
Any_ = Environment[Any, Any]
EPISODE = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=2.0, help="for each measurement")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    told: dict[str, dict[str, float]] = {}
    for name, environment in worlds():
        told[name] = {
            "bare": rate(lambda world=environment: episode(world, legal=False), chosen.seconds),
            "legal": rate(lambda world=environment: episode(world, legal=True), chosen.seconds),
            "back": rate(lambda world=environment: back_and_forth(world), chosen.seconds),
        }
        print(f"{name:<13} " + "  ".join(f"{kind} {speed:>10,.0f}/s" for kind, speed in told[name].items()), flush=True)
    told |= in_gymnasium(chosen.seconds)
    told["evaluation"] = evaluated()
    if chosen.json:
        chosen.json.write_text(json.dumps(told, indent=1) + "\n")


def worlds() -> Iterator[tuple[str, Any_]]:
    found = next(itertools.islice(rooms.instances(6, 2), 1))
    yield "minesweeper", MineSweeper(next(itertools.islice(boards.instances(6, 3), 1)).board)
    yield "sokoban", Sokoban(found.room, found.start)
    yield "alfworld", AlfWorld(household())
    if find_spec("scienceworld") and shutil.which("java"):
        from agentrewind.environments.scienceworld.game import ScienceWorld
        from agentrewind.environments.scienceworld.simulator import Task
        from agentrewind.integrations.scienceworld import JavaStage

        yield "scienceworld", ScienceWorld(Task("find-animal", 0), JavaStage())
    else:
        print("scienceworld  not measured: it or Java isn't here")


def household() -> files.Game:
    root = os.environ.get("ALFWORLD_DATA")
    if root:
        return files.read(next(files.games(files.directory_of("valid_seen", Path(root)))))
    sys.path.insert(0, str(ROOT))
    from tests.households import TASKS
    from tests.households import household as written

    parts = written(next(iter(TASKS)))
    return files.game(*(parts[name] for name in ("pddl_domain", "grammar", "pddl_problem", "walkthrough")))


def rate(play: Callable[[], int], seconds: float) -> float:
    """Steps a second, the best of three thirds: what else the machine does only makes it slower."""
    best = 0.0
    for _ in range(3):
        steps, started = 0, time.perf_counter()
        while (spent := time.perf_counter() - started) < seconds / 3 or not steps:
            steps += play()
        best = max(best, steps / spent)
    return best


def episode(world: Any_, *, legal: bool) -> int:
    """Up to `EPISODE` steps from the beginning; their number."""
    world.reset()
    draws = random.Random(0)
    actions = choices(world)
    for number in range(EPISODE):
        if world.outcome is not None:
            return number
        if legal or world.name == "alfworld":
            actions = choices(world)
        world.step(draws.choice(actions))
    return EPISODE


def choices(world: Any_) -> list[Any]:
    if world.name == "sokoban":
        return [("up",), ("down",), ("left",), ("right",)]
    return list(world.actions() if world.name == "minesweeper" else offered(world))


def offered(world: Any) -> list[str]:
    if world.name == "scienceworld":
        return ["wait1", "look around", "look at agent"]
    return world.admissible()


def back_and_forth(world: Any_) -> int:
    """A state is saved, left, and come back to."""
    world.reset()
    saved = world.checkpoint()
    for action in choices(world)[:3]:
        world.step(action)
        world.restore(saved)
    return 3


def in_gymnasium(seconds: float) -> dict[str, dict[str, float]]:
    if find_spec("gymnasium") is None:
        print("gym           not measured: Gymnasium isn't installed")
        return {}
    import gymnasium

    told = {}
    for name, texts in (("Sokoban", ["up", "down", "left", "right"]), ("MineSweeper", None)):
        env = gymnasium.make(f"agentrewind.learn.gym:agentrewind/{name}-v0", count=1).unwrapped
        told[f"gym {name}"] = {"gym": rate(lambda env=env, texts=texts: gym_episode(env, texts), seconds)}
    lake = gymnasium.make("FrozenLake-v1").unwrapped
    told["gym FrozenLake"] = {"gym": rate(lambda: gym_episode(lake, [0, 1, 2, 3]), seconds)}
    for name, speeds in told.items():
        print(f"{name:<22} {speeds['gym']:>10,.0f}/s")
    return told


def gym_episode(env: Any, texts: list[Any] | None) -> int:
    _, info = env.reset()
    draws = random.Random(0)
    for number in range(EPISODE):
        *_, ended, _, info = env.step(draws.choice(texts or info["actions"]))
        if ended:
            return number + 1
    return EPISODE


def evaluated() -> dict[str, float]:
    """Whole trials of T@3 with a noisy program, one process and two."""
    plan = Plan(("minesweeper:6:4", "sokoban:6:2"), policies=("noisy:0.5",), protocols=("T@3",), seeds=(0, 1, 2))
    told = {}
    for count in (1, 2):
        started = time.perf_counter()
        scores = evaluate(plan, workers=processes(count))
        spent = time.perf_counter() - started
        told[f"{count} processes"] = len(scores) / spent
        calls = sum(item.calls for item in scores)
        print(f"evaluation, {count} process(es): {len(scores) / spent:,.1f} trials/s, {calls / spent:,.0f} calls/s")
    return told


if __name__ == "__main__":
    main()
