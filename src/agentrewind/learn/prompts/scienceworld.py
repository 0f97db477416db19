"""ScienceWorld in words."""

from __future__ import annotations

from collections.abc import Sequence

from agentrewind.learn.contexts import View
from agentrewind.learn.methods import THINK
from agentrewind.learn.prompts.shared import Saying, Words, compact_numbers
from agentrewind.learn.rules import Rules


class ScienceWorldWords(Words):
    """The task and the forms of commands stand in the system message; notes stand before an observation."""

    def __init__(self, task: str, templates: Sequence[str], rules: Rules, style: str, answer: str = THINK) -> None:
        forms = "\n".join(f"- {template}" for template in templates)
        game = f"{GAME}\nForms of commands, OBJ standing for a thing:\n{forms}\n\n{task}"
        super().__init__(Saying(game, f"science\n{task}", EXAMPLE, ABOUT), rules, style, answer)

    def observation(self, view: View) -> str:
        if not self._full:
            return "\n".join((compact_numbers(view), *view.notes, view.observation))
        return "\n\n".join((*view.notes, super().observation(view)))


GAME = (
    "You act in a house with a laboratory's things by commands in text, and do an experiment. You see what is in the"
    " room that you are in; doors and containers may have to be opened first. A command with teleport goes to any room"
    " at once. Most commands take a little time: what is heated gets hot, what was planted grows.\n"
    "The score goes from 0 to 100, and the task is done at 100. To focus on a thing says that it is the one that the"
    " task is about: the wrong one ends the attempt. Where a command can mean several things you are asked which;"
    " answer with its number."
)
EXAMPLE = (
    "Which things the task needs, where they are, and in which order it is done, decides. An action is one command and"
    " looks like <action>open cupboard</action>; only the last action tag of an answer counts."
)
ABOUT = "where things are, which commands were not understood, what focusing on the wrong thing ended"
