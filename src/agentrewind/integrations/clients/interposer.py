"""What a mount asks of whoever sits between harness and model."""

from __future__ import annotations

from typing import Protocol

from agentrewind.core.codec import Json
from agentrewind.core.wire import Send, WireReply


class Interposer(Protocol):
    """Sees paths and bodies. Never a header of a request: keys stay in the SDK."""

    def wants(self, method: str, host: str, path: str) -> bool:
        """Whether requests like this one go through `call`. The others are not even read."""

    def call(self, path: str, body: Json, send: Send) -> WireReply:
        """Answer a request, with as many calls of `send` as that takes.

        Raises what `send` raised where it can't go on: the caller gets it as if nobody sat between. `send` raises
        a `BaseException` when the caller is cancelled; every further `send` does so too.
        """

    def undelivered(self, reply: WireReply) -> None:
        """An answer of `call` found its caller gone: whoever asked won't act on it. Never raises."""
