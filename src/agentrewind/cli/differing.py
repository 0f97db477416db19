"""Differences of files and messages, for a person and for a program."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from agentrewind.compose.differences import FileDifference, MessageDifference
from agentrewind.core.edits import Message
from agentrewind.ui.text import one_line, path_name, plural, printable

_WORDS = {"A": "added", "M": "changed", "D": "deleted", "T": "type changed", "P": "attributes changed"}
_HINTS = {"binary": "binary", "large": "too large to compare line by line", "private": "private: never shown"}
_STYLES = {"+": "green", "-": "red", "@": "cyan", "\\": "dim"}


def show_files(files: Sequence[FileDifference], total: int, console: Console) -> None:
    """Each path with what changed in it."""
    if not total:
        console.print("No file differs.")
    for item in files:
        notes = ", ".join(filter(None, (_HINTS.get(item.what, ""), *map(printable, item.notes))))
        head = Text.assemble((f"{_WORDS.get(item.status, item.status)}: {path_name(item.path)}", "bold"))
        console.print(head + Text(f"  ({notes})" if notes else ""), soft_wrap=True)
        for line in item.lines:
            console.print(Text("  " + printable(line.expandtabs(4)), style=_STYLES.get(line[:1], "")), soft_wrap=True)
    if total > len(files):
        console.print(f"and {total - len(files):,} more paths")


def show_messages(difference: MessageDifference, console: Console) -> None:
    """Which messages were taken away and which came, in one line each."""
    console.print()
    head = (
        f"messages: {difference.same:,} the same, {len(difference.removed):,} removed, {len(difference.added):,} added"
    )
    console.print(Text(head, style="bold"))
    for sign, messages in (("-", difference.removed), ("+", difference.added)):
        for message in messages:
            text = Text(f"  {sign} {_said(message)}", style=_STYLES[sign])
            console.print(text, no_wrap=True, overflow="ellipsis")


def _said(message: Message) -> str:
    content = message.get("content")
    calls = message.get("tool_calls")
    parts = [one_line(content) if isinstance(content, str) else "" if content is None else "(parts)"]
    if isinstance(calls, list):
        names = [str(call.get("function", {}).get("name", "?")) for call in calls if isinstance(call, dict)]
        parts.append(f"calls {', '.join(map(printable, names))}" if names else plural(len(calls), "call"))
    return f"{printable(str(message.get('role', '?')))}: {' '.join(filter(None, parts))}"
