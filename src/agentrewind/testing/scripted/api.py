"""What the server needs to know of a provider's API, and what the APIs share.

Each is written apart from `agentrewind.dialects`, so that neither hides a mistake of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from agentrewind.core.codec import Json, canonical
from agentrewind.testing.scripted.steps import Call, Turn

CREATED = 1_700_000_000
_CHARACTERS_PER_TOKEN = 4
_PIECE = 24
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
}


@dataclass(frozen=True, slots=True)
class Said:
    """One entry of a conversation, in no provider's form."""

    role: str
    """`system`, `user`, `assistant`, or `tool` for a result."""
    text: str
    calls: tuple[Call, ...] = ()
    """Arguments as the request has them."""


class Api(Protocol):
    """One endpoint, with what the provider keeps behind it."""

    name: str
    """That of the dialect."""
    path: str
    needs: tuple[str, ...]
    """Headers without which a request is refused; lower case."""

    def key(self, headers: Mapping[str, str]) -> str:
        """The key that a request shows. Header names are in lower case."""

    def refusal(self, body: Json) -> str | None:
        """Why a strict provider answers this request with status 400; None where it doesn't."""

    def whole(self, body: Json) -> Json:
        """The request with all that it refers to."""

    def keep(self, body: Json, response: Json) -> None:
        """Keep what later requests may refer to. `body` is a whole one."""

    def messages(self, body: Json) -> list[Json]: ...

    def said(self, body: Json) -> list[Said]:
        """Everything that the model reads, in order."""

    def tools(self, body: Json) -> list[str]: ...

    def response(self, body: Json, turn: Turn, number: int, first_call: int) -> Json:
        """The whole response object; tool calls are numbered from `first_call`."""

    def events(self, body: Json, response: Json) -> list[str]:
        """The response as server-sent events, texts and arguments in pieces."""

    def broken(self, message: str) -> str:
        """The event that ends a stream by an error."""

    def error(self, status: int, message: str, code: str | None) -> Json: ...


def openai_error(status: int, message: str, code: str | None) -> Json:
    return {"error": {"message": message, "type": kind_of(status), "param": None, "code": code}}


def kind_of(status: int, default: str = "server_error") -> str:
    return _KINDS.get(status, default)


def tokens(value: Json) -> int:
    return -(-len(canonical(value)) // _CHARACTERS_PER_TOKEN)


def pieces(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


def text_of(content: Json) -> str:
    """The text of a message's content, in whatever parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or part.get("refusal") or "") for part in content)
    return content or ""
