"""What one run came to, as a value and as `result.json`: all that statistics and reports are made of."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agentrewind.core.codec import Json, from_plain, to_plain
from agentrewind.core.errors import UsageError

RESULT = "result.json"
ABNORMAL = "abnormal.json"
"""The result of a run that doesn't count: it is made again."""
TOUCHED = "touched by hand: "
"""How the reason of a run begins that isn't counted because a person did something to it."""
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Spec:
    """One run of the matrix. `seed` is its number, from 0; with a simulated model it is also the seed of chance."""

    task: str
    arm: str
    harness: str
    model: str
    seed: int

    @property
    def key(self) -> str:
        """Its directory below that of the benchmark."""
        return "/".join(_safe(part) for part in (self.task, self.arm, self.harness, self.model, str(self.seed)))


def _safe(text: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._+=,:-" else "_" for letter in text) or "_"


@dataclass(frozen=True, slots=True)
class Submission:
    """A verdict. `nodes` is how many LLM and tool calls of the run came before it."""

    nodes: int
    satisfied: int
    total: int
    first_failure: str = ""
    criteria: Mapping[str, str] = field(default_factory=dict)
    """By criterion: satisfied, failed or error."""
    told: str = ""
    """What the agent was told instead (`validators`): `accepted`, or the criterion. Empty: this verdict."""

    @property
    def progress(self) -> float:
        return self.satisfied / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class Move:
    """A rewind (or a restart). `back` is how many nodes of the path it abandoned."""

    nodes: int
    target: str
    by: str
    selector: str
    asked: str
    back: int
    memory_tokens: int
    regret: int | None = None
    """How many nodes of the path before it the rewind threw away although its task could still be solved after them
    (`bisection`); negative: it went back to a point from which it could not be solved any more. None: not looked at.
    """


@dataclass(frozen=True, slots=True)
class Result:
    """`abnormal` says why a run doesn't count: an error of transport or of the evaluator. It is empty otherwise."""

    spec: Spec
    success: bool
    satisfied: int
    total: int
    ended: str
    abnormal: str = ""
    submissions: tuple[Submission, ...] = ()
    moves: tuple[Move, ...] = ()
    nodes: int = 0
    """LLM and tool calls of all branches: the length of its trace."""
    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    usd: float | None = None
    effects: Mapping[str, int] = field(default_factory=dict)
    """How many tool calls are of each class."""
    held: int = 0
    """How many calls a guard, or the rules of effects, held back."""
    simulated: str = ""
    """The digest of the simulated policy's knobs; empty for a real model."""
    run_id: str = ""
    wall_s: float = 0.0
    in_vain: int | None = None
    """How many nodes at the end of a failed run came after the last point from which its task could still be solved.
    None: it succeeded, or nobody looked.
    """
    touched: str = ""
    """What a person did to the run while it went on; empty for a clean one."""
    format: int = FORMAT

    @property
    def progress(self) -> float:
        """Of the final state, from 0 to 1."""
        return self.satisfied / self.total if self.total else 0.0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    @property
    def counts(self) -> bool:
        return not self.abnormal and not self.touched


def write(result: Result, directory: Path) -> None:
    """The last thing that a run does: one without this file was cut off."""
    name = RESULT if result.counts else ABNORMAL
    part = directory / f".{name}"
    part.write_text(json.dumps(to_plain(result), indent=1, ensure_ascii=False) + "\n", "utf-8")
    os.replace(part, directory / name)


def result_at(directory: Path) -> Result | None:
    """What the run in this directory came to; None where it came to nothing. Raises: UsageError."""
    found = (path for path in (directory / RESULT, directory / ABNORMAL) if path.exists())
    return next(map(read, found), None)


def read(path: Path) -> Result:
    """Raises: UsageError: it isn't one."""
    try:
        given: Json = json.loads(path.read_text("utf-8"))
        return from_plain(Result, given)
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise UsageError(
            f"{path} is not the result of a run ({error}). Remove its directory to make it again."
        ) from None


def results_in(directory: Path) -> list[Result]:
    """All of a benchmark, in the order of their names. Raises: UsageError: one can't be read, or there is none."""
    found = sorted((directory / "runs").glob(f"*/*/*/*/*/{RESULT}"))
    if not found:
        raise UsageError(f"There are no results in {directory}. `agentrewind bench run --out {directory}` makes some.")
    return [read(path) for path in found]
