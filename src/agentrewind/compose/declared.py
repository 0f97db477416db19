"""What the functions under `agentrewind.tool` say of their effects, and how their calls are taken back."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from agentrewind.core.effects import Annotations, EffectClass
from agentrewind.core.errors import UsageError

R = TypeVar("R")

UNDO_S = 120.0
"""How long a coroutine that takes a call back may take."""

_declared: dict[str, Annotations] = {}


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function under `agentrewind.tool`, for the function that takes it back.

    Attributes:
        arguments: the very objects that the function got, by name, defaults included.
        result: what it returned. error: what it raised instead, None where it returned.
    """

    arguments: Mapping[str, Any]
    result: Any = None
    error: BaseException | None = None


Takeback = Callable[[Call], object]


def declare(tool: str, effect: EffectClass | None, undo: Takeback | None, *, reads: bool) -> None:
    """Take over what a function says of its calls; where it says nothing, that is what holds for its name.

    Raises:
        UsageError: it says what can't be.
    """
    if effect is not None and effect not in get_args(EffectClass):
        raise UsageError(f"{tool}: effect must be one of {', '.join(get_args(EffectClass))}, not {effect!r}.")
    if undo is not None and (effect in (None, "read", "workspace") or reads):
        raise UsageError(
            f"{tool}: an undo belongs to an effect that a rewind leaves standing; say effect='external' or"
            " effect='outside'."
        )
    if reads and effect != "external":
        raise UsageError(f"{tool}: only an effect that is 'external' can be marked with reads=True.")
    if effect is None:
        _declared.pop(tool, None)
    else:
        _declared[tool] = Annotations(read_only=reads or None, kind=effect, undo=_name(undo) if undo else "")


def declared(tool: str) -> Annotations | None:
    """What the function of that name says of itself; None where it says nothing. The last one of a name counts."""
    return _declared.get(tool)


def _name(function: Takeback) -> str:
    return str(getattr(function, "__qualname__", repr(function)))


class Undoing:
    """What takes one call back: it is given the call as that ended.

    Args:
        loop: the event loop of an async function. A coroutine that takes its call back is run there, too.
    """

    def __init__(
        self, undo: Takeback, arguments: Mapping[str, Any], loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self._undo, self._loop = undo, loop
        self._call = Call(arguments)

    def of(self, run: Callable[[], R]) -> Callable[[], R]:
        """The call, with its end noted."""

        def noted() -> R:
            try:
                result = run()
            except BaseException as error:
                self._call = Call(self._call.arguments, error=error)
                raise
            self._call = Call(self._call.arguments, result)
            return result

        return noted

    def __call__(self) -> None:
        """Raises: what the function raises. TimeoutError: a coroutine took too long, and was cancelled."""
        begun = self._undo(self._call)
        if inspect.iscoroutine(begun):
            _finish(begun, self._loop)


def _finish(begun: Coroutine[Any, Any, object], loop: asyncio.AbstractEventLoop | None) -> None:
    """Run a coroutine to its end: in the loop in which its objects live, unless this thread is what runs that."""
    given_up = False

    async def timed() -> None:
        if given_up:
            begun.close()
            return
        limit = asyncio.timeout(UNDO_S)
        try:
            async with limit:
                await begun
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise TimeoutError(f"it was cancelled after {UNDO_S:g} s") from error

    if loop is not None and loop.is_running() and loop is not _running():
        future = asyncio.run_coroutine_threadsafe(timed(), loop)
        try:
            future.result(UNDO_S * 1.1)
        except TimeoutError as error:
            if future.done():
                raise
            given_up = True  # and a task that has begun is cancelled
            future.cancel()
            raise TimeoutError("its event loop was busy, and it was given up") from error
        return
    context = copy_context()
    with ThreadPoolExecutor(1, "agentrewind undo") as thread:
        thread.submit(context.run, asyncio.run, timed()).result()


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
