"""Reset mode put together: one process, in which the harness is run again after each rewind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from agentrewind.engine.reset import ResetSession
from agentrewind.engine.signal import RewindSignal
from agentrewind.integrations.clients import install
from agentrewind.integrations.harnesses.contract import Job, Outcome


def drive(session: ResetSession, harness: Callable[[Job], Outcome], job: Job) -> Outcome:
    """Run the agent to its end. What it makes of the signal decides nothing: the session says whether it was rewound.

    Raises:
        AgentError, ProviderError: as `Harness`.
    """
    while True:
        try:
            with install(session):
                outcome = harness(job)
        except (Exception, BaseExceptionGroup, RewindSignal):
            seed = session.restored()
            if seed is None:
                raise
        else:
            seed = session.restored()
            if seed is None:
                return outcome
        job = replace(job, seed=seed)
