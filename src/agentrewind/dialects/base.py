"""A provider's message format, as pure functions over parsed JSON. No network, no state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from agentrewind.core.codec import Json
from agentrewind.core.edits import Message
from agentrewind.core.records import Usage
from agentrewind.core.tools import ToolSpec


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that a model asked for. `arguments` is the parsed object; None where the model's JSON doesn't parse."""

    id: str
    name: str
    arguments: Json | None
    raw_arguments: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """An assembled answer: the same for a plain and for a streamed one."""

    message: Message
    """The assistant message as it would stand in the next request's list."""
    text: str
    calls: tuple[ToolCall, ...]
    finish_reason: str | None
    usage: Usage
    response: Json
    """The provider's whole response as one object (assembled from the chunks of a stream)."""


MemoryRole = Literal["system", "user"]


class Dialect(Protocol):
    """Every method leaves its arguments as they are and returns new objects where something changes."""

    name: str

    def matches(self, method: str, path: str) -> bool:
        """Whether a request to this URL path speaks this dialect."""

    def problems_with(self, body: Json) -> str | None:
        """Why this request can't be made recoverable (None where it can): it is then passed through and recorded."""

    def model(self, body: Json) -> str: ...

    def messages(self, body: Json) -> list[Message]: ...

    def with_messages(self, body: Json, messages: Sequence[Message]) -> Json: ...

    def tools(self, body: Json) -> list[Json]: ...

    def with_tools(self, body: Json, specs: Sequence[ToolSpec]) -> Json:
        """Declare the tools (each once, after the harness's own, so that the provider's prompt cache keeps its hit)."""

    def params(self, body: Json) -> Json:
        """All of the body but model, messages and tools."""

    def streams(self, body: Json) -> bool: ...

    def canonical(self, message: Message) -> Json:
        """The message without volatile fields, in one form: equal for what means the same."""

    def parse(self, body: bytes, *, stream: bool) -> Reply:
        """Assemble an answer.

        Raises:
            ProviderError: the bytes are not an answer of this dialect.
        """

    def render(self, response: Json, *, stream: bool) -> bytes:
        """The inverse of `parse`: a whole response object as body bytes or as a complete event stream."""

    def without_calls(self, response: Json, names: frozenset[str]) -> Json:
        """The response with every call of these tools taken out (and a valid rest)."""

    def memory(self, text: str, role: MemoryRole) -> Message: ...

    def user(self, text: str) -> Message: ...

    def results(self, message: Message, texts: dict[str, str]) -> list[Message]:
        """One result message for each call of an assistant message: call id to text, in the order of the calls."""

    def problems(self, messages: Sequence[Message]) -> list[str]:
        """What a strict provider would refuse in this list: orphan results, unanswered calls, bad order."""
