"""Sokoban in words."""

from __future__ import annotations

from agentrewind.environments.sokoban.game import TURN
from agentrewind.learn.prompts.shared import Saying

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
ABOUT = "pushes that can't be taken back, squares a box must not reach, which box belongs where"


def drawn(room: str) -> str:
    """Twice, so that a small model that reads from left to right comes to each square after all around it."""
    return f"{room}\n{room}"


SAYING = Saying(GAME, "sokoban", EXAMPLE, ABOUT, f"Make one to {TURN} moves.", drawn)
