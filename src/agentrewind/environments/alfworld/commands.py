"""Which commands are admissible, and what they do: the fifteen actions of ALFWorld's domain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agentrewind.environments.alfworld.house import House, members


class Command(NamedTuple):
    """An action of the domain, by its name there, and what it is about; -1 where it has no such thing."""

    action: str
    thing: int = -1
    receptacle: int = -1


BECOMES = {
    "CleanObject": (("isclean",), ()),
    "HeatObject": (("ishot",), ("iscool",)),
    "CoolObject": (("iscool",), ("ishot",)),
    "ToggleObject": (("istoggled",), ()),
    "SliceObject": (("issliced",), ()),
}
"""What a thing is afterwards, and no longer."""
NEEDS = {"clean": "cleanable", "heat": "heatable", "cool": "coolable"}
ALWAYS = {word: Command(word) for word in ("help", "inventory", "look")}


def ways(house: House) -> tuple[dict[str, Command], ...]:
    """For each place what is admissible whatever the state: the ways to other places, and looking about."""
    going = [
        (found.place, f"go to {found.name}", Command("GotoLocation", receptacle=number))
        for number, found in enumerate(house.receptacles)
        if found.place >= 0
    ]
    going.sort(key=lambda way: way[1])
    return tuple(
        {text: command for place, text, command in going if place != here} | ALWAYS for here in range(len(house.places))
    )


def local(house: House, facts: int) -> Iterator[tuple[str, Command]]:
    """The other commands, about what is here."""
    here, held = house.here(facts), house.held(facts)
    for number in house.at_place[here]:
        yield from _about(house, facts, number, held)
    if held >= 0:
        # The domain names a second way, for what lies open here; a comma after a type keeps the engine from taking it.
        yield f"examine {house.objects[held]}", Command("examineObject", held)
        if house.knives >> held & 1:
            yield from _slicing(house, facts, here, held)


def _about(house: House, facts: int, number: int, held: int) -> Iterator[tuple[str, Command]]:
    """What can be done with a receptacle here, and with what is in it."""
    found = house.receptacles[number]
    contents = house.contents(facts, number)
    yield f"examine {found.name}", Command("examineReceptacle", receptacle=number)
    if found.openable:
        yield _turned(found.name, number, opened=house.is_open(facts, number))
    if house.reachable(facts, number):
        yield from _moving(house, contents, number, held)
    for thing in members(contents & house.able["toggleable"]):
        yield f"use {house.objects[thing]}", Command("ToggleObject", thing, number)
    if held >= 0 and found.tool is not None and house.able[NEEDS[found.tool]] >> held & 1:
        text = f"{found.tool} {house.objects[held]} with {found.name}"
        yield text, Command(f"{found.tool.capitalize()}Object", held, number)


def _turned(name: str, number: int, *, opened: bool) -> tuple[str, Command]:
    if opened:
        return f"close {name}", Command("CloseObject", receptacle=number)
    return f"open {name}", Command("OpenObject", receptacle=number)


def _moving(house: House, contents: int, number: int, held: int) -> Iterator[tuple[str, Command]]:
    found = house.receptacles[number]
    if held < 0:
        for thing in members(contents & house.able["pickupable"]):
            yield f"take {house.objects[thing]} from {found.name}", Command("PickupObject", thing, number)
    elif found.takes >> held & 1:
        yield f"move {house.objects[held]} to {found.name}", Command("PutObject", held, number)


def _slicing(house: House, facts: int, here: int, knife: int) -> Iterator[tuple[str, Command]]:
    lying = facts >> house.lying_at(0, here) & house.everything
    for thing in members(lying & house.able["sliceable"]):
        yield f"slice {house.objects[thing]} with {house.objects[knife]}", Command("SliceObject", thing)


def applied(house: House, facts: int, command: Command) -> int:
    """The facts after a command that is admissible. Facts that nothing depends on are left out (`checked`, `isOn`)."""
    action, thing, number = command
    gained, lost = _effects(house, house.here(facts), action, thing, number)
    return facts & ~_bits(lost) | _bits(gained)


def _effects(house: House, here: int, action: str, thing: int, number: int) -> tuple[list[int], list[int]]:
    """The numbers of the facts that hold afterwards, and of those that don't."""
    if action == "PickupObject":
        left = [house.left_in(thing, number)] if house.receptacles[number].shares else []
        return [house.holding + thing, *left], [house.in_receptacle(thing, number), house.lying_at(thing, here)]
    if action == "PutObject":
        gained = [house.in_receptacle(thing, number), house.lying_at(thing, here)]
        return gained, [house.holding + thing, house.left_in(thing, number)]
    if action == "GotoLocation":
        return [house.receptacles[number].place], [here]
    if action in {"OpenObject", "CloseObject"}:
        return ([house.opened + number], []) if action == "OpenObject" else ([], [house.opened + number])
    made, ended = BECOMES.get(action, ((), ()))
    return [house.being[fact] + thing for fact in made], [house.being[fact] + thing for fact in ended]


def _bits(numbers: list[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits
