"""The native worlds keep the contract of an environment, and worlds with one fault each are caught."""

import itertools
from functools import cache
from typing import Any

import pytest

from agentrewind.environments.alfworld.files import game
from agentrewind.environments.alfworld.game import AlfWorld, State
from agentrewind.environments.minesweeper import instances as boards
from agentrewind.environments.minesweeper.game import MineSweeper
from agentrewind.environments.scienceworld.game import ScienceWorld
from agentrewind.environments.scienceworld.simulator import Task
from agentrewind.environments.sokoban import instances as rooms
from agentrewind.environments.sokoban.game import Sokoban
from agentrewind.testing.environments import EnvironmentContract
from tests.households import TASKS, household
from tests.laboratory import Bench, Laboratory


@cache
def board(number: int) -> boards.Instance:
    return boards.instance_of(5, 4, f"contract/{number}")


@cache
def room(number: int) -> rooms.Instance:
    return rooms.instance_of(6, 2, f"contract/{number}")


@cache
def home(number: int) -> Any:
    parts = household(list(TASKS)[number % len(TASKS)])
    return game(*(parts[name] for name in ("pddl_domain", "grammar", "pddl_problem", "walkthrough")))


class TestMineSweeper(EnvironmentContract):
    def environment(self, number: int) -> MineSweeper:
        return MineSweeper(board(number).board)

    def nonsense(self) -> list[Any]:
        return [(0, 1), (1, 0), (6, 1), (1, 6), (-1, -1)]


class TestSokoban(EnvironmentContract):
    def environment(self, number: int) -> Sokoban:
        return Sokoban(room(number).room, room(number).start)

    def nonsense(self) -> list[Any]:
        return [(), ("north",), ("up",) * 4, ("up", "")]


class TestAlfWorld(EnvironmentContract):
    length = 30

    def environment(self, number: int) -> AlfWorld:
        return AlfWorld(home(number))

    def nonsense(self) -> list[Any]:
        return ["", "fly", "take", "go to moon 1", "GO TO DRAWER 1", "go to drawer 1 "]

    def can_end_by_chance(self) -> bool:
        return False


class TestScienceWorld(EnvironmentContract):
    """With a simulator of ours; with the real one: tests/lanes/scienceworld."""

    def environment(self, number: int) -> ScienceWorld:
        return ScienceWorld(Task("boil", number), Bench(Laboratory()))

    def nonsense(self) -> list[Any]:
        return ["", "fly", "move pot to stove", "two\nlines", 7]


class KeepsTheListItsCheckpointIs(MineSweeper):
    """Hands out a checkpoint that later steps change."""

    def checkpoint(self) -> Any:
        return Shared(self)

    def restore(self, checkpoint: Any) -> None:
        super().restore(checkpoint.of.board.reveal(0, checkpoint.of.board.first))


class Shared:
    def __init__(self, of: MineSweeper) -> None:
        self.of = of

    def __hash__(self) -> int:
        return 1


class ForgetsThePlayer(Sokoban):
    """Restores the boxes alone."""

    def restore(self, checkpoint: Any) -> None:
        super().restore(checkpoint._replace(player=self.checkpoint().player))


class GoesOnAfterTheEnd(MineSweeper):
    """Lets a player go on after a mine."""

    def _number(self, action: Any) -> int:
        row, column = action
        return int((row - 1) * self.board.size + column - 1)


class ActsOnNonsense(Sokoban):
    """Carries out the moves that it knows and passes over the others."""

    def _moves(self, action: Any) -> list[int]:
        return super()._moves(tuple(name for name in action if name in {"up", "down"})[:3] or ("up",))


class SaysItMoved(Sokoban):
    """Offers moves into walls."""

    def actions(self) -> list[Any]:
        return [("up",), ("down",), ("left",), ("right",)] if self.outcome is None else []


class LosesTheStart(MineSweeper):
    """A reset that leaves the board as it is."""

    def reset(self) -> str:
        return self.observe()


KITS: dict[type, type] = {
    MineSweeper: TestMineSweeper,
    Sokoban: TestSokoban,
    AlfWorld: TestAlfWorld,
    ScienceWorld: TestScienceWorld,
}


class RestoresInNameAlone(ScienceWorld):
    """Says that it is back, and leaves the simulator where it was."""

    def restore(self, checkpoint: Any) -> None:
        self._state = self._at = checkpoint


class OffersALook(AlfWorld):
    """Counts looking about as a change."""

    def actions(self) -> list[str]:
        return self.admissible()


class LeavesTheAnswer(AlfWorld):
    """Restores the facts, and still shows the last answer."""

    def restore(self, checkpoint: State) -> None:
        super().restore(State(checkpoint.facts, self.observe()))


class KnowsThePlaceAlone(AlfWorld):
    """Takes two states for one where the agent is at the same place."""

    def fingerprint(self) -> str:
        return str(self.house.here(self.checkpoint().facts))


@pytest.mark.parametrize(
    ("mutant", "check"),
    [
        (KeepsTheListItsCheckpointIs, "test_a_checkpoint_is_a_value_that_later_steps_do_not_change"),
        (ForgetsThePlayer, "test_random_steps_and_restores_equal_a_model_that_keeps_every_state"),
        (GoesOnAfterTheEnd, "test_an_attempt_that_has_ended_takes_no_action_until_it_goes_back"),
        (ActsOnNonsense, "test_nonsense_is_refused_in_one_sentence_and_changes_nothing"),
        (SaysItMoved, "test_what_changed_nothing_says_so_and_legal_actions_change_something"),
        (LosesTheStart, "test_a_reset_goes_to_the_initial_state"),
        (OffersALook, "test_what_changed_nothing_says_so_and_legal_actions_change_something"),
        (LeavesTheAnswer, "test_random_steps_and_restores_equal_a_model_that_keeps_every_state"),
        (RestoresInNameAlone, "test_random_steps_and_restores_equal_a_model_that_keeps_every_state"),
        (KnowsThePlaceAlone, "test_what_changed_nothing_says_so_and_legal_actions_change_something"),
    ],
)
def test_a_world_with_one_fault_is_caught_by_the_check_meant_for_it(mutant: type, check: str) -> None:
    base = next(kit for world, kit in KITS.items() if issubclass(mutant, world))

    class Faulty(base):  # type: ignore[misc, valid-type]
        def environment(self, number: int) -> Any:
            faulty = super().environment(number)
            faulty.__class__ = mutant
            return faulty

    with pytest.raises((AssertionError, pytest.fail.Exception, KeyError)):
        getattr(Faulty(), check)()


def test_the_first_boards_of_the_two_splits_are_distinct() -> None:
    test, training = (set(_first(split)) for split in ("test", "train"))
    assert len(test) == len(training) == 200
    assert not test & training


def _first(split: str) -> list[Any]:
    found = itertools.islice(boards.instances(5, 4, split=split), 100)
    others = itertools.islice(rooms.instances(6, 2, split=split), 100)
    return [item.board for item in found] + [(item.room, item.start) for item in others]


def test_a_size_with_few_boards_ends_when_nothing_new_is_drawn() -> None:
    every = [item.board for split in ("test", "train") for item in boards.instances(3, 1, split=split)]
    assert 0 < len(every) <= 72
    assert len(set(every)) == len(every)
