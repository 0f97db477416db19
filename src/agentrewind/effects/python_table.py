"""What is known of Python's modules and functions: `python.toml` as values."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from agentrewind.core.effects import EffectClass


@dataclass(frozen=True, slots=True)
class Module:
    """What `python -m NAME` does."""

    kind: EffectClass
    does: str = ""
    reads: bool = False


@dataclass(frozen=True, slots=True)
class Python:
    """Names are full ones, as `urllib.request.urlopen`."""

    network: Mapping[str, str]
    reading: frozenset[str]
    quiet: frozenset[str]
    shells: frozenset[str]
    execs: frozenset[str]
    files: Mapping[str, tuple[int, ...]]
    path_methods: frozenset[str]
    maybe_path_methods: frozenset[str]
    state: Mapping[str, str]
    computes: frozenset[str]
    modules: Mapping[str, Module]

    def network_module(self, dotted: str) -> str | None:
        """The module of the network that a full name begins with."""
        parts = dotted.split(".")
        names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        return next((name for name in names if name in self.network), None)


@functools.cache
def python() -> Python:
    """The table."""
    raw = tomllib.loads(resources.files("agentrewind.effects").joinpath("python.toml").read_text("utf-8"))
    names = {key: frozenset(value.split()) for key, value in raw.items() if isinstance(value, str)}
    modules = {
        name: Module(group["class"], group.get("does", ""), group.get("reads", False))
        for group in raw["module"]
        for name in group["names"].split()
    }
    return Python(
        network={name: group["does"] for group in raw["network"] for name in group["names"].split()},
        files={name: tuple(group["arguments"]) for group in raw["files"] for name in group["names"].split()},
        state={name: group["does"] for group in raw["state"] for name in group["names"].split()},
        modules=modules,
        **names,
    )
