"""Policies measured: every suite, method, policy, protocol and seed, each trial on an instance of its own."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from agentrewind.core.errors import UsageError
from agentrewind.learn.endpoint import Endpoint, Sampling
from agentrewind.learn.methods import method_of
from agentrewind.learn.play import Batch, Policy, play_together
from agentrewind.learn.remarks import PLANNED
from agentrewind.learn.rollout import Request, trial
from agentrewind.learn.rules import Rules, protocol
from agentrewind.learn.scores import Cell, Score, kind_of, score
from agentrewind.learn.solvers.policies import Solver, noisy, random_moves
from agentrewind.learn.suites import Suite, suite
from agentrewind.learn.training.backend import Decoding
from agentrewind.learn.training.engines import has_weights, trained
from agentrewind.learn.training.policy import Engine, Sampler
from agentrewind.learn.trial import Output, Trial
from agentrewind.learn.workers import Workers, in_this_process
from agentrewind.learn.worlds import Style, World

KEY = "OPENAI_API_KEY"
TOP_K = 20
"""Of an evaluation of weights (retrospective.md, section 6)."""
Asked = Callable[["Part", Suite], AbstractContextManager[Batch]]
Told = Callable[[int, int], None]
Kept = Callable[[World, Trial, Score], None]


@dataclass(frozen=True)
class Plan:
    """What is to be measured."""

    environments: tuple[str, ...]
    methods: tuple[str, ...] = ("retrospective",)
    policies: tuple[str, ...] = ("noisy:0.2",)
    protocols: tuple[str, ...] = ("P@1", "T@1", "T@3")
    seeds: tuple[int, ...] = (0, 1, 2)
    instances: int = 100
    style: Style = "full"
    split: str = "test"
    rules: Rules = field(default_factory=Rules)
    base_url: str = ""
    alfworld: Path | None = None
    """Where the games of ALFWorld are."""
    sampling: Sampling = field(default_factory=Sampling)

    def check(self, *, named: bool = True) -> None:
        """Raises: UsageError: something in it isn't there; of its policies only where they are `named`."""
        for name in self.methods:
            known = method_of(name).remarks not in ("oracle", "random")
            for spec in () if known else self.environments:
                if kind_of(spec) not in PLANNED:
                    raise UsageError(f"{name} needs somebody who sees everything; {kind_of(spec)} has nobody.")
        for spec in self.environments:
            suite(spec, 1, self.split, self.alfworld)
        for name in self.protocols:
            protocol(name, self.rules)
        for name in self.policies if named else ():
            if _is_program(name):
                _error_rate(name)
            elif not has_weights(name):
                self._endpoint(name)
        if self.instances < 1 or not self.seeds:
            raise UsageError("An evaluation needs at least one instance and one seed.")

    def _endpoint(self, name: str) -> None:
        if not self.base_url:
            raise UsageError(
                f"{name!r} is no program that plays ({', '.join(PROGRAMS)}); for a model of that"
                " name give --base-url, for weights the directory that they are in."
            )


@dataclass(frozen=True)
class Part:
    """The unit of work: one cell with one seed."""

    plan: Plan
    cell: Cell
    seed: int


def _untold(done: int, of: int) -> None:
    """Nobody wants to know."""


def unkept(world: World, found: Trial, scored: Score) -> None:
    """The scores are enough."""


PROGRAMS = ("perfect", "noisy:RATE", "random")


def parts(plan: Plan) -> list[Part]:
    cells = itertools.product(plan.environments, plan.methods, plan.policies, plan.protocols)
    return [Part(plan, Cell(*names), seed) for names in cells for seed in plan.seeds]


def evaluate(
    plan: Plan,
    *,
    workers: Workers = in_this_process,
    told: Told = _untold,
    keep: Kept = unkept,
    policy: Asked | None = None,
) -> list[Score]:
    """Play all of a plan. The scores come in the order of `parts`, whoever plays.

    Args:
        plan: what to play.
        workers: who plays; a model is asked from this process all the same, many trials at once.
        told: after each part.
        keep: is given every archive, in the process that played it.
        policy: answers in place of those that the plan names, in this process.

    Raises:
        UsageError: the plan can't be; nothing was played.
        ProviderError: the endpoint can't be used.
    """
    plan.check(named=policy is None)
    work = parts(plan)
    found: list[Score] = []
    with (workers if all(map(_is_program, plan.policies)) else in_this_process)() as each:
        for number, scores in enumerate(each(partial(played, keep=keep, policy=policy), work), 1):
            found += scores
            told(number, len(work))
    return found


def played(part: Part, keep: Kept = unkept, policy: Asked | None = None) -> list[Score]:
    """The scores of one part; `keep` is given each archive too, and `policy` answers in place of the one named."""
    policy = policy or _policy
    cell, plan = part.cell, part.plan
    chosen = suite(cell.environment, plan.instances, plan.split, plan.alfworld)
    rules, method = chosen.rules(protocol(cell.protocol, plan.rules)), method_of(cell.method)
    found = []
    with policy(part, chosen) as answer:
        for first in range(0, len(chosen.worlds), chosen.together or len(chosen.worlds)):
            makers = chosen.worlds[first:][: chosen.together]
            worlds = [make(rules, plan.style, method) for make in makers]
            trials = play_together([trial(world, rules, method) for world in worlds], _numbered_from(first, answer))
            for world, played_ in zip(worlds, trials, strict=True):
                found.append(score(played_, cell, part.seed, world.environment.reference_length))
                keep(world, played_, found[-1])
    return found


def _numbered_from(first: int, answer: Batch) -> Batch:
    """The same, for trials that are counted from `first` on."""
    return lambda asked: answer([(first + number, request) for number, request in asked])


@contextmanager
def _policy(part: Part, chosen: Suite) -> Iterator[Batch]:
    name, plan = part.cell.policy, part.plan
    if has_weights(name):
        yield sampler(_weights(name), part)
        return
    if not _is_program(name):
        endpoint = Endpoint(plan.base_url, name, os.environ.get(KEY, ""), seed=part.seed, sampling=plan.sampling)
        try:
            yield endpoint
        finally:
            endpoint.close()
        return
    policies: dict[int, Policy] = {}

    def answer(asked: Sequence[tuple[int, Request]]) -> list[Output]:
        for number, _ in asked:
            policies.setdefault(number, _program(name, chosen.solver_of(number), f"{part.seed}/{number}"))
        return [policies[number](request) for number, request in asked]

    yield answer


@functools.lru_cache(1)
def _weights(directory: str) -> Engine:
    return trained(Path(directory))


def sampler(engine: Engine, part: Part) -> Sampler:
    """Weights as the policy of a part."""
    asked = part.plan.sampling
    decoding = Decoding(asked.temperature, asked.top_p, TOP_K, asked.max_tokens).for_style(part.plan.style)
    return Sampler(engine, decoding, f"evaluation/{part.seed}")


def _program(name: str, solver: Solver, seed: str) -> Policy:
    return random_moves(seed) if name == "random" else noisy(solver, _error_rate(name), seed)


def _is_program(name: str) -> bool:
    return name in ("perfect", "random") or name.startswith("noisy")


def _error_rate(name: str) -> float:
    kind, _, rate = name.partition(":")
    if kind != "noisy":
        return 0.0
    try:
        error = float(rate)
    except ValueError:
        error = -1.0
    if not 0 <= error <= 1:
        raise UsageError(f"{name!r} names no rate of errors; write noisy:0.2, a number from 0 to 1.")
    return error
