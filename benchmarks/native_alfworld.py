"""The native reader of ALFWorld's games beside the official engine: what they say, step by step, and how fast.

Observation, admissible commands (in order) and `won` are compared along walkthroughs and random walks of the official
engine, which plays in an environment of its own (see `alfworld_engine.py`). Ends with 1 where anything differs.

    make alfworld                                   # ALFWORLD_DATA, ALFWORLD_ENGINE: games, and the engine's python
    python benchmarks/native_alfworld.py --traces FILE     # what the engine said before
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentrewind.environments.alfworld.files import directory_of, games, read
from agentrewind.environments.alfworld.game import AlfWorld

ENGINE = Path(__file__).with_name("alfworld_engine.py")


@dataclass
class Found:
    games: int = 0
    steps: int = 0
    won: int = 0
    seconds: float = 0.0
    engine_steps: float = 0.0
    engine_resets: float = 0.0
    native_loads: float = 0.0
    differences: list[str] = field(default_factory=list)

    def report(self) -> str:
        faster = self.engine_steps / self.seconds
        reset = self.engine_resets / 3 / self.games
        return (
            f"{self.games} games, {self.steps} steps, {self.won} walks won, {len(self.differences)} differences\n"
            f"official engine: {self.steps / self.engine_steps:,.1f} steps/s, a reset {reset:.2f} s\n"
            f"native reader:   {self.steps / self.seconds:,.0f} steps/s with admissible commands each,"
            f" a game read in {1000 * self.native_loads / self.games:.1f} ms\n"
            f"{faster:,.0f} times as many steps"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=0, help="so many of each split; 0: all")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--keep", type=Path, help="write what the engine says to this file too")
    chosen = parser.parse_args()
    lines = chosen.traces.open(encoding="utf-8") if chosen.traces else _engine(chosen.seed, chosen.games, chosen.keep)
    found = Found()
    for line in lines:
        compare(json.loads(line), found)
    print("\n".join(found.differences[:20]))
    print(found.report())
    return 1 if found.differences or not found.games else 0


def _engine(seed: str, count: int, keep: Path | None) -> Iterator[str]:
    root = Path(os.environ["ALFWORLD_DATA"])
    splits = [list(map(str, games(directory_of(split, root)))) for split in ("valid_seen", "valid_unseen")]
    asked = [game for split in splits for game in split[: count or None]]
    python = os.environ["ALFWORLD_ENGINE"]
    with subprocess.Popen([python, ENGINE, seed, *asked], stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdout is not None
        for line in engine.stdout:
            if keep is not None:
                with keep.open("a", encoding="utf-8") as file:
                    file.write(line)
            yield line
    if engine.returncode:
        raise SystemExit(f"The official engine ended with {engine.returncode}.")


def compare(played: dict[str, Any], found: Found) -> None:
    started = time.perf_counter()
    environment = AlfWorld(read(Path(played["game"])))
    found.native_loads += time.perf_counter() - started
    found.games += 1
    for walk in played["walks"]:
        found.engine_resets += walk["reset_s"]
        found.engine_steps += walk["steps_s"]
        _same(environment, walk["seen"], played["game"], found)
        _timed(environment, [seen["command"] for seen in walk["seen"][1:]], found)


def _same(environment: AlfWorld, seen: Iterable[dict[str, Any]], game: str, found: Found) -> None:
    environment.reset()
    for number, told in enumerate(seen):
        if number:
            environment.step(told["command"])
            found.steps += 1
        won = environment.outcome == "solved"
        found.won += won
        admissible = told["admissible"] if won else environment.admissible()
        mine = (environment.observe(), admissible, won)
        theirs = (told["observation"], told["admissible"], told["won"])
        if mine != theirs:
            found.differences.append(f"{game} step {number}: {told['command']}\n  native   {mine}\n  official {theirs}")
            return


def _timed(environment: AlfWorld, commands: list[str], found: Found) -> None:
    environment.reset()
    started = time.perf_counter()
    for command in commands:
        environment.step(command)
        environment.admissible()
    found.seconds += time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
