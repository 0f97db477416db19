"""Small games in the format of ALFWorld's files, written here: one house, a goal of each of the six forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

IN = "(inReceptacle ?o ?r)"
ONE = "(exists (?r - receptacle) (exists (?o - object) (and {} (objectType ?o {}) (receptacleType ?r {}))))"
TWO = """(exists (?r - receptacle) (exists (?o1 - object) (and (objectType ?o1 CupType) (receptacleType ?r ShelfType)
 (inReceptacle ?o1 ?r) (exists (?o2 - object) (and (not (= ?o1 ?o2)) (objectType ?o2 CupType)
 (receptacleType ?r ShelfType) (inReceptacle ?o2 ?r))))))"""
LIGHT = """(exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and (objectType ?ot LampType)
 (toggleable ?ot) (isToggled ?ot) (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r)))
 (exists (?o - object ?a - agent) (and (objectType ?o PearType) (holds ?a ?o)))"""
CUP_TO_SHELF = "take cup 2 from drawer 1; go to shelf 1; move cup 2 to shelf 1"
TASKS = {
    "a cup belongs on the shelf": (
        ONE.format(IN, "CupType", "ShelfType"),
        f"go to drawer 1; open drawer 1; {CUP_TO_SHELF}",
    ),
    "both cups belong on the shelf": (
        TWO,
        (
            f"go to drawer 1; open drawer 1; {CUP_TO_SHELF}; go to sinkbasin 1; take cup 1 from sinkbasin 1;"
            " go to shelf 1; move cup 1 to shelf 1"
        ),
    ),
    "a pear is looked at in the light": (
        LIGHT,
        "go to fridge 1; open fridge 1; take pear 1 from fridge 1; go to shelf 1; use lamp 1",
    ),
    "a clean cup belongs into the drawer": (
        ONE.format(f"(cleanable ?o) (isClean ?o) {IN}", "CupType", "DrawerType"),
        (
            "go to sinkbasin 1; take cup 1 from sinkbasin 1; clean cup 1 with sinkbasin 1; go to drawer 1;"
            " open drawer 1; move cup 1 to drawer 1"
        ),
    ),
    "a hot pear belongs on the shelf": (
        ONE.format(f"(heatable ?o) (isHot ?o) {IN}", "PearType", "ShelfType"),
        (
            "go to fridge 1; open fridge 1; take pear 1 from fridge 1; go to microwave 1; heat pear 1 with microwave 1;"
            " go to shelf 1; move pear 1 to shelf 1"
        ),
    ),
    "a cool knife belongs into the drawer": (
        ONE.format(f"(coolable ?o) (isCool ?o) {IN}", "KnifeType", "DrawerType"),
        (
            "go to shelf 1; take knife 1 from shelf 1; go to fridge 1; cool knife 1 with fridge 1; go to drawer 1;"
            " open drawer 1; move knife 1 to drawer 1"
        ),
    ),
}
"""For each task its goal and a walkthrough."""
HELP = "\nOpen, close, take, move, use, and so on.\n"
ROOM = {
    "Drawer_bar_1": ("DrawerType", "loc_bar_1"),
    "Cabinet_bar_1": ("CabinetType", "loc_bar_1"),
    "Shelf_bar_1": ("ShelfType", "loc_bar_2"),
    "Fridge_bar_1": ("FridgeType", "loc_bar_3"),
    "Microwave_bar_1": ("MicrowaveType", "loc_bar_4"),
    "Sink_bar_1_bar_SinkBasin": ("SinkBasinType", "loc_bar_5"),
}
THINGS = {
    "Cup_bar_1": ("CupType", "Drawer_bar_1"),
    "Cup_bar_2": ("CupType", "Sink_bar_1_bar_SinkBasin"),
    "Pear_bar_1": ("PearType", "Fridge_bar_1"),
    "Knife_bar_1": ("KnifeType", "Shelf_bar_1"),
    "Lamp_bar_1": ("LampType", "Shelf_bar_1"),
}
OPENABLE = ("Drawer_bar_1", "Fridge_bar_1", "Microwave_bar_1")
ABLE = {
    "pickupable": ("Cup_bar_1", "Cup_bar_2", "Pear_bar_1", "Knife_bar_1"),
    "cleanable": ("Cup_bar_1", "Cup_bar_2"),
    "heatable": ("Pear_bar_1",),
    "coolable": ("Pear_bar_1", "Knife_bar_1"),
    "sliceable": ("Pear_bar_1",),
    "toggleable": ("Lamp_bar_1",),
    "isReceptacleObject": ("Cup_bar_1",),
}


def household(task: str) -> dict[str, Any]:
    """The parts of the file of the game with this task."""
    goal, walkthrough = TASKS[task]
    return {
        "pddl_domain": "(define (domain alfred))",
        "grammar": _grammar(task),
        "pddl_problem": _problem(goal),
        "solvable": True,
        "walkthrough": walkthrough.split("; "),
    }


def written(directory: Path, split: str = "valid_unseen") -> Path:
    """All games as files, under a root as `ALFWORLD_DATA` names one."""
    for number, task in enumerate(TASKS):
        folder = directory / "json_2.1.1" / split / f"task-{number}" / "trial_1"
        folder.mkdir(parents=True)
        (folder / "game.tw-pddl").write_text(json.dumps(household(task)), encoding="utf-8")
    return directory


def _grammar(task: str) -> str:
    rules = json.dumps({"task": [{"rhs": f"Your task is to: {task}."}]}, indent=4)
    return f'grammar :: """{rules}""";\naction help {{\n    template :: "help";\n    feedback :: "{HELP}";\n}}\n'


def _problem(goal: str) -> str:
    places = sorted({place for _, place in ROOM.values()} | {"loc_bar_0"})
    kinds = {kind for kind, _ in THINGS.values()}
    objects = [
        "agent1 - agent",
        *(f"{name} - object" for name in THINGS),
        *(f"{name} - receptacle" for name in ROOM),
        *(f"{name} - location" for name in places),
        *(f"{kind} - otype" for kind in kinds),
        *(f"{kind} - rtype" for kind, _ in ROOM.values()),
    ]
    facts = ["(atLocation agent1 loc_bar_0)", *_standing(), *_lying(kinds)]
    facts += [f"({able} {name})" for able, names in ABLE.items() for name in names]
    said = f"(:objects {' '.join(objects)})\n(:init {' '.join(facts)})\n(:goal (and {goal}))"
    return f"(define (problem ours) (:domain alfred)\n{said})"


def _standing() -> list[str]:
    found = [
        f"(receptacleType {name} {kind}) (receptacleAtLocation {name} {place})" for name, (kind, place) in ROOM.items()
    ]
    return [*found, *(f"(openable {name})" for name in OPENABLE)]


def _lying(kinds: set[str]) -> list[str]:
    found = [
        f"(objectType {name} {kind}) (inReceptacle {name} {where}) (objectAtLocation {name} {ROOM[where][1]})"
        for name, (kind, where) in THINGS.items()
    ]
    fitting = [f"(canContain {where} {kind})" for where, _ in ROOM.values() for kind in kinds]
    return [*found, *fitting, "(inReceptacleObject Knife_bar_1 Cup_bar_1)"]
