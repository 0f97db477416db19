"""A port of this machine's loopback, for servers that nobody else is to reach."""

from __future__ import annotations

import socket

from agentrewind.core.errors import UsageError


def listening(port: int, backlog: int) -> socket.socket:
    """A socket that takes connections from now on, before there is anybody to answer them. `port` 0 is a free one.

    Raises:
        UsageError: the port is taken.
    """
    # asyncio sends small pieces at once only where the protocol is named; else each answer waits 40 ms for an ACK.
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(("127.0.0.1", port))
        found.listen(backlog)
    except OSError as error:
        found.close()
        raise UsageError(
            f"The port {port} of 127.0.0.1 can't be used: {error.strerror}. Choose another one."
        ) from error
    return found
