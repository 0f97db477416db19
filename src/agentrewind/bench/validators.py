"""Validators that aren't right at once: noisy, late, or not there. What the agent is told, from what is true."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from agentrewind.bench.results import Result, Submission
from agentrewind.bench.sim.draws import draw, pick
from agentrewind.compose.agents import Judge
from agentrewind.core.errors import UsageError
from agentrewind.core.records import Criterion, Judged, RecordUid
from agentrewind.tasks.check import EVALUATOR_ERROR
from agentrewind.tasks.task import Checklist

NAMES = ("exact", "noisy:P", "delayed:K", "absent")
PENDING = "not judged yet"
WAITING = "The check has not come to a verdict on this submission yet. Go on, and submit again."


@dataclass(frozen=True, slots=True)
class Validator:
    """How the verdicts of a run reach its agent.

    `noisy`: with probability `share` a verdict is turned around: what is right is rejected at a criterion that is
    drawn, what is wrong is accepted, which ends the run. `delayed`: each submission is answered with the verdict on the
    one `late` submissions before it. `absent`: nobody judges, and the first submission ends the run.
    """

    kind: Literal["exact", "noisy", "delayed", "absent"] = "exact"
    share: float = 0.0
    late: int = 0

    @property
    def is_exact(self) -> bool:
        return self.kind == "exact"


def validator_named(text: str) -> Validator:
    """Raises: UsageError: it names none."""
    kind, _, number = text.partition(":")
    if kind == "exact" and not number:
        return Validator()
    if kind == "absent" and not number:
        return Validator("absent")
    if kind == "delayed" and number.isascii() and number.isdigit() and int(number) > 0:
        return Validator("delayed", late=int(number))
    if kind == "noisy" and 0 <= _share(number) <= 1:
        return Validator("noisy", share=_share(number))
    raise UsageError(
        f"There is no validator {text!r}. Known: {', '.join(NAMES)} (P from 0 to 1, K submissions, at least 1)."
    )


def _share(number: str) -> float:
    try:
        return float(number)
    except ValueError:
        return -1.0


@dataclass(slots=True)
class Hearing:
    """The judge of one run. `truths` keeps what was true of each submission, whatever the agent was told of it.

    Chance is a hash of `words` and the number of the submission: equal runs are told the same.
    """

    judge: Judge
    how: Validator
    checklist: Checklist
    words: tuple[Hashable, ...]
    truths: list[Judged] = field(default_factory=list)

    def __call__(self, workspace: Path, after: RecordUid | None = None) -> Judged:
        self.truths.append(self.judge(workspace, after))
        return told(self.how, self.truths, self.checklist, self.words)


def told(how: Validator, truths: Sequence[Judged], checklist: Checklist, words: Sequence[Hashable] = ()) -> Judged:
    """What the agent is told of the newest of its submissions. Errors of the evaluator are always told."""
    truth = truths[-1]
    if truth.first_failure.startswith(EVALUATOR_ERROR):
        return truth
    match how.kind:
        case "exact":
            return truth
        case "absent":
            return Judged(truth.after, accepted=True, exit_code=0)
        case "delayed":
            if len(truths) <= how.late:
                return Judged(truth.after, accepted=False, exit_code=1, first_failure=PENDING, feedback=WAITING)
            return replace(truths[-1 - how.late], after=truth.after)
        case "noisy":
            turned = draw(*words, "validator", len(truths)) < how.share
            return _turned(truth, checklist, (*words, len(truths))) if turned else truth


def _turned(truth: Judged, checklist: Checklist, words: Sequence[Hashable]) -> Judged:
    """The opposite verdict."""
    if not truth.accepted:
        every = tuple(Criterion(item.id, "satisfied") for item in checklist)
        return Judged(truth.after, accepted=True, exit_code=0, satisfied=len(every), total=len(every), criteria=every)
    blamed = pick(checklist.criteria, *words, "criterion")
    return Judged(
        truth.after,
        accepted=False,
        exit_code=1,
        first_failure=blamed.id,
        feedback=blamed.feedback,
        satisfied=checklist.index(blamed.id),
        total=len(checklist),
        criteria=tuple(Criterion(item.id, "failed" if item is blamed else "satisfied") for item in checklist),
    )


def as_it_was(result: Result, truths: Sequence[Judged]) -> Result:
    """The result with the true verdict on each submission; where the agent was told another, `told` says which."""
    pairs = zip(result.submissions, truths, strict=False)  # a run may be cut off between a verdict and its record
    return replace(result, submissions=tuple(_true(item, truth) for item, truth in pairs))


def _true(heard: Submission, truth: Judged) -> Submission:
    found = Submission(
        heard.nodes,
        truth.satisfied or 0,
        truth.total or 0,
        truth.first_failure,
        {item.id: item.outcome for item in truth.criteria},
    )
    if heard.first_failure == found.first_failure:
        return found
    return replace(found, told=heard.first_failure or "accepted")
