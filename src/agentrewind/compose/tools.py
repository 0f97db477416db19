"""A program's own functions as tool nodes."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, cast, overload

from agentrewind.compose.declared import Takeback, Undoing, declare
from agentrewind.compose.live import LiveRun, current
from agentrewind.core.codec import Json, canonical
from agentrewind.core.effects import EffectClass

P = ParamSpec("P")
R = TypeVar("R")


@overload
def tool(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def tool(
    *, name: str = "", effect: EffectClass | None = None, reads: bool = False, undo: Takeback | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str = "",
    effect: EffectClass | None = None,
    reads: bool = False,
    undo: Takeback | None = None,
) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
    """Record each call of a function, sync or async, as a tool node of the open session.

    Outside of a session the function is simply called. Its arguments are recorded by name; what JSON can't say, by its
    representation. What the function returns and raises passes through unchanged.

    Args:
        function: whose calls they are.
        name: what the tool is called; by default the name of the function. The model should know it by the same.
        effect: what its calls do: `read`, `workspace`, `outside`, `external` or `unknown`. By default that is told from
            name and arguments.
        reads: an `external` one only asks, and leaves nothing standing.
        undo: takes a call back when the run goes back past it: a function, sync or async, of the `Call`.

    Raises:
        UsageError: the effect isn't one, or there is nothing for `undo` to undo.
    """
    say = functools.partial(_wrapped, name=name, effect=effect, reads=reads, undo=undo)
    return say if function is None else say(function)


def _wrapped(
    function: Callable[P, R], *, name: str, effect: EffectClass | None, reads: bool, undo: Takeback | None
) -> Callable[P, R]:
    label = name or getattr(function, "__name__", repr(function))
    declare(label, effect, undo, reads=reads)
    tool = _Tool(label, inspect.signature(function), undo)
    if inspect.iscoroutinefunction(function):
        return cast("Callable[P, R]", _async(function, tool))

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        run = current()
        if run is None:
            return function(*args, **kwargs)
        return tool.call(run, args, kwargs, lambda: function(*args, **kwargs))

    return call


@dataclass(frozen=True, slots=True)
class _Tool:
    """A function as its calls are recorded."""

    name: str
    signature: inspect.Signature
    undo: Takeback | None

    def call(
        self,
        run: LiveRun,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        start: Callable[[], R],
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> R:
        """One call in a run. One that doesn't fit the signature is recorded as it is, and then fails."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError:
            said = {"args": [_said(value) for value in args], **{key: _said(value) for key, value in kwargs.items()}}
            return run.tool(self.name, said, start, undo=_nothing)
        bound.apply_defaults()
        arguments = {key: _said(value) for key, value in bound.arguments.items()}
        if self.undo is None:
            return run.tool(self.name, arguments, start)
        undoing = Undoing(self.undo, bound.arguments, loop)
        return run.tool(self.name, arguments, undoing.of(start), undo=undoing)


def _nothing() -> None:
    """Takes back a call that never came to its function."""


def _async(function: Callable[..., Coroutine[Any, Any, R]], tool: _Tool) -> Callable[..., Coroutine[Any, Any, R]]:
    from agentrewind.integrations.clients import bridge

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> R:
        run = current()
        if run is None:
            return await function(*args, **kwargs)
        loop = asyncio.get_running_loop()

        async def begun(_: None) -> R:
            return await function(*args, **kwargs)

        return await bridge.run(lambda begin: tool.call(run, args, kwargs, lambda: begin(None), loop), begun)

    return call


def _said(value: Any) -> Json:
    try:
        canonical(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
    return value
