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


def forced_tool(body: Json) -> str | None:
    """The one tool that the model can't but call in its answer to this request."""
    choice, tools = body.get("tool_choice"), body.get("tools")
    named = choice if isinstance(choice, dict) else {}
    any_of_one = choice == "required" or named.get("type") == "any"
    if any_of_one and isinstance(tools, list) and len(tools) == 1 and isinstance(tools[0], dict):
        named = tools[0]
    inner = named.get("function")
    name = (inner if isinstance(inner, dict) else named).get("name")
    return name if isinstance(name, str) else None


def kept(body: Json, names: Sequence[str]) -> dict[str, Json]:
    """The parameters of these names that a request has."""
    return {name: body[name] for name in names if body.get(name) is not None}


def said(content: Json) -> str:
    """The text of a tool result: itself, or that of its parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def longer(content: Json, text: str, part: Json) -> Json:
    """The content of a tool result with `text` at its end, as `part` where the content has parts; None where it is
    neither text nor parts.
    """
    if content is None or isinstance(content, str):
        return f"{content}\n\n{text}" if content else text
    return [*content, part] if isinstance(content, list) else None


def only_text(parts: list[Json]) -> Json:
    """The canonical form of a content: a single text part is that text, anything else stays a list."""
    only = parts[0] if len(parts) == 1 else None
    if isinstance(only, dict) and only.keys() == {"type", "text"} and only["type"] == "text":
        return only["text"]
    return parts
