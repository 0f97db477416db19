"""What requests have in common in all dialects: what is wrong with one, in words, and the declaration of tools."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from agentrewind.core.codec import Json
from agentrewind.core.edits import Message
from agentrewind.core.tools import ToolSpec


def list_problem(body: Json) -> str | None:
    """Why `messages` of a request is no conversation."""
    if not isinstance(body, dict):
        return "the request body is not a JSON object"
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return "`messages` is not a list of objects"
    return None if messages else "`messages` is empty"


def tools_problem(body: dict[str, Json]) -> str | None:
    return None if isinstance(body.get("tools") or [], list) else "`tools` is not a list"


def form_problem(name: str, messages: Sequence[Message], is_regular: Callable[[Message], bool]) -> str | None:
    """Which of the messages in the field `name` isn't in the form of the dialect."""
    odd = next((index for index, message in enumerate(messages) if not is_regular(message)), None)
    return None if odd is None else f"`{name}[{odd}]` is not in the form of this dialect"


def with_declared(
    body: dict[str, Json],
    specs: Sequence[ToolSpec],
    names: Collection[str | None],
    declaration: Callable[[ToolSpec], Json],
) -> Json:
    """The request with a declaration of each tool that isn't among `names`, after those that are there."""
    missing = [spec for spec in specs if spec.name not in names]
    return {**body, "tools": [*(body.get("tools") or []), *map(declaration, missing)]} if missing else body


def only_text(parts: list[Json]) -> Json:
    """The canonical form of a content: a single text part is that text, anything else stays a list."""
    only = parts[0] if len(parts) == 1 else None
    if isinstance(only, dict) and only.keys() == {"type", "text"} and only["type"] == "text":
        return only["text"]
    return parts
