"""A run whose agent is any program: it talks to its model through our proxy."""

from __future__ import annotations

import importlib.util
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentrewind.compose.agents import Watcher
from agentrewind.compose.continuing import continued
from agentrewind.compose.effects import ask_on_terminal, classifier, effects_of
from agentrewind.compose.home import Home
from agentrewind.compose.pricing import Priced
from agentrewind.compose.program import ProgramSession
from agentrewind.compose.recording import (
    DIALECTS,
    Watched,
    attend,
    attributed,
    checked_command,
    created,
    header,
    submitted,
)
from agentrewind.compose.runs import INTERRUPTED, PROGRAM, Run
from agentrewind.compose.secret import redactor
from agentrewind.compose.sharing import SharedWorld, world_of
from agentrewind.compose.tool_program import offered
from agentrewind.core import effects as effect_modes
from agentrewind.core.budgets import Budget
from agentrewind.core.codec import from_plain, to_plain
from agentrewind.core.errors import AgentRewindError, UsageError
from agentrewind.core.records import Event, NodeBegan
from agentrewind.core.redact import Redactor
from agentrewind.core.strategy import Stop, Strategy
from agentrewind.core.tree import RunTree
from agentrewind.effects.classify import Classifier
from agentrewind.engine import offline
from agentrewind.engine.processes import RUN_MARK, become_subreaper
from agentrewind.integrations.proxy import ANTHROPIC, OPENAI, Callers, Listening, Proxy, Upstream
from agentrewind.integrations.proxy.leftovers import Leftovers
from agentrewind.integrations.proxy.origins import Origins
from agentrewind.integrations.proxy.upstream import PLACEHOLDER, Family
from agentrewind.journal.writer import Durability, JournalWriter
from agentrewind.snapshots.workspace import WorkspaceWorld
from agentrewind.strategies import by_name
from agentrewind.strategies.rewind_rules import RuleNames

