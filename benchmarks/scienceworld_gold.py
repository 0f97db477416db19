"""The gold sequences of ScienceWorld through our interface: each has to win, and to be the same when played again.

A way back to the end is a reset and a replay in which every answer, and every thing of the simulator, is compared.
Needs the extra `scienceworld` and Java. Ends with 1 where a sequence doesn't win or a replay differs.

    make scienceworld                                            # the first variation of every task
    python benchmarks/scienceworld_gold.py --all find-plant boil # every variation of some tasks
    python benchmarks/scienceworld_gold.py --each 3              # three variations of every task, first to last
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field

from agentrewind.core.environment import ReplayDiverged
from agentrewind.environments.scienceworld.game import ScienceWorld
from agentrewind.environments.scienceworld.simulator import Task
from agentrewind.integrations.scienceworld import JavaStage

SPLITS = ("train", "dev", "test")


@dataclass
class Found:
    variations: int = 0
    won: int = 0
    replayed: int = 0
    steps: int = 0
    seconds: float = 0.0
    replay_seconds: float = 0.0
    trouble: list[str] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", nargs="*", default=[], metavar="TASK", help="every variation of these")
    parser.add_argument("--each", type=int, default=1, help="so many variations of every other task")
    parser.add_argument("--only", action="store_true", help="no other task")
    chosen = parser.parse_args()
    stage, whole = JavaStage(), Found()
    for name in stage.tasks():
        if chosen.only and name not in chosen.all:
            continue
        numbers = sorted({number for split in SPLITS for number in stage.variations(name, split)})
        if name not in chosen.all:
            numbers = [numbers[at * (len(numbers) - 1) // max(chosen.each - 1, 1)] for at in range(chosen.each)]
        found = Found()
        for number in numbers:
            played(Task(name, number), stage, found)
        print(said(name, found), flush=True)
        for key in ("variations", "won", "replayed", "steps", "seconds", "replay_seconds", "trouble"):
            setattr(whole, key, getattr(whole, key) + getattr(found, key))
    stage.close()
    print("\n".join((said("together", whole), *whole.trouble)))
    return 0 if whole.variations and whole.won == whole.replayed == whole.variations else 1


def played(task: Task, stage: JavaStage, found: Found) -> None:
    found.variations += 1
    gold = stage.gold(task)
    game = ScienceWorld(task, stage)
    started = time.perf_counter()
    for command in gold:
        if game.outcome is None:
            game.step(command)
            found.steps += 1
    found.seconds += time.perf_counter() - started
    found.won += game.outcome == "solved"
    if game.outcome != "solved":
        found.trouble.append(
            f"{task.name} {task.variation}: {game.outcome}, score {game.checkpoint().point.told.score}"
        )
    end = game.checkpoint()
    started = time.perf_counter()
    try:
        game.reset()
        game.restore(end)
        found.replayed += 1
    except ReplayDiverged as error:
        found.trouble.append(str(error))
    found.replay_seconds += time.perf_counter() - started


def said(name: str, found: Found) -> str:
    speed = found.steps / found.seconds if found.seconds else 0
    return (
        f"{name:<50} {found.variations:>5} variations, {found.won} won, {found.replayed} replayed alike,"
        f" {found.steps} steps at {speed:.0f}/s, replays {found.replay_seconds:.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
