"""Sokoban in words."""

from __future__ import annotations

from agentrewind.environments.sokoban.game import TURN
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


class SokobanWords:
    def __init__(self, rules: Rules, style: str, answer: str = THINK) -> None:
        self._rules = rules
        self._full = style == "full"
        self._answer = answer

    def system(self) -> str:
        return f"{GAME}\n\n{budgets(self._rules)}\n\n{EXAMPLE} {self._answer}" if self._full else "sokoban"

    def observation(self, view: View) -> str:
        if not self._full:
            return f"{compact_numbers(view)}\n{view.observation}"
        return f"{view.observation}\n{numbers(view)}\nMake one to {TURN} moves."

    def feedback(self, why: str, view: View) -> str:
        return f"{why}\n{numbers(view)}" if self._full else f"invalid {compact_numbers(view)}"

    def memory(self, note: str, target: int) -> str:
        return f"Note from a branch that left C_{target} and was abandoned:\n{note}" if self._full else f"note {note}"

    def reflection(self, branch: BranchView) -> Context:
        about = "pushes that can't be taken back, squares a box must not reach, which box belongs where"
        system = f"{GAME}\n\nYou look back on a branch of your own play." if self._full else "reflect"
        user = full_reflection(branch, about) if self._full else compact_reflection(branch)
        return ({"role": "system", "content": system}, {"role": "user", "content": user})


GAME = (
    "You play Sokoban. In the room # is a wall, _ floor, O a target, X a box, P you, √ a box on a target, S you on a"
    " target. The room is solved when every box is on a target.\n"
    "Moves are up, down, left, right. You walk onto free cells, and you push a single box by walking into it when the"
    " cell behind it is free. Boxes can't be pulled, and never pushed two at a time. A blocked move does nothing and"
    " counts. A box in a corner that is no target can never leave it; the attempt ends as soon as the room can't be"
    " solved any more."
)
EXAMPLE = (
    "Where each box has to go, and from which side it is pushed, decides. An action has one to"
    f" {TURN} moves and looks like <action>up, right, right</action>; only the last action tag of an answer counts."
)
