"""What a restore did or would do, for a person."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from agentrewind.cli.screen import err, sentence
from agentrewind.core.world import Act, Gap, RestoreReport
from agentrewind.ui.text import one_line, path_name, plural, printable, short_id

SHOWN = 40
_WORDS = {
    "create": ("create", "created"),
    "write": ("write", "written"),
    "replace": ("replace", "replaced"),
    "remove": ("remove", "removed"),
    "attributes": ("set attributes of", "attributes set of"),
}
_STYLES = {"create": "green", "remove": "red"}


def told(settled: Sequence[str]) -> None:
    """Say what an earlier crash had left to do and has been done now."""
    for line in settled:
        sentence(Text(printable(line), style="yellow"), err())


def show_report(report: RestoreReport, console: Console, *, undo: str = "") -> None:
    """One line a path, then what was left alone, then how to take it back."""
    for act in report.acts[:SHOWN]:
        console.print(_line(act, dry_run=report.dry_run), no_wrap=True, overflow="ellipsis")
    if len(report.acts) > SHOWN:
        console.print(f"  and {len(report.acts) - SHOWN:,} more")
    show_left(report, console)
    sentence(_closing(report, undo), console)


def show_left(report: RestoreReport, console: Console) -> None:
    """What somebody else had changed, what was left alone, and what isn't as it was: one line a path."""
    drifted = {gap.path for gap in report.drift}
    for word, gaps in (
        ("drift", report.drift),
        ("left as it is", [gap for gap in report.kept if gap.path not in drifted]),
        ("not quite as it was", report.lossy),
    ):
        show_gaps(word, gaps, console)


def show_gaps(word: str, gaps: Sequence[Gap], console: Console, *, unnamed: int = 0) -> None:
    """The paths of which `word` holds, and why: one line a path. Of `unnamed` more, only their number is known."""
    for gap in gaps[:SHOWN]:
        sentence(Text(f"  {word}: {path_name(gap.path)}: {one_line(gap.why)}", style="yellow"), console)
    more = len(gaps[SHOWN:]) + unnamed
    if more:
        console.print(Text(f"  {word}: {more:,} more", style="yellow"))


def _line(act: Act, *, dry_run: bool) -> Text:
    word = _WORDS.get(act.what, (act.what, act.what))[0 if dry_run else 1]
    return Text(f"  {word} {path_name(act.path)}", style=_STYLES.get(act.what, ""))


def _closing(report: RestoreReport, undo: str) -> str:
    if not report.acts and report.kept:
        return f"Nothing was changed: {plural(len(report.kept), 'path')} left as they are, although they may differ."
    if not report.acts:
        return "Nothing to do: the files are like that already."
    if report.dry_run:
        return f"{plural(len(report.acts), 'path')} would change. Nothing was touched."
    saved = f" What was there before is snapshot {short_id(report.live)}." if report.live else ""
    back = f" `{undo}` brings it back." if undo else ""
    return f"{plural(len(report.acts), 'path')} changed{', verified' if report.verified else ''}.{saved}{back}"
