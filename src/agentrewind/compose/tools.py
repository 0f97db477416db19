"""A program's own functions as tool nodes."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar, cast, overload

from agentrewind.compose.live import LiveRun, current
from agentrewind.core.codec import Json, canonical

P = ParamSpec("P")
R = TypeVar("R")


@overload
def tool(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def tool(*, name: str = "") -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None, /, *, name: str = ""
) -> Callable[P, R] | Callable[[Callable[P, R]], Callable[P, R]]:
    """Record each call of a function, sync or async, as a tool node of the open session.

    Outside of a session the function is simply called. Its arguments are recorded by name; what JSON can't say, by its
    representation. What the function returns and raises passes through unchanged.
    """
    if function is None:
        return functools.partial(_wrapped, name=name)
    return _wrapped(function, name=name)


def _wrapped(function: Callable[P, R], *, name: str) -> Callable[P, R]:
    signature = inspect.signature(function)
    label = name or getattr(function, "__name__", repr(function))
    if inspect.iscoroutinefunction(function):
        return cast("Callable[P, R]", _async(function, signature, label))

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        run = current()
        if run is None:
            return function(*args, **kwargs)
        return run.tool(label, _arguments(signature, args, kwargs), lambda: function(*args, **kwargs))

    return call


def _async(
    function: Callable[..., Coroutine[Any, Any, R]], signature: inspect.Signature, label: str
) -> Callable[..., Coroutine[Any, Any, R]]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> R:
        run = current()
        if run is None:
            return await function(*args, **kwargs)
        return await _recorded(run, label, _arguments(signature, args, kwargs), lambda: function(*args, **kwargs))

    return call


async def _recorded(run: LiveRun, label: str, arguments: Json, start: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """The function runs in its own event loop; a thread waits for it, as the recorder is synchronous."""
    loop = asyncio.get_running_loop()
    started: list[Future[R]] = []

    def wait() -> R:
        started.append(asyncio.run_coroutine_threadsafe(start(), loop))
        return started[0].result()

    try:
        return await asyncio.to_thread(run.tool, label, arguments, wait)
    except asyncio.CancelledError:
        for future in started:
            future.cancel()
        raise


def _arguments(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Json:
    """By name, defaults included. A call that doesn't fit the signature is recorded as it is, and then fails."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return {"args": [_said(value) for value in args], **{key: _said(value) for key, value in kwargs.items()}}
    bound.apply_defaults()
    return {key: _said(value) for key, value in bound.arguments.items()}


def _said(value: Any) -> Json:
    try:
        canonical(value)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
    return value
