"""A program's own agent made recoverable: inside `session` every LLM call of any SDK is a node of a run."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from agentrewind.compose.declared import declared
from agentrewind.compose.effects import ask_on_terminal, classifier, effects_of
from agentrewind.compose.harnesses import attach
from agentrewind.compose.home import Home
from agentrewind.compose.places import workspace_path
from agentrewind.compose.recording import attributed, checked_command, created, header, recorder, submitted
from agentrewind.compose.runs import INTERRUPTED
from agentrewind.compose.secret import redactor
from agentrewind.compose.sharing import world_of
from agentrewind.core import effects as effect_modes
from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentRewindError, UsageError
from agentrewind.core.strategy import Decision, GoOn, Stop, Strategy
from agentrewind.core.tree import RunTree
from agentrewind.engine.holdings import Held
from agentrewind.engine.processes import RUN_MARK
from agentrewind.engine.session import Session
from agentrewind.integrations.clients import install
from agentrewind.journal.writer import Durability
from agentrewind.snapshots.rules import PathRules
from agentrewind.strategies import by_name
from agentrewind.strategies.rewind_rules import RuleNames

A = TypeVar("A")
R = TypeVar("R")

_busy = threading.Lock()
_current: LiveRun | None = None


class LiveRun:
    """A run that is being recorded in this process.

    Attributes:
        id: the name of the run, for `agentrewind log` and `open_run`. workspace: its directory.
    """

    def __init__(self, run_id: str, workspace: Path, session: Session, check: str | None, strategy: Strategy) -> None:
        self.id = run_id
        self.workspace = workspace
        self._session = session
        self._check = check
        self._strategy = strategy
        self._ending: Decision | None = None
        self._attached = ExitStack()

    @property
    def offers_rewind(self) -> bool:
        """Whether the agent may go back."""
        return self._strategy.offers_rewind

    @property
    def tree(self) -> RunTree:
        """The run so far. Don't change it."""
        return self._session.tree

    @property
    def environ(self) -> dict[str, str]:
        """The environment for commands of the agent: marked, so that a rewind after a crash finds what they left."""
        return {**os.environ, RUN_MARK: self.id}

    def tool(
        self,
        name: str,
        arguments: Json,
        run: Callable[[], R],
        *,
        call_id: str | None = None,
        undo: Callable[[], object] | None = None,
    ) -> R:
        """Record one tool call; returns what `run` returns and raises what it raises.

        `undo` takes the call back, where `agentrewind.tool` has said so of a function of this name.
        """
        return self._session.tool(name, arguments, run, call_id=call_id, undo=undo)

    def rewind_tool(self, name: str, arguments: Json) -> str:
        """Answer one of the two rewind tools for an agent that calls it inside of this program (see `Recorder`)."""
        return self._session.rewind_tool(name, arguments)

    def hold(self, held: Held) -> None:
        """As `Recorder.hold`."""
        self._session.hold(held)

    def held(self) -> Held | None:
        """As `Recorder.held`."""
        return self._session.held()

    def attach(self, agent: A) -> A:
        """Have the tool calls of an agent of a harness that we know recorded, to the end of the session; the agent.

        Raises:
            UsageError: there is no adapter for it.
        """
        self._attached.callback(attach(agent, self))
        return agent

    def called_from(self, name: Callable[[], str]) -> None:
        """Have the records of model calls say how the harness names the state that it makes each from."""
        self._session.origin = name

    def submit(self) -> Decision:
        """Have the work judged by the check: `GoOn` with the message for the agent, or `Stop`.

        The last decision says how the run ended.
        """
        self._ending = submitted(self._session, self._check, self._strategy, self.workspace, self.environ)
        return self._ending

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Hook the process; afterwards the last line is in the journal, whatever happened."""
        global _current  # noqa: PLW0603 (as process-wide as the hooks)
        _current = self
        try:
            with install(self._session), self._attached:
                yield
        except BaseException as error:
            interrupted = isinstance(error, KeyboardInterrupt)
            self._end(INTERRUPTED if interrupted else f"{type(error).__name__}: {error}", ok=False)
            if self._session.broken is not None and self._session.broken is not error:
                raise self._session.broken from error
            raise
        finally:
            _current = None
        match self._ending:
            case Stop(ok, reason):
                self._end(reason, ok=ok)
            case None:
                self._end("The program ended.", ok=True)
            case GoOn():
                self._end("The program ended before its work was accepted.", ok=False)
        if self._session.broken is not None:
            raise self._session.broken

    def _end(self, reason: str, *, ok: bool) -> None:
        with suppress(AgentRewindError):
            self._session.end(reason, ok=ok)


@contextmanager
def session(
    workspace: str | os.PathLike[str] = ".",
    *,
    task: str = "",
    name: str = "",
    check: str | None = None,
    strategy: str = "rewind",
    max_rewinds: int | None = 50,
    durability: Durability = "process",
    rules: PathRules | None = None,
    memory: str = "cumulative",
    selector: str = "agent",
    trigger: str = "never",
    notice: str = "on",
    effects: effect_modes.Mode | None = None,
    share: bool = False,
) -> Iterator[LiveRun]:
    """Record a run of the agent that runs inside the `with` block, and let it rewind.

    Every call to an OpenAI-compatible endpoint that passes through httpx is a checkpoint: of the conversation, and of
    the files in `workspace`. With the strategy `rewind`, conversations that have tools are given two more, to go back.
    The run ends well at the end of the block (or as the last `submit` said), and badly where an exception leaves it.
    At a rewind, child processes of this program that were started after the target's snapshot are ended.

    Args:
        workspace: the directory that the agent works in.
        task: what it is asked, for the reader of the run.
        name: how the run is to be called in its id.
        check: a shell command that judges the work at `submit`.
        strategy: `rewind`, or `continue`, which records and offers no rewind.
        max_rewinds: how many rewinds the run may make; None for no limit.
        durability: `power` makes every step survive a power loss.
        effects: what is done about tool calls with effects that no rewind undoes: `record`, `annotate`, `confirm` or
            `block`; by default what `agentrewind.toml` says.
        rules: which paths are private, excluded or volatile; by default those of `agentrewind.toml`.
        memory: which notes cross over at a rewind: `cumulative`, `latest` or `budget:TOKENS`.
        selector: who chooses its target: `agent`, `random[:SEED]`, `previous`, `best-progress`, `first-error`,
            `last-change` or `oracle:UID`.
        trigger: when to go back unasked: `never`, or some of `failures:N`, `loop`, `regression`, with commas.
        share: let other runs use the workspace at the same time, which must say so too; a rewind of one leaves alone
            what the others changed last.
        notice: of what to tell the agent, once: `on`, `off`, or numbers as in `loop=2,stall=40,errors=3`.

    Raises:
        UsageError: a bad argument, or another session is open in this process. Busy: somebody else uses the workspace.
            Nothing was made.
        StorageFull: no room for the run.
    """
    home = Home.of()
    root = workspace_path(workspace, home)
    plan = by_name(strategy)
    checked_command(check)
    names = RuleNames(memory, selector, trigger, notice)
    chosen = names.rules()
    classified = classifier(root)
    redact = redactor(os.environ, root)
    started = header(root, task, redact=redact, name=name, agent="python", strategy=strategy, memory=memory)
    with (
        _alone(),
        closing(world_of(home, root, started.run_id, share=share, durability=durability, rules=rules)) as world,
        created(home, started, redact, durability) as log,
    ):
        recorded = recorder(
            log,
            attributed(world, started.run_id),
            plan,
            max_rewinds=max_rewinds,
            redact=redact,
            rules=chosen,
            effects=effects_of(classified, effects, ask_on_terminal, declared),
        )
        run = LiveRun(started.run_id, root, recorded, check, plan)
        with run.recording():
            yield run


def current() -> LiveRun | None:
    """The run that is being recorded in this process, if there is one."""
    return _current


@contextmanager
def _alone() -> Iterator[None]:
    """The hooks are process-wide, so a process records one run at a time."""
    if not _busy.acquire(blocking=False):
        raise UsageError("Another agentrewind session is open in this process; it records one run at a time.")
    try:
        yield
    finally:
        _busy.release()
