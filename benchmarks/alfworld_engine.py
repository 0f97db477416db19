"""Plays ALFWorld games in the official engine and prints what it says: one line of JSON a game.

Runs in the engine's own environment, not in ours: `pip install alfworld textworld[pddl]`, or, without its other games,
`pip install --no-deps alfworld textworld fast-downward-textworld` and the libraries that it asks for.
Usage: python benchmarks/alfworld_engine.py SEED GAME.tw-pddl...
"""

from __future__ import annotations

import json
import random
import sys
import time
import types
from pathlib import Path

WALK = 25
"""Steps of a random walk."""


def main(seed: str, games: list[str]) -> None:
    for game in games:
        played = _played(game, random.Random(f"{seed}/{Path(game).parent.name}"))
        print(json.dumps({"game": game, **played}), flush=True)


def _played(game: str, draws: random.Random) -> dict[str, object]:
    started = time.perf_counter()
    engine = _engine(game)
    loaded = time.perf_counter() - started
    walkthrough = engine.walkthrough
    walks = [
        _walk(engine, walkthrough, 0, draws),
        _walk(engine, [], WALK, draws),
        _walk(engine, walkthrough[: draws.randrange(1, len(walkthrough))], WALK, draws),
    ]
    return {"load_s": loaded, "walks": walks}


def _walk(engine: object, begun: list[str], more: int, draws: random.Random) -> dict[str, object]:
    """The commands `begun`, then `more` of the admissible ones, every kind as often; ends where the game is won."""
    started = time.perf_counter()
    state = engine.reset()
    reset = time.perf_counter() - started
    seen = [_seen("", state)]
    started = time.perf_counter()
    for number in range(len(begun) + more):
        command = begun[number] if number < len(begun) else _drawn(state["admissible_commands"], draws)
        state, _, _ = engine.step(command)
        seen.append(_seen(command, state))
        if state["won"]:
            break
    return {"reset_s": reset, "steps_s": time.perf_counter() - started, "seen": seen}


def _drawn(commands: list[str], draws: random.Random) -> str:
    kind = draws.choice(sorted({command.split()[0] for command in commands}))
    return draws.choice([command for command in commands if command.split()[0] == kind])


def _seen(command: str, state: dict[str, object]) -> dict[str, object]:
    return {
        "command": command,
        "observation": state.feedback,
        "admissible": state["admissible_commands"],
        "won": bool(state["won"]),
    }


def _engine(game: str) -> object:
    _without_the_z_machine()
    from alfworld.agents.utils.misc import Demangler
    from textworld import EnvInfos
    from textworld.envs.pddl import PddlEnv

    engine = PddlEnv(EnvInfos(won=True, admissible_commands=True, feedback=True))
    engine.load(game)
    # What `AlfredDemangler` does; importing it would need more libraries than the engine has.
    names = Demangler(game_infos=engine._entity_infos, shuffle=False)  # noqa: SLF001
    for info in engine._entity_infos.values():  # noqa: SLF001
        info.name = names.demangle_alfred_name(info.id)
    return engine


def _without_the_z_machine() -> None:
    """`textworld` imports the interpreter of another kind of games, which needs 300 MB, and none of it is used."""
    try:
        import jericho  # noqa: F401
    except ImportError:
        unused = types.ModuleType("jericho")
        unused.UnsupportedGameWarning = unused.TruncatedInputActionWarning = UserWarning
        sys.modules["jericho"] = unused


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
