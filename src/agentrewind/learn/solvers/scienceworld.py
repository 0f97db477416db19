"""ScienceWorld played by program: the gold sequence of its authors, taken up again after mistakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentrewind.environments.draws import Draws
from agentrewind.learn.contexts import BranchView, View
from agentrewind.learn.trial import Context

WORTH = 4
"""Commands beside the gold sequence that are worth going back for."""


class Gold:
    """Gives the next command of the gold sequence, whatever was done in between."""

    def __init__(self, gold: Callable[[], Sequence[str]]) -> None:
        """`gold` is asked when it is needed first: some sequences take a minute to find."""
        self._find = gold
        self._known: tuple[str, ...] | None = None

    def best(self, view: View, avoided: frozenset[str], draws: Draws) -> str:
        del avoided
        done = self._followed(view.done)
        return self._gold[done] if done < len(self._gold) else draws.one(view.actions)

    def worth_leaving(self, seen: Sequence[View]) -> int | None:
        """Where the gold sequence was left for the first time, once it was left often."""
        done = seen[-1].done
        return self._left_at(done) if len(done) - self._followed(done) >= WORTH else None

    def target(self, branch: BranchView) -> int:
        """Where the gold sequence was left; where it never was, the state before the last command."""
        return min(self._left_at(branch.actions), branch.source - 1)

    def mistaken(self, branch: BranchView) -> bool:
        return self._followed(branch.actions) == self._followed(branch.actions[:-1])

    def lesson(self, branch: BranchView) -> str:
        return f"{branch.actions[-1]} was no part of the experiment"

    def avoided(self, context: Context) -> frozenset[str]:
        del context
        return frozenset()

    @property
    def _gold(self) -> tuple[str, ...]:
        if self._known is None:
            self._known = tuple(self._find())
        return self._known

    def _followed(self, done: Sequence[str]) -> int:
        """So many commands of the gold sequence are among those done, in its order."""
        reached = 0
        for command in done:
            reached += reached < len(self._gold) and command == self._gold[reached]
        return reached

    def _left_at(self, done: Sequence[str]) -> int:
        pairs = enumerate(zip(done, self._gold, strict=False))
        return next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(done), len(self._gold)))
