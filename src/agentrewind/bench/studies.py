"""The questions that are asked of recovery, each as a set of arms that differ in one thing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agentrewind.bench.arms import ABLATIONS
from agentrewind.bench.matrix import Matrix
from agentrewind.bench.one import SIMULATED, Conditions
from agentrewind.core.errors import UsageError

Picture = Literal["intervals", "lines", "costs", "growth"]


@dataclass(frozen=True, slots=True)
class Study:
    """A question, the arms that answer it, and what their answer is good for.

    With `knob`, all of it is done at each of `levels` of that knob of the simulated policy.
    """

    name: str
    asks: str
    arms: tuple[str, ...]
    shows: str
    """What may be concluded, whoever plays."""
    not_shown: str
    """What may not be concluded with a simulated policy."""
    pictures: tuple[Picture, ...] = ("intervals",)
    knob: str = ""
    levels: tuple[float, ...] = ()

    @property
    def against(self) -> str:
        """The arm to which the others are compared."""
        return self.arms[0]

    def models(self, models: Sequence[str]) -> tuple[str, ...]:
        """The models to play with. Raises: UsageError: it turns a knob, and one of these has none."""
        if not self.knob:
            return tuple(models)
        if not all(model.startswith(SIMULATED) for model in models):
            raise UsageError(f"The study {self.name} turns a knob of the simulated policy: give --simulated.")
        return tuple(f"{model},{self.knob}={level:g}" for model in models for level in self.levels)

    def level(self, model: str) -> float:
        """At which level of the knob a model plays."""
        return float(model.rpartition(f"{self.knob}=")[2])

    def matrix(
        self, suite: str, harnesses: Sequence[str], models: Sequence[str], runs: int, conditions: Conditions
    ) -> Matrix:
        return Matrix(suite, self.arms, tuple(harnesses), self.models(models), runs, conditions)


def _with(base: str, key: str, *values: str) -> tuple[str, ...]:
    return (base, *(f"{base}+{key}={value}" for value in values))


_STUDIES = (
    Study(
        "cost",
        "What does a success cost, and what does a budget reach?",
        ("rewind", "continue", "restart", "review"),
        "what each strategy spends on its failures too, and how much of its success a budget cuts off",
        "that a real model's errors are as far apart, or as often final, as these",
        ("costs", "intervals"),
    ),
    Study(
        "memory",
        "How do the notes grow, and does it matter how many are kept?",
        _with("rewind", "memory", "latest", "budget:400", "none"),
        "how many tokens the notes take at the nth rewind under each policy",
        "how much a real model is helped, or distracted, by many notes: this policy reads each as well as any other",
        ("growth", "intervals"),
    ),
    Study(
        "candidates",
        "Does it matter how many checkpoints are shown?",
        _with("rewind", "candidates", "1", "3", "10", "40", "all"),
        "from how few on a target that is needed is not shown any more",
        "that a real model chooses as well from a long list as from a short one: this policy does",
    ),
    Study(
        "selectors",
        "Who should choose the target?",
        _with("rewind", "selector", "oracle", "best-progress", "first-error", "last-change", "previous", "random"),
        "how far outcomes depend on the target, between the one that is known to be right and one that is drawn",
        "how well a real model chooses: here that is the knob `attribution`",
    ),
    Study(
        "automatic",
        "Should the agent decide when to go back, or a rule?",
        (
            "rewind",
            "rewind+trigger=failures:2",
            "continue+trigger=failures:2",
            "continue+trigger=failures:3",
            "continue+trigger=regression",
            "continue+trigger=loop",
            "continue",
        ),
        "what a rule reaches that goes back where progress was best, with an agent that may go back itself and with one"
        " that may not",
        "when a real model would decide to go back: here that is the knob `rewind_inclination`",
    ),
    Study(
        "validators",
        "What is left where verdicts are wrong, late, or missing?",
        tuple(
            f"{arm}{how}"
            for how in (
                "",
                "+validator=noisy:0.1",
                "+validator=noisy:0.3",
                "+validator=delayed:1",
                "+validator=delayed:3",
                "+validator=absent",
            )
            for arm in ("rewind", "continue")
        ),
        "how each strategy depends on its verdicts; success is always that of the true checks on the final state",
        "that a real model believes every verdict: this policy does, and never checks its own work",
    ),
    Study(
        "effects",
        "Does it help to flag effects that no rewind undoes?",
        tuple(f"{arm}{how}" for how in ("", "+effects=annotate", "+effects=block") for arm in ("rewind", "continue")),
        "how many calls are flagged or held back, and what that costs where none of them does harm",
        "what flags are good for where calls reach the world outside: in these tasks the sandbox lets none",
    ),
    Study(
        "attribution",
        "How good must one be at finding the step that was to blame?",
        ("rewind", "rewind+selector=random", "rewind+selector=oracle", "continue"),
        "where knowing the cause begins to matter: at 0 the agent's choice is as good as one that is drawn",
        "how often a real model knows it",
        ("lines", "intervals"),
        "attribution",
        (0.0, 0.5, 1.0),
    ),
    Study(
        "persistence",
        "Which does the work: the files, the conversation, or the note?",
        (*ABLATIONS, "continue"),
        "which part is needed if the same misconception returns in the same context (1), and which if every try is a"
        " new draw (0)",
        "how persistent the misconceptions of a real model are",
        ("lines", "intervals"),
        "persistence",
        (0.0, 0.8, 1.0),
    ),
)
STUDIES: Mapping[str, Study] = {study.name: study for study in _STUDIES}


def study_named(name: str) -> Study:
    """Raises: UsageError: there is none."""
    if name not in STUDIES:
        raise UsageError(f"There is no study {name!r}. Known: {', '.join(STUDIES)}.")
    return STUDIES[name]
