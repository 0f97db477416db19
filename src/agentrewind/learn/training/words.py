"""The words of the compact prompts and of what is answered to them: the whole vocabulary of the tiny model."""

from __future__ import annotations

from agentrewind.environments.sokoban.room import BOX, BOX_HOME, FLOOR, MOVES, PLAYER, PLAYER_HOME, TARGET, WALL

LARGEST = 9
"""Rows and columns of a board, at most."""
MOST = 60
"""Calls, checkpoints and allowances, at most."""
ROLES = ("system", "user", "assistant")
END = "<|end|>"
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|> {{ message.content }} " + END + " {% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""A chat template, as transformers renders it."""
SPLIT = r"<[^<>\s]+>|\(\d+,\d+\)|[;,]|[^\s;,<]+"
"""One word: a tag, a cell, a separator, or what stands between them."""


def vocabulary() -> list[str]:
    """Each word once; its place is its number."""
    tags = [f"<{slash}{name}>" for name in ("action", "remark", "target") for slash in ("", "/")]
    numbers = [str(number) for number in range(MOST + 1)]
    places = [f"C_{number}" for number in range(MOST + 1)]
    ranges = [f"0-{number}" for number in range(MOST + 1)]
    cells = [f"({row},{column})" for row in range(1, LARGEST + 1) for column in range(1, LARGEST + 1)]
    board = ["?", ".", "*", WALL, FLOOR, TARGET, BOX, PLAYER, BOX_HOME, PLAYER_HOME]
    said = ["minesweeper", "sokoban", "mines", "reflect", "calls", "path", "back", "none", "note", "invalid"]
    asked = ["asked", "failed", "allowance", "review", "at", "did", "to", "choose", "rewind", "not", "next", ";", ","]
    roles = [f"<|{role}|>" for role in ROLES]
    return list(
        dict.fromkeys(
            [END, "<|unknown|>", *roles, *tags, *said, *asked, *MOVES, *board, *numbers, *places, *ranges, *cells]
        )
    )
