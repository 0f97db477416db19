"""What a person does to a run from the page: the same as the commands do, and refused in the same words."""

from __future__ import annotations

import os
from contextlib import suppress

from agentrewind.compose import asking, forking
from agentrewind.compose.drifted import of_run
from agentrewind.compose.home import Home
from agentrewind.compose.runs import Run
from agentrewind.core.codec import Json
from agentrewind.core.errors import RewindRefused, UsageError
from agentrewind.core.records import Rewound
from agentrewind.engine import offline
from agentrewind.ui.facts import move_facts, rehearsal_facts

LONGEST_NOTE = 20_000
"""Characters of a note that is taken."""
_REHEARSAL = "(a rehearsal)"
_FORGET_AFTER = 200


class Acts:
    """Acts on runs, and remembers what was asked of runs that are alive until it has an outcome. One thread at a time.

    Each method raises an `AgentRewindError` that says why not; nothing was touched then.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._asked: dict[str, asking.Asked] = {}

    def preview(self, run: Run, to: str, *, keep_drift: bool) -> Json:
        """What a rewind would change, what would stay done outside, which processes would be ended."""
        wish = asking.wish_of(run, to, _REHEARSAL)
        with run.reading() as world:
            plan = asking.rehearsed(world, run, wish.target, keep_drift=keep_drift)
        return {**rehearsal_facts(run, wish.target, plan), "alive": run.alive}

    def rewind(self, run: Run, to: str, note: str, *, keep_drift: bool) -> Json:
        """Of a run that is alive: the id under which `outcome` tells what became of it. Else the move, made."""
        if not note.strip():
            raise UsageError("The agent needs a note to go on from there.")
        if len(note) > LONGEST_NOTE:
            raise UsageError(f"The note is too long: {len(note):,} characters, at most {LONGEST_NOTE:,} are taken.")
        wish = asking.wish_of(run, to, note)
        if not run.alive:
            with run.writing() as opened:
                asking.drop_requests(run, opened.log)
                move = offline.rewind(opened.log, opened.world, wish.target, wish.note, keep_drift=keep_drift)
            return {"move": move_facts(move)}
        asked = asking.Asked(run, wish, keep_drift=keep_drift)
        asked.put()
        self._asked[asked.request.id] = asked
        for old in list(self._asked)[:-_FORGET_AFTER]:
            del self._asked[old]
        return {"request": asked.request.id}

    def outcome(self, request: str) -> Json:
        """`waits`; or the move; or why nothing came of it."""
        asked = self._of(request)
        found = asked.outcome()
        if found is None:
            return {"waits": True}
        del self._asked[request]
        if isinstance(found, Rewound):
            return {"move": move_facts(found)}
        why = asking.why_not(found)
        return {"refused": why if why.endswith(".") else f"{why}."}

    def withdraw(self, request: str) -> Json:
        """Take a request back, where the run hasn't taken it."""
        asked = self._of(request)
        if not asked.withdraw():
            raise RewindRefused("The run has taken the request already.")
        del self._asked[request]
        return {"withdrawn": True}

    def _of(self, request: str) -> asking.Asked:
        with suppress(KeyError):
            return self._asked[request]
        raise UsageError("There is no such request (any more).")

    def undo(self, run: Run) -> Json:
        """Take back the last rewind or restore of a run that has ended."""
        with run.writing() as opened:
            move = offline.undo(opened.log, of_run(opened.world, opened.log.tree, keep=False))
        return {"move": move_facts(move)}

    def pause(self, run: Run) -> Json:
        return {"paused": True, "new": asking.pause(run)}

    def unpause(self, run: Run) -> Json:
        asking.unpause(run)
        return {"paused": False}

    def fork(self, run: Run, at: str, into: str) -> Json:
        """A second run in `into`, or beside the workspace where that is empty."""
        made = forking.fork(self._home, run, at, into or forking.place_for(run), environ=os.environ)
        return {
            "run": made.run_id,
            "workspace": str(made.workspace),
            "at": made.at,
            "left_out": [{"path": gap.path, "why": gap.why} for gap in made.left_out],
        }
