import io

from rich.console import Console
from rich.text import Text

from agentrewind.cli.columns import show_columns


def shown(rows, width, **how):
    stream = io.StringIO()
    console = Console(file=stream, width=width, highlight=False, markup=False)
    show_columns(rows, console, **how)
    return stream.getvalue().splitlines()


def test_only_the_flexible_column_gives_way():
    rows = [("rec_1", "x" * 50, "M a.py"), ("rec_22", "short", "")]
    first, second = shown(rows, 40, flexible=1)
    assert first == "rec_1   " + "x" * 23 + "…  M a.py"
    assert second == "rec_22  short"


def test_a_row_with_nothing_to_the_right_runs_to_the_end_of_the_line():
    first, _ = shown([("a", "y" * 60, ""), ("b", "z" * 60, "right")], 30, flexible=1)
    assert first == "a  " + "y" * 26 + "…"


def test_numbers_stand_at_the_right_and_empty_columns_take_no_room():
    assert shown([("a", "1", "", "x"), ("b", "100", "", "y")], 80, flexible=3, right=(1,)) == ["a    1  x", "b  100  y"]


def test_no_line_is_longer_than_the_screen():
    rows = [("a" * 30, Text("b" * 30), "c" * 30)]
    assert all(len(line) <= 40 for line in shown(rows, 40, flexible=1))


def test_markup_is_only_text():
    assert shown([("[red]x[/red]", ":smile:")], 80, flexible=1) == ["[red]x[/red]  :smile:"]
