"""When a game is won, and how much of that is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from agentrewind.core.environment import IllegalAction
from agentrewind.environments.alfworld.house import House
from agentrewind.environments.alfworld.pddl import Expression, Fact, Problem

Binding = dict[str, str]


@dataclass(frozen=True, slots=True)
class Goal:
    """For each way to bind the goal's variables the set of facts that have to hold."""

    ways: tuple[int, ...]

    def met(self, facts: int) -> bool:
        return any(facts & way == way for way in self.ways)

    def share(self, facts: int) -> float:
        """The largest share of its facts that one binding has. What can't change only says which bindings there are."""
        return max(((facts & way).bit_count() / way.bit_count() for way in self.ways), default=0.0)


@dataclass(slots=True)
class _Flat:
    """A goal without its nesting: variables with their types, and what has to hold of them together."""

    types: Binding = field(default_factory=dict)
    fixed: list[Fact] = field(default_factory=list)
    changing: list[Fact] = field(default_factory=list)
    unequal: list[tuple[str, str]] = field(default_factory=list)


CHANGES = {"atlocation", "holds", "opened", "inreceptacle", "isclean", "ishot", "iscool", "istoggled", "issliced"}


def goal(problem: Problem, house: House) -> Goal:
    """The goal of a problem.

    Raises:
        IllegalAction: it has another form than those of ALFWorld: `and`, `exists`, facts, and two that differ.
    """
    flat = _Flat()
    _flatten(problem.goal, flat)
    ways = (_way(flat.changing, found, problem, house) for found in _bindings(flat, problem))
    return Goal(tuple(sorted({way for way in ways if way})))


def _flatten(part: Expression, flat: _Flat) -> None:
    if not isinstance(part, list) or not part:
        raise IllegalAction("The goal of this game has a form that is not known.")
    head, *rest = part
    if head == "and":
        for inner in rest:
            _flatten(inner, flat)
    elif head == "exists" and len(rest) == 2:  # noqa: PLR2004
        _declare(rest[0], flat)
        _flatten(rest[1], flat)
    elif head == "not" and isinstance(rest[0], list) and rest[0][0] == "=":
        flat.unequal.append((str(rest[0][1]), str(rest[0][2])))
    elif head in {"not", "or", "forall", "imply", "="} or not all(isinstance(name, str) for name in part):
        raise IllegalAction(f"The goal of this game has a part that is not known: {head}.")
    else:
        (flat.changing if head in CHANGES else flat.fixed).append(tuple(map(str, part)))


def _declare(variables: Expression, flat: _Flat) -> None:
    words = [word for word in variables if word != "-"]
    for name, kind in zip(words[::2], words[1::2], strict=True):
        flat.types[str(name)] = str(kind)


def _bindings(flat: _Flat, problem: Problem) -> Iterator[Binding]:
    names = {
        variable: [
            name
            for name in sorted(problem.types)
            if problem.types[name] == kind and _fits(variable, name, flat, problem)
        ]
        for variable, kind in flat.types.items()
    }
    yield from _bound({}, list(flat.types), names, flat, problem)


def _fits(variable: str, name: str, flat: _Flat, problem: Problem) -> bool:
    """Whether what can't change, and is about no other variable, allows the name."""
    alone = [fact for fact in flat.fixed if [word for word in fact if word.startswith("?")] == [variable]]
    return all(tuple(name if word == variable else word for word in fact) in problem.facts for fact in alone)


def _bound(
    found: Binding, left: list[str], names: dict[str, list[str]], flat: _Flat, problem: Problem
) -> Iterator[Binding]:
    if not left:
        yield found
        return
    for name in names[left[0]]:
        more = {**found, left[0]: name}
        if _possible(more, flat, problem):
            yield from _bound(more, left[1:], names, flat, problem)


def _possible(found: Binding, flat: _Flat, problem: Problem) -> bool:
    """Nothing that can't change speaks against a binding, as far as it goes."""
    whole = (tuple(found.get(word, word) for word in fact) for fact in flat.fixed)
    if any(fact not in problem.facts for fact in whole if not any(word.startswith("?") for word in fact)):
        return False
    return all(found.get(one, one) != found.get(other, other) for one, other in flat.unequal)


def _way(changing: list[Fact], found: Binding, problem: Problem, house: House) -> int | None:
    """The facts of a binding; None where one of them can never hold."""
    way = 0
    for fact in changing:
        bound = tuple(found.get(word, word) for word in fact)
        stuck = fact[0] == "inreceptacle" and ("pickupable", bound[1]) not in problem.facts
        if stuck and bound not in problem.facts:
            return None
        try:
            number = house.number(bound)
        except ValueError:
            return None
        assert number is not None
        way |= 1 << number
    return way
