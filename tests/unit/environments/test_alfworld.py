"""ALFWorld's rules, templates, goals and scores, on houses of our own, and on the real games where they are."""

import itertools
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentrewind.core.environment import Branch, IllegalAction
from agentrewind.environments.alfworld.files import SPLITS, directory_of, game, games, read
from agentrewind.environments.alfworld.game import WON, AlfWorld
from agentrewind.environments.alfworld.names import names
from tests.households import TASKS, household, written

CUPS = "both cups belong on the shelf"
ARCHIVE = Path(__file__).parents[4] / "shared" / "data" / "alfworld-json_2.1.1-tw-pddl.tar.xz"


def world(task: str = CUPS) -> AlfWorld:
    parts = household(task)
    del parts["solvable"]
    return AlfWorld(game(**parts))


def after(task: str, *commands: str) -> AlfWorld:
    environment = world(task)
    for command in commands:
        environment.step(command)
    return environment


def answers(*commands: str) -> str:
    return after(CUPS, *commands).observe()


@pytest.mark.parametrize("task", TASKS)
def test_every_walkthrough_wins_with_commands_that_are_admissible(task: str) -> None:
    environment = world(task)
    rewards = []
    for command in environment.walkthrough:
        assert environment.outcome is None
        assert command in environment.admissible()
        rewards.append(environment.step(command).reward)
    assert environment.outcome == "solved"
    assert environment.reference_length == len(rewards)
    assert rewards == [0.0] * (len(rewards) - 1) + [WON]


def test_the_room_and_the_task_are_told_first() -> None:
    assert world().reset() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see"
        " a cabinet 1, a drawer 1, a fridge 1, a microwave 1, a shelf 1, and a sinkbasin 1.\n\n"
        "Your task is to: both cups belong on the shelf."
    )


@pytest.mark.parametrize(
    ("commands", "answer"),
    [
        ("look", "You are in the middle of a room. Looking quickly around you, you see nothing."),
        ("inventory", "You are not carrying anything."),
        ("help", "Open, close, take, move, use, and so on.\n"),
        ("go to drawer 1", "You arrive at drawer 1. The drawer 1 is closed."),
        ("go to shelf 1", "You arrive at shelf 1. On the shelf 1, you see a knife 1, and a lamp 1."),
        ("go to cabinet 1", "You arrive at cabinet 1. On the cabinet 1, you see nothing."),
        ("go to drawer 1; open drawer 1", "You open the drawer 1. The drawer 1 is open. In it, you see a cup 2."),
        ("go to drawer 1; open drawer 1; close drawer 1", "You close the drawer 1."),
        ("go to drawer 1; look", "You are facing the cabinet 1, and drawer 1. Next to it, you see nothing."),
        ("go to shelf 1; use lamp 1", "You turn on the lamp 1."),
        ("go to shelf 1; take knife 1 from shelf 1", "You pick up the knife 1 from the shelf 1."),
        ("go to shelf 1; take knife 1 from shelf 1; inventory", "You are carrying: a knife 1."),
        ("go to shelf 1; take knife 1 from shelf 1; move knife 1 to shelf 1", "You move the knife 1 to the shelf 1."),
        (
            "go to sinkbasin 1; take cup 1 from sinkbasin 1; clean cup 1 with sinkbasin 1; examine cup 1",
            "This is a clean cup 1.",
        ),
        (
            "go to drawer 1; open drawer 1; take cup 2 from drawer 1; examine cup 2",
            "This is a normal cup 2. In it, you see a knife 1.",
        ),
        (
            "go to fridge 1; open fridge 1; take pear 1 from fridge 1; cool pear 1 with fridge 1; examine pear 1",
            "This is a cold pear 1.",
        ),
        (
            (
                "go to fridge 1; open fridge 1; take pear 1 from fridge 1; cool pear 1 with fridge 1; "
                "go to microwave 1; heat pear 1 with microwave 1; examine pear 1"
            ),
            "This is a hot pear 1.",
        ),
        (
            "go to shelf 1; take knife 1 from shelf 1; go to fridge 1; slice pear 1 with knife 1; examine knife 1",
            "There's nothing special about knife 1.",
        ),
    ],
)
def test_a_command_is_answered_by_the_templates_of_the_games(commands: str, answer: str) -> None:
    assert answers(*commands.split("; ")) == answer


def test_what_was_taken_out_of_a_receptacle_and_put_beside_it_is_seen_there() -> None:
    moved = ["go to drawer 1", "open drawer 1", "take cup 2 from drawer 1", "move cup 2 to cabinet 1"]
    assert answers(*moved, "look").endswith("Next to it, you see a cup 2.")
    back = ["take cup 2 from cabinet 1", "move cup 2 to drawer 1"]
    assert answers(*moved, *back, "look").endswith("Next to it, you see a cup 2.")
    assert answers("go to drawer 1", "look").endswith("Next to it, you see nothing.")


def test_only_what_is_held_can_be_examined_and_only_with_empty_hands_can_something_be_taken() -> None:
    at_shelf = after(CUPS, "go to shelf 1")
    assert "examine shelf 1" in at_shelf.admissible()
    assert "examine knife 1" not in at_shelf.admissible()
    assert "take lamp 1 from shelf 1" not in at_shelf.admissible(), "it can't be picked up"
    at_shelf.step("take knife 1 from shelf 1")
    assert "examine knife 1" in at_shelf.admissible()
    at_shelf.step("go to sinkbasin 1")
    assert "take cup 1 from sinkbasin 1" not in at_shelf.admissible()


def test_looking_is_admissible_and_changes_no_fact() -> None:
    environment = world()
    before = environment.fingerprint()
    assert {"look", "inventory", "help"} <= set(environment.admissible())
    assert not {"look", "inventory", "help"} & set(environment.actions())
    assert not environment.step("look").moved
    assert environment.fingerprint() == before


