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

    messages: tuple[Message, ...]
    """The answer as it would stand in the next request's list: one message, several items, or none if it is empty."""
    text: str
    calls: tuple[ToolCall, ...]
    finish_reason: str | None
    usage: Usage
    response: Json
    """The provider's whole response as one object (assembled from the chunks of a stream)."""

    @property
    def message(self) -> Message:
        """The only message of an answer.

        Raises:
            ValueError: the answer is not one message.
        """
        (only,) = self.messages
        return only


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool said, as it stands in a conversation. `failed` is None where the format doesn't say."""

    text: str
    failed: bool | None = None


MemoryRole = Literal["system", "user"]


def listed(answer: Message | Sequence[Message]) -> Sequence[Message]:
    """The messages of an answer that may be given as its only message."""
    return [answer] if isinstance(answer, dict) else answer


class Dialect(Protocol):
    """Every method leaves its arguments as they are and returns new objects where something changes."""

    name: str

    def matches(self, method: str, path: str) -> bool:
        """Whether a request to this URL path speaks this dialect."""

    def problems_with(self, body: Json) -> str | None:
        """Why this request can't be made recoverable (None where it can): it is then passed through and recorded."""

    def model(self, body: Json) -> str: ...

    def messages(self, body: Json) -> list[Message]: ...

    def with_messages(self, body: Json, messages: Sequence[Message]) -> Json:
        """The request with these messages in the form that the provider wants (neighbours of one role may be merged).

        The body itself where the messages are those that it has.
        """

    def joined(self, messages: Sequence[Message]) -> list[Message]:
        """The list as a harness may send it by itself: as `with_messages` puts it into a request."""

    def continues(self, body: Json) -> str | None:
        """The id of an answer that the provider keeps, where the request holds only what comes after that answer.

        The dialect can't know what came before it: whoever can must go on with
        `as_whole(body, [*those, *messages(body)])` in place of `body`, where `those` are what the harness had sent
        when it got the answer (before edits), then the `Reply.messages` of the answer. Where nobody knows the id, the
        request can't be made recoverable.
        """

    def reply_id(self, reply: Reply) -> str | None:
        """What `continues` says of a request that goes on from this answer; None where none can."""

    def as_whole(self, body: Json, messages: Sequence[Message]) -> Json:
        """A request that needs nothing of what the provider keeps: these are all messages."""

    def tools(self, body: Json) -> list[Json]: ...

    def with_tools(self, body: Json, specs: Sequence[ToolSpec]) -> Json:
        """Declare the tools (each once, after the harness's own, so that the provider's prompt cache keeps its hit)."""

    def params(self, body: Json) -> Json:
        """All of the body but model, messages, tools, and what the dialect lists as volatile (ids of a session)."""

    def streams(self, body: Json) -> bool: ...

    def canonical(self, message: Message) -> Json:
        """The message without volatile fields, in one form: equal for what means the same."""

    def answers(self, message: Message) -> str | None:
        """The id of the call whose result this message is. Results of calls that were made at once stand beside each
        other in any order; None where a message isn't the result of one call.
        """

    def parse(self, body: bytes, *, stream: bool) -> Reply:
        """Assemble an answer.

        Raises:
            ProviderError: the bytes are not an answer of this dialect.
        """

    def render(self, response: Json, *, stream: bool) -> bytes:
        """The inverse of `parse`: a whole response object as body bytes or as a complete event stream."""

    def without_calls(self, response: Json, names: frozenset[str]) -> Json:
        """The response with every call of these tools taken out (and a valid rest)."""

    def refusal(self, text: str, code: str) -> Json:
        """The body of an answer with status 400 that says this, as the provider writes it: a client shows `text`."""

    def memory(self, text: str, role: MemoryRole) -> Message: ...

    def user(self, text: str) -> Message: ...

    def asking(self, body: Json, text: str) -> Json:
        """A request to the same model as `body` for a plain text answer to `text`: no history, tool, format, stream."""

    def tool_results(self, message: Message) -> list[ToolResult]:
        """The results of tools in a message of a harness."""

    def with_hint(self, message: Message, text: str) -> Message | None:
        """The message with `text` at the end of its last tool result; None where it holds none that takes text."""

    def results(self, answer: Message | Sequence[Message], texts: dict[str, str]) -> list[Message]:
        """The messages that answer each call in `Reply.messages`: call id to text, in the order of the calls."""

    def problems(self, messages: Sequence[Message]) -> list[str]:
        """What a strict provider would refuse of this list after `with_messages`: orphan results, unanswered calls,
        bad order.
        """
