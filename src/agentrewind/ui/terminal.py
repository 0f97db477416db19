"""A run in the terminal: the same tree, steps, differences and ways back as on the page, over SSH too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from rich.console import Group, RenderableType
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Button, Checkbox, DataTable, Footer, Input, Label, Static, TabbedContent, TabPane

from agentrewind.compose.home import Home
from agentrewind.compose.runs import Run
from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentRewindError
from agentrewind.ui import panes
from agentrewind.ui.acting import Acts
from agentrewind.ui.detail import diff_detail, state_detail, step_detail
from agentrewind.ui.overview import overview
from agentrewind.ui.source import Source
from agentrewind.ui.text import one_line, plural, printable

POLL_S = 1.0
_FILES, _VERDICT = 22, 8
"""Columns that these take; the steps have the rest."""
FILTERS: dict[str, tuple[str, Callable[[Json], bool]]] = {
    "all": ("all steps", lambda _: True),
    "path": ("current path", lambda row: row["d"] == 0),
    "files": ("changed files", lambda row: bool(row.get("changed"))),
    "effects": ("effects outside", lambda row: bool(row.get("standing") or row.get("held"))),
    "failed": ("failures", lambda row: bool(row.get("error") or _refused(row))),
    "rewinds": ("rewinds", lambda row: row["k"] == "left"),
}
_STATE_STYLES = {"running": "bold cyan", "paused": "bold yellow", "done": "bold green", "failed": "bold red"}


def _refused(row: Json) -> bool:
    return bool(row.get("verdict")) and not row["verdict"]["accepted"]


def _key(row: Json) -> str:
    return f"left {row['branch']}" if row["k"] == "left" else str(row["uid"])


class Tree(DataTable[Text]):
    """The rows of a run; the keys for both ends lead there."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("home", "scroll_top", show=False),
        Binding("end", "scroll_bottom", show=False),
    ]


