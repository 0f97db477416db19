"""Starting an agent on a task, and going on with one after a crash."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from agentrewind.compose import fresh, reset
from agentrewind.compose.confining import Confined, confined, seen
from agentrewind.compose.effects import ask_on_terminal, classifier, effects_of, kept_from
from agentrewind.compose.guards import guard_named
from agentrewind.compose.harnesses import Adapter, checked_options, harness_by_name
from agentrewind.compose.home import Home
from agentrewind.compose.recording import Watched, attributed, checked_command, created, header, recorder, submitted
from agentrewind.compose.runs import INTERRUPTED, Run
from agentrewind.compose.secret import redactor, say_without_secrets
from agentrewind.compose.services import fits, services_in
from agentrewind.compose.sharing import SharedWorld, world_of
from agentrewind.compose.tool_program import offered
from agentrewind.compose.worlds import Progress
from agentrewind.core import effects as effect_modes
from agentrewind.core.codec import Json, from_plain, to_plain
from agentrewind.core.edits import Message
from agentrewind.core.errors import AgentError, AgentRewindError, UsageError
from agentrewind.core.records import Event, Judged, RecordUid, RunStarted, Warned
from agentrewind.core.redact import Redactor
from agentrewind.core.strategy import Decision, Strategy
from agentrewind.core.tree import RunTree
from agentrewind.engine import offline
from agentrewind.engine.fresh import FreshSession
from agentrewind.engine.processes import RUN_MARK, become_subreaper, end_all, marked
from agentrewind.engine.reset import ResetSession
from agentrewind.engine.reviewing import Reviewer
from agentrewind.engine.services import Service
from agentrewind.engine.session import Session
from agentrewind.integrations.clients import install
from agentrewind.integrations.endpoints import checked_url
from agentrewind.integrations.harnesses.contract import Job, Outcome
from agentrewind.integrations.sandbox import commands_of
from agentrewind.integrations.sandbox.spec import Confinement
from agentrewind.journal.writer import Durability, JournalWriter
from agentrewind.snapshots.workspace import WorkspaceWorld
from agentrewind.strategies import by_name, in_force
from agentrewind.strategies.ending import EQUAL_FAILURES, REJECTIONS
from agentrewind.strategies.rewind_rules import RuleNames
from agentrewind.strategies.selectors import Selector

OPENAI = "https://api.openai.com/v1"

Keep = Literal["none", "world", "context"]
"""What a rewind leaves as it is, for comparison."""
Mode = Literal["in place", "fresh", "reset"]
"""How a rewind moves the conversation: by editing what the model sees, in a new process of the agent, or by giving the
agent the restored messages as its own.
"""

Judge = Callable[[Path, RecordUid | None], Judged]
"""The verdict on a workspace, after this record. Never raises for what the workspace holds."""

_SESSIONS: dict[str, type[Session]] = {"in place": Session, "fresh": FreshSession, "reset": ResetSession}


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
    mode: Mode = "in place"
    spawn: bool = False
    """fresh: start an interpreter for each process of the agent, instead of forking one that has imported it."""
    rules: RuleNames = field(default_factory=RuleNames)
    confinement: Confinement = Confinement()  # noqa: RUF009 (frozen)
    """The sandbox of the agent's commands, and of the check."""
    services: tuple[Service, ...] = ()
    """As the project declared them when the run began."""
    share: bool = False
    """Other runs may use the workspace at the same time."""
    effects: effect_modes.Mode | None = None
    """What is done about calls with effects that no rewind undoes; None: what the workspace says."""
    fork_checkpoints: int = 0
    """fresh, experimental: how many copies of the agent's process are parked at checkpoints at most."""
    candidates: int | None = 80
    """How many checkpoints are shown to the agent at most; None: all."""
    equal_failures: int = EQUAL_FAILURES
    """How many equal failures in a row end the run."""
    rejections: int | None = REJECTIONS
    """How many rejections in a row without progress end it."""
    guard: str = "rules"
    """review: who judges the calls, as `guard_named` takes it."""
    limits: Mapping[str, Json] = field(default_factory=dict)
    """Settings of the harness, as its adapter names them."""


