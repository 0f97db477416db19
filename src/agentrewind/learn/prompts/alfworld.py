"""ALFWorld in words."""

from __future__ import annotations

from agentrewind.learn.contexts import BranchView, View
from agentrewind.learn.methods import THINK
from agentrewind.learn.prompts.shared import (
    budgets,
    compact_numbers,
    compact_reflection,
    full_reflection,
    numbers,
)
from agentrewind.learn.rules import Rules
from agentrewind.learn.trial import Context


class AlfWorldWords:
    """The task stands in the system message too: after a recovery the first observation is gone."""

    def __init__(self, task: str, rules: Rules, style: str, answer: str = THINK) -> None:
        self._task = task
        self._rules = rules
        self._full = style == "full"
        self._answer = answer

    def system(self) -> str:
        if not self._full:
            return f"household\n{self._task}"
        return f"{self._game()}\n\n{budgets(self._rules)}\n\n{EXAMPLE} {self._answer}"

    def observation(self, view: View) -> str:
        told = (*view.notes, view.observation)
        if not self._full:
            return "\n".join((compact_numbers(view), *told, "can: " + "; ".join(view.actions)))
        commands = "\n".join(f"- {command}" for command in view.actions)
        return "\n\n".join((*told, f"Commands that can be given now:\n{commands}", numbers(view)))

    def feedback(self, why: str, view: View) -> str:
        return f"{why}\n{numbers(view)}" if self._full else f"invalid {compact_numbers(view)}"

    def memory(self, note: str, target: int) -> str:
        return f"Note from a branch that left C_{target} and was abandoned:\n{note}" if self._full else f"note {note}"

    def reflection(self, branch: BranchView) -> Context:
        about = "where things are, which places were searched in vain, what has been done to which object"
        system = f"{self._game()}\n\nYou look back on a branch of your own play." if self._full else "reflect"
        user = full_reflection(branch, about) if self._full else compact_reflection(branch)
        return ({"role": "system", "content": system}, {"role": "user", "content": user})

    def _game(self) -> str:
        return f"{GAME}\n{self._task}"


GAME = (
    "You act in a house by commands in text. Things lie on or in receptacles: shelves, drawers, a fridge, and so on."
    " You see what is in one when you go there, and have to open it first where it is closed. You carry one thing at a"
    " time. A sinkbasin cleans what you carry, a microwave heats it, a fridge cools it; a lamp is switched on by"
    " using it.\nThe game is won when the task is done; nothing that you do makes it impossible."
)
EXAMPLE = (
    "Where the things of the task can be, and in which order it is done, decides. An action is one command of the list,"
    " in the same words, in a fenced block:\n```action\ngo to shelf 1\n```\nOnly the last action of an answer counts. A"
    " way back is an action too, in the same block or as a tag."
)
