"""ScienceWorld as an environment: a checkpoint is the path that led there, and what was seen on it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from agentrewind.core.codec import digest, to_plain
from agentrewind.core.environment import Branch, IllegalAction, Outcome, ReplayDiverged, Transition
from agentrewind.environments.scienceworld.identity import identity, phrases
from agentrewind.environments.scienceworld.simulator import Simulator, Stage, Task, Told

SOLVED = 100
THING = "OBJ"
FREE = frozenset(("inventory", "task", "look around"))
"""Commands that take no time and change nothing."""
NOT_OFFERED = frozenset(("reset task",))
"""It begins the task anew behind the back of the checkpoints."""


class Point(NamedTuple):
    """A state as it was told: what is shown, and the identity of all that there is."""

    told: Told
    identity: str

    @property
    def seen(self) -> str:
        """The identity of the state and of the answer, whatever the order of its words."""
        return digest([self.identity, phrases(self.told.answer)])


class State(NamedTuple):
    """Reached by the commands `done`; `seen` is for the beginning and after each of them."""

    done: tuple[str, ...]
    seen: tuple[str, ...]
    point: Point


class ScienceWorld:
    """One variation of one task, played in a simulator that others may use in between."""

    name = "scienceworld"

    def __init__(self, task: Task, stage: Stage) -> None:
        self.task = task
        self._stage = stage
        simulator, _ = stage.simulator(self)
        point = self._point(simulator, simulator.begin(task))
        self.description = simulator.description()
        self.templates = tuple(form for form in simulator.templates() if form not in NOT_OFFERED)
        self._start = self._state = State((), (point.seen,), point)
        self._at: State | None = self._start
        """Where our simulator is; None where that isn't known."""

    def reset(self) -> str:
        self.restore(self._start)
        return self.observe()

    def checkpoint(self) -> State:
        return self._state

    def restore(self, checkpoint: State) -> None:
        """Reset the simulator and give it the commands again, all or those that are missing.

        Raises:
            ReplayDiverged: it told something else than before. The state is the one before the call.
        """
        self._led(checkpoint)
        self._state = checkpoint

    def fingerprint(self) -> str:
        return self._state.point.identity

    def observe(self) -> str:
        """The answer to the last command, the native score, and the things that commands can be about."""
        told = self._told
        things = "" if told.numbers else f" Things here: {', '.join(told.things)}."
        return f"{told.answer}\nScore: {told.score}.{things}"

    def actions(self) -> Sequence[str]:
        """The commands about one thing or none that make sense now and take time; there are hundreds about two things.

        Slow: the simulator tries them all, and is played again before the next step.
        """
        if self.outcome is not None:
            return []
        if self._told.numbers:
            return self._told.numbers
        about_one = re.compile("|".join(_pattern(form) for form in self.templates if form.count(THING) <= 1))
        found = [about_one.fullmatch(command) for command in self._led(self._state).valid()]
        self._at = None
        return sorted({match[0] for match in found if match and self._is_here(match)} - FREE)

    def offers(self) -> Sequence[str]:
        """Commands about one thing or none, made of the templates; whether the simulator takes one isn't known."""
        if self.outcome is not None:
            return []
        if self._told.numbers:
            return self._told.numbers
        return [command for template in self.templates for command in _filled(template, self._told.things)]

    def step(self, action: str) -> Transition:
        if self.outcome is not None:
            raise IllegalAction(f"The attempt has ended ({self.outcome}); only going back leads on.")
        if not isinstance(action, str) or "\n" in action or not action.strip():
            raise IllegalAction("A command is one line of words; nothing happens.")
        simulator = self._led(self._state)
        self._at, before = None, self._state
        told = simulator.act(action)
        if not told.taken:
            self._at = before
            raise IllegalAction(f"{action[:80]!r} is no command here; nothing happens.")
        point = self._point(simulator, told)
        self._state = self._at = State((*before.done, action), (*before.seen, point.seen), point)
        reward = (told.score - before.point.told.score) / SOLVED
        return Transition(self.observe(), reward, self.outcome, moved=point.identity != before.point.identity)

    @property
    def outcome(self) -> Outcome | None:
        if self._told.score >= SOLVED:
            return "solved"
        return "failed" if self._told.ended else None

    def progress(self) -> float:
        """The native score as a share; 0 where the task has failed."""
        return max(self._told.score, 0) / SOLVED

    def endpoint_score(self, path: Branch[State]) -> float:
        """The native score at the end, as a share."""
        return path.states[-1].point.told.score / SOLVED

    def branch_score(self, branch: Branch[State]) -> float:
        """The highest score on the branch, its anchor included."""
        return max(state.point.told.score for state in branch.states) / SOLVED

    @cached_property
    def gold(self) -> tuple[str, ...]:
        """For the evaluator, and for demonstrations: never shown to a policy. Slow: up to a minute for some tasks."""
        return tuple(self._stage.gold(self.task))

    @property
    def reference_length(self) -> int | None:
        """How many commands the gold sequence has."""
        return len(self.gold) or None

    @property
    def _told(self) -> Told:
        return self._state.point.told

    def _is_here(self, command: re.Match[str]) -> bool:
        """The simulator counts what lies in closed things as well, and then doesn't know it."""
        return all(thing is None or thing in self._told.things for thing in command.groups())

    def _led(self, state: State) -> Simulator:
        """A simulator that has been led to a state, by as few commands as will do."""
        simulator, kept = self._stage.simulator(self)
        at = self._at if kept else None
        self._at = None
        if at is None or at.seen != state.seen[: len(at.seen)]:
            self._same(state, 0, self._point(simulator, simulator.begin(self.task)))
            at = self._start
        for number in range(len(at.done), len(state.done)):
            self._same(state, number + 1, self._point(simulator, simulator.act(state.done[number])))
        self._at = state
        return simulator

    def _same(self, state: State, number: int, point: Point) -> None:
        if point.seen != state.seen[number]:
            where = f"after {state.done[number - 1]!r}, its command {number}," if number else "at its beginning"
            raise ReplayDiverged(
                f"{self.task.name}, variation {self.task.variation}, was not the same {where} when it was played again."
                " The state can't be brought back; what was recorded of it is still there."
            )

    def _point(self, simulator: Simulator, told: Told) -> Point:
        """Told by a simulator that is there."""
        said = [phrases(simulator.progress()), told.score, told.ended, list(told.numbers)]
        return Point(told, digest(["scienceworld", to_plain(self.task), identity(simulator.world()), *said]))


def _filled(template: str, things: Iterable[str]) -> list[str]:
    places = template.count(THING)
    if not places:
        return [template]
    return [template.replace(THING, thing) for thing in things] if places == 1 else []


def _pattern(template: str) -> str:
    """Of the commands that a template makes. Rooms are named with `to`, also those that are out of sight."""
    return re.escape(template).replace(THING, "(?:to .+|(.+))", 1)