def as_in_the_paper(settings: RunSettings) -> RunSettings:
    """The same run with rewinds as the paper has them."""
    rules = RuleNames(notice="off")
    return replace(settings, mode="fresh", keep="none", max_rewinds=None, rules=rules, rejections=None)


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
    judge: Judge | None = None,
    selector: Selector | None = None,
) -> Finished:
    """Run an agent on a task until it ends; its run is in `home` and stays there whatever happens.

    `judge` judges submissions in place of `settings.check`, `selector` chooses in place of the one that the settings
    name. Neither is recorded: a resume goes by the settings alone.

    Raises:
        UsageError: unknown agent or strategy, impossible URL or missing key. Nothing was made.
        Busy: somebody else uses the workspace. Nothing was made.
        StorageFull: no room; where not even the header could be written, there is no run.
        ProviderError, AgentError: the run has ended for that reason.
    """
    agent = _Agent.of(settings, environ)
    classifier(workspace)
    redact = redactor(environ, workspace)
    started = _header(settings, workspace, redact)
    run_id, confinement = started.run_id, settings.confinement
    with (
        confined(home, run_id, workspace, confinement, environ=environ, say=watcher.say) as within,
        closing(
            world_of(
                home,
                workspace,
                run_id,
                share=settings.share,
                durability=settings.durability,
                progress=watcher.progress,
                say=watcher.say,
            )
        ) as world,
    ):
        seen(settings.check, within.sandbox)
        with created(home, started, redact, settings.durability) as log:
            watcher.began(started.run_id)
            return _Driver(
                log=log,
                world=world,
                workspace=workspace,
                agent=agent,
                redact=redact,
                watcher=watcher,
                within=within,
                judge=judge,
                selector=selector,
            ).drive()


def resume(
    run: Run,
    *,
    environ: Mapping[str, str] = os.environ,
    watcher: Watcher = Watcher(),
    judge: Judge | None = None,
    settings: RunSettings | None = None,
    strategy: Strategy | None = None,
) -> Finished:
    """Settle what a crash left, bring the files to the newest checkpoint, and let the agent go on to its end.

    It goes on with the settings of its header, unless others are given; `judge` judges in place of their check, and
    `strategy` decides in place of theirs.

    Raises:
        UsageError: the run has ended well, or it isn't one of an agent that we start. Nothing was touched.
        Others: as `start`.
    """
    if run.state == "done":
        raise UsageError(f"The run {run.id} has ended well; there is nothing to go on with.")
    settings = settings or recorded(run)
    agent = _Agent.of(settings, environ)
    agent = agent if strategy is None else replace(agent, strategy=strategy)
    confinement = settings.confinement
    with (
        confined(run.home, run.id, run.workspace, confinement, environ=environ, say=watcher.say) as within,
        run.writing(watcher.progress, settings.durability) as opened,
    ):
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
            within=within,
            judge=judge,
        ).drive(point)


def _header(settings: RunSettings, workspace: Path, redact: Redactor) -> RunStarted:
    return header(
        workspace,
        settings.task,
        redact=redact,
        agent=settings.agent,
        model=settings.model,
        mode=settings.mode,
        strategy=settings.strategy,
        settings=to_plain(settings),
        memory=settings.rules.memory,
    )


def recorded(run: Run) -> RunSettings:
    """The settings in the header of a run. Raises: UsageError: it has none that start an agent."""
    if run.of_program:
        raise UsageError(
            f"The agent of the run {run.id} is a program of yours; start it again with"
            f" `agentrewind exec --resume {run.id} -- COMMAND`."
        )
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
    harness: Adapter
    strategy: Strategy
    environ: Mapping[str, str]
    api_key: str | None

    @classmethod
    def of(cls, settings: RunSettings, environ: Mapping[str, str]) -> _Agent:
        """Raises: UsageError."""
        if not settings.task.strip():
            raise UsageError("The task is empty. Say what the agent is to do.")
        if not settings.model.strip():
            raise UsageError("The name of the model is empty.")
        checked_command(settings.check)
        checked_url(settings.base_url)
        settings.rules.rules()
        if settings.keep == "context" and settings.mode != "in place":
            raise UsageError("A run that keeps its conversations at a rewind needs --mode in-place.")
        if settings.strategy == "review":
            guard_named(settings.guard, environ)
        if settings.fork_checkpoints and settings.mode != "fresh":
            raise UsageError("Fork checkpoints are parked processes of the agent, so they need --mode fresh.")
        fits(settings.services, settings.confinement.kind)
        harness = harness_by_name(settings.agent)
        strategy = by_name(settings.strategy, equal_failures=settings.equal_failures, rejections=settings.rejections)
        checked_options(harness, settings.limits)
        key = environ.get("OPENAI_API_KEY") or None
        if key is None and settings.base_url.startswith(OPENAI):
            raise UsageError(
                "There is no key for the model: set OPENAI_API_KEY, or name another endpoint with --base-url."
            )
        return cls(settings, harness, strategy, environ, key)


