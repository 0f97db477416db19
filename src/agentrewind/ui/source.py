"""Runs as they are now, for those who look at them again and again."""

from __future__ import annotations

import os
from collections import OrderedDict

from agentrewind.compose.home import Home
from agentrewind.compose.runs import Run
from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentRewindError, UnknownRun
from agentrewind.journal.format import JOURNAL
from agentrewind.journal.lease import is_held
from agentrewind.journal.requests import Requests
from agentrewind.ui.facts import run_facts

_RUNS_LISTED = 200
_RUNS_KEPT = 4


class Source:
    """Runs as they are now; one that hasn't changed since isn't read again."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._kept: OrderedDict[str, tuple[str, Run]] = OrderedDict()

    def version(self, run_id: str) -> str:
        """Changes whenever something of the run does. Raises: UnknownRun."""
        path = self.home.run_dir(self.home.find(run_id))
        try:
            size = os.stat(path / JOURNAL).st_size
        except OSError as error:
            raise UnknownRun(f"The run {run_id} can't be read: {error.strerror}.") from error
        return f"{size}-{is_held(path):d}-{Requests(path).paused:d}"

    def run(self, run_id: str) -> Run:
        """Raises: UnknownRun, JournalDamaged."""
        version = self.version(run_id)
        if (kept := self._kept.get(run_id)) is not None and kept[0] == version:
            return kept[1]
        run = Run(self.home, self.home.find(run_id))
        self._kept[run_id] = version, run
        while len(self._kept) > _RUNS_KEPT:
            self._kept.popitem(last=False)
        return run

    def runs(self) -> Json:
        """The newest first; of one that can't be read, why."""
        return [self._listed(run_id) for run_id in reversed(self.home.run_ids()[-_RUNS_LISTED:])]

    def _listed(self, run_id: str) -> Json:
        try:
            return run_facts(Run(self.home, run_id))
        except AgentRewindError as error:
            return {"run": run_id, "state": "unreadable", "reason": str(error)}
