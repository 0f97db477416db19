"""Sokoban: moves, exact distances, deadlocks."""

import itertools
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrewind.core.environment import Branch, IllegalAction
from agentrewind.environments.sokoban.distances import distances, solution
from agentrewind.environments.sokoban.game import Sokoban
from agentrewind.environments.sokoban.instances import FARTHEST, NEAREST, instance_of, instances
from agentrewind.environments.sokoban.room import MOVES, Room, State, read

CORNER = """
# # # # #
# _ _ _ #
# _ X _ #
# P O _ #
# # # # #
"""


def game(text: str) -> Sokoban:
    return Sokoban(*read(text))


def forward(room: Room, start: State) -> int | None:
    """The fewest moves to solve it, by a search forwards."""
    waiting, seen = deque([(start, 0)]), {start}
    while waiting:
        state, length = waiting.popleft()
        if state.boxes == room.targets:
            return length
        for move in range(4):
            following = room.moved(state, move)
            if following not in seen:
                seen.add(following)
                waiting.append((following, length + 1))
    return None


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.just(1), st.data())
def test_distances_equal_a_search_forwards_and_states_without_one_can_not_be_solved(
    seed: int, boxes: int, data: st.DataObject
) -> None:
    room = instance_of(5, boxes, str(seed)).room
    cells = data.draw(st.permutations(range(len(room.floor))))
    state = State(cells[0], sum(1 << cell for cell in cells[1 : boxes + 1]))
    assert distances(room).get(state) == forward(room, state)


def test_a_solution_from_the_table_solves_the_room_in_as_many_moves() -> None:
    for instance in itertools.islice(instances(6, 2), 20):
        play = Sokoban(instance.room, instance.start)
        moves = solution(instance.room, play.table, instance.start)
        assert len(moves) == instance.distance == play.reference_length
        for move in moves:
            assert play.outcome is None
            play.step((MOVES[move],))
        assert play.outcome == "solved"


def test_every_instance_is_a_puzzle_that_fits_the_allowance() -> None:
    for size, boxes in ((6, 2), (6, 3), (7, 2), (7, 3)):
        for instance in itertools.islice(instances(size, boxes), 10):
            assert NEAREST <= instance.distance <= FARTHEST
            assert not instance.start.boxes & instance.room.targets
            assert instance.room.targets.bit_count() == boxes


def test_a_rendered_room_is_read_back() -> None:
    for instance in itertools.islice(instances(7, 3), 10):
        assert read(instance.room.render(instance.start)) == (instance.room, instance.start)


def test_a_box_in_a_corner_has_failed_and_two_frozen_boxes_have_too() -> None:
    play = game(CORNER)
    play.step(("up", "up", "right"))
    lost = play.step(("right", "down", "left"))
    assert play.outcome is None or lost.outcome == "failed"
    frozen = "# # # # # #\n# _ _ _ _ #\n# _ X X _ #\n# P O _ O #\n# # # # # #"
    play = game(frozen)
    assert play.step(("up", "right")).outcome is None
    room, _ = read(frozen)
    wall = State(room.floor.index((3, 1)), sum(1 << room.floor.index(place) for place in ((1, 2), (1, 3))))
    assert wall not in distances(room)


def test_a_turn_ends_where_the_attempt_does() -> None:
    play = game("# # # # # #\n# P X O _ #\n# _ _ _ _ #\n# # # # # #")
    done = play.step(("right", "down", "down"))
    assert done.outcome == "solved"
    assert done.reward == pytest.approx(-0.1 + 1 + 10)
    assert "√" in done.observation


def test_rewards_are_those_settled() -> None:
    play = game("# # # # # # #\n# P X O _ _ #\n# O X _ _ _ #\n# _ _ _ _ _ #\n# # # # # # #")
    assert play.step(("right",)).reward == pytest.approx(-0.1 + 1)
    assert play.step(("right",)).reward == pytest.approx(-0.1 - 1)
    blocked = play.step(("up",))
    assert (blocked.reward, blocked.moved) == (pytest.approx(-0.1), False)


def test_a_branch_is_scored_by_how_much_nearer_it_came_and_a_deadlock_counts_as_nothing() -> None:
    play = game("# # # # # # #\n# P X _ O _ #\n# _ _ _ _ _ #\n# # # # # # #")
    start = play.checkpoint()
    play.step(("right",))
    nearer = play.checkpoint()
    assert play.branch_score(Branch((start, nearer), (0.0,))) == 1
    assert play.progress() == 0.5
    play.step(("right",))
    assert play.branch_score(Branch((start, play.checkpoint()), (0.0,))) == play.reference_length == 2
    play.restore(nearer)
    dead = State(nearer.player, 1 << play.room.floor.index((2, 1)))
    assert play.branch_score(Branch((start, dead), (0.0,))) == 0


def test_a_room_that_can_not_be_solved_or_read_is_refused() -> None:
    with pytest.raises(IllegalAction, match="can't be solved"):
        game("# # # # #\n# X _ P #\n# _ _ O #\n# # # # #")
    for text, why in (
        ("# P\n#", "rectangle"),
        ("# P ?", "rectangle"),
        ("P X _", "as many boxes"),
        ("X O _", "one player"),
    ):
        with pytest.raises(IllegalAction, match=why):
            read(text)
    with pytest.raises(IllegalAction, match="can't be"):
        instances(4, 1)


def test_the_rooms_of_a_seed_stay_the_same() -> None:
    found = instance_of(6, 2, "test/0")
    assert found.room.render(found.start) == PINNED


PINNED = """\
# # # # # #
# _ _ _ P #
# _ X O X #
# # # # O #
# # # _ _ #
# # # # # #"""