class _Driver:
    """One agent on one journal and one world, from its start to the last line of the journal."""

    def __init__(
        self,
        *,
        log: JournalWriter,
        world: WorkspaceWorld | SharedWorld,
        workspace: Path,
        agent: _Agent,
        redact: Redactor,
        watcher: Watcher,
        within: Confined,
        judge: Judge | None = None,
        selector: Selector | None = None,
    ) -> None:
        self._sandbox = within.sandbox
        self._judge = judge
        self._log, self._agent, self._workspace, self._redact = log, agent, workspace, redact
        self._say = lambda line: watcher.say(redact.text(line))
        self._environ = {**agent.environ, RUN_MARK: log.run_dir.name}
        watched = Watched(log, watcher.happened)
        self._services = services_in(
            agent.settings.services, within, workspace, self._environ, lambda text: watched.append(Warned(text))
        )
        settings = agent.settings
        rules = in_force(agent.strategy, settings.rules.rules(), equal_failures=settings.equal_failures)
        self._session = recorder(
            watched,
            attributed(world, log.run_dir.name),
            agent.strategy,
            max_rewinds=None if settings.strategy == "restart" else settings.max_rewinds,
            candidates=settings.candidates,
            keep=settings.keep,
            redact=redact,
            rules=rules if selector is None else replace(rules, selector=selector),
            kind=_SESSIONS[settings.mode],
            effects=effects_of(classifier(workspace, kept_from(within.sandbox)), settings.effects, ask_on_terminal),
            services=self._services if settings.services else None,
        )
        if settings.strategy == "review":
            self._session.reviewer = Reviewer(guard_named(settings.guard, agent.environ), settings.task)
        readers = self._session.spared
        self._session.spared = lambda: (*self._services.pids(), *readers())

    def drive(self, point: offline.ResumePoint | None = None) -> Finished:
        """Raises: what ended the run, after its end is in the journal."""
        become_subreaper()
        try:
            return self._driven(point)
        finally:
            self._services.stop()

    def _driven(self, point: offline.ResumePoint | None) -> Finished:
        try:
            self._services.start()
            with offered(self._log.run_dir, self._session.by_program.call, self._sandbox):
                outcome = self._outcome(point)
        except KeyboardInterrupt:
            end_all(lambda: marked(self._log.run_dir.name))
            self._end(Outcome(ok=False, reason=INTERRUPTED))
            raise
        except Exception as error:
            told = self._told(error)
            self._end(Outcome(ok=False, reason=told))
            self._raise_broken(error)
            if isinstance(error, AgentRewindError):
                raise
            raise AgentError(f"The agent failed by itself: {told}") from error
        self._end(outcome)
        self._raise_broken(None)
        return Finished(self._log.run_dir.name, outcome, self._log.tree)

    def _outcome(self, point: offline.ResumePoint | None) -> Outcome:
        job = self._job(point.seed if point else ())
        if isinstance(self._session, FreshSession):
            settings = self._agent.settings
            return fresh.drive(
                self._session,
                self._agent.harness,
                job,
                point,
                spawn=settings.spawn,
                fork_checkpoints=settings.fork_checkpoints,
            )
        if point is not None:
            self._session.resume_at(point)
        if isinstance(self._session, ResetSession):
            return reset.drive(self._session, self._agent.harness.run, job)
        with install(self._session):
            return self._agent.harness.run(job)

    def _told(self, error: Exception) -> str:
        """The error in words. It is said on, also by whoever gets it from here, without secrets."""
        if isinstance(error, AgentRewindError):
            say_without_secrets(error, self._redact)
            return str(error)
        return self._redact.text(f"{type(error).__name__}: {error}")

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
            self._say,
            settings.limits,
            offers_rewind=self._agent.strategy.offers_rewind,
            sandbox=self._sandbox,
        )

    def _submit(self, answer: str) -> Decision:
        del answer
        judge = self._judge
        if judge is not None:
            return self._session.submit(lambda after: judge(self._workspace, after), self._agent.strategy)
        return submitted(
            self._session,
            self._agent.settings.check,
            self._agent.strategy,
            self._workspace,
            self._environ,
            commands=commands_of(self._sandbox),
        )
