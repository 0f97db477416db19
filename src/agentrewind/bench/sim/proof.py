"""Whether a policy file keeps what it says: every command of it is run against the task's own checks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from agentrewind.bench.sim.policy import Policy, Slip, policy_of
from agentrewind.tasks.building import build
from agentrewind.tasks.evaluator import Evaluator
from agentrewind.tasks.rooms import Rooms, copy_of, unconfined
from agentrewind.tasks.task import Task

TIMEOUT_S = 120.0
IRREVERSIBLE = ("order violation", "destructive slip")


@dataclass(frozen=True, slots=True)
class Problem:
    """Where the file says something else than the task does."""

    where: str
    what: str


def proven(task: Task, rooms: Rooms = unconfined) -> list[Problem]:
    """Run every step and every error of the policy of `task`; what came out otherwise than the file says.

    Raises:
        UsageError: as `policy_of`.
    """
    with TemporaryDirectory(prefix="agentrewind-policy-") as place:
        return list(_Proof(task, rooms, Path(place)).problems())


class _Proof:
    def __init__(self, task: Task, rooms: Rooms, place: Path) -> None:
        self._task, self._rooms, self._place = task, rooms, place
        self._policy: Policy = policy_of(task)
        self._evaluator = Evaluator(task, rooms)
        self._workspace = place / "app"
        self._states = place / "states"

    def problems(self) -> Iterator[Problem]:
        rights = [(number, "") for number in range(len(self._policy.steps))]
        first = self._after(rights, keep=True)
        if first:
            yield Problem("all steps", f"the first unsatisfied criterion is {first}, and should be none")
            return
        for number, step in enumerate(self._policy.steps):
            again = self._after(rights[number:], fresh=False)
            if again:
                yield Problem(f"step {step.id}", f"done again with all that follows, it leaves {again} unsatisfied")
                self._after(rights)
            for error in step.errors:
                yield from self._of_error(number, error, rights)
            self._after(rights)

    def _of_error(self, number: int, error: Slip, rights: Sequence[tuple[int, str]]) -> Iterator[Problem]:
        where = f"step {self._policy.steps[number].id}, error {error.id}"
        found = self._after([(number, error.id), *rights[number + 1 :]], state=number)
        if found != error.breaks:
            yield Problem(where, f"it leaves {found or 'nothing'} unsatisfied first, and not {error.breaks}")
        form = f"repair:{error.id}" if error.repair else ""
        mended = self._after([(number, form), *rights[number + 1 :]], fresh=False)
        if error.kind in IRREVERSIBLE and mended != error.breaks:
            yield Problem(where, f"it can be put right by doing the step again ({mended or 'all is satisfied'} then)")
        if error.kind not in IRREVERSIBLE and mended:
            yield Problem(where, f"its repair leaves {mended} unsatisfied")

    def _after(
        self,
        forms: Sequence[tuple[int, str]],
        *,
        fresh: bool = True,
        keep: bool = False,
        state: int | None = None,
    ) -> str:
        """The first unsatisfied criterion after these commands; empty where all are satisfied. They begin with the
        workspace as shipped, or as it was before a step, or as it is (`fresh` false).
        """
        if state is not None:
            self._restore(self._states / str(state))
        elif fresh:
            self._restore(None)
        with self._rooms(self._workspace, at=self._task.workdir) as room:
            for number, form in forms:
                if keep:
                    copy_of(self._workspace, self._states / str(number))
                room.run(self._policy.text(number, form), TIMEOUT_S)
        first = self._evaluator.evaluate(self._workspace).first_unsatisfied
        return "" if first is None else first.criterion.id

    def _restore(self, state: Path | None) -> None:
        shutil.rmtree(self._workspace, ignore_errors=True)
        if state is None:
            build(self._task, self._workspace)
        else:
            copy_of(state, self._workspace)
