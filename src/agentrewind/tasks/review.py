"""What a reader who didn't write a task says about it: `review.toml` beside `task.toml`."""

from __future__ import annotations

import datetime as dt
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrewind.core.errors import BadTask
from agentrewind.tasks.task import text_of

FILE = "review.toml"
QUESTIONS = {
    "practice": "what goes wrong here goes wrong in ordinary work",
    "mechanisms": "nothing was contrived to make it go wrong",
    "naturalness": "instruction and papers read like a real hand-over",
    "fidelity": "tools, files and formats behave as they do outside",
    "fairness": "what is judged can be known from what is given, and the trap can be seen before it closes",
}
"""What a reader is asked, as what a score of 5 stands for."""
LOWEST, HIGHEST, SOUND = 1, 5, 3
"""A task with an answer below `SOUND` is to be reworked."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A score from 1 to 5, and why."""

    score: int
    says: str


@dataclass(frozen=True, slots=True)
class Review:
    """The answers of one reader, by question, in the order of `QUESTIONS`."""

    reader: str
    date: dt.date
    answers: dict[str, Answer]

    @property
    def doubts(self) -> tuple[str, ...]:
        """The questions for which the task is to be reworked."""
        return tuple(question for question, answer in self.answers.items() if answer.score < SOUND)


def review_of(task: Path) -> Review | None:
    """The review in the directory of a task; None where nobody has reviewed it.

    Raises:
        BadTask: it is no TOML, or a question has no answer, or an answer no score from 1 to 5 or no sentence.
    """
    file = task / FILE
    if not file.exists():
        return None
    try:
        found = tomllib.loads(text_of(file))
    except tomllib.TOMLDecodeError as error:
        raise BadTask(f"{file} is no TOML: {error}.") from error
    reader, date = found.pop("reader", None), found.pop("date", None)
    if not isinstance(reader, str) or not reader.strip() or type(date) is not dt.date:
        raise BadTask(f"{file} must say who read the task (`reader`), and on which day (`date = 2026-12-31`).")
    if set(found) != set(QUESTIONS):
        raise BadTask(f"{file} must have the tables {', '.join(QUESTIONS)}; it has {', '.join(found) or 'none'}.")
    return Review(reader, date, {question: _answer(found[question], question, file) for question in QUESTIONS})


def _answer(value: Any, question: str, file: Path) -> Answer:
    table = value if isinstance(value, dict) else {}
    score, says = table.get("score"), table.get("says")
    if type(score) is not int or not LOWEST <= score <= HIGHEST:
        raise BadTask(f"{file}: [{question}] needs a score from {LOWEST} to {HIGHEST}, and has {score!r}.")
    if not isinstance(says, str) or not says.strip().endswith("."):
        raise BadTask(f"{file}: [{question}] needs a sentence `says` that gives the reason, with a full stop.")
    return Answer(score, " ".join(says.split()))
