"""What a command is answered: the templates of the games' grammar, which is the same in every game but for its task."""

from __future__ import annotations

from collections.abc import Sequence

from agentrewind.environments.alfworld.commands import Command
from agentrewind.environments.alfworld.house import House, members

WELCOME = "-= Welcome to TextWorld, ALFRED! =-"
SAYS = {
    "CloseObject": "You close the {r}.",
    "PickupObject": "You pick up the {o} from the {r}.",
    "PutObject": "You move the {o} to the {r}.",
    "ToggleObject": "You turn on the {o}.",
    "HeatObject": "You heat the {o} using the {r}.",
    "CleanObject": "You clean the {o} using the {r}.",
    "CoolObject": "You cool the {o} using the {r}.",
    "SliceObject": "You sliced the {o} with the {held}.",
}
ABOUT_A_RECEPTACLE = {
    "GotoLocation": "You arrive at {r}. ",
    "OpenObject": "You open the {r}. ",
    "examineReceptacle": "",
}
"""What comes before the receptacle is described."""
CONDITIONS = (
    (("isclean", "ishot", "issliced"), "hot and clean sliced"),
    (("isclean", "iscool", "issliced"), "cool and clean sliced"),
    (("isclean", "issliced"), "clean sliced"),
    (("ishot", "issliced"), "hot sliced"),
    (("iscool", "issliced"), "cool sliced"),
    (("isclean", "ishot"), "hot and clean"),
    (("isclean", "iscool"), "cool and clean"),
    (("ishot",), "hot"),
    (("isclean",), "clean"),
    (("iscool",), "cold"),
)
"""Of an object: the first that holds is told."""


def listed(things: Sequence[str]) -> str:
    """The games' lists: a comma stands also before the `and` of two."""
    return ", and ".join(filter(None, (", ".join(things[:-1]), things[-1]))) if things else "nothing"


def intro(house: House, facts: int, task: str) -> str:
    seen = _facing(house, facts) or _middle([found.name for found in house.receptacles if found.place >= 0])
    return f"{WELCOME}\n\n{seen}\n\n{task}"


def told(house: House, facts: int, command: Command, helped: str) -> str:
    """The answer to a command, of the facts after it."""
    action, thing, number = command
    if action in ABOUT_A_RECEPTACLE:
        return ABOUT_A_RECEPTACLE[action].format(r=house.receptacles[number].name) + _receptacle(house, facts, number)
    if action in SAYS:
        held = house.objects[house.held(facts)]
        return SAYS[action].format(o=house.objects[thing], r=house.receptacles[number].name, held=held)
    if action == "examineObject":
        return _object(house, facts, thing)
    if action == "look":
        return _facing(house, facts) or _middle([])
    return helped if action == "help" else _inventory(house, facts)


def _inventory(house: House, facts: int) -> str:
    held = house.held(facts)
    return f"You are carrying: a {house.objects[held]}." if held >= 0 else "You are not carrying anything."


def _middle(seen: Sequence[str]) -> str:
    around = listed([f"a {name}" for name in seen])
    return f"You are in the middle of a room. Looking quickly around you, you see {around}."


def _facing(house: House, facts: int) -> str | None:
    """What is seen where a receptacle is: beside it lies what was taken out of one here and put into another."""
    here = house.here(facts)
    facing = house.at_place[here]
    if not facing:
        return None
    beside = [
        f"a {house.objects[thing]}"
        for thing in members(facts >> house.lying_at(0, here) & house.everything)
        for number in facing
        if facts >> house.left_in(thing, number) & 1
    ]
    names = listed([house.receptacles[number].name for number in facing])
    return f"You are facing the {names}. Next to it, you see {listed(beside)}."


def _receptacle(house: House, facts: int, number: int) -> str:
    found = house.receptacles[number]
    if not house.reachable(facts, number):
        return f"The {found.name} is closed."
    things = listed([f"a {house.objects[thing]}" for thing in members(house.contents(facts, number))])
    return (
        f"The {found.name} is open. In it, you see {things}."
        if found.openable
        else f"On the {found.name}, you see {things}."
    )


def _object(house: House, facts: int, thing: int) -> str:
    name = house.objects[thing]
    if thing in house.within:
        return (
            f"This is a normal {name}. In it, you see {listed([f'a {house.objects[o]}' for o in house.within[thing]])}."
        )
    true = {fact for fact, first in house.being.items() if facts >> first + thing & 1}
    for facts_needed, condition in CONDITIONS:
        if true.issuperset(facts_needed):
            return f"This is a {condition} {name}."
    if "istoggled" in true and house.able["toggleable"] >> thing & 1:
        return f"This {name} is on."
    if "issliced" in true and house.able["sliceable"] >> thing & 1:
        return f"This is a sliced {name}."
    return f"There's nothing special about {name}."
