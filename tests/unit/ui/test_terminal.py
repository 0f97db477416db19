"""The run in the terminal, driven by keys."""

import asyncio
import io
import os

import pytest
from rich.console import Console

from agentrewind.compose.home import Home
from tests.long_runs import long_run

textual = pytest.importorskip("textual")
from textual.widgets import Static  # noqa: E402

from agentrewind.ui import panes  # noqa: E402
from agentrewind.ui.terminal import RunTerminal  # noqa: E402
from tests.unit.ui.test_page import recorded  # noqa: E402, F401 (a fixture)

WIDE, NARROW = (140, 40), (70, 24)


def driven(app, keys_and_looks, size=WIDE):
    """Press keys and look, in turn: what stands in the panes after each look."""
    found = []

    async def drive():
        async with app.run_test(size=size) as pilot:
            for item in keys_and_looks:
                await pilot.pause(0.2)
                if callable(item):
                    found.append(item(app))
                else:
                    await pilot.press(item)
            await pilot.pause(0.2)
            if pictures := os.environ.get("AGENTREWIND_PICTURES"):
                app.save_screenshot(f"terminal-{size[0]}.svg", pictures)

    asyncio.run(drive())
    return found


def printed(static):
    console = Console(width=200, file=io.StringIO())
    console.print(static.content)
    return console.file.getvalue()


def pane(name):
    return lambda app: printed(app.query_one(f"#in-{name}", Static))


def selected(app):
    return app.selected


def test_keys_move_through_steps_and_their_panes(recorded):  # noqa: F811
    home = Home(recorded.path.parent.parent)
    looks = [pane("step"), "right_square_bracket", selected, "home", "d", pane("files")]
    keys = ["home", *looks, "3", pane("memory"), "4", pane("state")]
    step, went_back, files, memory, state = driven(RunTerminal(home, recorded.id), keys)
    assert "calls write" in step
    assert "wrong.txt" in step
    assert went_back["k"] == "left"
    assert "added: wrong.txt" in files
    assert "right.txt instead" in memory
    assert "complete" in state


def test_filters_and_words_choose_rows(tmp_path):
    home = Home(tmp_path / "home")
    run_id = long_run(home, tmp_path, steps=120, rewinds=6)
    shown = lambda app: len(app._shown)  # noqa: E731
    words = ["slash", *"target_77", shown, "enter", "home", shown]
    every, on_path, found, again = driven(RunTerminal(home, run_id), [shown, "f", shown, *"fffff", *words])
    assert every == 126
    assert on_path < every
    assert found == again == 1


def test_what_is_hostile_stays_text(tmp_path):
    home = Home(tmp_path / "home")
    run_id = long_run(home, tmp_path, steps=30, rewinds=2)
    texts = driven(RunTerminal(home, run_id), [key for _ in range(12) for key in ("up", pane("step"))])
    assert not any("\x1b" in text or "\u202e" in text for text in texts)


def test_a_rewind_shows_its_plan_takes_a_note_and_can_be_undone(recorded, tmp_path):  # noqa: F811
    home = Home(recorded.path.parent.parent)
    right = tmp_path / "work" / "right.txt"
    there = lambda _: right.exists()  # noqa: E731
    plan = lambda app: printed(app.screen.query_one("#plan", Static))  # noqa: E731
    looked = ["home", "r", "escape", there]
    keys = [*looked, "home", "r", plan, "enter", there, *"again", "enter", there, "u", there]
    before, told, unsaid, gone, back = driven(RunTerminal(home, recorded.id), keys)
    assert before
    assert "remove right.txt" in told
    assert unsaid, "without a note nothing is done"
    assert not gone
    assert back


def test_a_narrow_terminal_shows_one_thing_at_a_time(recorded):  # noqa: F811
    home = Home(recorded.path.parent.parent)
    seen = lambda app: (app.query_one("#tree").display, app.query_one("#pane").display)  # noqa: E731
    both = driven(RunTerminal(home, recorded.id), [seen, "enter", seen, "escape", seen], NARROW)
    assert both == [(True, False), (False, True), (True, False)]


def test_a_plan_names_what_is_taken_back_outside_and_what_stays_done():
    plan = {"acts": [], "undone": ["refund of 42"], "survives": ["a mail"], "processes": ["make (41)"], "alive": True}
    assert [line.plain for line in panes.plan_lines(plan)] == [
        "No file would change.",
        "  would be taken back first: refund of 42",
        "  stays done: a mail",
        "  would be ended: make (41)",
        "The agent is alive: it goes back at its next model call.",
    ]
