"""ALFWorld in words."""

from __future__ import annotations

from agentrewind.learn.contexts import View
from agentrewind.learn.methods import THINK
from agentrewind.learn.prompts.shared import Saying, Words, compact_numbers, numbers
from agentrewind.learn.rules import Rules


class AlfWorldWords(Words):
    """An observation has notes and commands. The task stands in the system message too: after a recovery the first
    observation is gone.
    """

    def __init__(self, task: str, rules: Rules, style: str, answer: str = THINK) -> None:
        super().__init__(Saying(f"{GAME}\n{task}", f"household\n{task}", EXAMPLE, ABOUT), rules, style, answer)

    def observation(self, view: View) -> str:
        told = (*view.notes, view.observation)
        if not self._full:
            return "\n".join((compact_numbers(view), *told, "can: " + "; ".join(view.actions)))
        commands = "\n".join(f"- {command}" for command in view.actions)
        return "\n\n".join((*told, f"Commands that can be given now:\n{commands}", numbers(view)))


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
ABOUT = "where things are, which places were searched in vain, what has been done to which object"
