"""What an evaluation found: a verdict for each criterion, and how far the work has come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agentrewind.core.records import Criterion as CriterionRecord
from agentrewind.core.records import Judged, RecordUid
from agentrewind.tasks.check import EVALUATOR_ERROR
from agentrewind.tasks.task import Criterion

Outcome = Literal["satisfied", "failed", "error"]
"""`error`: the check crashed or took too long, so nothing is known about the work."""


@dataclass(frozen=True, slots=True)
class Verdict:
    criterion: Criterion
    outcome: Outcome
    detail: str = ""
    """For the runner only, never for the agent: what didn't hold, or how the check itself went wrong."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Of all criteria, in their order."""

    items: tuple[Verdict, ...]
    ordered: bool = True

    @property
    def succeeded(self) -> bool:
        return all(item.outcome == "satisfied" for item in self.items)

    @property
    def satisfied(self) -> int:
        """How many count: the longest satisfied prefix; where the criteria have no order, all that are satisfied."""
        held = [item.outcome == "satisfied" for item in self.items]
        return held.index(False) if self.ordered and False in held else sum(held)

    @property
    def progress(self) -> float:
        """The share of the criteria that counts (rho), from 0 to 1."""
        return self.satisfied / len(self.items)

    @property
    def first_unsatisfied(self) -> Verdict | None:
        """None where the work succeeded."""
        return next((item for item in self.items if item.outcome != "satisfied"), None)

    @property
    def errors(self) -> tuple[Verdict, ...]:
        """Where the evaluator failed, and not the work."""
        return tuple(item for item in self.items if item.outcome == "error")

    @property
    def feedback(self) -> str:
        """All that the agent is told: of the first unsatisfied criterion. Empty where the work succeeded."""
        first = self.first_unsatisfied
        if first is None:
            return ""
        if first.outcome == "error":
            return "The work could not be judged: the evaluation itself failed. That says nothing about your work."
        return first.criterion.feedback

    def judged(self, after: RecordUid | None = None) -> Judged:
        """As the record of a submission. Of an evaluator error `first_failure` begins with `EVALUATOR_ERROR`."""
        first = self.first_unsatisfied
        failure = "" if first is None else first.criterion.id
        if first is not None and first.outcome == "error":
            failure = f"{EVALUATOR_ERROR}{first.criterion.id}: {first.detail}"
        return Judged(
            after,
            accepted=self.succeeded,
            exit_code=0 if self.succeeded else 1,
            first_failure=failure,
            feedback=self.feedback,
            satisfied=self.satisfied,
            total=len(self.items),
            criteria=tuple(CriterionRecord(item.criterion.id, item.outcome) for item in self.items),
        )
