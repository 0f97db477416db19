"""Objects over a socket, and sockets over a socket: how an attempt and its supervisor talk.

Each entry into a hook opens a line of its own and closes it when it is answered, so threads don't wait for one another,
and a caller that is gone shows as the end of its line. Only JSON and bytes cross; nothing that arrives is executed.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from types import TracebackType
from typing import Self

from agentrewind.core.codec import Json

_HEAD = struct.Struct("!QQ")
MAX_PART = 1 << 30
"""Bytes of one part of a message; more is a sign that the other side isn't ours."""


class Gone(OSError):
    """The other side has closed the line, or has ended."""


class Line:
    """A connection to another process. Also a context manager that closes it."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._end.close()

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, message: Json, data: bytes = b"") -> None:
        """Raises: Gone."""
        text = json.dumps(message).encode("ascii")
        try:
            self._end.sendall(_HEAD.pack(len(text), len(data)) + text)
            if data:
                self._end.sendall(data)
        except OSError as error:
            raise Gone(str(error)) from error

    def receive(self) -> tuple[Json, bytes]:
        """The next message. Raises: Gone: there is none, or only a part of it."""
        head = _HEAD.unpack(self._exactly(_HEAD.size))
        if max(head) > MAX_PART:
            raise Gone("a message of impossible length")
        return json.loads(self._exactly(head[0])), self._exactly(head[1])

    def _exactly(self, length: int) -> bytes:
        parts = bytearray()
        while len(parts) < length:
            try:
                part = self._end.recv(min(length - len(parts), 1 << 20))
            except OSError as error:
                raise Gone(str(error)) from error
            if not part:
                raise Gone("the other side has ended")
            parts += part
        return bytes(parts)

    def hand_over(self, end: socket.socket) -> None:
        """Give the other side an open socket; ours stays open. Raises: Gone."""
        try:
            socket.send_fds(self._end, [b"+"], [end.fileno()])
        except OSError as error:
            raise Gone(str(error)) from error

    def take_over(self) -> socket.socket:
        """A socket that the other side hands over. Raises: Gone: it has ended."""
        try:
            data, handles, _, _ = socket.recv_fds(self._end, 1, 1)
        except OSError as error:
            raise Gone(str(error)) from error
        if not data or not handles:
            raise Gone("the other side has ended")
        os.set_inheritable(handles[0], False)  # noqa: FBT003 (it can't be named; `recv_fds` drops its flags in 3.11)
        return socket.socket(fileno=handles[0])

    def dial(self) -> Line:
        """A new line to whoever holds the other end of this one and takes lines over. Raises: Gone."""
        ours, theirs = socket.socketpair()
        try:
            self.hand_over(theirs)
        except Gone:
            ours.close()
            raise
        finally:
            theirs.close()
        return Line(ours)


def pair() -> tuple[Line, socket.socket]:
    """A line and the socket at its other end, to be handed to another process."""
    ours, theirs = socket.socketpair()
    return Line(ours), theirs
