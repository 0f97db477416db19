"""What the calls of one run do that no restore undoes, decided before they can run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from agentrewind.core.codec import Json, digest
from agentrewind.core.effects import Annotations, Effect
from agentrewind.core.records import RecordUid
from agentrewind.dialects.base import ToolCall
from agentrewind.engine.gate import Gate, Planned

Classify = Callable[[str, Json, Annotations | None], tuple[Effect, ...]]

Redact = Callable[[Json], Json]

_HINTS = {"readOnlyHint": "read_only", "destructiveHint": "destructive", "openWorldHint": "open_world"}


def nothing(name: str, arguments: Json, annotations: Annotations | None) -> tuple[Effect, ...]:
    """Nobody says what a call does."""
    del name, arguments, annotations
    return ()


class Effects:
    """Gives each call of a run its effects; knows what the tools say of themselves.

    Args:
        classify: name, arguments and the tool's own word, to effects. It never raises.
        gate: what is done about those that survive.
        pids: the processes that it uses, which a rewind must not end.
        own: what a tool of the agent's own program says of itself, by its name; it counts for more than what a
            declaration on the wire says.
    """

    def __init__(
        self,
        classify: Classify = nothing,
        gate: Gate | None = None,
        pids: Callable[[], Collection[int]] = tuple,
        own: Callable[[str], Annotations | None] = lambda _: None,
    ) -> None:
        self._classify = classify
        self.pids = pids
        self._own = own
        self.gate = gate or Gate()
        self._let_through: set[str] = set()
        self._annotations: dict[str, Annotations] = {}
        self._claimed: set[str] = set()

    def annotate(self, tool: str, annotations: Annotations) -> None:
        """Take over what a tool says of itself."""
        self._annotations[tool] = annotations

    def learn(self, tools: Sequence[Json]) -> None:
        """Take over the hints of tool declarations on the wire, where a client passes them on."""
        for tool in tools:
            declared = tool.get("function", tool) if isinstance(tool, Mapping) else None
            if isinstance(declared, Mapping) and isinstance(declared.get("annotations"), Mapping):
                self.annotate(str(declared.get("name")), annotations_of(declared["annotations"]))

    def of_answer(self, calls: Sequence[ToolCall]) -> tuple[Effect, ...]:
        """What these calls of an answer will do."""
        return tuple(effect for call in calls for effect in self.of_call(call))

    def of_call(self, call: ToolCall) -> tuple[Effect, ...]:
        return self.of_tool(call.name, said_arguments(call), call.id)

    def of_tool(self, name: str, arguments: Json, call_id: str) -> tuple[Effect, ...]:
        found = self._classify(name, arguments, self._own(name) or self._annotations.get(name))
        return tuple(replace(effect, call=call_id) for effect in found)

    def claimed(self, name: str, call_id: str | None, pending: Mapping[str, str]) -> str:
        """The call of the model that a tool call is: by its id, else the first of that name that no other was."""
        if call_id is None:
            call_id = next((key for key, tool in pending.items() if tool == name and key not in self._claimed), "")
        self._claimed.add(call_id)
        return call_id

    def planned(
        self, uid: RecordUid, answer: Sequence[ToolCall], effects: Sequence[Effect], redact: Redact
    ) -> list[Planned]:
        """The calls of an answer with their effects, for the gate."""
        return [
            Planned(uid, call.id, key_of(call.name, redact(said_arguments(call))), _of(effects, call.id))
            for call in answer
        ]

    def let_through(self, calls: Sequence[ToolCall]) -> None:
        """These calls of an answer may run: their tool nodes aren't asked about again, where any would be."""
        if self.gate.mode != "record":
            self._let_through.update(call.id for call in calls)

    def was_let_through(self, call_id: str) -> bool:
        return call_id in self._let_through


def said_arguments(call: ToolCall) -> Json:
    return call.raw_arguments if call.arguments is None else call.arguments


def key_of(name: str, arguments: Json) -> str:
    """The same for the same call."""
    return digest({"name": name, "arguments": arguments})


def _of(effects: Sequence[Effect], call_id: str) -> tuple[Effect, ...]:
    return tuple(effect for effect in effects if effect.call == call_id)


def annotations_of(hints: Mapping[str, Json]) -> Annotations:
    """MCP's hints; what isn't true or false is as good as missing."""
    return Annotations(**{ours: hints[key] for key, ours in _HINTS.items() if isinstance(hints.get(key), bool)})