class RunTerminal(App[None]):
    """Shows one run, and follows it while its agent is alive.

    Args:
        home: where runs are. run_id: which one.
    """

    CSS = """
    #bar { height: auto; padding: 0 1; background: $panel; text-wrap: nowrap; text-overflow: ellipsis; }
    #tree { width: 11fr; border-right: solid $panel; }
    #pane { width: 10fr; }
    #search { display: none; height: 3; }
    #search.open { display: block; }
    VerticalScroll { padding: 0 1; }
    .-narrow #pane { display: none; }
    .-narrow.reading #pane { display: block; }
    .-narrow.reading #tree { display: none; }
    """
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 (as the library declares it)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "rewind", "Rewind"),
        Binding("u", "undo", "Undo"),
        Binding("p", "pause", "Pause"),
        Binding("f", "filter", "Filter"),
        Binding("slash", "search", "Search"),
        Binding("c", "compare", "Compare"),
        Binding("1", "tab('step')", "Step", show=False),
        Binding("2,d", "tab('files')", "Files"),
        Binding("3", "tab('memory')", "Memory", show=False),
        Binding("4", "tab('state')", "State", show=False),
        Binding("right_square_bracket", "jump(1)", "Next rewind", show=False),
        Binding("left_square_bracket", "jump(-1)", "Rewind before", show=False),
        Binding("j", "move(1)", show=False),
        Binding("k", "move(-1)", show=False),
        Binding("tab", "app.focus_next", show=False),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, home: Home, run_id: str) -> None:
        super().__init__()
        self._source, self._acts, self._run_id = Source(home), Acts(home), run_id
        self._seen = ""
        self._filter, self._words = "all", ""
        self._shown: list[Json] = []
        self._view: Json = {}
        self._pin: tuple[str, str] | None = None
        self._waiting = ""

    @property
    def run_now(self) -> Run:
        """The run as it is now."""
        return self._source.run(self._run_id)

    def compose(self) -> ComposeResult:
        yield Static(id="bar")
        yield Input(placeholder="words to look for; Enter or Esc comes back", id="search")
        with Horizontal():
            yield Tree(id="tree", cursor_type="row", show_header=False, zebra_stripes=False)
            with Vertical(id="pane"), TabbedContent(initial="step"):
                for name in ("step", "files", "memory", "state"):
                    with TabPane(name.capitalize(), id=name), VerticalScroll():
                        yield Static(id=f"in-{name}")
        yield Footer()

    def on_mount(self) -> None:
        self.refresh_run()
        self.table.move_cursor(row=max(0, len(self._shown) - 1))
        self.table.focus()
        self.set_interval(POLL_S, self.refresh_run)

    @property
    def table(self) -> Tree:
        return self.query_one(Tree)

    # The tree

    def refresh_run(self) -> None:
        """Read the run again where it has changed, and what became of a request."""
        try:
            version = self._source.version(self._run_id)
            if version != self._seen:
                self._view = overview(self.run_now)
                self._seen = version
                self._fill()
            if self._waiting:
                self._look_for_outcome()
        except AgentRewindError as error:
            self._say(str(error), bad=True)

    def _fill(self) -> None:
        before = self.selected
        at_end = self.table.cursor_row >= len(self._shown) - 1
        words, test = self._words.lower().split(), FILTERS[self._filter][1]
        rows = [row for row in self._view["rows"] if test(row)]
        self._shown = [row for row in rows if all(word in panes.words_of(row) for word in words)]
        self.table.clear(columns=True)
        for name, width in (("step", self._width_of_steps()), ("files", _FILES), ("verdict", _VERDICT)):
            self.table.add_column(name, width=width)
        for row in self._shown:
            self.table.add_row(panes.did(row), panes.files(row), panes.verdict(row))
        keys = [_key(row) for row in self._shown]
        kept = keys.index(_key(before)) if before is not None and _key(before) in keys else len(keys) - 1
        self.table.move_cursor(row=len(keys) - 1 if at_end and self._view["alive"] else max(0, kept))
        self._bar()

    def _width_of_steps(self) -> int:
        padding = 2 * 3 * self.table.cell_padding
        return max(20, self.table.size.width - _FILES - _VERDICT - padding)

    def on_resize(self) -> None:
        """Give the steps the room that there is."""
        if self._view:
            self.call_after_refresh(self._fill)

    def _bar(self) -> None:
        view = self._view
        text = Text.assemble(
            (view["run"], "bold"), "  ", (view["state"], _STATE_STYLES.get(view["state"], "bold yellow"))
        )
        text.append(f"  {one_line(view['task'])}\n", "dim")
        shown = "" if len(self._shown) == len(view["rows"]) else f"  [{FILTERS[self._filter][0]} {self._words}]"
        counted = [plural(view["llm_calls"], "model call"), plural(view["rewinds"], "rewind")]
        text.append(f"{len(self._shown):,} of {plural(len(view['rows']), 'row')}{shown}, {', '.join(counted)}", "dim")
        for warning in view["warnings"]:
            text.append(f"\n! {printable(warning)}", "yellow")
        self.query_one("#bar", Static).update(text)

    @property
    def selected(self) -> Json | None:
        """The row under the cursor."""
        at = self.table.cursor_row
        return self._shown[at] if 0 <= at < len(self._shown) else None

    def on_data_table_row_highlighted(self, _: DataTable.RowHighlighted) -> None:
        self._show()

    def on_data_table_row_selected(self, _: DataTable.RowSelected) -> None:
        """Enter: into the step. Esc comes back."""
        self.screen.add_class("reading")
        self.query_one(f"#{self.query_one(TabbedContent).active} VerticalScroll").focus()

    def on_tabbed_content_tab_activated(self, _: TabbedContent.TabActivated) -> None:
        self._show()

    # The pane

    def _show(self) -> None:
        row = self.selected
        tab = self.query_one(TabbedContent).active
        if row is None or not tab:
            return
        try:
            content = panes.of_rewind(row) if row["k"] == "left" else self._of_step(row, tab)
        except AgentRewindError as error:
            content = Text(printable(str(error)), "red")
        place = self.query_one(f"#in-{tab}", Static)
        place.update(content)
        if isinstance(place.parent, VerticalScroll):
            place.parent.scroll_home(animate=False)

    def _of_step(self, row: Json, tab: str) -> RenderableType:
        detail = step_detail(self.run_now, row["uid"])
        match tab:
            case "files":
                return self._of_files(row, detail)
            case "memory":
                return panes.of_memory(detail, self._view)
            case "state":
                before = detail["before"]
                return panes.of_state(state_detail(self.run_now, before)) if before else Text(panes.NO_STATE, "red")
        return panes.of_step(row, detail)

    def _of_files(self, row: Json, detail: Json) -> RenderableType:
        if not detail["before"]:
            return Text(panes.NO_STATE, "red")
        if self._pin is not None and self._pin[0] != row["uid"]:
            head, a, b = f"from before {self._pin[0]} to before {row['uid']}", self._pin[1], detail["before"]
        else:
            head, a, b = f"what {row['uid']} changed", detail["before"], detail["after"] or detail["before"]
        diff: Json = {"total": 0, "files": []} if a == b else diff_detail(self.run_now, a, b)
        title = Text(f"{head}: {plural(diff['total'], 'path')}\n", "bold")
        return Group(title, *panes.cut(panes.diff_lines(diff["files"])))

    # What a person does

    def action_tab(self, name: str) -> None:
        self.query_one(TabbedContent).active = name

    def action_move(self, by: int) -> None:
        self.table.move_cursor(row=self.table.cursor_row + by)

    def action_jump(self, way: int) -> None:
        at = self.table.cursor_row + way
        while 0 <= at < len(self._shown):
            if self._shown[at]["k"] == "left":
                self.table.move_cursor(row=at)
                return
            at += way

    def action_filter(self) -> None:
        names = list(FILTERS)
        self._filter = names[(names.index(self._filter) + 1) % len(names)]
        self._fill()
        self._say(f"Shown: {FILTERS[self._filter][0]}")

    def action_search(self) -> None:
        search = self.query_one("#search", Input)
        search.add_class("open")
        search.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "search":
            self._words = event.value
            self._fill()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "search":
            event.input.remove_class("open")
            self.table.focus()

    def on_key(self, event: Any) -> None:
        if event.key == "escape":
            self.query_one("#search", Input).remove_class("open")
            self.screen.remove_class("reading")
            self.table.focus()

    def action_compare(self) -> None:
        row = self.selected
        if row is None or row["k"] != "step":
            return
        before = step_detail(self.run_now, row["uid"])["before"]
        if before is None or (self._pin is not None and self._pin[0] == row["uid"]):
            self._pin = None
            self._say("Steps are compared with themselves again.")
        else:
            self._pin = row["uid"], before
            self._say(f"Files are compared with those before {row['uid']}.")
        self._show()

    def action_rewind(self) -> None:
        row = self.selected
        if row is None or row["k"] != "step" or not row["checkpoint"]:
            self._say("This row is no checkpoint; choose a model call.", bad=True)
            return
        try:
            plan = self._acts.preview(self.run_now, row["uid"], keep_drift=True)
        except AgentRewindError as error:
            self._say(str(error), bad=True)
            return
        self.push_screen(RewindScreen(row["uid"], plan), lambda given: self._rewind(row["uid"], given))

    def _rewind(self, uid: str, given: tuple[str, bool] | None) -> None:
        if given is None:
            return
        note, keep = given
        found = self._do(lambda: self._acts.rewind(self.run_now, uid, note, keep_drift=keep))
        if found is None:
            return
        if "request" in found:
            self._waiting = found["request"]
            self._say(f"Asked for: at its next model call the run goes back to before {uid}.")
        else:
            self._say(f"Brought back to before {uid}: {plural(found['move']['restored'], 'path')} changed.")
        self.refresh_run()

    def _look_for_outcome(self) -> None:
        found = self._acts.outcome(self._waiting)
        if found.get("waits"):
            return
        self._waiting = ""
        if "refused" in found:
            self._say(found["refused"], bad=True)
        else:
            self._say(f"Brought back to before {found['move']['to']}. The agent goes on from there.")

    def action_undo(self) -> None:
        found = self._do(lambda: self._acts.undo(self.run_now))
        if found is not None:
            self._say(f"Taken back: {plural(found['move']['restored'], 'path')} changed.")
            self.refresh_run()

    def action_pause(self) -> None:
        paused = self._view["state"] == "paused"
        found = self._do(lambda: (self._acts.unpause if paused else self._acts.pause)(self.run_now))
        if found is not None:
            self._say("The run waits at its next model call." if found["paused"] else "The run goes on.")
            self.refresh_run()

    def _do(self, act: Callable[[], Json]) -> Json | None:
        try:
            return act()
        except AgentRewindError as error:
            self._say(str(error), bad=True)
            return None

    def _say(self, text: str, *, bad: bool = False) -> None:
        self.notify(printable(text), severity="error" if bad else "information", markup=False)


