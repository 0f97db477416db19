"""What never changes in a game, and the numbers of the facts that do: a set of facts is one integer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from agentrewind.environments.alfworld.names import names
from agentrewind.environments.alfworld.pddl import Fact, Problem

TOOLS = {"sinktype": "clean", "sinkbasintype": "clean", "microwavetype": "heat", "fridgetype": "cool"}
"""What a kind of receptacle is good for."""
KNIVES = frozenset({"knifetype", "butterknifetype"})
CHANGING = ("isclean", "ishot", "iscool", "istoggled", "issliced")
"""Facts about one object."""


@dataclass(frozen=True, slots=True)
class Receptacle:
    name: str
    place: int
    openable: bool
    takes: int
    """The objects that may be put there."""
    tool: str | None
    shares: bool
    """Another one is at the same place."""


@dataclass(frozen=True)
class House:
    """Objects, receptacles and places have numbers, in the order of their ids; a set of objects is an integer."""

    ids: tuple[str, ...]
    objects: tuple[str, ...]
    """The names of the objects."""
    receptacles: tuple[Receptacle, ...]
    receptacle_ids: tuple[str, ...]
    places: tuple[str, ...]
    able: dict[str, int]
    """For `pickupable` and the like the objects that are."""
    knives: int
    within: dict[int, tuple[int, ...]]
    """What is inside of an object, for those that hold others; nothing changes it."""

    @cached_property
    def everything(self) -> int:
        return (1 << len(self.objects)) - 1

    @cached_property
    def anywhere(self) -> int:
        return (1 << len(self.places)) - 1

    @cached_property
    def holding(self) -> int:
        """Where the numbers of `holds` begin; before them are those of the agent's place."""
        return len(self.places)

    @cached_property
    def opened(self) -> int:
        return self.holding + len(self.objects)

    @cached_property
    def being(self) -> dict[str, int]:
        """Where the numbers of each fact about one object begin."""
        first = self.opened + len(self.receptacles)
        return {fact: first + number * len(self.objects) for number, fact in enumerate(CHANGING)}

    @cached_property
    def inside(self) -> int:
        return self.opened + len(self.receptacles) + len(CHANGING) * len(self.objects)

    @cached_property
    def lying(self) -> int:
        return self.inside + len(self.receptacles) * len(self.objects)

    @cached_property
    def left(self) -> int:
        """Facts of the engine's own: this object was taken out of that receptacle, and not put back."""
        return self.lying + len(self.places) * len(self.objects)

    @cached_property
    def at_place(self) -> tuple[tuple[int, ...], ...]:
        """For each place the receptacles there."""
        return tuple(
            tuple(number for number, found in enumerate(self.receptacles) if found.place == place)
            for place in range(len(self.places))
        )

    def number(self, fact: Fact) -> int | None:
        """The number of a fact that can change; None for one that can't, or that nothing depends on.

        Raises:
            ValueError: it is about something that isn't here.
        """
        name, *about = fact
        if name in CHANGING:
            return self.being[name] + self.ids.index(about[0])
        if name == "opened":
            return self.opened + self.receptacle_ids.index(about[0])
        if name in {"atlocation", "holds"}:
            place = name == "atlocation"
            return self.places.index(about[1]) if place else self.holding + self.ids.index(about[1])
        return self._whereabouts(name, about)

    def _whereabouts(self, name: str, about: list[str]) -> int | None:
        if name == "inreceptacle":
            return self.in_receptacle(self.ids.index(about[0]), self.receptacle_ids.index(about[1]))
        if name == "objectatlocation":
            return self.lying_at(self.ids.index(about[0]), self.places.index(about[1]))
        return None

    def in_receptacle(self, thing: int, receptacle: int) -> int:
        return self.inside + receptacle * len(self.objects) + thing

    def lying_at(self, thing: int, place: int) -> int:
        return self.lying + place * len(self.objects) + thing

    def left_in(self, thing: int, receptacle: int) -> int:
        return self.left + receptacle * len(self.objects) + thing

    def here(self, facts: int) -> int:
        return (facts & self.anywhere).bit_length() - 1

    def held(self, facts: int) -> int:
        """The object in the agent's hand, or -1."""
        return (facts >> self.holding & self.everything).bit_length() - 1

    def contents(self, facts: int, receptacle: int) -> int:
        return facts >> self.in_receptacle(0, receptacle) & self.everything

    def is_open(self, facts: int, receptacle: int) -> bool:
        return bool(facts >> self.opened + receptacle & 1)

    def reachable(self, facts: int, receptacle: int) -> bool:
        return not self.receptacles[receptacle].openable or self.is_open(facts, receptacle)


def members(objects: int) -> Iterator[int]:
    """The numbers in a set, the lowest first."""
    while objects:
        lowest = objects & -objects
        yield lowest.bit_length() - 1
        objects ^= lowest


def house(problem: Problem) -> House:
    """The house of a problem: whatever a fact is about is in it."""
    about = {name for fact in problem.facts for name in fact[1:]}
    named = names(about)
    ids, receptacles, places = (
        tuple(sorted(name for name in about if problem.types.get(name) == kind))
        for kind in ("object", "receptacle", "location")
    )
    facts = _Facts(problem.facts)
    places_of = {name: places.index(place) for name, place in facts.pairs("receptacleatlocation")}
    kinds, fitting = dict(facts.pairs("objecttype")), set(facts.pairs("cancontain"))

    def receptacle(name: str) -> Receptacle:
        kind = dict(facts.pairs("receptacletype")).get(name, "")
        place = places_of.get(name, -1)
        takes = _set(number for number, thing in enumerate(ids) if (kind, kinds.get(thing)) in fitting)
        shares = list(places_of.values()).count(place) > 1
        return Receptacle(named[name], place, name in facts.all("openable"), takes, TOOLS.get(kind), shares)

    return House(
        ids,
        tuple(named[name] for name in ids),
        tuple(map(receptacle, receptacles)),
        receptacles,
        places,
        {able: _set(map(ids.index, facts.all(able))) for able in ABILITIES},
        _set(number for number, thing in enumerate(ids) if kinds.get(thing) in KNIVES),
        {ids.index(outer): _within(ids, outer, facts) for outer in facts.all("isreceptacleobject")},
    )


ABILITIES = ("pickupable", "cleanable", "heatable", "coolable", "toggleable", "sliceable")


class _Facts:
    """Facts by their predicate."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._found: dict[str, list[Fact]] = {}
        for name, *about in sorted(facts):
            self._found.setdefault(name, []).append(tuple(about))

    def all(self, name: str) -> list[str]:
        return [about[0] for about in self._found.get(name, [])]

    def pairs(self, name: str) -> list[tuple[str, str]]:
        return [(first, second) for first, second in self._found.get(name, [])]


def _within(ids: tuple[str, ...], outer: str, facts: _Facts) -> tuple[int, ...]:
    return tuple(ids.index(inner) for inner, around in facts.pairs("inreceptacleobject") if around == outer)


def _set(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in set(numbers))
