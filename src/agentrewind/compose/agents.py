"""Starting an agent on a task, and going on with one after a crash."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentrewind.compose.home import Home
from agentrewind.compose.recording import Watched, created, header, recorder, submitted
from agentrewind.compose.runs import Run, settle
from agentrewind.compose.secret import redactor
from agentrewind.compose.worlds import Progress, open_world
from agentrewind.core.codec import from_plain, to_plain
from agentrewind.core.edits import Message
from agentrewind.core.errors import AgentError, AgentRewindError, UsageError
from agentrewind.core.records import Event, RunStarted
from agentrewind.core.redact import Redactor
from agentrewind.core.strategy import Decision, Strategy
from agentrewind.core.tree import RunTree
from agentrewind.engine import offline
from agentrewind.engine.processes import RUN_MARK, become_subreaper
from agentrewind.integrations.clients import install
from agentrewind.integrations.harnesses.builtin import BuiltinAgent
from agentrewind.integrations.harnesses.contract import Job, Outcome
from agentrewind.integrations.harnesses.mini import MiniSweAgent
from agentrewind.journal.writer import Durability, JournalWriter
from agentrewind.snapshots.workspace import WorkspaceWorld
from agentrewind.strategies import by_name

OPENAI = "https://api.openai.com/v1"
AGENTS = ("builtin", "mini-swe-agent")

Keep = Literal["none", "world"]


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What a run was started with: enough to start its agent again. Never a key."""

    agent: str
    model: str
    task: str
    base_url: str = OPENAI
    check: str | None = None
    strategy: str = "rewind"
    keep: Keep = "none"
    max_rewinds: int | None = 50
    durability: Durability = "process"


def _nothing(_: object) -> None: ...


def _no_event(_event: Event, _tree: RunTree) -> None: ...


@dataclass(frozen=True, slots=True)
class Watcher:
    """Who is told how a run goes."""

    began: Callable[[str], None] = _nothing
    """The id of the run, once its journal exists."""
    happened: Callable[[Event, RunTree], None] = _no_event
    """Each event, after it is in the journal."""
    say: Callable[[str], None] = _nothing
    """A line of the harness, or on what an earlier crash had left to do."""
    progress: Progress | None = None
    """Long work on the workspace."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run ended. `tree` is all of it."""

    run_id: str
    outcome: Outcome
    tree: RunTree


def start(
    home: Home,
    settings: RunSettings,
    workspace: Path,
    *,
    environ: Mapping[str, str] = os.environ,
    watcher: Watcher = Watcher(),
) -> Finished:
    """Run an agent on a task until it ends; its run is in `home` and stays there whatever happens.

    Raises:
        UsageError: unknown agent, strategy or missing key. Nothing was made.
        Busy: somebody else uses the workspace. Nothing was made.
        StorageFull: no room; where not even the header could be written, there is no run.
        ProviderError, AgentError: the run has ended for that reason.
    """
    agent = _Agent.of(settings, environ)
    started = _header(settings, workspace)
    holder, redact = f"run {started.run_id}", redactor(environ, workspace)
    with closing(
        open_world(home, workspace, holder=holder, durability=settings.durability, progress=watcher.progress)
    ) as world:
        for line in settle(home, world, workspace):
            watcher.say(line)
        with created(home, started, redact, settings.durability) as log:
            watcher.began(started.run_id)
            return _Driver(
                log=log, world=world, workspace=workspace, agent=agent, redact=redact, watcher=watcher
            ).drive()


def resume(
    run: Run,
    *,
    environ: Mapping[str, str] = os.environ,
    watcher: Watcher = Watcher(),
) -> Finished:
    """Settle what a crash left, bring the files to the newest checkpoint, and let the agent go on to its end.

    Raises:
        UsageError: the run has ended well, or it isn't one of an agent that we start. Nothing was touched.
        Others: as `start`.
    """
    if run.state == "done":
        raise UsageError(f"The run {run.id} has ended well; there is nothing to go on with.")
    settings = recorded(run)
    agent = _Agent.of(settings, environ)
    with run.writing(watcher.progress, settings.durability) as opened:
        watcher.began(run.id)
        point, done = offline.resume(opened.log, opened.world)
        for line in (*opened.settled, *done):
            watcher.say(line)
        redact = redactor(environ, run.workspace)
        return _Driver(
            log=opened.log,
            world=opened.world,
            workspace=run.workspace,
            agent=agent,
            redact=redact,
            watcher=watcher,
        ).drive(point)


def _header(settings: RunSettings, workspace: Path) -> RunStarted:
    return header(
        workspace,
        settings.task,
        agent=settings.agent,
        model=settings.model,
        strategy=settings.strategy,
        settings=to_plain(settings),
    )


