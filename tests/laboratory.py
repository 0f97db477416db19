"""A simulator with the manners of ScienceWorld's, written here: three rooms, a few things, water that boils.

It lists things in another order after each reset, asks back where a name is shared, and doesn't know most commands.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from agentrewind.environments.scienceworld.simulator import Simulator, Task, Told

ROOMS = ("hall", "kitchen", "garden")
GOLD = ("go kitchen", "focus on pot", "activate stove", "wait", "wait")
BOILS = 3


class Laboratory:
    """One game at a time."""

    def __init__(self, luck: random.Random | None = None) -> None:
        self._luck = luck
        """Where it is given, the stove heats as it likes."""
        self._order = random.Random(0)
        self.resets = 0
        self.acts = 0

    def begin(self, task: Task) -> Told:
        self.resets += 1
        self._order.seed(self.resets)
        self._task = task
        self._room, self._heat, self._on, self._score, self._asked, self._ticks = "hall", 0, False, 0, False, 0
        self._places = {"pot": "kitchen", "stove": "kitchen", "red box": "hall", "blue box": "hall", "tree": "garden"}
        return self._told(self._look())

    def act(self, command: str) -> Told:  # noqa: PLR0911 (one a command)
        self.acts += 1
        if self._asked:
            return self._settled(command)
        verb, _, thing = command.partition(" ")
        if command == "look around":
            return self._told(self._look())
        if command == "open box" and self._room == "hall":
            self._asked = True
            return self._told("Ambiguous request:\n0:\topen red box\n1:\topen blue box\n")
        if command == "wait":
            return self._tick("Time passes.")
        if verb == "go" and thing in ROOMS and thing != self._room:
            self._room = thing
            return self._tick(f"You move to the {thing}.")
        if command == "activate stove" and self._here("stove"):
            self._on = True
            return self._tick("The stove is on.")
        if verb == "focus" and self._here(thing.removeprefix("on ")):
            self._score = max(self._score, 30) if thing == "on pot" else -100
            return self._tick(f"You focus {thing}.")
        return self._told("No known action matches that input.", taken=False)

    def world(self) -> Any:
        names = list(self._places)
        self._order.shuffle(names)
        things = {f"{name}-{number}": self._thing(name, str(number)) for number, name in enumerate(names)}
        clock = {"uuid": "99", "name": "agent", "room": self._room, "ticks": self._ticks, "contents": {}}
        return {"uuid": "1", "name": "house", "contents": {**things, "agent-99": clock}}

    def progress(self) -> str:
        return f"0 {self._score >= 30} focus on the pot\n1 {self._heat >= BOILS} boil the water"

    def description(self) -> str:
        return "Your task is to boil water. First, focus on the pot."

    def templates(self) -> Sequence[str]:
        return ("activate OBJ", "focus on OBJ", "go OBJ", "look around", "move OBJ to OBJ", "open OBJ", "wait")

    def valid(self) -> Sequence[str]:
        self._ticks += 100  # as the real one, it isn't what it was before it was asked
        here = [name for name in self._places if self._here(name)]
        rooms = [f"go {room}" for room in ROOMS if room != self._room]
        stove = ["activate stove"] if "stove" in here else []
        both = [f"move {one} to {other}" for one in here for other in here if one != other]
        return ["look around", "wait", *rooms, *stove, *(f"focus on {name}" for name in here), *both]

    def _settled(self, number: str) -> Told:
        self._asked = False
        if number not in {"0", "1"}:
            return self._told("Nothing is opened.")
        return self._tick(f"You open the {('red', 'blue')[int(number)]} box.")

    def _tick(self, answer: str) -> Told:
        self._ticks += 1
        self._heat += self._on and (self._luck is None or self._luck.random() < 0.5)
        if self._heat >= BOILS and self._score == 30:
            self._score = 100
        return self._told(answer)

    def _told(self, answer: str, *, taken: bool = True) -> Told:
        ended = not 0 <= self._score < 100
        numbers = ("0", "1") if self._asked else ()
        names = sorted(name for name in (*self._places, *ROOMS) if name in ROOMS or self._here(name))
        return Told(answer, taken, self._score, ended, tuple(names), numbers)

    def _thing(self, name: str, number: str) -> Any:
        heat = self._heat if name == "pot" else 0
        return {"uuid": number, "name": name, "in": self._places[name], "heat": heat, "on": self._on, "contents": {}}

    def _here(self, name: str) -> bool:
        return self._places.get(name) == self._room

    def _look(self) -> str:
        here = [name for name in self._places if self._here(name)]
        self._order.shuffle(here)
        return f"This room is called the {self._room}. In it, you see:\n\t" + "\n\t".join(f"a {name}" for name in here)


class Bench:
    """A stage with so many simulators, given to whoever asks; the one that wasn't used for longest is given next."""

    def __init__(self, *simulators: Laboratory) -> None:
        self._seats: list[tuple[object, Laboratory]] = [(None, simulator) for simulator in simulators]

    def simulator(self, player: object) -> tuple[Simulator, bool]:
        for number, (held, simulator) in enumerate(self._seats):
            if held is player:
                self._seats.append(self._seats.pop(number))
                return simulator, True
        self._seats.append((player, self._seats.pop(0)[1]))
        return self._seats[-1][1], False

    def gold(self, task: Task) -> Sequence[str]:
        del task
        return GOLD
