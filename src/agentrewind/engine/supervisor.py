"""A run of an agent through as many processes as its rewinds take (rewind.md, section 4, "fresh").

One writer: journal, workspace, snapshots and budget stay with the supervisor from beginning to end. A process of the
agent only asks; whatever becomes of it, the supervisor goes by what is written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args

from agentrewind.core.crashpoints import named, reach
from agentrewind.core.edits import Message
from agentrewind.core.errors import AgentError
from agentrewind.engine.attempts import Ended
from agentrewind.engine.fresh import FreshSession
from agentrewind.engine.parking import Copies, Copy
from agentrewind.engine.plans import Departure, Divergence, Plan, Way
from agentrewind.engine.prefix import Unservable

GONE = named("fresh.process ended")
PLANNED = named("fresh.next process planned")

Try = Callable[[tuple[Message, ...], Copy | None], Ended]
"""Runs one process of the agent to its end: a new one, whose harness begins with these messages, or a woken copy."""


class Supervisor:
    """Runs an agent to its end; each rewind ends its process and begins another one."""

    def __init__(
        self, session: FreshSession, attempt: Try, *, seeds: bool = True, copies: Copies | None = None
    ) -> None:
        self._session = session
        self._attempt = attempt
        self._seeds = seeds
        """Whether the harness can begin with given messages."""
        self._copies = copies or Copies(0)

    def run(self, plan: Plan) -> Ended:
        """How the last process ended.

        Raises:
            AgentError: no process could be brought to where the run goes on; the files are those of its last records.
            StoreError: as `Rewinder.make`.
        """
        departure: Departure | None = None
        while True:
            ended = self._bring(plan)
            leaving = self._session.leaving
            if isinstance(ended, str):
                plan, departure = self._without(departure, ended), None
            elif isinstance(leaving, Departure):
                reach(GONE)
                plan = self._session.depart(leaving)
                departure = leaving if plan.remembers else None
                reach(PLANNED)
            else:
                if ended.died:
                    self._session.end_processes()
                return ended

    def _bring(self, plan: Plan) -> Ended | str:
        """Try one way after the other: how the process ended that came to where the run goes on, or why none did."""
        woken = self._woken(plan)
        if woken is not None:
            return woken
        why = ""
        for way in self._ways():
            try:
                seed = self._session.begin(plan, way)
            except Unservable as error:
                if why != str(error):
                    why = str(error)
                    self._session.warn(f"What is recorded can't be given to a new process of the agent: {why}.")
                continue
            ended = self._attempt(seed, None)
            leaving = self._session.leaving
            if isinstance(leaving, Divergence):
                why = leaving.why
            elif isinstance(leaving, Departure) or self._session.live or ended.died:
                return ended
            else:
                why = f"it ended too early: {ended.reason or ended.error}"
                self._session.warn(f"A new process of the agent did not come to where the run goes on; {why}.")
        return why

    def _woken(self, plan: Plan) -> Ended | None:
        """How the parked copy of the target ended; None where there is none, or it didn't come to where the run goes
        on: nothing rests on it, and the other ways are left.
        """
        uid = self._session.wakes(plan)
        self._copies.keep_only(self._session.on_path() | ({uid} if uid else frozenset()))
        copy = None if uid is None else self._copies.take(uid)
        if copy is None:
            return None
        try:
            self._session.begin(plan, "woken")
        except Unservable:
            self._copies.lost()
            return None
        ended = self._attempt((), copy)
        if self._session.live and not isinstance(self._session.leaving, Divergence):
            return ended
        self._copies.lost()
        if not isinstance(self._session.leaving, Divergence):
            how = ended.died or ended.error or "it ended"
            self._session.warn(f"The fork checkpoint of {uid} did not go on ({how}); what led there is replayed.")
        return None

    def _ways(self) -> Iterator[Way]:
        return (way for way in get_args(Way) if way != "woken" and (way != "seeded" or self._seeds))

    def _without(self, departure: Departure | None, why: str) -> Plan:
        """Where the run goes on when its target can't be reached: where the agent asked for it."""
        if departure is None:
            raise AgentError(
                f"No new process of the agent could be brought to where the run goes on: {why}. Files and records are"
                " kept; `agentrewind log` shows them."
            )
        return self._session.give_up(departure, why)