def recorded(run: Run) -> RunSettings:
    """The settings in the header of a run. Raises: UsageError: it has none that start an agent."""
    try:
        settings = from_plain(RunSettings, run.started.settings)
    except TypeError:
        raise UsageError(
            f"The run {run.id} was made by a program of its own, not by `agentrewind run`; start that program again."
        ) from None
    if any("[redacted " in str(value) for value in run.started.settings.values()):
        raise UsageError(
            f"The settings of the run {run.id} held a secret, which isn't kept; `agentrewind run` starts it anew."
        )
    return settings


@dataclass(frozen=True, slots=True)
class _Agent:
    """All that is needed to start an agent, checked before anything is made."""

    settings: RunSettings
    harness: BuiltinAgent | MiniSweAgent
    strategy: Strategy
    environ: Mapping[str, str]
    api_key: str | None

    @classmethod
    def of(cls, settings: RunSettings, environ: Mapping[str, str]) -> _Agent:
        """Raises: UsageError."""
        if not settings.task.strip():
            raise UsageError("The task is empty. Say what the agent is to do.")
        harness, strategy = harness_by_name(settings.agent), by_name(settings.strategy)
        key = environ.get("OPENAI_API_KEY") or None
        if key is None and settings.base_url.startswith(OPENAI):
            raise UsageError(
                "There is no key for the model: set OPENAI_API_KEY, or name another endpoint with --base-url."
            )
        return cls(settings, harness, strategy, environ, key)


def harness_by_name(name: str) -> BuiltinAgent | MiniSweAgent:
    """The adapter of that name. Raises: UsageError: unknown, or its package isn't installed."""
    if name == "builtin":
        return BuiltinAgent()
    if name == "mini-swe-agent":
        if importlib.util.find_spec("minisweagent") is None:
            raise UsageError("mini-SWE-agent isn't installed here. `pip install 'agentrewind[mini]'` adds it.")
        return MiniSweAgent()
    raise UsageError(f"There is no agent {name!r}. There are: {', '.join(AGENTS)}.")


class _Driver:
    """One agent on one journal and one world, from its start to the last line of the journal."""

    def __init__(
        self,
        *,
        log: JournalWriter,
        world: WorkspaceWorld,
        workspace: Path,
        agent: _Agent,
        redact: Redactor,
        watcher: Watcher,
    ) -> None:
        self._log, self._agent, self._watcher, self._workspace = log, agent, watcher, workspace
        self._environ = {**agent.environ, RUN_MARK: log.run_dir.name}
        self._session = recorder(
            Watched(log, watcher.happened),
            world,
            agent.strategy,
            max_rewinds=agent.settings.max_rewinds,
            keep_world=agent.settings.keep == "world",
            redact=redact,
        )

    def drive(self, point: offline.ResumePoint | None = None) -> Finished:
        """Raises: what ended the run, after its end is in the journal."""
        become_subreaper()
        if point is not None:
            self._session.resume_at(point)
        try:
            with install(self._session):
                outcome = self._agent.harness.run(self._job(point.seed if point else ()))
        except KeyboardInterrupt:
            self._end(Outcome(ok=False, reason="interrupted"))
            raise
        except Exception as error:
            told = str(error) if isinstance(error, AgentRewindError) else f"{type(error).__name__}: {error}"
            self._end(Outcome(ok=False, reason=told))
            self._raise_broken(error)
            if isinstance(error, AgentRewindError):
                raise
            raise AgentError(f"The agent failed by itself: {told}") from error
        self._end(outcome)
        self._raise_broken(None)
        return Finished(self._log.run_dir.name, outcome, self._log.tree)

    def _raise_broken(self, error: Exception | None) -> None:
        """What made the run unrecordable, in preference to what the agent made of it."""
        broken = self._session.broken
        if broken is not None and broken is not error:
            raise broken from error

    def _end(self, outcome: Outcome) -> None:
        """The last line, unless the run can't be recorded any more: `broken` then says why."""
        with suppress(AgentRewindError):
            self._session.end(outcome.reason, ok=outcome.ok, answer=outcome.answer)

    def _job(self, seed: tuple[Message, ...]) -> Job:
        settings = self._agent.settings
        return Job(
            settings.task,
            self._workspace,
            settings.model,
            self._session,
            self._submit,
            settings.base_url,
            self._agent.api_key,
            seed,
            self._environ,
            self._watcher.say,
            offers_rewind=self._agent.strategy.offers_rewind,
        )

    def _submit(self, answer: str) -> Decision:
        del answer
        return submitted(
            self._session, self._agent.settings.check, self._agent.strategy, self._workspace, self._environ
        )
