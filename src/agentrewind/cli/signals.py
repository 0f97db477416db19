"""Being asked to end, by whomever: a run then ends as it does at Ctrl-C, recorded and with its commands ended."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class AskedToEnd(KeyboardInterrupt):
    """One of these signals came."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Inside, the first of these signals raises `AskedToEnd`, and more of them don't disturb what follows from it, or
    from a Ctrl-C. A second Ctrl-C does.

    One that is ignored (nohup) stays so. Only the main thread can do this; in another one nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came = False

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal came
        first, came = not came, True
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if first:
            raise AskedToEnd(signal.Signals(number))

    usual: dict[signal.Signals, Any] = {signal.SIGINT: signal.default_int_handler}
    usual |= dict.fromkeys(ENDING, signal.SIG_DFL)
    mine = [number for number, handler in usual.items() if signal.getsignal(number) is handler]
    for number in mine:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in mine:
            # The process is ending: a second one must not kill it. A handler would not do, as the interpreter sets it
            # back while it shuts down.
            signal.signal(number, signal.SIG_IGN if came and number in ENDING else usual[number])
