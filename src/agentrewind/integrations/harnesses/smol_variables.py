"""The variables of smolagents' interpreter as bytes, and back: what a CodeAgent holds besides its messages."""

from __future__ import annotations

import ast
import importlib
import io
import pickle
from types import FunctionType, ModuleType
from typing import Any

from smolagents.local_python_executor import LocalPythonExecutor, create_function, get_safe_module

from agentrewind.engine.holdings import Held

LARGEST = 64 << 20
"""Bytes of a single variable; a larger one isn't kept, and is named."""
_OF_THE_INTERPRETER = frozenset({"__name__", "_print_outputs", "_operations_count"})


def held(executor: Any) -> Held:
    """What the interpreter holds now. What can't be pickled is named."""
    if not isinstance(executor, LocalPythonExecutor):
        return Held(lost=("all, as the interpreter isn't in this process",))
    names = {name: value for name, value in executor.state.items() if name not in _OF_THE_INTERPRETER}
    kept = {name: value for name, value in names.items() if (size := _size(value)) is not None and size <= LARGEST}
    functions = {name: function.__source__ for name, function in executor.custom_tools.items() if _is_code(function)}
    lost = sorted((names.keys() - kept.keys()) | (executor.custom_tools.keys() - functions.keys()))
    return Held(_dumped((kept, functions)), tuple(lost))


def bring_back(executor: Any, state: Held) -> None:
    """Have the interpreter hold that, and nothing else. What a state can't say any more is gone."""
    if not isinstance(executor, LocalPythonExecutor):
        return
    for name in executor.state.keys() - _OF_THE_INTERPRETER:
        del executor.state[name]
    executor.custom_tools.clear()
    if not state.data:
        return
    kept, functions = _Unpickler(io.BytesIO(state.data), executor).load()
    executor.custom_tools.update({name: _function(source, executor) for name, source in functions.items()})
    executor.state.update(kept)


def _size(value: Any) -> int | None:
    """None where it can't be pickled, or not read again."""
    try:
        return len(_dumped(value))
    except Exception:  # noqa: BLE001 (whatever objects of others raise when they are asked)
        return None


def _dumped(value: Any) -> bytes:
    to = io.BytesIO()
    _Pickler(to, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return to.getvalue()


def _is_code(value: Any) -> bool:
    """Whether it is a function that the agent's code defines."""
    return isinstance(value, FunctionType) and isinstance(getattr(value, "__source__", None), str)


class _Pickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> tuple[str, str] | None:
        if isinstance(value, ModuleType):
            return "module", value.__name__
        return ("function", value.__source__) if _is_code(value) else None


class _Unpickler(pickle.Unpickler):
    """Reads what `_Pickler` has written, of which nobody else has had hold: it was in memory all the while."""

    def __init__(self, data: io.BytesIO, executor: LocalPythonExecutor) -> None:
        super().__init__(data)
        self._executor = executor

    def persistent_load(self, known: tuple[str, str]) -> Any:
        kind, name = known
        if kind == "module":
            return get_safe_module(importlib.import_module(name), self._executor.authorized_imports)
        return _function(name, self._executor)


def _function(source: str, executor: LocalPythonExecutor) -> Any:
    """A function of the agent's code, defined again: it sees the variables of now."""
    defined = ast.parse(source).body[0]
    return create_function(
        defined, executor.state, executor.static_tools or {}, executor.custom_tools, executor.authorized_imports
    )
