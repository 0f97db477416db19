"""How a run stands, in a few words."""

from __future__ import annotations

from rich.text import Text

from agentrewind.compose.home import LAST
from agentrewind.compose.runs import Run
from agentrewind.core.cost import calls_cost
from agentrewind.core.tree import RunTree
from agentrewind.ui.text import local_time, one_line, plural, printable

STYLES = {
    "running": "bold cyan",
    "paused": "bold yellow",
    "done": "bold green",
    "failed": "bold red",
    "interrupted": "bold yellow",
    "rewound": "bold yellow",
}


def headline(run: Run) -> Text:
    """`done: The check accepted the work.`"""
    if run.state == "rewound":
        return Text.assemble(("rewound", STYLES["rewound"]), f" after its end; {goes_on(run)}")
    if run.state == "paused":
        since = run.tree.paused
        waits = f"waits since {local_time(since.at_ns)}" if since else "will wait at its next model call"
        told = f": {waits}; `agentrewind unpause {run.id}` lets it go on"
        return Text.assemble(("paused", STYLES["paused"]), told)
    reason = one_line(run.tree.ended.reason) if run.tree.ended else ""
    return Text.assemble((run.state, STYLES[run.state]), f": {reason}" if reason not in ("", run.state) else "")


def going_on(run: Run, ref: str = LAST) -> str:
    """The command that lets a run go on, by which it can be named; empty where there is none."""
    if run.of_program:
        return f"agentrewind exec --resume {ref} -- COMMAND"
    return f"agentrewind resume {ref}" if run.resumable else ""


def goes_on(run: Run, ref: str = LAST) -> str:
    """How a run goes on, as a part of a sentence."""
    command = going_on(run, ref)
    return f"`{command}` goes on" if command else "start its program again to work on from these files"


def totals(tree: RunTree) -> str:
    """`14 model calls, 9 commands, 1 rewind, 5,210 tokens in, 300 out`."""
    cost = calls_cost(tree.nodes.values())
    parts = [plural(cost.calls, "model call"), plural(cost.tools, "tool call"), plural(tree.rewinds, "rewind")]
    if tree.resumes:
        parts.append(plural(tree.resumes, "resume"))
    more = "+" if cost.uncounted else ""
    parts.append(f"{cost.input:,}{more} tokens in, {cost.output:,}{more} out")
    if cost.usd is not None:
        parts.append(f"${cost.usd:.4f}{'+' if cost.unpriced else ''}")
    if tree.ended is not None and tree.ended.healed:
        parts.append(f"{plural(tree.ended.healed, 'change')} of files found late, by an audit")
    return ", ".join(parts)


def score(tree: RunTree) -> str:
    """`7/10` of the newest verdict that says so; empty where none does."""
    verdict = next((item for item in reversed(tree.verdicts) if item.satisfied is not None), None)
    return f"{verdict.satisfied}/{verdict.total}" if verdict else ""


def task_line(run: Run) -> str:
    return printable(one_line(run.started.task))
