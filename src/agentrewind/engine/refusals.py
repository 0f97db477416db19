"""Answers of ours in the place of the provider's that refuse a request, in the form in which it would."""

from __future__ import annotations

from agentrewind.core.codec import canonical
from agentrewind.core.records import ThreadId
from agentrewind.core.wire import WireReply
from agentrewind.dialects.base import Dialect


def not_understood(dialect: Dialect, why: str) -> WireReply:
    """For a request of which nobody can tell what it leads to, in a run that holds calls back."""
    text = f"agentrewind: this request was not sent, because --effects could not hold what it leads to: {why}."
    return _refusal(dialect, text, "agentrewind_not_understood")


def thread_ended(dialect: Dialect, thread: ThreadId) -> WireReply:
    """For a conversation that is no part of the run any more."""
    text = f"agentrewind: this conversation ({thread}) was ended by a rewind of the run to a point before it began."
    return _refusal(dialect, text, "agentrewind_thread_ended")


def _refusal(dialect: Dialect, text: str, kind: str) -> WireReply:
    body = canonical(dialect.refusal(text, kind))
    return WireReply(400, (("content-type", "application/json"),), body)
