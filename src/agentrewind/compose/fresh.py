"""Fresh mode put together: a session that stays, a launcher, and as many processes of the agent as it takes."""

from __future__ import annotations

from contextlib import closing
from typing import ClassVar, Protocol

from agentrewind.core.edits import Message
from agentrewind.core.errors import AgentError
from agentrewind.engine.attempts import GRACE_S, Attempt, Ended
from agentrewind.engine.fresh import FreshSession
from agentrewind.engine.offline import ResumePoint, unanswered_move
from agentrewind.engine.parking import Copies, Copy
from agentrewind.engine.plans import Plan
from agentrewind.engine.supervisor import Supervisor
from agentrewind.integrations.attempt import job_of
from agentrewind.integrations.harnesses.contract import Job, Outcome
from agentrewind.integrations.launcher import Launcher


class Restartable(Protocol):
    """A harness that can be started in another process, where its class is called without arguments."""

    preload: ClassVar[tuple[str, ...]]
    seeds: ClassVar[bool]


def drive(
    session: FreshSession,
    harness: Restartable,
    job: Job,
    point: ResumePoint | None,
    *,
    spawn: bool,
    grace_s: float = GRACE_S,
    fork_checkpoints: int = 0,
) -> Outcome:
    """Run the agent to its end, from `point` where a run is resumed.

    `grace_s` is how long a process that has to end may take to do so by itself, `fork_checkpoints` how many copies of
    it are parked at most.

    Raises:
        AgentError, ProviderError: the agent failed, or its process died. StoreError: as `Rewinder.make`.
    """
    kind = type(harness)
    plan = Plan() if point is None else _plan(session, point)
    with (
        closing(Launcher(harness.preload, job.environ, spawn=spawn, say=job.say)) as launcher,
        closing(Copies(fork_checkpoints, job.say)) as copies,
    ):
        others = session.spared
        session.spared = lambda: (*launcher.spared, *copies.pids(), *others())

        def attempt(seed: tuple[Message, ...], copy: Copy | None) -> Ended:
            process = Attempt(session, job.submit, job.say, grace_s=grace_s, copies=copies)
            if copy is not None:
                return process.wake(copy)
            described = job_of(f"{kind.__module__}:{kind.__qualname__}", job, seed)
            return process.run(lambda control: launcher.start(described, control))

        return _outcome(Supervisor(session, attempt, seeds=harness.seeds, copies=copies).run(plan))


def _plan(session: FreshSession, point: ResumePoint) -> Plan:
    remembers = unanswered_move(session.tree) is not None
    return Plan(point.at, serves=point.serves, remembers=remembers, snapshot=point.snapshot)


def _outcome(ended: Ended) -> Outcome:
    if ended.error is not None:
        raise ended.error
    if ended.died:
        raise AgentError(
            f"The process of the agent ended without a word ({ended.died}). Its files and records are kept;"
            " `agentrewind resume` goes on from its last step."
        )
    return Outcome(ended.ok, ended.reason, ended.answer)
