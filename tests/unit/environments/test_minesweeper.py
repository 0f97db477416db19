"""MineSweeper: rules, exact inference, reference lengths."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrewind.core.environment import IllegalAction
from agentrewind.environments.minesweeper.board import Board, cells
from agentrewind.environments.minesweeper.game import MineSweeper
from agentrewind.environments.minesweeper.inference import deduce
from agentrewind.environments.minesweeper.instances import instance_of, instances
from agentrewind.environments.minesweeper.reference import reference, solvable


def everywhere(size: int, count: int) -> list[int]:
    return [sum(1 << cell for cell in some) for some in itertools.combinations(range(size * size), count)]


def seen(board: Board, revealed: int) -> list[tuple[int, int]]:
    return [(cell, board.clue(cell)) for cell in cells(revealed & board.safe)]


@st.composite
def positions(draw: st.DrawFn) -> tuple[Board, int]:
    """A small board after some reveals, mines among them."""
    size = draw(st.integers(2, 4))
    count = draw(st.integers(1, size * size - 1))
    order = draw(st.permutations(range(size * size)))
    board = Board(size, sum(1 << cell for cell in order[:count]), order[-1])
    revealed = board.reveal(0, board.first)
    for cell in draw(st.lists(st.integers(0, size * size - 1), max_size=4)):
        revealed = board.reveal(revealed, cell)
    return board, revealed


@settings(max_examples=80, deadline=None)
@given(positions())
def test_what_is_deduced_is_what_all_consistent_layouts_have_in_common(position: tuple[Board, int]) -> None:
    board, revealed = position
    hidden = [cell for cell in range(board.size**2) if not revealed >> cell & 1]
    told = seen(board, revealed)
    consistent = [
        mines
        for mines in everywhere(board.size, board.mines.bit_count())
        if mines & revealed == board.mines & revealed and seen(Board(board.size, mines, board.first), revealed) == told
    ]
    known = deduce(board, revealed)
    counts = {cell: sum(mines >> cell & 1 for mines in consistent) for cell in hidden}
    assert known.layouts == len(consistent)
    assert {cell: risk * known.layouts for cell, risk in known.risk.items()} == counts
    assert set(cells(known.safe)) == {cell for cell in hidden if not counts[cell]}
    assert set(cells(known.mined)) == {cell for cell in hidden if counts[cell] == len(consistent)}


def shortest(board: Board) -> int | None:
    """The reference length by looking at every order of safe reveals."""
    level = {board.reveal(0, board.first)}
    for length in range(board.size**2):
        if board.safe in level:
            return length
        level = {board.reveal(now, cell) for now in level for cell in cells(deduce(board, now).safe)}
    return None


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_no_order_of_safe_reveals_is_shorter_than_the_reference(seed: int, mines: int) -> None:
    board = instance_of(4, mines, str(seed)).board
    best = reference(board)
    assert (None if best is None else len(best.reveals)) == shortest(board)


def test_the_reference_opens_the_board_and_each_of_its_reveals_is_provably_safe() -> None:
    for instance in itertools.islice(instances(6, 6), 20):
        best = reference(instance.board)
        assert best is not None
        revealed = instance.board.reveal(0, instance.board.first)
        for cell in best.reveals:
            assert deduce(instance.board, revealed).safe >> cell & 1
            revealed = instance.board.reveal(revealed, cell)
        assert revealed == instance.board.safe


def test_a_board_with_two_equal_layouts_left_needs_a_guess() -> None:
    guess = Board(2, 0b0001, 3)
    assert not solvable(guess)
    assert reference(guess) is None
    assert MineSweeper(guess).reference_length is None


def test_an_opening_brings_its_edge_along_and_nothing_beyond() -> None:
    game = MineSweeper(Board(4, 1 << 15, 3))
    assert game.observe() == ". . . .\n. . . .\n. . 1 1\n. . 1 ?"
    assert game.outcome == "solved"


def test_rewards_are_those_settled() -> None:
    game = MineSweeper(Board(4, 1 << 0 | 1 << 15, 2))
    assert game.observe() == "? 1 . .\n1 1 . .\n. . 1 1\n. . 1 ?"
    assert game.outcome == "solved"
    game = MineSweeper(Board(3, 1 << 0 | 1 << 2, 1))
    first = game.checkpoint()
    assert game.step((1, 2)).reward == -1
    assert not game.step((1, 2)).moved
    assert game.step((2, 1)).reward == 0.5
    assert game.step((3, 1)).reward == 2 or game.outcome == "solved"
    game.restore(first)
    lost = game.step((1, 1))
    assert (lost.reward, lost.outcome) == (-0.1, "failed")
    game.restore(first)
    for cell in ((2, 1), (2, 2), (2, 3)):
        game.step(cell)
    assert game.step((3, 1)).reward == 10


def test_a_board_whose_first_cell_is_mined_is_refused() -> None:
    with pytest.raises(IllegalAction, match="first cell"):
        MineSweeper(Board(3, 1, 0))


def test_a_size_or_number_of_mines_that_can_not_be_is_refused_at_once() -> None:
    for size, mines in ((1, 1), (6, 0), (6, 36)):
        with pytest.raises(IllegalAction, match="can't be"):
            instances(size, mines)


def test_every_instance_of_the_papers_size_is_solved_by_deduction_and_leaves_something_to_do() -> None:
    for instance in itertools.islice(instances(6, 3), 50):
        length = MineSweeper(instance.board).reference_length
        assert instance.deducible
        assert length is not None
        assert length > 0
        assert instance.board.mines.bit_count() == 3


def test_the_boards_of_a_seed_stay_the_same() -> None:
    board = instance_of(6, 3, "test/0").board
    assert (board.mines, board.first) == PINNED


PINNED = (34603040, 33)
