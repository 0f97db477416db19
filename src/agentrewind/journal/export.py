"""The paper's expanded shape: one JSON line a node, the whole envelope, one file a branch (rewind.md, section 1)."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from agentrewind.core import codec
from agentrewind.core.codec import Json
from agentrewind.core.errors import JournalError
from agentrewind.core.records import LlmInput, MessageId, ToolInput, Usage
from agentrewind.core.tree import Branch, Node
from agentrewind.journal.output import new_directory
from agentrewind.journal.reader import RunLog

_CACHED = 4096
"""Contents kept parsed at a time: each call of a run repeats those of the one before."""
_BRANCH_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_OURS = re.compile(r"branch-[A-Za-z0-9_-]{1,64}\.jsonl")


def export_records(log: RunLog, to: Path, *, force: bool = False) -> None:
    """Write `branch-<id>.jsonl` for each branch into the directory `to`, which appears whole or not at all.

    The first line of each branch but the first is a header that names the run and the node it forked at.

    Raises:
        UsageError: `to` is there and isn't an empty directory, or can't be made; nothing was kept. With `force`, one
            that holds nothing but such files is replaced.
        JournalError: a branch has a name that can't be a file's; nothing was written.
        StorageFull: no room; nothing was kept.
    """
    check_names(log)
    with new_directory(to, _OURS, force=force) as part:
        _write(log, part)


def check_names(log: RunLog) -> None:
    """Raises: JournalError: a branch has a name that can't be a file's."""
    for branch in log.tree.branches:
        if not _BRANCH_ID.match(branch):
            raise JournalError(f"The branch {branch!r} of run {log.run_dir} can't name a file. Nothing was written.")


def _write(log: RunLog, part: Path) -> None:
    get = functools.lru_cache(maxsize=_CACHED)(log.get)
    for branch in log.tree.branches.values():
        with created(part / f"branch-{branch.id}.jsonl") as file:
            if branch.forked_at is not None or branch.parent is not None:
                _line(file, _header(log, branch))
            for node in log.tree.nodes.values():
                if node.began.branch == branch.id:
                    _line(file, record(log, node, get))


def created(path: Path) -> IO[str]:
    """A new text file that is nobody else's to read. Raises: FileExistsError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8")


def _line(file: IO[str], value: Json) -> None:
    file.write(codec.canonical(value).decode() + "\n")


def _header(log: RunLog, branch: Branch) -> Json:
    opened = branch.opened_by
    return {
        "kind": "branch",
        "run": None if log.tree.started is None else log.tree.started.run_id,
        "branch": branch.id,
        "parent": branch.parent,
        "forked_at": branch.forked_at,
        "note": None if opened is None else opened.note,
        "by": None if opened is None else opened.by,
    }


def record(log: RunLog, node: Node, get: Callable[[MessageId], Json] | None = None) -> Json:
    """The envelope of a node, with messages, tools and output in full. `latency_ms` is None where it never ended."""
    fetch = get or log.get
    began, ended = node.began, node.ended
    return {
        "record_uid": began.uid,
        "kind": began.kind,
        "input_id": began.input_id,
        "input": _llm_input(log, node, began.llm, fetch) if began.llm else _tool_input(began.tool),
        "output": fetch(ended.output) if ended and ended.output else None,
        "error": dataclasses.asdict(ended.error) if ended and ended.error else None,
        "usage": {**dataclasses.asdict(ended.usage if ended else Usage()), "priced": ended.priced if ended else ""},
        "timing": _timing(node),
        "state": _state(node),
        "effects": codec.to_plain(node.effects),
        "thread": began.thread,
        "parent": began.parent,
    }


def _llm_input(log: RunLog, node: Node, llm: LlmInput, fetch: Callable[[MessageId], Json]) -> Json:
    return {
        "model": llm.model,
        "params": llm.params,
        "messages": [fetch(message) for message in log.tree.messages(node.uid)],
        "tools": None if llm.tools is None else fetch(llm.tools),
    }


def _tool_input(tool: ToolInput | None) -> Json:
    return None if tool is None else {"tool": tool.name, "arguments": tool.arguments, "call_id": tool.call_id}


def _timing(node: Node) -> Json:
    return {
        "start": utc(node.began.started_ns),
        "start_ns": node.began.started_ns,
        "latency_ms": node.ended.latency_ms if node.ended else None,
    }


def utc(at_ns: int, *, digits: int = 9) -> str | None:
    """ISO 8601 with so many digits of the second; None for a time that no calendar holds."""
    seconds, nanoseconds = divmod(at_ns, 1_000_000_000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{f'{nanoseconds:09d}'[:digits]}Z"
    except (ValueError, OverflowError, OSError):
        return None


def _state(node: Node) -> Json:
    after = node.after
    return {
        "before": node.began.snapshot,
        "after": after.snapshot if after else None,
        "changed": bool(after.changes) if after else None,
        "changes": {
            "items": [{"status": change.status, "path": change.path} for change in after.changes.items],
            "total": after.changes.total,
        }
        if after
        else None,
        "fingerprint": after.fingerprint if after else None,
    }
