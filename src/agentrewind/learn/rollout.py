"""One trial: act, fail or ask to go back, reflect, go back, act again (paper "ReTRAIL", algorithm 1).

A trial is a generator: it yields what a policy is asked and is sent what it answered, so that many trials can share one
batch and no policy is known here.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from agentrewind.core.codec import to_plain
from agentrewind.core.environment import Branch, IllegalAction
from agentrewind.learn.answers import Asked, decision, reflection
from agentrewind.learn.contexts import BranchView, View
from agentrewind.learn.methods import RETROSPECTIVE, Method
from agentrewind.learn.remarks import given
from agentrewind.learn.rules import Rules
from agentrewind.learn.trial import Call, Context, Kind, Output, Recovery, Segment, Trial
from agentrewind.learn.worlds import World

NO_ACTION = "Your answer has no action tag; nothing was done."
NOT_ALLOWED = "You can't go back now; nothing was done."


@dataclass(frozen=True, slots=True)
class Request:
    """What a policy is asked. Only `context` may reach a model; the rest is for policies that are programs."""

    context: Context
    kind: Kind
    number: int
    view: View | None = None
    branch: BranchView | None = None


Asking = Generator[Request, Output, Trial]


@dataclass(frozen=True, slots=True)
class _Point:
    """A checkpoint of the active path, and what comes back with it."""

    state: Any
    observation: str
    spent: int
    progress: float


class _Run:
    """The state of a trial while it is being made."""

    def __init__(self, world: World, rules: Rules, method: Method) -> None:
        self.world = world
        self.method = method
        self.rules = rules
        self.environment = world.environment
        observation = self.environment.reset()
        self.talk = world.converse(world.words)
        self.points = [_Point(self.environment.checkpoint(), observation, 0, self.environment.progress())]
        self.actions: list[Any] = []
        self.rewards: list[float] = []
        self.notes: list[str] = []
        self.calls: list[Call] = []
        self.open: list[Call] = []
        self.segments: list[Segment] = []
        self.recoveries: list[Recovery] = []
        self.began_at = 0
        self.attempts = 1
        self.proactive = 0
        self.show()

    @property
    def k(self) -> int:
        return len(self.points) - 1

    @property
    def may_ask(self) -> bool:
        """Whether the policy itself may ask for a way back; where an assistant looks for errors, that one does."""
        method = self.method
        return self.proactive < self.rules.proactive and not method.restarts and not method.assistant

    def show(self) -> None:
        """The present checkpoint is reached, or come back to."""
        point, rules = self.points[-1], self.rules
        targets = tuple(range(self.k)) if self.may_ask else ()
        offered, done = (tuple(map(self.world.write, some)) for some in (self.world.offered(), self.actions))
        self.shown = View(
            point.observation,
            self.k,
            targets,
            len(self.calls),
            rules.calls,
            point.spent,
            rules.allowance,
            offered,
            done,
        )
        self.talk.show(self.shown)

    def view(self) -> View:
        """What was shown, with the calls that were spent since."""
        return replace(self.shown, used=len(self.calls))

    def branch_view(self, trigger: str, target: int | None) -> BranchView:
        return BranchView(
            trigger,
            self.k,
            target,
            tuple(point.observation for point in self.points),
            tuple(map(self.world.write, self.actions)),
            tuple(self.notes),
        )

    def branch(self, since: int) -> Branch[Any]:
        return Branch(tuple(point.state for point in self.points[since:]), tuple(self.rewards[since:]))

    def keep(self, call: Call) -> None:
        self.calls.append(call)
        if call.kind == "execution":
            self.open.append(call)


def trial(world: World, rules: Rules, method: Method = RETROSPECTIVE) -> Asking:
    """Play one trial; returns its archive.

    Never more than `rules.calls` calls; each call keeps the exact context it was made from; what is abandoned stays.
    """
    run = _Run(world, rules, method)
    why = "all calls used"
    while len(run.calls) < rules.calls:
        trigger, target = yield from _act(run)
        if run.environment.outcome == "solved":
            why = "solved"
            break
        if trigger is None:
            yield from _review(run)
            continue
        _close(run)
        stop = _no_way_back(run, trigger) or (yield from _recover(run, trigger, target))
        if stop is not None:
            why = stop
            break
    _close(run)
    return Trial(
        world.task,
        run.environment.name,
        tuple(run.segments),
        tuple(run.recoveries),
        tuple(run.calls),
        run.environment.outcome,
        run.environment.fingerprint(),
        run.attempts,
        run.proactive,
        why,
        to_plain(rules),
    )


def _act(run: _Run) -> Generator[Request, Output, tuple[str | None, int | None]]:
    """One decision; what triggers a recovery after it, and the target where the policy named one."""
    view, context = run.view(), run.talk.context()
    output = yield Request(context, "execution", len(run.calls) + 1, view)
    call = _call(run, "execution", context, output)
    said = decision(output.text, fenced=run.world.fenced)
    if said is None:
        return _invalid(run, call, NO_ACTION)
    if isinstance(said, Asked):
        if said.target not in view.targets:
            return _invalid(run, call, _no_target(view, said.target))
        run.keep(replace(call, did="went back", action=said.target))
        return "asked", said.target
    action = run.world.read(said.text)
    if action is None:
        return _invalid(run, call, f"{said.text[:80]!r} is no action here; nothing was done.")
    return _execute(run, call, action)


def _execute(run: _Run, call: Call, action: Any) -> tuple[str | None, int | None]:
    try:
        done = run.environment.step(action)
    except IllegalAction as error:
        return _invalid(run, call, str(error))
    before, progress = run.points[-1], run.environment.progress()
    told = replace(call, reward=done.reward, observation=done.observation, progress=(before.progress, progress))
    run.keep(replace(told, did="acted", action=action))
    run.talk.answered(call.output.text)
    run.actions.append(action)
    run.rewards.append(done.reward)
    run.points.append(_Point(run.environment.checkpoint(), done.observation, before.spent + 1, progress))
    run.show()
    if done.outcome == "failed":
        return "failed", None
    return ("allowance", None) if run.points[-1].spent >= run.rules.allowance else (None, None)


def _invalid(run: _Run, call: Call, why: str) -> tuple[None, None]:
    run.keep(replace(call, observation=why))
    run.talk.answered(call.output.text, run.world.words.feedback(why, run.view()))
    return None, None


def _no_target(view: View, target: int) -> str:
    if not view.targets:
        return NOT_ALLOWED
    return f"C_{target} is no checkpoint to go back to; there are C_0 to C_{view.targets[-1]}. Nothing was done."


def _no_way_back(run: _Run, trigger: str) -> str | None:
    """Why the trial ends here; None where a recovery is allowed."""
    rules = run.rules
    if trigger != "asked" and run.attempts >= rules.attempts:
        return {"failed": "failed", "allowance": "the allowance of the path is used up"}[trigger]
    if rules.segments is not None and len(run.segments) >= rules.segments:
        return "all forward segments used"
    return "no call left to go on with" if len(run.calls) + 2 > rules.calls else None


def _recover(run: _Run, trigger: str, asked: int | None) -> Generator[Request, Output, str | None]:
    """Reflect while the abandoned branch is still there, then go back; why the trial ends where it can't."""
    seen = run.branch_view(trigger, asked)
    context = run.world.words.reflection(seen)
    output = yield Request(context, "reflection", len(run.calls) + 1, None, seen)
    call = replace(_call(run, "reflection", context, output), did="reflected")
    run.keep(call)
    said = reflection(output.text, keep=run.rules.reflection)
    target = _target(run, asked, said.target)
    if not 0 <= target < run.k:
        return f"the reflection named C_{target}, which is not there"
    _go_back(run, call, trigger, target, said.note)
    return None


