"""`agentrewind log`: the tree of a run at a glance."""

from __future__ import annotations

import click
from rich.console import Console
from rich.text import Text

from agentrewind.cli.columns import show_columns
from agentrewind.cli.moves import told_by
from agentrewind.cli.options import json_option, run_argument
from agentrewind.cli.screen import Glyphs, glyphs, out, sentence
from agentrewind.cli.summary import going_on, headline, totals
from agentrewind.compose.runs import Run, open_run
from agentrewind.core.records import CompensationBegan, FilesRestored, Judged, NotesMerged
from agentrewind.core.tree import Node, RunTree
from agentrewind.ui.facts import tree_facts
from agentrewind.ui.steps import Left, Row, Step, rows
from agentrewind.ui.text import as_json, one_line, path_name, plural, printable, short_id

FILES_NAMED = 2
FILES_WIDTH = 28


@click.command(epilog="Example: agentrewind log last")
@run_argument
@json_option
def command(ref: str, as_object: bool) -> None:
    """Show the tree of a run.

    Each line is a step: what the agent did, which files that changed, how the work was judged. The current path stands
    at the left margin; what was abandoned is indented where it was left, with the note that crossed over.
    """
    run = open_run(ref)
    if as_object:
        print(as_json(tree_facts(run)))
    else:
        show(run, out())


def show(run: Run, console: Console) -> None:
    """Print the tree of a run."""
    signs = glyphs(console)
    _header(run, console, signs)
    show_columns([_cells(row, signs) for row in rows(run.tree)], console, flexible=1)
    for line in _footer(run, signs):
        sentence(line, console)


def _header(run: Run, console: Console, signs: Glyphs) -> None:
    started = run.started
    sentence(Text.assemble((run.id, "bold"), f"  {signs.dot} ", headline(run)), console)
    parts = (started.agent, started.model, f"strategy {started.strategy}", f"mode {started.mode}", started.workspace)
    sentence(Text(f" {signs.dot} ".join(printable(part) for part in parts if part), style="dim"), console)
    if started.forked is not None:
        sentence(Text(f"forked from {started.forked.run_id} at {started.forked.record}", style="dim"), console)
    console.print(totals(run.tree), style="dim")
    if started.task:
        console.print(Text("task: " + one_line(started.task)), no_wrap=True, overflow="ellipsis")
    console.print()


def _cells(row: Row, signs: Glyphs) -> tuple[Text, Text, Text, Text]:
    margin = f"{signs.bar}  " * row.depth
    if isinstance(row, Left):
        return Text(margin, "dim"), _left(row, signs), Text(""), Text("")
    mark = signs.gone if row.depth else signs.here
    cells = Text(f"{margin}{mark} {row.uid}"), _did(row, signs), _files(row), _judged(row.judged, signs)
    for cell in cells:
        cell.stylize("dim" if row.depth else "bold" if cell is cells[0] else "")
    return cells


def _left(row: Left, signs: Glyphs) -> Text:
    move = row.move
    if move.why == "undo":
        return Text(f"{signs.back} undo: back to where {move.target} had led", style="yellow")
    where = f"{signs.back} back to before {move.target}"
    kept = ", files kept" if move.keep_world else ""
    blurred = ", context: degraded" if move.context == "degraded" else ""
    return Text.assemble((where + kept + told_by(move) + blurred, "yellow"), f": {one_line(move.note)}")


def _did(step: Step, signs: Glyphs) -> Text:
    first = step.nodes[0]
    if not first.is_llm:
        name = first.began.tool.name if first.began.tool else "tool"
        return Text(printable(name) + _result(step, signs))
    ended = first.ended
    if ended is None:
        return Text("(no answer came)", style="red")
    if ended.error is not None:
        return Text(f"{printable(ended.error.type)}: {one_line(ended.error.message)}", style="red")
    if not ended.calls:
        return Text(one_line(ended.digest) or "(no text)", style="italic")
    said = ", ".join(printable(call) for call in ended.calls) + _result(step, signs)
    return _stands(step).append(said, "")


def _stands(step: Step) -> Text:
    """What of the step a rewind would leave standing, in a word. What only may stand is for `show` to say."""
    if step.held:
        return Text("held back: ", style="yellow")
    return Text(f"{step.standing}: " if step.standing else "", style="red")


def _result(step: Step, signs: Glyphs) -> str:
    """What came back from the last tool call of the step."""
    said = one_line(step.result)
    return f" {signs.to} {said}" if said else ""


def _files(step: Step) -> Text:
    if not step.changed:
        return Text("")
    names = ", ".join(change.status + " " + path_name(change.path) for change in step.changes[:FILES_NAMED])
    more = step.changed - min(len(step.changes), FILES_NAMED)
    text = names + (f" +{more:,}" if more else "")
    return Text(text if len(text) <= FILES_WIDTH else plural(step.changed, "path"), style="cyan")


def _judged(verdict: Judged | None, signs: Glyphs) -> Text:
    if verdict is None:
        return Text("")
    score = f" {verdict.satisfied}/{verdict.total}" if verdict.satisfied is not None else ""
    if verdict.accepted:
        return Text(signs.yes + score, style="bold green")
    return Text(signs.no + score, style="red")


def _footer(run: Run, signs: Glyphs) -> list[Text]:
    tree = run.tree
    lines = [_files_moved(move, signs) for move in tree.moves if isinstance(move, FilesRestored)]
    lines += [Text(_merged(event, signs), style="yellow") for event in tree.merging]
    lines += [_hinted(node) for node in tree.nodes.values() if node.began.hint]
    lines += [_compensation(event, tree) for event in tree.compensating]
    lines += [Text(f"! {printable(text)}", style="yellow") for text in (*run.warnings, *tree.warnings)]
    if tree.intent is not None:
        way = going_on(run, run.id)
        settles = f"`{way}` settles it" if way else f"`agentrewind undo {run.id}` takes it back"
        lines.append(Text(f"A rewind to {tree.intent.target} was cut off; {settles}.", "red"))
    return lines


def _compensation(event: CompensationBegan, tree: RunTree) -> Text:
    """What became of taking an effect back."""
    ended = tree.compensated.get((event.uid, event.number))
    what = f"{event.uid}: `{one_line(event.undo)}` to undo what it did outside"
    if ended is None:
        return Text(f"! {what}: cut off, nobody knows whether it took place; it isn't run again", style="red")
    told = f" ({one_line(ended.told)})" if ended.told else ""
    return Text(f"{'! ' if ended.outcome == 'failed' else ''}{what}: {ended.outcome}{told}", style="yellow")


def _merged(event: NotesMerged, signs: Glyphs) -> str:
    """What became of notes that took too much room."""
    which = f"the notes of {', '.join(event.covers)}"
    if event.failed:
        return f"! {which} could not be put into one ({one_line(event.failed)}); each stands as it was written"
    return f"{signs.to} {which} were put into one by the model: {one_line(event.text)}"


def _hinted(node: Node) -> Text:
    assert node.began.hint is not None
    return Text(f"! told before {node.uid} ({node.began.hint.kind}): {one_line(node.began.hint.text)}", style="yellow")


def _files_moved(move: FilesRestored, signs: Glyphs) -> Text:
    where = f"before {move.record}" if move.record else f"snapshot {short_id(move.snapshot)}"
    what = "files restored to" if move.why == "restore" else "restore undone: files as in"
    return Text(f"{signs.back} {what} {where} ({plural(move.restored, 'path')})", style="yellow")
