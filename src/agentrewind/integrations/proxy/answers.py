"""What the proxy itself says to a client: errors, in the form of the client's dialect."""

from __future__ import annotations

import json

import httpx

from agentrewind.core.codec import Json
from agentrewind.core.wire import WireReply

KEEP_ALIVE = b": agentrewind\n\n"
"""A comment in an event stream: every parser skips it."""
SHOWN = 500


def refusal(status: int, told: str) -> WireReply:
    """An error of ours, in a form that clients of OpenAI and of Anthropic understand."""
    kind = "api_error" if status >= 500 else "invalid_request_error"  # noqa: PLR2004 (HTTP: whose fault it is)
    error = {"message": f"agentrewind: {told}", "type": kind, "param": None, "code": "agentrewind"}
    body = json.dumps({"type": "error", "error": error}).encode("ascii")
    return WireReply(status, (("content-type", "application/json"),), body)


def unreachable(error: httpx.HTTPError) -> WireReply:
    """Why there is no answer from upstream. 5xx, so that SDKs try again."""
    why = str(error) or type(error).__name__
    if isinstance(error, httpx.TimeoutException):
        return refusal(504, f"the model's endpoint did not answer in time ({type(error).__name__}).")
    if isinstance(error, httpx.ConnectError):
        return refusal(502, f"the model's endpoint could not be reached: {why}.")
    return refusal(502, f"the connection to the model's endpoint broke: {why}.")


def error_event(path: str, reply: WireReply) -> bytes:
    """An error answer as the end of an event stream that has begun already."""
    try:
        body = json.loads(reply.body)
    except ValueError:
        body = None
    error = _error(body, reply)
    if path.endswith("/chat/completions"):
        return b"data: " + _ascii({"error": error}) + b"\n\n"
    named: dict[str, Json] = {"type": "error", "error": error}
    if path.endswith("/responses"):
        named |= {"code": error.get("code"), "message": error["message"], "param": None, "sequence_number": 0}
    return b"event: error\ndata: " + _ascii(named) + b"\n\n"


def _error(body: Json, reply: WireReply) -> dict[str, Json]:
    """The error object in an answer, or one that says what the answer was."""
    found = body.get("error") if isinstance(body, dict) else None
    if isinstance(found, dict):
        return {"message": f"status {reply.status}", **found, "status": reply.status}
    told = found if isinstance(found, str) else reply.body[:SHOWN].decode("utf-8", "replace")
    return {"message": f"status {reply.status}: {told}", "type": "api_error", "code": None, "status": reply.status}


def _ascii(value: Json) -> bytes:
    return json.dumps(value).encode("ascii")
