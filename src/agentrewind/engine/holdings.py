"""What an agent holds besides its messages (variables of an interpreter, say), kept so that a rewind brings it back.

In memory only: nobody but the agent can read it, so nobody could take a secret out of it before it reached a disk.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentrewind.core.records import RecordUid


@dataclass(frozen=True, slots=True)
class Held:
    """A state of the agent, in bytes that only it understands. Empty bytes: nothing of it is known any more."""

    data: bytes = b""
    lost: tuple[str, ...] = ()
    """What of it can't be kept, by the names that the agent knows."""


class Holdings:
    """The states of one agent at its calls of the model."""

    def __init__(self) -> None:
        self._at: dict[RecordUid, Held] = {}
        self._now: Held | None = None
        self._back: Held | None = None

    def hold(self, held: Held) -> None:
        """What the agent holds before the call of the model that comes next."""
        self._now = self._now if self._now == held else held  # equal states are one object

    def belongs_to(self, uid: RecordUid) -> None:
        """The call is about to be made. Where the agent has to be brought back, that state is the call's."""
        held = self._back or self._now
        if held is not None:
            self._at[uid] = held

    def go_back(self, target: RecordUid | None) -> None:
        """The agent has to be brought to the state of `target`; nothing happens where it never held any."""
        if self._now is not None and target is not None:
            self._back = self._at.get(target, Held())

    def stay(self) -> None:
        """The agent needn't be brought anywhere."""
        self._back = None

    def take(self) -> Held | None:
        """The state that the agent has to be brought to, once; None where it may stay as it is."""
        back, self._back = self._back, None
        if back is not None:
            self._now = back
        return back

    def told(self, target: RecordUid | None) -> str:
        """What the model has to know of what a rewind to `target` can't bring back; empty where there is nothing."""
        if self._now is None or target is None:
            return ""
        held = self._at.get(target)
        if held is None:
            return "\nNone of the variables of your code could be brought back: define again what you need."
        if not held.lost:
            return ""
        return f"\nThese variables of your code could not be brought back, define them again: {', '.join(held.lost)}."