UNWATCHED = Watcher()
CAN_PROXY = ("http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True, slots=True)
class ProxiedSettings:
    """What such a run was started with. Never a key.

    `command` is empty where the agent is started by somebody else (`agentrewind proxy`).
    """

    command: tuple[str, ...] = ()
    base_url: str = OPENAI
    anthropic_base_url: str = ANTHROPIC
    strategy: str = "rewind"
    check: str | None = None
    max_rewinds: int | None = 50
    durability: Durability = "process"
    rules: RuleNames = field(default_factory=RuleNames)
    share: bool = False
    """Other runs may use the workspace at the same time."""
    effects: effect_modes.Mode | None = None
    """What is done about calls with effects that no rewind undoes; None: what the workspace says."""
    inject: bool = True
    """Whether requests are given the two tools. The agent can reach them by a program in any case."""


class ProxiedRun:
    """A run that is being recorded through a proxy.

    Attributes:
        id: its name.
    """

    def __init__(self, run_id: str, proxy: Proxy, session: ProgramSession, judge: _Judge) -> None:
        self.id = run_id
        self._proxy, self._session, self._judge = proxy, session, judge

    @property
    def tree(self) -> RunTree:
        return self._session.tree

    @property
    def addresses(self) -> dict[str, str]:
        """The variables that lead an agent program's SDK to the proxy."""
        return {
            "OPENAI_BASE_URL": self._proxy.listening.base_url,
            "OPENAI_API_BASE": self._proxy.listening.base_url,
            "ANTHROPIC_BASE_URL": self._proxy.listening.anthropic_base_url,
            "ANTHROPIC_API_BASE": self._proxy.listening.anthropic_base_url,
        }

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment for an agent program: led to the proxy, marked, with a key where it has none."""
        return {
            **environ,
            "OPENAI_API_KEY": environ.get("OPENAI_API_KEY") or PLACEHOLDER,
            **around_proxies(environ),
            **self.addresses,
            RUN_MARK: self.id,
        }

    def end(self, reason: str, *, ok: bool) -> bool:
        """Let the calls under way end, have the work judged where there is a check, write the last line; whether the
        run has ended well.

        Raises:
            AgentRewindError: what made the run unrecordable.
        """
        self._proxy.close()
        if self._session.broken is not None:
            raise self._session.broken
        ok, reason = self._judge.verdict(self._session, reason) if ok else (ok, reason)
        self._session.end(reason, ok=ok)
        return ok


def around_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """What keeps a program that uses an HTTP proxy from asking it for ours."""
    if not any(environ.get(name) or environ.get(name.upper()) for name in CAN_PROXY):
        return {}
    listed = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    hosts = ",".join([*filter(None, (item.strip() for item in listed.split(","))), "127.0.0.1", "localhost"])
    return {"no_proxy": hosts, "NO_PROXY": hosts}


@dataclass(frozen=True, slots=True)
class _Judge:
    check: str | None
    strategy: Strategy
    workspace: Path
    environ: Mapping[str, str]

    def verdict(self, session: ProgramSession, reason: str) -> tuple[bool, str]:
        """Whether the work is accepted, and the reason of the end."""
        if self.check is None:
            return True, reason
        decision = submitted(session, self.check, self.strategy, self.workspace, self.environ)
        if isinstance(decision, Stop):
            return decision.ok, decision.reason
        return False, "The check did not accept the work."


@contextmanager
def begun(
    home: Home,
    settings: ProxiedSettings,
    workspace: Path,
    *,
    environ: Mapping[str, str] = os.environ,
    port: int = 0,
    watcher: Watcher = UNWATCHED,
) -> Iterator[ProxiedRun]:
    """A new run, recording from now on. It ends badly where the block is left without `end`.

    Raises:
        UsageError: a bad address, strategy or port. Busy: somebody else uses the workspace. Nothing was made.
        StorageFull: no room; where not even the header could be written, there is no run.
    """
    recording = _Recording.of(settings, workspace, environ, watcher, port)
    started = header(
        workspace,
        shlex.join(settings.command),
        redact=recording.redact,
        name=os.path.basename(settings.command[0]) if settings.command else "proxy",
        agent=PROGRAM,
        strategy=settings.strategy,
        settings=to_plain(settings),
        memory=settings.rules.memory,
    )
    with (
        closing(recording.listening),
        closing(
            world_of(
                home,
                workspace,
                started.run_id,
                share=settings.share,
                durability=settings.durability,
                progress=watcher.progress,
                say=watcher.say,
            )
        ) as world,
        created(home, started, recording.redact, settings.durability) as log,
    ):
        watcher.began(started.run_id)
        with recording.of_run(log, world) as run:
            yield run


@contextmanager
def begun_again(
    run: Run,
    command: Sequence[str],
    *,
    base_url: str | None = None,
    environ: Mapping[str, str] = os.environ,
    port: int = 0,
    watcher: Watcher = UNWATCHED,
) -> Iterator[ProxiedRun]:
    """A run of a program goes on: what an earlier process of it has left running is ended, its files are brought to the
    newest checkpoint, and a program that sends its conversation again finds the rewinds still in force.

    Raises:
        UsageError: it has ended well, or isn't the run of a program. Nothing was touched. Others: as `begun`.
    """
    if run.state == "done":
        raise UsageError(f"The run {run.id} has ended well; there is nothing to go on with.")
    settings = recorded(run)
    settings = replace(settings, command=tuple(command), base_url=settings.base_url if base_url is None else base_url)
    if "[redacted " in settings.base_url:
        raise UsageError("The address of the model held a secret, which isn't kept; say it again with --base-url.")
    recording = _Recording.of(settings, run.workspace, environ, watcher, port)
    with (
        closing(recording.listening),
        run.writing(watcher.progress, settings.durability, recording.secrets) as opened,
    ):
        watcher.began(run.id)
        point, done = offline.resume(opened.log, opened.world)
        for line in (*_of_endpoint(settings.base_url, base_url, environ), *opened.settled, *done):
            watcher.say(line)
        with recording.of_run(opened.log, opened.world, point) as again:
            yield again


def _of_endpoint(asked: str, named: str | None, environ: Mapping[str, str]) -> Iterator[str]:
    """What to say where the environment names another endpoint than the run goes on with."""
    now = environ.get("OPENAI_BASE_URL")
    if named is None and now and now.rstrip("/") != asked.rstrip("/"):
        yield f"the model is asked at {asked}, as before; OPENAI_BASE_URL names {now} now, which --base-url would take"


def recorded(run: Run) -> ProxiedSettings:
    """The settings in the header of a run. Raises: UsageError: it isn't the run of a program."""
    if not run.of_program:
        raise UsageError(
            f"The run {run.id} is not one of `agentrewind exec`; `agentrewind resume {run.id}` goes on with it."
        )
    return from_plain(ProxiedSettings, run.started.settings)


@dataclass(frozen=True, slots=True)
class _Recording:
    """All that is needed to record a program, checked before anything is made."""

    settings: ProxiedSettings
    workspace: Path
    environ: Mapping[str, str]
    watcher: Watcher
    strategy: Strategy
    upstreams: Mapping[Family, Upstream]
    listening: Listening
    effects: Classifier

    @classmethod
    def of(
        cls, settings: ProxiedSettings, workspace: Path, environ: Mapping[str, str], watcher: Watcher, port: int = 0
    ) -> _Recording:
        """Raises: UsageError."""
        if importlib.util.find_spec("uvicorn") is None:
            raise UsageError("The proxy needs one more package: `pip install 'agentrewind[proxy]'` adds it.")
        upstreams: dict[Family, Upstream] = {
            "openai": Upstream(settings.base_url, api_key=environ.get("OPENAI_API_KEY", "")),
            "anthropic": Upstream(settings.anthropic_base_url, "anthropic", environ.get("ANTHROPIC_API_KEY", "")),
        }
        strategy = by_name(settings.strategy)
        effects = classifier(workspace)
        settings.rules.rules()
        checked_command(settings.check)
        listening = Listening(port)
        return cls(settings, workspace, environ, watcher, strategy, upstreams, listening, effects)

    @property
    def secrets(self) -> Mapping[str, str]:
        """The environment, and the token under a name of the kind whose values are taken out of what is kept."""
        return {**self.environ, "AGENTREWIND_PROXY_TOKEN": self.listening.token}

    @property
    def redact(self) -> Redactor:
        return redactor(self.secrets, self.workspace)

    @contextmanager
    def of_run(
        self, log: JournalWriter, world: WorkspaceWorld | SharedWorld, point: offline.ResumePoint | None = None
    ) -> Iterator[ProxiedRun]:
        if self.settings.command:
            become_subreaper()
        origins = Origins(self.listening.port)
        callers = Callers(came=origins.came)
        session = self._session(log, world, callers)
        session.departed = origins.gone
        if point is not None:
            session.go_on(point, continued(log, point, DIALECTS))
        with (
            offered(log.run_dir, session.by_program.call),
            Proxy(session, self.upstreams, self.listening, callers=callers) as proxy,
        ):
            judge = _Judge(self.settings.check, self.strategy, self.workspace, self.environ)
            run = ProxiedRun(log.run_dir.name, proxy, session, judge)
            reason = INTERRUPTED
            try:
                yield run
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                raise
            finally:
                proxy.close()
                with suppress(AgentRewindError):
                    session.end(reason, ok=False)

    def _session(self, log: JournalWriter, world: WorkspaceWorld | SharedWorld, callers: Callers) -> ProgramSession:
        def happened(event: Event, tree: RunTree) -> None:
            if isinstance(event, NodeBegan):
                callers.belongs_to(event.thread)
            self.watcher.happened(event, tree)

        below = os.getpid() if self.settings.command else None
        watched = Watched(log, happened)
        own = attributed(world, log.run_dir.name)
        session = ProgramSession(
            Priced(watched),
            own,
            DIALECTS,
            budget=Budget(rewinds=self.settings.max_rewinds),
            offers_rewind=self.strategy.offers_rewind,
            inject="auto" if self.settings.inject else "never",
            redact=self.redact,
            end_processes=Leftovers(callers, self.listening.port, lambda: log.tree, below),
            rules=self.settings.rules.rules(),
        )
        attend(session, watched, own, effects_of(self.effects, self.settings.effects, ask_on_terminal))
        return session