def _told(run: _Run, call: Call, target: int, own: str) -> str:
    """The note, in the state that is gone back to."""
    seed = f"{run.world.task}/{call.number}"
    suffix = tuple(map(run.world.write, run.actions[target:]))
    world = run.world
    return given(run.method.remarks, own, environment=world.environment, write=world.write, suffix=suffix, seed=seed)


def _target(run: _Run, asked: int | None, said: int | None) -> int:
    """The one asked for, else the one that the reflection names, else the state before the last decision."""
    if asked is not None:
        return asked
    if run.method.restarts:
        return 0
    return run.k - 1 if said is None else said


def _review(run: _Run) -> Generator[Request, Output, None]:
    """Where the method has an assistant: let it look for an error, and go back to before it."""
    if not run.method.assistant or run.calls[-1].did != "acted" or not _room_for_a_review(run):
        return
    seen = run.branch_view("review", None)
    context = run.world.words.reflection(seen)
    output = yield Request(context, "reflection", len(run.calls) + 1, None, seen)
    call = replace(_call(run, "reflection", context, output), did="reflected")
    run.keep(call)
    said = reflection(output.text, keep=run.rules.reflection)
    if said.target is not None and 0 <= said.target < run.k:
        _close(run)
        _go_back(run, call, "review", said.target, said.note)


def _room_for_a_review(run: _Run) -> bool:
    rules = run.rules
    segments_left = rules.segments is None or len(run.segments) + 1 < rules.segments
    return run.proactive < rules.proactive and len(run.calls) + 2 <= rules.calls and segments_left


def _go_back(run: _Run, call: Call, trigger: str, target: int, own: str) -> None:
    abandoned = run.environment.branch_score(run.branch(target))
    point = run.points[target]
    run.environment.restore(point.state)
    note = _told(run, call, target, own)
    run.recoveries.append(Recovery(len(run.segments) - 1, call, trigger, run.k, target, note, abandoned))
    forced = run.recoveries[-1].forced
    run.attempts, run.proactive = run.attempts + forced, run.proactive + (not forced)
    del run.points[target + 1 :], run.actions[target:], run.rewards[target:]
    if not run.rules.restores_allowance:
        run.points[target] = replace(point, spent=0)
    run.notes.append(note)
    run.talk.went_back(target, note)
    run.began_at = target
    run.show()


def _call(run: _Run, kind: Kind, context: Context, output: Output) -> Call:
    history = tuple(map(run.world.plain, run.actions))
    segment = len(run.segments) - (kind == "reflection" and not run.open)
    state = run.environment.fingerprint()
    stands = (run.points[-1].progress,) * 2
    return Call(len(run.calls) + 1, kind, segment, run.k, state, history, context, output, "invalid", progress=stands)


def _close(run: _Run) -> None:
    """The open segment ends: its scores are those of the path as it is now."""
    if not run.open:
        return
    branch = run.environment.branch_score(run.branch(run.began_at))
    run.segments.append(
        Segment(
            len(run.segments),
            tuple(run.open),
            run.began_at,
            run.k,
            run.environment.endpoint_score(run.branch(0)),
            branch,
            run.environment.outcome,
        )
    )
    if run.recoveries and run.recoveries[-1].resumed is None:
        run.recoveries[-1] = replace(run.recoveries[-1], resumed=branch)
    run.open = []
