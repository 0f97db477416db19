"""The page of a run as one file that needs nothing else: to be kept, or sent to somebody."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from agentrewind.compose.runs import Run
from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentRewindError
from agentrewind.journal.output import new_file
from agentrewind.ui.detail import diff_detail, ends_of, state_detail, step_detail
from agentrewind.ui.overview import overview
from agentrewind.ui.server import STATIC
from agentrewind.ui.steps import Step, rows

MOST = 40 << 20
"""Bytes of steps and differences that a file holds."""


@dataclass(slots=True)
class Written:
    """How much of a run is in the file. `left_out` counts steps for which there was no room."""

    steps: int = 0
    differences: int = 0
    left_out: int = 0


@dataclass(slots=True)
class _Data:
    room: int
    overview: Json
    steps: dict[str, Json] = field(default_factory=dict)
    diffs: dict[str, Json] = field(default_factory=dict)
    states: dict[str, Json] = field(default_factory=dict)

    def put(self, into: dict[str, Json], name: str, value: Json) -> bool:
        """Whether there was room."""
        size = len(_embedded(value))
        if size > self.room:
            return False
        self.room -= size
        into[name] = value
        return True


def export_html(run: Run, to: Path, *, force: bool = False) -> Written:
    """Write the tree with every step, the changes of each, and what each snapshot held, into the file `to`.

    Raises:
        UsageError: `to` is there and no `force`, or can't be written. StorageFull. Nothing was kept.
    """
    shown = {**overview(run), "alive": False}
    data, written = _Data(MOST, shown), Written()
    for step in [row for row in rows(run.tree) if isinstance(row, Step)]:
        if not data.put(data.steps, step.uid, step_detail(run, step.uid)):
            written.left_out += 1
            continue
        written.steps += 1
        written.differences += _with_files(run, step, data)
    if written.left_out:
        shown["warnings"] = [*shown["warnings"], f"{written.left_out:,} steps are too large for one file."]
    page = _page({"overview": shown, "steps": data.steps, "diffs": data.diffs, "states": data.states})
    with new_file(to, force=force) as file:
        file.write(page.encode())
    return written


def _with_files(run: Run, step: Step, data: _Data) -> bool:
    """Put in what the step changed and what its snapshot held; snapshots that are gone or damaged are left out."""
    if not run.in_workspace:
        return False
    before, after = ends_of(step)
    if before is None:
        return False
    with suppress(AgentRewindError):
        if before not in data.states:
            data.put(data.states, before, state_detail(run, before))
        if after is not None and after != before:
            return data.put(data.diffs, f"{before} {after}", diff_detail(run, before, after))
    return False


def _page(data: Json) -> str:
    """The shell with script, style and data in it, and a policy that allows just these."""
    script, style = ((STATIC / name).read_text("utf-8") for name in ("app.js", "style.css"))
    icon = base64.b64encode((STATIC / "icon.svg").read_bytes()).decode()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )
    shell = (STATIC / "index.html").read_text("utf-8")
    shell = re.sub(r"<meta name=\"agentrewind-forgery\"[^>]*>", "", shell)
    charset, rule = '<meta charset="utf-8">', f'<meta http-equiv="content-security-policy" content="{policy}">'
    parts = {
        charset: f"{charset}\n{rule}",
        '<link rel="icon" href="/static/icon.svg">': f'<link rel="icon" href="data:image/svg+xml;base64,{icon}">',
        '<link rel="stylesheet" href="/static/style.css">': f"<style>{style}</style>",
        '<script type="module" src="/static/app.js"></script>': (
            f'<script type="application/json" id="run-data">{_embedded(data)}</script>\n'
            f'<script type="module">{script}</script>'
        ),
    }  # fmt: skip
    for old, new in parts.items():
        shell = shell.replace(old, new)
    return shell


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(value: Json) -> str:
    """ASCII JSON in which nothing ends a script element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