def test_a_command_that_is_not_admissible_is_refused_and_nothing_happens() -> None:
    environment = world()
    with pytest.raises(IllegalAction, match="'open drawer 1' is not admissible here"):
        environment.step("open drawer 1")
    assert environment.observe() == world().reset()


def test_the_share_of_the_goal_is_that_of_its_best_binding() -> None:
    environment = world()
    shares = [environment.progress()]
    states = [environment.checkpoint()]
    for command in environment.walkthrough:
        environment.step(command)
        shares.append(environment.progress())
        states.append(environment.checkpoint())
    assert shares == [0, 0, 0, 0, 0, 0.5, 0.5, 0.5, 0.5, 1]
    rewards = (0.0,) * (len(states) - 1)
    assert environment.endpoint_score(Branch(tuple(states[:6]), rewards[:5])) == 0.5
    environment.restore(states[5])
    environment.step("take cup 2 from shelf 1")
    lost = (*states[:6], environment.checkpoint())
    assert environment.endpoint_score(Branch(lost, rewards[:6])) == 0
    assert environment.branch_score(Branch(lost, rewards[:6])) == 0.5
    assert environment.branch_score(Branch(lost[5:], rewards[:1])) == 0.5, "its anchor counts"


def test_a_lamp_where_it_stands_is_a_part_of_the_light_goal() -> None:
    task = "a pear is looked at in the light"
    assert world(task).progress() == 0.25
    assert after(task, "go to shelf 1").progress() == 0.5
    assert after(task, "go to shelf 1", "use lamp 1").progress() == 0.75
    assert after(task, "go to shelf 1", "use lamp 1", "go to drawer 1").progress() == 0.5


def test_things_of_a_kind_are_numbered_backwards_and_basins_are_their_own_kind() -> None:
    found = names(["cup_bar_a", "cup_bar_b", "sink_bar_a", "sink_bar_a_bar_sinkbasin", "agent1"])
    assert [found[name] for name in sorted(found)] == ["agent1 ", "cup 2", "cup 1", "sink 1", "sinkbasin 1"]


def test_a_directory_gives_all_its_games_in_one_order(tmp_path: Path) -> None:
    root = written(tmp_path)
    found = list(games(directory_of("valid_unseen", root)))
    assert found == list(games(directory_of("valid_unseen", root / "json_2.1.1")))
    assert {read(path).task for path in found} == {f"Your task is to: {task}." for task in TASKS}


@pytest.mark.parametrize("split", ["valid_seen", "moon"])
def test_a_split_that_is_not_there_is_refused(split: str, tmp_path: Path) -> None:
    with pytest.raises(IllegalAction, match=split):
        directory_of(split, written(tmp_path))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"pddl_domain": "(define (domain alfred) (:action fly))"}, "rules or the templates"),
        ({"grammar": household(CUPS)["grammar"] + '"fly.feedback"'}, "rules or the templates"),
        ({"grammar": ""}, "no task"),
        ({"pddl_problem": "(define"}, "parentheses"),
        ({"pddl_problem": "(define)"}, "no objects, facts or goal"),
        ({"pddl_problem": "(define (:objects) (:init) (:goal (or (f a))))"}, "not known"),
    ],
)
def test_a_game_with_other_rules_or_damage_is_refused_in_one_sentence(changes: dict[str, str], why: str) -> None:
    parts = household(CUPS) | changes
    del parts["solvable"]
    with pytest.raises(IllegalAction, match=why) as refusal:
        AlfWorld(game(**parts))
    assert str(refusal.value).endswith(".")


@pytest.mark.parametrize("held", [b"", b"[]", b"{}", b"\xff"])
def test_a_file_that_holds_no_game_is_named(held: bytes, tmp_path: Path) -> None:
    path = tmp_path / "game.tw-pddl"
    path.write_bytes(held)
    with pytest.raises(IllegalAction, match=r"game\.tw-pddl can't be read as a game of ALFWorld"):
        read(path)


def real_games(count: int) -> Iterator[dict[str, Any]]:
    """The first games there are: of `ALFWORLD_DATA`, else of the archive beside this checkout."""
    data = os.environ.get("ALFWORLD_DATA")
    if data:
        paths = (path for split in SPLITS[1:3] for path in games(directory_of(split, Path(data))))
        yield from (json.loads(path.read_text(encoding="utf-8")) for path in itertools.islice(paths, count))
    elif ARCHIVE.is_file():
        with tarfile.open(ARCHIVE) as archive:
            files = (archive.extractfile(member) for member in archive if member.name.endswith("game.tw-pddl"))
            yield from (json.load(file) for file in itertools.islice(files, count) if file is not None)
    else:
        pytest.skip(f"ALFWORLD_DATA names no games, and {ARCHIVE} isn't there")


def test_walkthroughs_of_real_games_win() -> None:
    found = list(real_games(30))
    assert len(found) == 30
    for parts in found:
        parts.pop("solvable")
        environment = AlfWorld(game(**parts))
        for command in environment.walkthrough:
            assert environment.outcome is None
            assert command in environment.admissible()
            environment.step(command)
        assert environment.outcome == "solved"


def test_the_official_engine_says_the_same() -> None:
    """A sample; `make alfworld` takes all validation games."""
    if not {"ALFWORLD_DATA", "ALFWORLD_ENGINE"} <= os.environ.keys():
        pytest.skip("ALFWORLD_DATA and ALFWORLD_ENGINE name no games and no engine")
    program = Path(__file__).parents[3] / "benchmarks" / "native_alfworld.py"
    done = subprocess.run([sys.executable, program, "--games", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 games" in done.stdout
