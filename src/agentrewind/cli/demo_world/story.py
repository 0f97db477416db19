"""The run of the demo as a story: one line a step, told while it happens."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from agentrewind.cli.screen import glyphs
from agentrewind.core.records import Event, Judged, NodeEnded, Rewound, Snapshotted
from agentrewind.core.tree import RunTree
from agentrewind.core.world import Changes
from agentrewind.ui.text import listed, one_line, plural

_MARGIN = " " * 14
_ROOM = 66
"""What is left of 80 columns beside the margin."""
_ORDER = "MDTAP"
"""What was there before comes first: that is where something can be lost."""


def _named(changes: Changes) -> str:
    """`M mark.py, A test.py and 3 more`, as many names as there is room for."""
    items = sorted(changes.items, key=lambda item: _ORDER.index(item.status))
    names = [f"{item.status} {item.path}" for item in items]
    two = listed(names, changes.total, most=2)
    return two if len(two) <= _ROOM else listed(names, changes.total, most=1)


class Story:
    """Tells the events of a run to a person."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._signs = glyphs(console)

    def tell(self, event: Event, tree: RunTree) -> None:
        """One line for what means something, none for the rest."""
        match event:
            case NodeEnded(uid=uid) if tree.node(uid).is_llm:
                self._line(Text.assemble((f"{self._signs.here} {uid}", "bold"), f"  {one_line(event.digest)}"))
            case Snapshotted(changes=changes, after=after) if changes and after is not None:
                self._line(Text(_MARGIN + _named(changes), style="cyan"))
            case Judged():
                self._verdict(event)
            case Rewound():
                files = "the files stay" if event.keep_world else plural(event.restored, "path") + " restored"
                back = f"{self._signs.back} back to before {event.target}: conversation rewound, {files}"
                self._line(Text(back, style="bold yellow"))

    def _verdict(self, verdict: Judged) -> None:
        score = f"{verdict.satisfied}/{verdict.total}" if verdict.satisfied is not None else "no score"
        if verdict.accepted:
            self._line(Text(f"{_MARGIN}{self._signs.yes} {score}, accepted", style="bold green"))
        else:
            missing = one_line(verdict.first_failure).removeprefix("[ ] ")
            self._line(Text(f"{_MARGIN}{self._signs.no} {score}, missing: {missing}", style="red"))

    def _line(self, text: Text) -> None:
        self._console.print(text, no_wrap=True, overflow="ellipsis", crop=True)
