"""Remarks that can be carried out, those that stand in for a policy's own, and solvers that teach their use."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from agentrewind.core.errors import UsageError
from agentrewind.environments.minesweeper import instances as boards
from agentrewind.environments.minesweeper.game import MineSweeper
from agentrewind.environments.sokoban import instances as rooms
from agentrewind.environments.sokoban.game import Sokoban
from agentrewind.learn.evaluation import Plan
from agentrewind.learn.methods import METHODS
from agentrewind.learn.play import Policy, play
from agentrewind.learn.remarks import Remark, given, read
from agentrewind.learn.rollout import Request, trial
from agentrewind.learn.rules import Rules, protocol
from agentrewind.learn.solvers.demonstrations import Demonstrator, Habits, last_note
from agentrewind.learn.solvers.minesweeper import Safest
from agentrewind.learn.solvers.sokoban import Shortest
from agentrewind.learn.trial import Output, Trial
from agentrewind.learn.worlds import World, minesweeper, sokoban

BOARDS = [item.board for item in itertools.islice(boards.instances(5, 5), 8)]
ROOMS = list(itertools.islice(rooms.instances(6, 2), 4))


def board_world(number: int, rules: Rules) -> World:
    return minesweeper(f"board {number}", MineSweeper(BOARDS[number]), rules, "compact")


def room_world(number: int, rules: Rules) -> World:
    return sokoban(f"room {number}", Sokoban(ROOMS[number].room, ROOMS[number].start), rules, "compact")


def into_mines(number: int) -> Policy:
    """Reveals a mine as soon as it is asked."""
    size = BOARDS[number].size
    mines = [cell for cell in range(size * size) if BOARDS[number].mines >> cell & 1]

    def policy(request: Request) -> Output:
        if request.view is None:
            return Output("<remark>my own words</remark><target>C_0</target>")
        cell = mines[request.number % len(mines)]
        return Output(f"<action>({cell // size + 1},{cell % size + 1})</action>")

    return policy


def test_a_remark_is_read_as_it_is_written() -> None:
    for remark in (Remark(), Remark(("(2,3)",), ("(1,1)", "(4,5)")), Remark(plan=("up, left", "down"))):
        assert read(str(remark)) == remark
    assert read("mind the corner; next (1,2) ; hm") == Remark(plan=("(1,2)",))


@pytest.mark.parametrize("name", ["no-memory", "oracle-remark", "random-remark", "raw-suffix"])
def test_a_control_replaces_the_note_and_nothing_else(name: str) -> None:
    rules = Rules()
    own = play(trial(board_world(0, rules), rules), into_mines(0))
    other = play(trial(board_world(0, rules), rules, METHODS[name]), into_mines(0))
    assert [item.note for item in own.recoveries] == ["my own words"] * 2
    assert [(item.target, item.abandoned) for item in other.recoveries] == [
        (item.target, item.abandoned) for item in own.recoveries
    ]
    assert len(other.calls) == len(own.calls)
    assert "my own words" not in str([call.context for call in other.calls])
    assert len({item.note for item in other.recoveries}) == (1 if name == "no-memory" else 2)


def test_without_memory_the_context_after_a_way_back_is_that_before() -> None:
    rules = Rules()
    found = play(trial(board_world(0, rules), rules, METHODS["no-memory"]), into_mines(0))
    first, second = (call.context for call in found.calls if call.kind == "execution" and call.number in (1, 3))
    assert len(first) == len(second)
    assert first[0] == second[0]


def follows(plan: Any) -> Policy:
    def policy(request: Request) -> Output:
        _, remark = last_note(request.context)
        if request.view is None:
            return Output("<remark>x</remark>")
        return Output(f"<action>{plan(request, remark)}</action>")

    return policy


def planned(world: World, *suffix: str) -> Remark:
    return read(given("oracle", "", environment=world.environment, write=world.write, suffix=suffix, seed=""))


def test_who_carries_an_oracle_s_remark_out_meets_no_mine_and_comes_nearer() -> None:
    rules = Rules()
    for number in range(len(BOARDS)):
        world = board_world(number, rules)
        note = planned(world, "(1,1)")
        assert note.avoid == ("(1,1)",)
        for action in note.plan:
            row, column = action.strip("()").split(",")
            assert world.environment.step((int(row), int(column))).outcome != "failed"
    for number in range(len(ROOMS)):
        world = room_world(number, rules)
        before = world.environment.table[world.environment.checkpoint()]
        for action in planned(world).plan:
            world.environment.step(world.read(action))
        assert world.environment.table[world.environment.checkpoint()] < before


def test_a_world_without_an_oracle_is_refused_before_anything_is_played() -> None:
    with pytest.raises(UsageError, match="alfworld has nobody"):
        Plan(("alfworld",), methods=("oracle-remark",)).check()


def taught(world: World, teacher: Any, habits: Habits, seed: str = "0") -> tuple[Trial, Demonstrator]:
    rules = protocol("T@3")
    pupil = Demonstrator(teacher, habits, seed)
    return play(trial(world, rules), pupil), pupil


def test_a_teacher_without_mistakes_solves_and_keeps_what_it_did() -> None:
    rules = protocol("T@3")
    for world, teacher in ((board_world(1, rules), Safest(5)), (room_world(1, rules), Shortest())):
        found, pupil = taught(world, teacher, Habits(0.0, 0.0, 0.0))
        assert found.solved
        assert [each.answer for each in pupil.kept] == [call.output.text for call in found.calls]


def test_mistakes_are_made_and_not_taught_and_good_remarks_are_carried_out() -> None:
    rules, carried, erred = protocol("T@3"), 0, 0
    for number in range(8):
        found, pupil = taught(board_world(number, rules), Safest(5), Habits(0.6, 0.0, 0.0), str(number))
        for call, kept in zip(found.calls, pupil.kept, strict=True):
            assert call.context == kept.context
            erred += call.output.text != kept.answer
            _, remark = last_note(call.context)
            if call.kind == "execution" and remark.plan and remark.plan[0] in call.context[-1]["content"].split():
                carried += kept.answer == f"<action>{remark.plan[0]}</action>"
                assert kept.answer == f"<action>{remark.plan[0]}</action>"
    assert erred
    assert carried


def test_weak_remarks_plan_nothing_or_what_failed() -> None:
    rules, plans = protocol("T@3"), []
    for number in range(8):
        found, _ = taught(board_world(number, rules), Safest(5), Habits(0.6, 1.0, 0.0), str(number))
        plans += [(read(item.note).plan, item) for item in found.recoveries]
    assert {bool(plan) for plan, _ in plans} == {True, False}


def test_a_remark_about_a_mine_plans_what_the_branch_and_the_mine_prove() -> None:
    rules, proven = protocol("T@3"), 0
    for number in range(8):
        world = board_world(number, rules)
        found, _ = taught(world, Safest(5), Habits(0.6, 0.0, 0.0), str(number))
        for item in found.recoveries:
            if item.trigger == "failed":
                remark = read(item.note)
                assert len(remark.avoid) == 1
                assert remark.avoid[0] not in remark.plan
                proven += bool(remark.plan)
    assert proven
