"""A synchronous interposer or recorder under an asynchronous program.

It works in a thread of its own. Whatever it sends, or whatever tool it runs, is awaited by the caller's task itself,
which waits for it all the while: so a time-out or a cancellation of the caller reaches what is under way, asyncio and
trio alike, and context variables and cancel scopes are those that the program expects.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import anyio
import anyio.to_thread

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class _Ended(Generic[T]):
    """How something ended: with a value or with an exception."""

    value: T | None = None
    error: BaseException | None = None

    def get(self) -> T:
        if self.error is not None:
            raise self.error
        return cast("T", self.value)


class _Conversation(Generic[A, B, T]):
    """Where the interposer's thread and the caller's task meet. At each moment one of the two works."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._waiting = False
        self._asked: A | None = None
        self._sent: _Ended[B] = _Ended()
        self._left: BaseException | None = None
        self._result: _Ended[T] | None = None

    def work(self, call: Callable[[Callable[[A], B]], T]) -> None:
        """The thread: the interposer's call, to its end."""
        try:
            result = _Ended(call(self._send))
        except BaseException as error:  # noqa: BLE001 (raised again in the caller's task)
            result = _Ended(error=error)
        with self._turn:
            self._result = result
            self._turn.notify_all()

    def _send(self, asked: A) -> B:
        """In the thread: ask the task to send, wait for the outcome."""
        with self._turn:
            self._asked, self._waiting = asked, self._left is None
            self._turn.notify_all()
            self._turn.wait_for(lambda: not self._waiting)
            sent: _Ended[B] = self._sent if self._left is None else _Ended(error=self._left)
        return sent.get()

    def wait(self) -> None:
        """Block until the interposer wants something sent or is done. Takes nothing away: may be called again."""
        with self._turn:
            self._turn.wait_for(lambda: self._waiting or self._result is not None)

    def asked(self) -> A:
        return cast("A", self._asked)

    def answer(self, sent: _Ended[B]) -> None:
        """In the task: hand over the outcome of what was asked for."""
        with self._turn:
            self._sent, self._waiting = sent, False
            self._turn.notify_all()

    def leave(self, error: BaseException) -> None:
        """In the task, which can't go on: this send, if there is one, and all later ones raise `error`."""
        with self._turn:
            self._left, self._waiting = error, False
            self._turn.notify_all()

    @property
    def result(self) -> _Ended[T] | None:
        return self._result


async def run(
    call: Callable[[Callable[[A], B]], T],
    send: Callable[[A], Awaitable[B]],
    undelivered: Callable[[T], None] = lambda _: None,
) -> T:
    """What `call` returns or raises, with `send` awaited in this task.

    Returns or raises only when `call` has come to its end. A cancellation meanwhile goes to the `send` under way
    (which raises it into `call`), else to the next one, else it is raised when `call` has ended. Only a task whose
    event loop is taken away from under it leaves early; then every `send` of `call` raises. What `call` returned to a
    task that was cancelled goes to `undelivered`.
    """
    conversation: _Conversation[A, B, T] = _Conversation()
    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(conversation.work, call), name="agentrewind call", daemon=True)
    thread.start()
    try:
        return await _serve(conversation, send, undelivered)
    except BaseException as error:
        conversation.leave(error)
        raise


async def _serve(
    conversation: _Conversation[A, B, T],
    send: Callable[[A], Awaitable[B]],
    undelivered: Callable[[T], None],
) -> T:
    cancelled: BaseException | None = None
    while True:
        cancelled = await _its_turn(conversation) or cancelled
        result = conversation.result
        if result is not None:
            break
        sent: _Ended[B] = _Ended(error=cancelled) if cancelled else await _sent(send, conversation.asked())
        if isinstance(sent.error, anyio.get_cancelled_exc_class()):
            cancelled = sent.error
        conversation.answer(sent)
    if cancelled is not None:
        if result.value is not None:
            undelivered(result.value)
        raise cancelled
    return result.get()


async def _its_turn(conversation: _Conversation[A, B, T]) -> BaseException | None:
    """Wait for the interposer, whatever happens to this task; a cancellation that asyncio raised is returned.

    (Cancel scopes of anyio and trio are shielded off and strike at the next `send`.)
    """
    cancelled: BaseException | None = None
    while True:
        try:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(conversation.wait, limiter=anyio.CapacityLimiter(1))
        except anyio.get_cancelled_exc_class() as error:
            cancelled = error
        else:
            return cancelled


async def _sent(send: Callable[[A], Awaitable[B]], asked: A) -> _Ended[B]:
    try:
        return _Ended(await send(asked))
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 (raised again in the interposer's thread)
        return _Ended(error=error)
