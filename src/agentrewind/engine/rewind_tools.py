"""The agent's calls of its two tools, read: what is wished for, and what becomes of the calls beside them."""

from __future__ import annotations

from collections.abc import Sequence

from agentrewind.core.codec import Json
from agentrewind.core.records import RecordUid, ThreadId
from agentrewind.core.tools import CANDIDATES, COMMIT, NAMES
from agentrewind.dialects.base import ToolCall
from agentrewind.engine.rewinder import Wish
from agentrewind.engine.written import short

NOT_EXECUTED = "Not executed: {tool} was called in the same turn. Call this again if it is still wanted."


def wished(call: ToolCall, thread: ThreadId) -> Wish | str:
    """What a call of `backtrack_commit` asks for; the sentence to tell the model where it asks for nothing."""
    target, note, reason = (argument(call, key) for key in ("record_uid", "memory_summary", "reason"))
    if call.arguments is None:
        return "The arguments of backtrack_commit are not valid JSON; call it again with record_uid and memory_summary."
    if not isinstance(target, str) or not isinstance(note, str):
        return "backtrack_commit needs record_uid and memory_summary, both as text."
    return Wish(RecordUid(target.strip()), note, thread, str(reason or ""))


def argument(call: ToolCall, key: str) -> Json:
    return call.arguments.get(key) if isinstance(call.arguments, dict) else None


def handed_on(calls: Sequence[ToolCall], *, given_up: bool) -> Sequence[ToolCall]:
    """Those of an answer that the harness may run, in a run that has the tools. Beside one of them none is executed;
    where the model was `given_up`, which called nothing else for too long, they are taken out and the rest goes on.
    """
    if not any(call.name in NAMES for call in calls):
        return calls
    return [call for call in calls if call.name not in NAMES] if given_up else ()


def pushed_aside(calls: Sequence[ToolCall]) -> str:
    """What the record says of calls that a rewind tool in the same turn pushes aside; empty where there are none."""
    tool = next((name for name in (COMMIT, CANDIDATES) if any(call.name == name for call in calls)), None)
    others = [short(call) for call in calls if call.name != tool]
    return f"not executed because of {tool}: {', '.join(others)}" if tool is not None and others else ""
