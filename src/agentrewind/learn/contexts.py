"""What the policy is shown, and what of it comes back with a checkpoint (paper, appendix D.3).

One rule an environment family, and one for compact prompts: see the classes. A context that a call was made from is
never changed later.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from agentrewind.learn.trial import Context, Message


@dataclass(frozen=True, slots=True)
class View:
    """All that an observation message says."""

    observation: str
    checkpoint: int
    targets: tuple[int, ...]
    """Checkpoints that may be asked for now; none where that is not allowed."""
    used: int
    calls: int
    spent: int
    allowance: int
    actions: tuple[str, ...] = ()
    """Admissible commands, where the environment tells them."""
    done: tuple[str, ...] = ()
    """What was done on the active path. No message says it again: it is for policies that are programs."""
    notes: tuple[str, ...] = ()
    """Memories that go into the observation itself (`RestoresThePrefixAndTells`, `BuildsAnew`)."""


@dataclass(frozen=True, slots=True)
class BranchView:
    """All that a reflection is told of the branch that is about to be abandoned."""

    trigger: str
    """`asked`, `failed`, `allowance`; or `review`, where an assistant looks for an error and may find none."""
    source: int
    target: int | None
    """Known where the policy asked for it, else it is to be chosen below `source`."""
    states: tuple[str, ...]
    """What was observed at each checkpoint of the active path."""
    actions: tuple[str, ...]
    """What was done between them."""
    earlier: tuple[str, ...]
    """The notes of earlier reflections, oldest first."""


class Wording(Protocol):
    """The words of one environment in one style."""

    def system(self) -> str:
        """Rules, symbols, budgets, what a rewind restores, the form of an answer."""

    def observation(self, view: View) -> str: ...

    def feedback(self, why: str, view: View) -> str:
        """To an answer that could not be taken, with the numbers as they are now."""

    def memory(self, note: str, target: int) -> str:
        """The note of an abandoned branch, as the policy reads it later."""

    def reflection(self, branch: BranchView) -> Context:
        """The whole input of a reflection call."""


class Conversation(Protocol):
    """One trial's messages."""

    def show(self, view: View) -> None:
        """A checkpoint is reached: the next one of the path, or, right after `went_back`, its target."""

    def context(self) -> Context:
        """The input of the next call."""

    def answered(self, text: str, told: str | None = None) -> None:
        """What the policy said, and what it was told where that changed nothing."""

    def went_back(self, target: int, note: str) -> None:
        """The checkpoint `target` is the present one again."""


class RestoresThePrefix:
    """MineSweeper, Sokoban: the messages before the observation of `C_j`, then one message with the new note.

    A note that stood there from an earlier return to the same checkpoint is replaced.
    """

    def __init__(self, wording: Wording) -> None:
        self._words = wording
        self._prefixes: list[Context] = [(_message("system", wording.system()),)]
        """For each checkpoint of the active path the messages before its observation, without a note."""
        self._notes: dict[int, str] = {}
        self._shown: tuple[Message, ...] = ()
        self._since: tuple[Message, ...] = ()

    def show(self, view: View) -> None:
        if view.checkpoint == len(self._prefixes):
            self._prefixes.append(self.context())
            self._since = ()
        self._shown = (_message("user", self._words.observation(self._told(view))),)

    def context(self) -> Context:
        return (*self._prefixes[-1], *self._memory(), *self._shown, *self._since)

    def answered(self, text: str, told: str | None = None) -> None:
        self._since = (*self._since, *_exchange(text, told))

    def went_back(self, target: int, note: str) -> None:
        del self._prefixes[target + 1 :]
        self._notes = _with_note(self._notes, target, note and self._words.memory(note, target))
        self._shown = self._since = ()

    def _told(self, view: View) -> View:
        return view

    def _memory(self) -> Context:
        note = self._notes.get(len(self._prefixes) - 1)
        return () if note is None else (_message("user", note),)


class RestoresThePrefixAndTells(RestoresThePrefix):
    """ScienceWorld: the prefix comes back, and the notes stand in the observation that follows."""

    def __init__(self, wording: Wording) -> None:
        super().__init__(wording)
        self._memories: tuple[str, ...] = ()
        self._tell = False

    def went_back(self, target: int, note: str) -> None:
        super().went_back(target, note)
        self._memories = (*self._memories, *([self._words.memory(note, target)] if note else ()))
        self._tell = True

    def _told(self, view: View) -> View:
        told, self._tell = self._tell, False
        return replace(view, notes=self._memories) if told else view

    def _memory(self) -> Context:
        return ()


class BuildsAnew:
    """ALFWorld: after a recovery the system message, the restored observation and the notes; nothing from before."""

    def __init__(self, wording: Wording) -> None:
        self._words = wording
        self._start: Context = (_message("system", wording.system()),)
        self._since: Context = ()
        self._memories: tuple[str, ...] = ()

    def show(self, view: View) -> None:
        notes = () if self._since else self._memories
        self._since = (*self._since, _message("user", self._words.observation(replace(view, notes=notes))))

    def context(self) -> Context:
        return (*self._start, *self._since)

    def answered(self, text: str, told: str | None = None) -> None:
        self._since = (*self._since, *_exchange(text, told))

    def went_back(self, target: int, note: str) -> None:
        self._since = ()
        self._memories = (*self._memories, *([self._words.memory(note, target)] if note else ()))


class ShowsThePresent:
    """The compact style of MineSweeper and Sokoban, for models that read a few dozen words: one observation is all of a
    state there. The notes on the path, the present observation, and the last answer to it; nothing from before.
    """

    def __init__(self, wording: Wording) -> None:
        self._words = wording
        self._start: Context = (_message("system", wording.system()),)
        self._notes: dict[int, str] = {}
        self._since: Context = ()

    def show(self, view: View) -> None:
        self._since = (_message("user", self._words.observation(view)),)

    def context(self) -> Context:
        return (*self._start, *(_message("user", note) for note in self._notes.values()), *self._since)

    def answered(self, text: str, told: str | None = None) -> None:
        self._since = (*self._since[:1], *_exchange(text, told))

    def went_back(self, target: int, note: str) -> None:
        self._notes = _with_note(self._notes, target, note and self._words.memory(note, target))


def _with_note(notes: dict[int, str], target: int, note: str) -> dict[int, str]:
    """Those from before the target, and the new one; an empty one says nothing, and isn't shown."""
    kept = {at: text for at, text in notes.items() if at < target}
    return {**kept, target: note} if note else kept


def _exchange(text: str, told: str | None) -> Context:
    return (_message("assistant", text), *(() if told is None else (_message("user", told),)))


def _message(role: str, content: str) -> Message:
    return {"role": role, "content": content}
