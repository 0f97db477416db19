"""One row of training: one decision, its own context, one advantage (retrospective.md, sections 4 and 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agentrewind.learn.trial import Call, Kind, Trial


@dataclass(frozen=True, slots=True)
class DecisionSample:
    """A call and what it is worth. The advantage touches the tokens of its own output, and nothing else."""

    task: str
    trial: int
    """Which of the trials given."""
    call: Call
    advantage: float
    weight: float
    """So much of the whole objective is this row's mean over its tokens: positive."""

    @property
    def kind(self) -> Kind:
        return self.call.kind

    def folded(self, rows: int) -> float:
        """The advantage for an engine that takes the mean over tokens of a row and then over all `rows`.

        The clipped surrogate is positively homogeneous in the advantage, so the weight goes into it exactly.
        """
        return self.advantage * self.weight * rows


@dataclass(frozen=True, slots=True)
class Credited:
    """A call with its advantage, before rows are weighted."""

    task: str
    trial: int
    call: Call
    advantage: float


Length = Callable[[Call], int]


def output_tokens(call: Call) -> int:
    """How many tokens the output has; 1 where the policy gave none."""
    return len(call.output.tokens) or 1


def weighted(
    trials: Sequence[Trial],
    executions: Iterable[Credited],
    reflections: Iterable[Credited] = (),
    *,
    reflection_share: float = 1.0,
    length: Length = output_tokens,
) -> list[DecisionSample]:
    """Rows such that the sum of weight times row mean is the objective.

    That is: per task the mean over decisions, plus `reflection_share` (λ_ref) times the mean over all reflection tokens
    of the task; then the mean over tasks, those without a sample included.

    Args:
        trials: all that were played; their tasks are those averaged over.
        executions: of decisions.
        reflections: of reflections.
        reflection_share: λ_ref.
        length: how many tokens an output has.
    """
    tasks = len({trial.task for trial in trials}) or 1
    rows = [
        DecisionSample(item.task, item.trial, item.call, item.advantage, 1 / (tasks * len(group)))
        for group in by_task(executions).values()
        for item in group
    ]
    for group in by_task(reflections).values():
        tokens = sum(length(item.call) for item in group)
        rows += [
            DecisionSample(
                item.task,
                item.trial,
                item.call,
                item.advantage,
                reflection_share * length(item.call) / (tasks * tokens),
            )
            for item in group
        ]
    return rows


def by_task(found: Iterable[Credited]) -> dict[str, list[Credited]]:
    groups: dict[str, list[Credited]] = {}
    for item in found:
        groups.setdefault(item.task, []).append(item)
    return groups
