"""What takes back that which a call did outside of the workspace, run when a rewind goes past the call.

It is a shell command of the user's, or a function of the agent's own program, which only that program can call.

They run before the files are restored: they may need what the call made, and what they write in the workspace goes
with the restore. The intent is written first, so that none is ever run twice; one that was begun and not ended before
a crash is never run again, and its outcome is said to be unknown.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType

from agentrewind.core.codec import Json
from agentrewind.core.crashpoints import named, reach
from agentrewind.core.effects import Effect
from agentrewind.core.records import CompensationBegan, CompensationEnded, RecordUid, RewindIntended
from agentrewind.core.standing import Undoing, effects_of, undoing
from agentrewind.core.tree import Node, RunTree
from agentrewind.engine.checkpointer import Log
from agentrewind.engine.commands import OUTPUT_LIMIT
from agentrewind.engine.output import Kept
from agentrewind.engine.started import Process, follow

BEGUN = named("rewind.compensation begun")
DONE = named("rewind.compensation done")

TIMEOUT_S = 120.0
SAID = 300
SETTLED = ("done", "unknown")

Undo = Callable[[], object]
"""A function of the agent's program that takes back one call; what it raises is why it came to nothing."""

_taking_back: ContextVar[bool] = ContextVar("agentrewind_taking_back", default=False)


def taking_back() -> bool:
    """Whether such a function is at work here: what it calls isn't the agent's doing, and no node."""
    return _taking_back.get()


@dataclass(frozen=True, slots=True)
class Due:
    """A call that is rewound past, and what takes it back. `number` tells the effects of a node apart."""

    node: Node
    number: int
    effect: Effect


def due(tree: RunTree, target: str) -> list[Due]:
    """What is to be run on the way back from the head to before `target`, the newest call first, each command once.

    A function of the program is due where the call itself was recorded: what was only asked for has not run.
    """
    path = tree.path()
    begin = next((place for place, node in enumerate(path) if node.uid == target), len(path))
    found: dict[Undoing, Due] = {}
    for node, effect in effects_of(path[begin:]):
        number = node.effects.index(effect)
        leaves = effect.kind not in ("read", "workspace") and not effect.reads
        if effect.undo and leaves and not (effect.by_program and node.is_llm):
            found.setdefault(undoing(node, effect), Due(node, number, effect))
    return [item for item in reversed(found.values()) if _open(tree, item)]


def _open(tree: RunTree, item: Due) -> bool:
    """Never again what is undone already, or may be."""
    return tree.compensations.get((item.node.uid, item.number)) not in SETTLED


def compensate(log: Log, intent: RewindIntended, undos: Mapping[RecordUid, Undo] = MappingProxyType({})) -> None:
    """Run what is due; each outcome is in the journal. A failure stops neither the others nor the rewind.

    `undos` are the functions of the agent's program, by the tool call that they take back. A process that isn't the
    program has none: then it is said that they couldn't be called.
    """
    started = log.tree.started
    workspace = started.workspace if started else "/"
    for item in due(log.tree, intent.target):
        log.append(CompensationBegan(intent.branch, item.node.uid, item.number, item.effect.undo))
        log.sync()
        reach(BEGUN)
        if item.effect.by_program:
            wrong = run_function(undos.get(item.node.uid))
        else:
            wrong = run_shell(item.effect.undo, _told(item), workspace)
        reach(DONE)
        log.append(
            CompensationEnded(
                intent.branch, item.node.uid, item.number, "done" if wrong is None else "failed", wrong or ""
            )
        )
        log.sync()


def _told(item: Due) -> Json:
    """What the command reads from its input."""
    tool = item.node.began.tool
    name, arguments = (tool.name, tool.arguments) if tool else (None, None)
    return {"what": item.effect.what, "tool": name, "arguments": arguments}


def run_function(undo: Undo | None) -> str | None:
    """Call it; what went wrong, None where nothing did."""
    if undo is None:
        return "only the agent's program can call it, as long as that runs"
    token = _taking_back.set(True)
    try:
        undo()
    except Exception as error:  # noqa: BLE001 (a stranger's function: whatever it raises is its outcome)
        return f"{type(error).__name__}: {error}"[:SAID]
    finally:
        _taking_back.reset(token)
    return None


def run_shell(command: str, told: Json, workspace: str) -> str | None:
    """Run it in the workspace, as the user wrote it; what went wrong, None where nothing did.

    It has ended when this returns, and where its time was up, so have the others of its process group.
    """
    if "[redacted " in command:
        return "the command held a secret, which isn't kept; let it read the secret from a variable or a file"
    kept = Kept(OUTPUT_LIMIT)
    with open(os.memfd_create("agentrewind undo"), "w+b") as source:
        source.write(json.dumps(told).encode("utf-8", "replace"))
        source.seek(0)

        def start(sink: int) -> Process:
            words = ["/bin/sh", "-c", command]
            return Process(
                subprocess.Popen(words, cwd=workspace, stdin=source, stdout=sink, stderr=sink, start_new_session=True)
            )

        try:
            code, timed_out = follow(start, kept, TIMEOUT_S)
        except OSError as error:
            return str(error)
    if timed_out:
        return f"it was ended after {TIMEOUT_S:.0f} s"
    said = " ".join(kept.text().split())[-SAID:]
    return None if code == 0 else f"exit code {code}: {said}"
