"""One run of the matrix, from an empty directory to its `result.json`, in a process of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentrewind.bench.arms import arm_named
from agentrewind.bench.bisection import with_regret
from agentrewind.bench.oracle import Culprit
from agentrewind.bench.results import Result, Spec, write
from agentrewind.bench.sim.policy import policy_of
from agentrewind.bench.sim.profiles import profile_named
from agentrewind.bench.sim.server import guard_name, model_name, served
from agentrewind.bench.telling import as_abnormal, result_of
from agentrewind.bench.validators import Hearing, as_it_was
from agentrewind.compose.agents import OPENAI, Judge, RunSettings, resume, start
from agentrewind.compose.confining import chosen
from agentrewind.compose.home import Home
from agentrewind.compose.judging import rooms
from agentrewind.compose.runs import Run
from agentrewind.core.errors import AgentRewindError, ProviderError, StorageFull
from agentrewind.engine.processes import become_subreaper
from agentrewind.integrations.sandbox.spec import Confinement, Limits
from agentrewind.journal.reader import read_run
from agentrewind.strategies import by_name
from agentrewind.strategies.recovery import Recovery
from agentrewind.strategies.selectors import Selector
from agentrewind.tasks.building import build
from agentrewind.tasks.evaluator import Evaluator
from agentrewind.tasks.rooms import environ as room_environ
from agentrewind.tasks.shipped import SUITES, find
from agentrewind.tasks.task import Task

SIMULATED = "simulated:"
"""How the name of a model begins that is a profile of the simulated one."""
WORKSPACE = "workspace"
COMMAND_S = 600.0
"""How long a command of an agent may take, unless all is as in the paper."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is the same for all runs of a benchmark."""

    tasks: Mapping[str, str]
    """By the name of each task, how it is found."""
    base_url: str = OPENAI
    guard: str = "rules"
    """Who reviews calls: `rules`, `MODEL@URL`, or `simulated`: the guard beside the simulated model."""
    sandbox: str = "auto"
    paper: bool = False
    max_steps: int | None = None
    keep_files: bool = False
    """Keep the workspaces and snapshots of runs that are over, not their journals alone."""
    regret: bool = False
    """Look for what each rewind threw away (`bisection`)."""
    recovery: bool = False
    """Each run is a pair of recoveries from a failed endpoint (`recovering`)."""
    request: Mapping[str, object] = field(default_factory=dict)
    """More fields of each request to the model."""


def run_one(spec: Spec, conditions: Conditions, directory: Path) -> Result:
    """Make this run in `directory`, which is absent or empty. Its result is there when this returns.

    An error of transport, of the harness or of the evaluator makes the result abnormal.

    Raises:
        UsageError: there is no such task, arm, harness or profile. StorageFull: no room; there is no result.
    """
    become_subreaper()
    task, directory = find(conditions.tasks[spec.task]), directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    build(task, directory / WORKSPACE)
    judge = _judge(spec, task)
    with _provider(spec, task, conditions) as provider:
        selector = provider.culprit if arm_named(spec.arm).has_oracle else None
        failed = _played(_settings(spec, task, conditions, provider), directory, judge, selector)
    result = _told(spec, Home(directory / "home"), provider.digest, failed)
    if not judge.how.is_exact:
        result = as_it_was(result, judge.truths)
    result = _judged_at_the_end(result, task, directory, known=judge.how.is_exact)
    if conditions.regret and result.counts:
        home = Home(directory / "home")
        run = Run(home, home.run_ids()[-1])
        result = with_regret(result, task, run, read_run(run.path).events, rooms())
    if not conditions.keep_files:
        slimmed(directory)
    write(result, directory)
    return result


@dataclass(frozen=True, slots=True)
class _Provider:
    """Where a run finds its model and its guard. `culprit` is who knows what did the harm, where somebody does."""

    model: str
    base_url: str
    guard: str
    digest: str = ""
    culprit: Culprit | None = None


@contextmanager
def _provider(spec: Spec, task: Task, conditions: Conditions) -> Iterator[_Provider]:
    if not spec.model.startswith(SIMULATED):
        yield _Provider(spec.model, conditions.base_url, conditions.guard)
        return
    profile, policy = profile_named(spec.model.removeprefix(SIMULATED)), policy_of(task)
    with served({task.name: policy}) as server:
        guard = f"{guard_name(task.name, spec.seed, profile.name)}@{server.base_url}"
        yield _Provider(
            model_name(task.name, spec.seed, profile.name),
            server.base_url,
            guard if conditions.guard == "simulated" else conditions.guard,
            profile.digest,
            Culprit(policy),
        )


