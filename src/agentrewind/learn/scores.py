"""What trials add up to: success by protocol and seed, gains, how far they explored. Pure; no plots, no printing."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from agentrewind.learn.trial import Trial

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Score:
    """One trial, as an evaluation keeps it."""

    environment: str
    method: str
    policy: str
    protocol: str
    seed: int
    task: str
    solved: bool
    calls: int
    actions: int
    """Executed in all, also on branches that were abandoned."""
    states: int
    """Distinct ones that were visited."""
    rewinds: int
    """Asked for, by the policy or its assistant."""
    attempts: int
    reference: int | None
    """The length of the reference solution."""
    why_ended: str


@dataclass(frozen=True, slots=True)
class Cell:
    """What is compared: one environment, method, policy and protocol."""

    environment: str
    method: str
    policy: str
    protocol: str


@dataclass(frozen=True, slots=True)
class Summary:
    """A cell over its seeds. Shares from 0 to 1; deviations are those of a sample, over the seeds (0 for one seed)."""

    cell: Cell
    seeds: int
    trials: int
    success: float
    deviation: float
    calls: float
    """Mean calls a trial."""
    states: float
    """Median of distinct states visited."""
    to_success: float | None
    """Median of actions in trials that solved it; None where none did."""
    rewinds: float
    """Mean rewinds a trial that were asked for."""


def score(trial: Trial, cell: Cell, seed: int, reference: int | None) -> Score:
    acted = [call for call in trial.calls if call.did == "acted"]
    states = {call.state for call in trial.calls} | {trial.final}
    return Score(
        cell.environment,
        cell.method,
        cell.policy,
        cell.protocol,
        seed,
        trial.task,
        trial.solved,
        len(trial.calls),
        len(acted),
        len(states),
        trial.proactive,
        trial.attempts,
        reference,
        trial.why_ended,
    )


def cell_of(found: Score) -> Cell:
    return Cell(found.environment, found.method, found.policy, found.protocol)


def summaries(scores: Iterable[Score]) -> list[Summary]:
    """One for each cell, in the order in which they first come."""
    return [_summary(cell, found) for cell, found in _grouped(scores, cell_of).items()]


def _summary(cell: Cell, found: Sequence[Score]) -> Summary:
    by_seed = [_share(group) for group in _grouped(found, lambda item: item.seed).values()]
    solved = [item.actions for item in found if item.solved]
    return Summary(
        cell,
        len(by_seed),
        len(found),
        statistics.fmean(by_seed),
        _deviation(by_seed),
        statistics.fmean(item.calls for item in found),
        statistics.median(item.states for item in found),
        statistics.median(solved) if solved else None,
        statistics.fmean(item.rewinds for item in found),
    )


def gain(scores: Iterable[Score], cell: Cell, over: str) -> tuple[float, float] | None:
    """How much more a cell solves than the same under the protocol `over`: mean and deviation of the differences by
    seed. None where a seed is missing on one side.

    `Δ_pro` is T@1 over P@1, `Δ_ref` T@3 over T@1.
    """
    found = list(scores)
    other = Cell(cell.environment, cell.method, cell.policy, over)
    mine, theirs = (_by_seed(found, item) for item in (cell, other))
    if not mine or mine.keys() != theirs.keys():
        return None
    differences = [mine[seed] - theirs[seed] for seed in mine]
    return statistics.fmean(differences), _deviation(differences)


def kind_of(environment: str) -> str:
    """`sokoban` of `sokoban:7:3`."""
    return environment.partition(":")[0]


def difficulty_of(environment: str) -> tuple[int, ...]:
    """The numbers in its name: size, and mines or boxes."""
    return tuple(int(part) for part in environment.split(":")[1:] if part.isdigit())


def attempts_of(protocol: str) -> int:
    """How many a protocol allows with ways back; 0 for P@1, which has none."""
    kind, _, attempts = protocol.upper().partition("@")
    return int(attempts) if kind == "T" else 0


def base_of(protocol: str) -> str | None:
    """What a gain is over: `Δ_pro` of T@1 over P@1, `Δ_ref` of T@3 over T@1; None for P@1."""
    attempts = attempts_of(protocol)
    return None if not attempts else "P@1" if attempts == 1 else "T@1"


def across(scores: Iterable[Score]) -> list[Summary]:
    """The mean over environments, each of equal weight, by method, policy and protocol (paper, equation 13).

    Sizes of one environment share its weight.
    """
    groups = _grouped(scores, lambda item: (item.method, item.policy, item.protocol))
    found = []
    for (method, policy, protocol), group in groups.items():
        by_seed = [_equally(seed) for seed in _grouped(group, lambda item: item.seed).values()]
        whole = _summary(Cell("equal weight", method, policy, protocol), group)
        found.append(replace(whole, success=statistics.fmean(by_seed), deviation=_deviation(by_seed)))
    return found


def _equally(scores: Iterable[Score]) -> float:
    kinds: dict[str, list[float]] = {}
    for environment, found in _grouped(scores, lambda item: item.environment).items():
        kinds.setdefault(kind_of(environment), []).append(_share(found))
    return statistics.fmean(map(statistics.fmean, kinds.values()))


LENGTHS = ("short", "medium", "long", "no reference")
BOUNDS = {"alfworld": (4, 7)}
"""Short and medium end here (paper, appendix C.2); other environments are parted by thirds."""


def by_length(scores: Iterable[Score]) -> dict[str, list[Score]]:
    """The scores of one environment by its reference lengths, in `BOUNDS` or thirds; what has none stands apart."""
    found = list(scores)
    references = {item.task: item.reference for item in found}
    lengths = sorted(length for length in references.values() if length is not None)
    if not lengths:
        return {LENGTHS[3]: found}
    thirds = lengths[(len(lengths) - 1) // 3], lengths[2 * (len(lengths) - 1) // 3]
    short, long = BOUNDS.get(kind_of(found[0].environment), thirds)

    def third(item: Score) -> str:
        if item.reference is None:
            return LENGTHS[3]
        if item.reference <= short:
            return f"{LENGTHS[0]} (up to {short})"
        return f"{LENGTHS[1]} (to {long})" if item.reference <= long else f"{LENGTHS[2]} (over {long})"

    return _grouped(found, third)


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _share(found: Sequence[Score]) -> float:
    return sum(item.solved for item in found) / len(found)


def _by_seed(found: Iterable[Score], cell: Cell) -> dict[int, float]:
    groups = _grouped((item for item in found if cell_of(item) == cell), lambda item: item.seed)
    return {seed: _share(group) for seed, group in groups.items()}


def _grouped(found: Iterable[Score], key: Callable[[Score], K]) -> dict[K, list[Score]]:
    groups: dict[K, list[Score]] = {}
    for item in found:
        groups.setdefault(key(item), []).append(item)
    return groups
