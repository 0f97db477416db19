"""What passes between a harness and a provider, free of any HTTP library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from agentrewind.core.codec import Json


@dataclass(frozen=True, slots=True)
class WireReply:
    """A provider's answer as it came: status, headers without hop-by-hop ones, body bytes (all of a stream)."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004


Send = Callable[[Json], WireReply]
"""Send this request body upstream. Transport errors travel through as the HTTP library raised them."""


@runtime_checkable
class CanLeave(Protocol):
    """A `Send` whose caller may go away while it waits for an answer; what is sent after that fails."""

    @property
    def left(self) -> bool: ...


def has_left(send: object) -> bool:
    """Whether the caller behind a `Send` is known to have gone away."""
    return isinstance(send, CanLeave) and send.left