def carried_on(spec: Spec, conditions: Conditions, directory: Path, before: int) -> Result:
    """Let the run that lies in `directory`, and that its failures ended after `before` verdicts, go on under the arm of
    `spec`, with counters that begin anew. Writes no result.

    Raises:
        UsageError: as `run_one`.
    """
    become_subreaper()
    task, home = find(conditions.tasks[spec.task]), Home(directory / "home")
    run = Run(home, home.run_ids()[-1])
    with _provider(spec, task, conditions) as provider:
        settings = _settings(spec, task, conditions, provider)
        inner = by_name(settings.strategy, equal_failures=settings.equal_failures, rejections=settings.rejections)
        strategy, judge, environ = Recovery(inner, before), Evaluator(task, rooms()).judge, _environ()
        failed = _ended(lambda: resume(run, environ=environ, judge=judge, settings=settings, strategy=strategy), home)
    return _judged_at_the_end(_told(spec, home, provider.digest, failed), task, directory)


def _judge(spec: Spec, task: Task) -> Hearing:
    how = arm_named(spec.arm).validator
    return Hearing(Evaluator(task, rooms()).judge, how, task.checklist, (spec.seed, task.name))


def _played(settings: RunSettings, directory: Path, judge: Judge, selector: Selector | None) -> str:
    """Let the agent work to its end; what went wrong apart from it, empty where nothing did.

    Raises: UsageError, StorageFull.
    """
    home, environ, workspace = Home(directory / "home"), _environ(), directory / WORKSPACE
    return _ended(lambda: start(home, settings, workspace, environ=environ, judge=judge, selector=selector), home)


def _settings(spec: Spec, task: Task, conditions: Conditions, provider: _Provider) -> RunSettings:
    confinement, _ = chosen(conditions.sandbox, _confinement(task, paper=conditions.paper))
    base = RunSettings(
        spec.harness,
        provider.model,
        task.instruction,
        provider.base_url,
        confinement=confinement,
        guard=provider.guard,
        limits=_limits(conditions),
    )
    return arm_named(spec.arm).settings(base, paper=conditions.paper, seed=spec.seed)


def _environ() -> dict[str, str]:
    return {**os.environ, **room_environ(), "OPENAI_API_KEY": os.environ.get("OPENAI_API_KEY") or "none"}


def _ended(run: Callable[[], object], home: Home) -> str:
    """What went wrong apart from the agent while it worked. Raises: UsageError, StorageFull."""
    try:
        run()
    except StorageFull:
        raise
    except ProviderError as error:
        return f"transport: {error}"
    except AgentRewindError as error:
        if not home.run_ids():
            raise
        return f"{type(error).__name__}: {error}"
    return ""


def _limits(conditions: Conditions) -> dict[str, object]:
    limits: dict[str, object] = {"request": dict(conditions.request)} if conditions.request else {}
    return limits if conditions.max_steps is None else {**limits, "max_steps": conditions.max_steps}


def _confinement(task: Task, *, paper: bool) -> Confinement:
    limits = replace(Limits(), seconds=None if paper else COMMAND_S)
    return Confinement(
        network=task.network,
        environ=tuple(room_environ()),
        limits=limits,
        place=task.workdir,
        hidden=(str(SUITES), str(task.path)),
    )


def _told(spec: Spec, home: Home, digest: str, failed: str) -> Result:
    run_id = home.run_ids()[-1]
    result = result_of(spec, read_run(home.run_dir(run_id)).events, simulated=digest)
    return as_abnormal(result, failed) if failed else result


def _judged_at_the_end(result: Result, task: Task, directory: Path, *, known: bool = True) -> Result:
    """With the final state judged, where the agent went on after its last submission or made none; or where what
    ended the run isn't `known` to be true.
    """
    submitted = result.submissions[-1].nodes if result.submissions else -1
    if not result.counts or (known and (result.success or submitted == result.nodes)):
        return result
    found = Evaluator(task, rooms()).evaluate(directory / WORKSPACE)
    success = result.success if known else found.succeeded
    return replace(result, success=success, satisfied=found.satisfied, total=len(found.items))


def slimmed(directory: Path) -> None:
    """Leave the journal; the files of a run that is over take much more room."""
    for path in (directory / WORKSPACE, *((directory / "home" / name) for name in ("stores", "sandboxes", "leases"))):
        shutil.rmtree(path, ignore_errors=True)
