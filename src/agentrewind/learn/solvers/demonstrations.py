"""Solvers as teachers: they make mistakes, are shown what follows, and every answer that is kept is the right one.

What a note plans is carried out, whether or not it is right, so that a model that imitates this depends on its notes;
and some of the notes are weak on purpose, so that there is something left to learn (retrospective.md, section 8).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

from agentrewind.environments.draws import Draws
from agentrewind.learn.contexts import BranchView, View
from agentrewind.learn.remarks import Remark, read
from agentrewind.learn.rollout import Request
from agentrewind.learn.solvers.policies import Solver
from agentrewind.learn.trial import Context, Output

_NOTE = re.compile(r"note C_(\d+) (.*)", re.DOTALL)
CHANCES = 10**6


class Teacher(Solver, Protocol):
    def remark(self, branch: BranchView, target: int, draws: Draws) -> Remark: ...
    def carried_out(self, view: View, remark: Remark, since: int) -> str | None:
        """What a remark plans for now, `since` decisions after the checkpoint that it is about."""


@dataclass(frozen=True, slots=True)
class Habits:
    """How often, from 0 to 1."""

    errs: float = 0.25
    """Another action is carried out than the one that is kept as right."""
    weak: float = 0.5
    """A remark plans nothing, or something at random."""
    asks: float = 0.03
    """A way back is asked for without a reason; what the solver asks for with one comes on top."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    context: Context
    answer: str


class Demonstrator:
    """A policy for one trial in the compact style. `kept` has what is to be imitated."""

    def __init__(self, teacher: Teacher, habits: Habits, seed: str) -> None:
        self.kept: list[Demonstration] = []
        self._teacher = teacher
        self._habits = habits
        self._draws = Draws(f"demonstrations/{seed}")
        self._seen: dict[int, View] = {}

    def __call__(self, request: Request) -> Output:
        if request.branch is not None:
            return self._keep(request, self._reflected(request.branch))
        assert request.view is not None
        view = request.view
        self._seen = {at: seen for at, seen in self._seen.items() if at < view.checkpoint} | {view.checkpoint: view}
        back = self._back(view)
        if back is not None:
            return self._keep(request, f"<action>rewind to C_{back}</action>")
        right = self._right(view, request.context)
        self._keep(request, _action(right))
        return Output(_action(self._draws.one(view.actions) if self._happens(self._habits.errs) else right))

    def _right(self, view: View, context: Context) -> str:
        target, remark = last_note(context)
        planned = self._teacher.carried_out(view, remark, view.checkpoint - target)
        return planned or self._teacher.best(view, frozenset(remark.avoid), self._draws)

    def _back(self, view: View) -> int | None:
        if not view.targets:
            return None
        if self._happens(self._habits.asks):
            return view.targets[-1]
        return self._teacher.worth_leaving(list(self._seen.values()))

    def _reflected(self, branch: BranchView) -> str:
        target = branch.source - 1 if branch.target is None else branch.target
        remark = self._teacher.remark(branch, target, self._draws)
        if self._happens(self._habits.weak):
            remark = self._weakened(remark, branch)
        where = "" if branch.target is not None else f"<target>C_{target}</target>"
        return f"<remark>{remark}</remark>{where}"

    def _weakened(self, remark: Remark, branch: BranchView) -> Remark:
        """Nothing, or what not to do alone, or a plan of what was done before."""
        forms = (Remark(), Remark(remark.avoid), Remark(plan=branch.actions[-1:]))
        return self._draws.one(forms)

    def _keep(self, request: Request, answer: str) -> Output:
        self.kept.append(Demonstration(request.context, answer))
        return Output(answer)

    def _happens(self, share: float) -> bool:
        return self._draws.below(CHANCES) < share * CHANCES


def last_note(context: Context) -> tuple[int, Remark]:
    """The checkpoint and the remark of the last note; an empty remark where there is none."""
    found = [match for message in context if (match := _NOTE.fullmatch(message["content"]))]
    return (int(found[-1][1]), read(found[-1][2])) if found else (0, Remark())


def _action(action: str) -> str:
    return f"<action>{action}</action>"