class RewindScreen(ModalScreen[tuple[str, bool] | None]):
    """What a rewind would change, and the note for it. Answers with the note and whether drift stays; None: not."""

    CSS = """
    RewindScreen { align: center middle; }
    #box { width: 84; max-width: 95%; height: auto; max-height: 90%; }
    #box { border: round $accent; background: $surface; padding: 1 2; }
    #buttons { height: auto; align-horizontal: right; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", "Cancel")]

    def __init__(self, uid: str, plan: Json) -> None:
        super().__init__()
        self._uid, self._plan = uid, plan

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Label(Text(f"Go back to before {self._uid}", "bold"))
            yield Static(Group(*panes.plan_lines(self._plan)), id="plan")
            yield Input(placeholder="The note: what the agent should know when it goes on from there", id="note")
            yield Checkbox("Leave what somebody else changed as it is", value=True, id="keep")
            with Horizontal(id="buttons"):
                yield Button("Cancel", id="no")
                yield Button("Rewind", id="yes", variant="primary")

    def on_mount(self) -> None:
        self.query_one("#note", Input).focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self._answer() if event.button.id == "yes" else self.dismiss(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._answer()

    def _answer(self) -> None:
        note = self.query_one("#note", Input).value
        if note.strip():
            self.dismiss((note, self.query_one("#keep", Checkbox).value))
        else:
            self.notify("The agent needs a note to go on from there.", severity="warning")
