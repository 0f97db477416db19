"""The archives of an evaluation, each as a run below one directory, which is then a home of runs.

`AGENTREWIND_HOME=DIR agentrewind log last` reads them like any other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from agentrewind.compose.home import Home, new_run_id
from agentrewind.core.environment import ReplayDiverged
from agentrewind.journal import JournalWriter, read_run
from agentrewind.learn.record import record, replayed, started
from agentrewind.learn.scores import Score
from agentrewind.learn.trial import Trial
from agentrewind.learn.worlds import World


@dataclass(frozen=True)
class Archives:
    """Keeps trials as runs; each is read again from the disk and played again before the next is kept."""

    directory: Path

    def __call__(self, world: World, trial: Trial, score: Score) -> None:
        """Raises: ReplayDiverged: the run on the disk doesn't lead to the state in which the trial ended."""
        home = Home(self.directory).made()
        number = score.task.rpartition("/")[2]
        name = f"{trial.environment} {score.protocol.replace('@', '')} s{score.seed} i{number}"
        run_id = new_run_id(name, time.time_ns())
        with JournalWriter.create(home.run_dir(run_id), started(run_id, trial, score.policy)) as log:
            record(trial, world, log)
        check(home.run_dir(run_id), world, trial)


def check(run: Path, world: World, trial: Trial) -> None:
    """The run in a directory leads to the final state of its trial, and every observation is the recorded one.

    Raises:
        ReplayDiverged: it doesn't; the run stays as it is.
    """
    final = replayed(read_run(run), world.environment)
    if final != trial.final:
        raise ReplayDiverged(f"{run} leads to another state than its trial ended in.")
