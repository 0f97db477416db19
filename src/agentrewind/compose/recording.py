"""What every recorded run is put together from, whoever drives its agent."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from agentrewind import __version__
from agentrewind.compose.home import Home, new_run_id, slug
from agentrewind.compose.pricing import Priced
from agentrewind.compose.sharing import SharedWorld
from agentrewind.core.budgets import Budget
from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentRewindError, UsageError
from agentrewind.core.records import Event, RunStarted
from agentrewind.core.strategy import Decision, Stop, Strategy
from agentrewind.core.tree import RunTree
from agentrewind.core.world import RunWorld, World, worker
from agentrewind.dialects.anthropic_messages import AnthropicMessages
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.dialects.openai_responses import OpenAIResponses
from agentrewind.engine.auditing import Auditor
from agentrewind.engine.commands import UNCONFINED, Commands
from agentrewind.engine.effects import Effects
from agentrewind.engine.logs import InFront
from agentrewind.engine.people import People
from agentrewind.engine.services import Serviced, Services
from agentrewind.engine.session import Session
from agentrewind.journal.requests import Requests
from agentrewind.journal.writer import Durability, JournalWriter
from agentrewind.snapshots.attributed import Alone, Attributed
from agentrewind.snapshots.workspace import WorkspaceWorld
from agentrewind.strategies.rewind_rules import RewindRules
from agentrewind.tasks.check import CommandCheck

DIALECTS = (OpenAIChat(), OpenAIResponses(), AnthropicMessages())
"""What is understood on the wire; other requests pass through unseen."""
UNCHECKED = "The agent submitted its work; there was no check."


class Watched(InFront[JournalWriter]):
    """A journal that tells of each event once it is in, as it is in: without secrets."""

    def __init__(self, log: JournalWriter, tell: Callable[[Event, RunTree], None]) -> None:
        super().__init__(log)
        self._tell = tell

    @property
    def run_dir(self) -> Path:
        return self._log.run_dir

    def append(self, event: Event) -> None:
        self._log.append(event)
        kept = self._log.last
        assert kept is not None
        self._tell(kept, self.tree)


def header(
    workspace: Path,
    task: str,
    *,
    redact: Callable[[Json], Json],
    name: str = "",
    agent: str = "",
    model: str = "",
    mode: str = "in place",
    strategy: str = "rewind",
    settings: Json = None,
    memory: str = "",
) -> RunStarted:
    """The first line of a new run. Its id speaks of `name`, else of the task, and of no secret in either."""
    now = time.time_ns()
    words = slug(redact(name or task))
    run_id = new_run_id(words if redact(words) == words else "", now)
    return RunStarted(
        run_id, str(workspace), now, __version__, task, agent, model, mode, strategy, settings or {}, memory=memory
    )


@contextmanager
def created(
    home: Home, started: RunStarted, redact: Callable[[Json], Json], durability: Durability
) -> Iterator[JournalWriter]:
    """The journal of a new run. Where its header can't be written, nothing of it stays."""
    run_dir = home.run_dir(started.run_id)
    try:
        log = JournalWriter.create(run_dir, started, redact=redact, durability=durability)
    except (AgentRewindError, OSError):
        shutil.rmtree(run_dir, ignore_errors=True)
        raise
    with log:
        yield log


def recorder(
    log: Watched | JournalWriter,
    world: RunWorld,
    strategy: Strategy,
    *,
    max_rewinds: int | None,
    redact: Callable[[Json], Json],
    keep: Literal["none", "world", "context"] = "none",
    candidates: int | None = 80,
    kind: type[Session] = Session,
    rules: RewindRules = RewindRules(),  # noqa: B008 (frozen)
    effects: Effects | None = None,
    services: Services | None = None,
) -> Session:
    """The interposer of one run; `services` are stopped while files are brought back."""
    session = kind(
        Priced(log),
        Serviced(world, services) if services is not None else world,
        DIALECTS,
        budget=Budget(rewinds=max_rewinds, candidates=sys.maxsize if candidates is None else candidates),
        offers_rewind=strategy.offers_rewind,
        keep_world=keep == "world",
        keep_context=keep == "context",
        redact=redact,
        rules=rules,
    )
    attend(session, log, world, effects)
    return session


def attend(session: Session, log: Watched | JournalWriter, world: World, effects: Effects | None) -> None:
    """Give a session all who stand by it: the people who may ask for something, who looks whether all that changes is
    told of (where one run has the workspace to itself), and who says what calls do.
    """
    session.people = people(log)
    if isinstance(world, Attributed):
        session.auditor = Auditor(world.audit, session.lock)
    if effects is not None:
        session.effects, session.spared = effects, effects.pids


def attributed(world: WorkspaceWorld | SharedWorld, run_id: str) -> Attributed | SharedWorld:
    """A workspace as a run uses it: its snapshots say who was at work."""
    if isinstance(world, SharedWorld):
        return world
    return Attributed(world, Alone(worker(run_id)))


def people(log: Watched | JournalWriter) -> People:
    """Who may ask for something while the run goes on. A pause ends with the process that it was meant for."""
    requests = Requests(log.run_dir)
    requests.unpause()
    return People(log, requests)


def checked_command(check: str | None) -> str | None:
    """The command that judges the work. An empty one, of an unset variable say, would accept whatever there is.

    Raises:
        UsageError: it is empty.
    """
    if check is not None and not check.strip():
        raise UsageError("The check is an empty command, which would accept anything. Name one, or leave it out.")
    return check


def submitted(
    session: Session,
    check: str | None,
    strategy: Strategy,
    workspace: Path,
    environ: Mapping[str, str],
    *,
    commands: Commands = UNCONFINED,
) -> Decision:
    """Judge the work as it lies in the workspace; without a check it is taken as it is."""
    if check is None:
        return Stop(ok=True, reason=UNCHECKED)
    command = CommandCheck(check, environ, commands=commands)
    return session.submit(lambda after: command.judge(workspace, after), strategy)
