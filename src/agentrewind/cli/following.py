"""A run as it happens: one line a step on standard error, and what is to be said at its end."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from rich.console import Console
from rich.text import Text

from agentrewind.cli.moves import told_by
from agentrewind.cli.screen import Glyphs, ProgressLine, err, glyphs, out, progress, sentence
from agentrewind.cli.signals import ending_in_order
from agentrewind.cli.summary import goes_on, going_on, headline, totals
from agentrewind.cli.viewing import Link, viewing
from agentrewind.compose.agents import Finished, Watcher
from agentrewind.compose.runs import Run, open_run
from agentrewind.core.records import (
    Event,
    Judged,
    NodeEnded,
    Paused,
    RewindRejected,
    Rewound,
    Snapshotted,
    Unpaused,
    Warned,
)
from agentrewind.core.tree import Node, RunTree
from agentrewind.ui.facts import run_facts
from agentrewind.ui.text import as_json, duration, listed, one_line, path_name, plural, printable

CHECK = "submission check"


@dataclass(slots=True)
class Follower:
    """Prints what happens, and remembers which run it was."""

    progress: ProgressLine
    console: Console = field(default_factory=err)
    run_id: str = ""
    link: Link | None = None
    """Where the page of the run is, if there is one."""

    def watcher(self) -> Watcher:
        return Watcher(self._began, self._happened, self._say, self.progress)

    def leave(self, *, as_object: bool) -> None:
        """The run has failed, and the reason will be said: say what is left of it."""
        if as_object:
            print(as_json(run_facts(open_run(self.run_id))))
        else:
            way = goes_on(open_run(self.run_id))
            told = f"The run is kept: `agentrewind log last` shows it, {way}."
            self._print(Text(told, style="dim"), whole=True)

    def _began(self, run_id: str) -> None:
        self.run_id = run_id
        self._print(Text(f"run {run_id}", style="bold"), whole=True)
        if self.link is not None:
            self._print(Text(f"page {self.link(run_id)}"), whole=True)

    def _say(self, line: str) -> None:
        if not line.startswith("$ "):  # commands are steps, which are shown when they have ended
            self._print(Text(printable(line), style="yellow"), whole=True)

    def _happened(self, event: Event, tree: RunTree) -> None:
        signs = glyphs(self.console)
        line = _line(event, tree, signs)
        if line is not None:
            self._print(line, whole=False)

    def _print(self, line: Text, *, whole: bool) -> None:
        """A reader who has left, or has no room for what is said, doesn't end the run."""
        with suppress(OSError):
            self.progress.clear()
            if not self.console.is_terminal:  # a line as it is, without the machinery of a screen: a call waits for it
                self.console.file.write(f"{line.plain}\n")
                self.console.file.flush()
            elif whole:
                sentence(line, self.console)
            else:
                self.console.print(line, no_wrap=True, overflow="ellipsis")


def _line(event: Event, tree: RunTree, signs: Glyphs) -> Text | None:
    """One line on what an event means to a person who waits; None for what means nothing."""
    match event:
        case NodeEnded():
            return _node(tree.nodes[event.uid], event, signs)
        case Snapshotted():
            return _saved(event)
        case Judged():
            return _verdict(event, signs)
        case Rewound():
            where = f"{signs.back} back to before {event.target}{told_by(event)}"
            text = f"{where}, {plural(event.restored, 'path')} restored: "
            return Text.assemble((text, "bold yellow"), one_line(event.note))
        case RewindRejected() | Warned() | Paused() | Unpaused():
            return Text(f"  ! {_remark(event)}", style="yellow")
    return None


def _remark(event: RewindRejected | Warned | Paused | Unpaused) -> str:
    match event:
        case Paused():
            return "paused: the next model call waits until somebody says `agentrewind unpause`"
        case Unpaused():
            return "the run goes on"
        case RewindRejected(told=text) | Warned(text=text):
            return one_line(text)


def _saved(event: Snapshotted) -> Text | None:
    if event.failed:
        return Text(f"  ! no snapshot here: {one_line(event.failed)}", style="bold red")
    if not event.changes or event.after is None:
        return None
    named = listed((f"{item.status} {path_name(item.path)}" for item in event.changes.items), event.changes.total)
    return Text(f"    files: {named}", style="cyan")


def _node(node: Node, ended: NodeEnded, signs: Glyphs) -> Text | None:
    seconds = duration(ended.latency_ms / 1000)
    if ended.error is not None:
        return Text(
            f"{signs.no} {node.uid}  {printable(ended.error.type)}: {one_line(ended.error.message)}", style="red"
        )
    if node.is_llm:
        said = ", ".join(map(printable, ended.calls)) or one_line(ended.digest) or "(no text)"
        return Text.assemble((f"{signs.here} {node.uid}", "bold"), f"  {said}", (f"  {seconds}", "dim"))
    if node.began.tool is not None and node.began.tool.name == CHECK:
        return None
    return Text.assemble(f"    {signs.to} {one_line(ended.digest)}", (f"  {seconds}", "dim"))


def _verdict(verdict: Judged, signs: Glyphs) -> Text:
    score = f" {verdict.satisfied}/{verdict.total}" if verdict.satisfied is not None else ""
    if verdict.accepted:
        return Text(f"{signs.yes} accepted{score}", style="bold green")
    why = one_line(verdict.first_failure or verdict.feedback)
    return Text(f"{signs.no} not accepted{score}: {why}", style="red")


def follow(work: Callable[[Watcher], Finished], *, as_object: bool, view: bool = False) -> int:
    """Do the work, show it, on a page too where that is wanted, and sum it up; the exit code: 0 where the run ended
    well, else 1.
    """
    with viewing(wanted=view) as link, progress("looking at the workspace") as line, ending_in_order():
        follower = Follower(line, link=link)
        try:
            finished = work(follower.watcher())
        except BaseException:
            if follower.run_id:
                follower.leave(as_object=as_object)
            raise
    _conclude(finished.run_id, as_object=as_object)
    return 0 if finished.outcome.ok else 1


def _conclude(run_id: str, *, as_object: bool) -> None:
    run = open_run(run_id)
    if as_object:
        print(as_json(run_facts(run)))
    else:
        summary(run, out())


def summary(run: Run, console: Console) -> None:
    """How it ended, what it took, where it is, what one can do next."""
    console.print()
    sentence(headline(run), console)
    answer = one_line(run.tree.ended.answer) if run.tree.ended else ""
    if answer:
        sentence(f"answer: {answer}", console)
    sentence(totals(run.tree), console)
    console.print(Text(f"run:    {run.id}"))
    sentence(f"kept:   {printable(str(run.path))}", console)
    sentence(f"next:   {_next(run)}", console)


def _next(run: Run) -> str:
    commands = ["agentrewind log last"]
    if run.state != "done" and going_on(run):
        commands.append(going_on(run))
    if run.tree.moves:
        commands.append("agentrewind undo last")
    return ", ".join(f"`{command}`" for command in commands)
