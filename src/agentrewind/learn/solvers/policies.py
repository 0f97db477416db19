"""A solver as a policy, with as many mistakes as wanted."""

from __future__ import annotations

from typing import Literal, Protocol

from agentrewind.environments.draws import Draws
from agentrewind.learn.contexts import BranchView, View
from agentrewind.learn.play import Policy
from agentrewind.learn.rollout import Request
from agentrewind.learn.trial import Context, Output

Recovers = Literal["best", "random"]


class Solver(Protocol):
    def best(self, view: View, avoided: frozenset[str], draws: Draws) -> str: ...
    def worth_leaving(self, seen: list[View]) -> int | None:
        """A checkpoint that is worth going back to."""

    def target(self, branch: BranchView) -> int: ...
    def mistaken(self, branch: BranchView) -> bool:
        """Whether the last decision made things worse."""

    def lesson(self, branch: BranchView) -> str: ...
    def avoided(self, context: Context) -> frozenset[str]:
        """Actions that the notes in a context speak against."""


def perfect(solver: Solver, seed: str = "0") -> Policy:
    return noisy(solver, 0.0, seed)


def noisy(solver: Solver, error: float, seed: str) -> Policy:
    """Plays the solver's action, or, with probability `error`, any legal one that no note speaks against.

    Stateless in what it chooses: the draw is of seed, number of the call, and the notes that it sees. So two trials of
    one seed are equal, and a note changes what comes after it.
    """
    seen: dict[int, View] = {}

    def policy(request: Request) -> Output:
        if request.branch is not None:
            return _reflected(solver, request.branch)
        assert request.view is not None
        view = request.view
        for later in [at for at in seen if at >= view.checkpoint]:
            del seen[later]
        seen[view.checkpoint] = view
        avoided = solver.avoided(request.context)
        draws = Draws(f"{seed}/{request.number}/{sorted(avoided)}")
        back = solver.worth_leaving(list(seen.values())) if view.targets else None
        if back is not None:
            return Output(f"An earlier state is better. <action>rewind to C_{back}</action>")
        wrong = draws.below(10**6) < error * 10**6
        choice = _any(view, avoided, draws) if wrong else solver.best(view, avoided, draws)
        return Output(f"<action>{choice}</action>")

    return policy


def random_moves(seed: str) -> Policy:
    """Any legal action; never goes back by itself."""

    def policy(request: Request) -> Output:
        if request.view is None:
            return Output("<remark>no idea</remark>")
        return Output(f"<action>{_any(request.view, frozenset(), Draws(f'{seed}/{request.number}'))}</action>")

    return policy


def _any(view: View, avoided: frozenset[str], draws: Draws) -> str:
    return draws.one([action for action in view.actions if action not in avoided] or list(view.actions))


def _reflected(solver: Solver, branch: BranchView) -> Output:
    if branch.trigger == "review" and not solver.mistaken(branch):
        return Output("<verdict>fine</verdict>")
    target = branch.target if branch.target is not None else solver.target(branch)
    told = "; ".join((*branch.earlier, solver.lesson(branch)))
    return Output(f"<remark>{told}</remark><target>C_{target}</target>")
