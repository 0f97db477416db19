"""The class of a tool call, decided before it runs: the user's rules, the tool's own word, the parse, the sandbox."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from agentrewind.core.codec import Json
from agentrewind.core.effects import Annotations, Confinement, Effect, Source
from agentrewind.effects.findings import shown
from agentrewind.effects.places import Place
from agentrewind.effects.reading import Reading
from agentrewind.effects.rules import Rule, Rules
from agentrewind.effects.worker import Worker


@dataclass(frozen=True, slots=True)
class Classifier:
    """Classifies the calls of one run. Never raises, whatever the call holds, and takes bounded time.

    Args:
        workspace: the directory that restores are of. home: that of the user.
        rules: the user's.
        confinement: what the sandbox keeps the agent's commands from.
        worker: who reads the calls.
    """

    place: Place
    rules: Rules
    confinement: Confinement
    worker: Worker

    @classmethod
    def of(
        cls,
        workspace: str | os.PathLike[str],
        rules: Rules = Rules(),  # noqa: B008 (frozen)
        confinement: Confinement = Confinement(),  # noqa: B008 (frozen)
        home: str | None = None,
    ) -> Classifier:
        place = Place.of(os.fspath(workspace), home or os.path.expanduser("~"))
        return cls(place, rules, confinement, Worker(Reading(place, rules)))

    def command(self, text: str, cwd: str | None = None) -> tuple[Effect, ...]:
        """The effects of a shell text, as of a call of a shell tool."""
        return self.call("shell", {"command": text} if cwd is None else {"command": text, "cwd": cwd})

    def call(self, name: str, arguments: Json, annotations: Annotations | None = None) -> tuple[Effect, ...]:
        """The effects that a call will have: at least one, `read` where it changes nothing."""
        rule = self.rules.of_tool(name)
        found = self._found(name, arguments, annotations, rule)
        if rule is not None and rule.undo:
            found = [replace(effect, undo=rule.undo) for effect in found]
        elif annotations is not None and annotations.undo:
            found = [replace(effect, undo=annotations.undo, by_program=True) for effect in found]
        return tuple(self._confined(effect) for effect in found)

    def _found(self, name: str, arguments: Json, annotations: Annotations | None, rule: Rule | None) -> list[Effect]:
        said = _said(name, arguments)
        if rule is not None and rule.kind is not None:
            return [rule.effect(said)]
        annotated = _annotated(annotations, said) if annotations is not None else None
        if annotated is not None:
            return [annotated]
        return self.worker.effects(name, arguments) or [Effect("read", said)]

    def _confined(self, effect: Effect) -> Effect:
        """What the sandbox makes impossible isn't an effect: the attempt fails in there."""
        if effect.kind == "external" and not self.confinement.network:
            return replace(effect, kind="workspace", source="sandbox", what=f"{effect.what}; the network is off")
        if effect.kind == "outside" and not self.confinement.outside:
            return replace(effect, kind="workspace", source="sandbox", what=f"{effect.what}; only in the sandbox")
        return effect


def _said(name: str, arguments: Json) -> str:
    value = next(iter(arguments.values()), "") if isinstance(arguments, Mapping) else arguments
    return shown([name, value if isinstance(value, str) else ""]).strip()


def _annotated(annotations: Annotations, said: str) -> Effect | None:
    """The word of the tool itself, with MCP's defaults for what it leaves out; None where it says nothing of use."""
    source: Source = "annotation"
    if annotations.kind is not None:
        reads = annotations.kind == "external" and annotations.read_only is True
        return Effect(annotations.kind, said, reads=reads, source=source)
    if annotations.read_only is None and annotations.open_world is None and annotations.destructive is None:
        return None
    if annotations.read_only:
        if annotations.open_world is False:
            return Effect("read", said, source=source)
        return Effect("external", f"{said} (reads, as the tool says)", reads=True, source=source)
    if annotations.open_world is False:
        return None
    return Effect("external", f"{said} (changes something outside, as the tool says)", source=source)
