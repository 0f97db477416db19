"""What the simulated model does next. A function of the conversation: equal conversations get equal answers."""

from __future__ import annotations

from dataclasses import dataclass

from agentrewind.bench.sim.draws import draw, pick
from agentrewind.bench.sim.policy import Policy, Slip
from agentrewind.bench.sim.profiles import Profile
from agentrewind.bench.sim.reading import SUBMIT, Act, Seen, first_candidate, read
from agentrewind.bench.sim.wording import Heard, heard
from agentrewind.core.tools import CANDIDATES, COMMIT
from agentrewind.testing.scripted import Call, Request, Turn, call, say

SHELLS = ("bash", "shell")
TRIES = 3
"""How often a call is tried again that a guard holds back, before the step is left out."""
STRATEGY = "strategy"
"""How the author of a note begins that the runtime wrote: it holds what the check said."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """One simulated model on one task. `seed` is that of the run."""

    policy: Policy
    profile: Profile
    seed: int

    def answer(self, request: Request) -> Turn:
        understood = heard(request)
        return understood.turn(_Thought(self, understood).turn())


@dataclass(frozen=True, slots=True)
class _Blame:
    """The step that the agent holds responsible. `error` is the one that really was made there, where that is so."""

    step: int
    error: Slip | None
    right: bool


class _Thought:
    """One answer: the conversation as it was read, and the draws for it."""

    def __init__(self, model: Simulated, request: Heard) -> None:
        self._policy, self._profile, self._seed = model.policy, model.profile, model.seed
        self._seen: Seen = read(request.said, model.policy)
        self._shell = next((name for name in SHELLS if name in request.tools), SHELLS[0])
        self._may_go_back = CANDIDATES in request.tools
        self._lessons = self._known_lessons()

    def turn(self) -> Turn:
        seen = self._seen
        if not seen.rejections or self._undone():
            return self._forward()
        if seen.since or seen.held:
            return self._after_repair()
        return self._respond()

    def _draw(self, *words: object) -> float:
        return draw(self._seed, self._policy.task, *words)

    # --- going on -----------------------------------------------------------------------------------------------------

    def _undone(self) -> list[int]:
        """The steps that are still to be done, but those that were left out since the last rejection."""
        left_out = {step for step in range(len(self._policy.steps)) if self._refused(step) >= TRIES}
        return [step for step in range(len(self._policy.steps)) if step not in self._seen.done and step not in left_out]

    def _refused(self, step: int) -> int:
        return sum(act.step == step for act in self._seen.held)

    def _forward(self) -> Turn:
        undone = self._undone()
        if not undone:
            return self._submit("The work is done.")
        step, seen = undone[0], self._seen
        if not seen.rejections and not seen.malformed:
            if step and self._draw("premature", step, seen.noted) < self._profile.premature:
                return self._submit("I think that this is all.")
            if self._draw("format", step, seen.noted) < self._profile.format_errors:
                return Turn(self._policy.steps[step].says, (Call(self._shell, '{"command": "'),))
        return self._do(step)

    def _do(self, step: int) -> Turn:
        return self._act(Act(step, self._form(step)))

    def _form(self, step: int) -> str:
        """In which form a step is done: as a misconception has it, or right."""
        error = self._misconception(step)
        if error is None:
            return ""
        refused = self._refused(step)
        if refused and self._draw("thinks over", step, refused, self._seen.noted) < self._profile.repair_skill:
            return ""
        return error.id

    def _misconception(self, step: int) -> Slip | None:
        persists = self._draw("persists", step) < self._profile.persistence
        place = self._draw("error", step, "" if persists else self._seen.noted)
        reached = 0.0
        for error in self._policy.steps[step].errors:
            reached += error.probability * self._profile.error_rate
            if place < reached:
                return None if error.lesson in self._lessons else error
        return None

    def _act(self, act: Act) -> Turn:
        return call(self._shell, {"command": self._policy.text(act.step, act.form)}, self._policy.steps[act.step].says)

    def _submit(self, text: str) -> Turn:
        return call(self._shell, {"command": SUBMIT}, text) if self._shell == "bash" else say(text)

    # --- after a rejection --------------------------------------------------------------------------------------------

    def _after_repair(self) -> Turn:
        """Do again what follows the step that was repaired, as far as the conversation doesn't say that it was done."""
        seen = self._seen
        first = (seen.since or seen.held)[0].step
        done = {act.step for act in seen.since}
        left_out = {act.step for act in seen.held if self._refused(act.step) >= TRIES}
        last = first if seen.brought_back is not None else len(self._policy.steps) - 1
        rest = [step for step in range(first, last + 1) if step not in done and step not in left_out]
        return self._do(rest[0]) if rest else self._submit("I have worked on it again.")

    def _respond(self) -> Turn:
        seen, blame = self._seen, self._blame()
        if seen.brought_back is not None:
            return self._do(seen.brought_back)
        if self._goes_back():
            if not seen.listing:
                reason = f"The check rejects the work, and I hold {self._named(blame.step)} responsible."
                return call(CANDIDATES, {"reason": reason}, "Can I go back?")
            target = first_candidate(seen.listing, blame.step)
            if target:
                arguments = {"record_uid": target, "memory_summary": self._note(blame)}
                return call(COMMIT, arguments, f"Back to before {self._named(blame.step)}.")
        return self._act(Act(blame.step, self._repair(blame)))

    def _goes_back(self) -> bool:
        seen = self._seen
        if not self._may_go_back or seen.refusal or seen.equal <= self._profile.notice_delay:
            return False
        inclined = self._draw("back", len(seen.rejections), seen.rejections[-1], seen.noted)
        return inclined < self._profile.rewind_inclination

    def _blame(self) -> _Blame:
        """Which step is held responsible for the newest rejection."""
        seen, criterion = self._seen, self._seen.rejections[-1]
        made = [(step, self._error(step, form)) for step, form in seen.done.items() if form and not _repaired(form)]
        fitting = [item for item in made if item[1] is not None and item[1].breaks == criterion] or made
        step, error = min(fitting, default=(self._working_for(criterion), None), key=lambda item: item[0])
        words = (len(seen.rejections), criterion, seen.noted)
        if self._draw("blame", *words) < self._profile.attribution:
            return _Blame(step, error, right=True)
        anyone = pick(sorted(seen.done), self._seed, self._policy.task, "whom", *words)
        return _Blame(anyone, self._error(anyone, seen.done[anyone]), right=False)

    def _error(self, step: int, form: str) -> Slip | None:
        return self._policy.steps[step].error(form)

    def _working_for(self, criterion: str) -> int:
        steps = self._policy.steps
        return next((number for number, step in enumerate(steps) if step.criterion == criterion), len(steps) - 1)

    def _repair(self, blame: _Blame) -> str:
        """The form in which the blamed step is done again."""
        seen = self._seen
        skilled = self._draw("repair", len(seen.rejections), blame.step, seen.noted) < self._profile.repair_skill
        if blame.error is None or not blame.right:
            return seen.done.get(blame.step, "")
        if not skilled:
            return blame.error.id
        return f"repair:{blame.error.id}" if blame.error.repair else ""

    def _named(self, step: int) -> str:
        return f"step {step + 1} ({self._policy.steps[step].id})"

    # --- notes --------------------------------------------------------------------------------------------------------

    def _note(self, blame: _Blame) -> str:
        """What the agent writes down for itself when it goes back."""
        seen, criterion = self._seen, self._seen.rejections[-1]
        done = ", ".join(self._policy.steps[step].id for step in range(blame.step)) or "nothing"
        return (
            f"Tried: all of it, {self._named(blame.step)} as I first understood it."
            f" Evidence: {len(seen.rejections)} rejections, the last one at {criterion or 'an unknown point'}."
            f" Done and standing: {done}. Notes so far: {len(seen.notes)}."
            f" Next: {self._lesson(blame)}"
        )

    def _lesson(self, blame: _Blame) -> str:
        quality = self._draw("memory", blame.step, len(self._seen.rejections), self._seen.noted)
        others = [error.lesson for step in self._policy.steps for error in step.errors if error is not blame.error]
        if quality < self._profile.memory_wrong and others:
            return pick(others, self._seed, "wrong lesson", blame.step, self._seen.noted)
        if blame.right and blame.error and quality < self._profile.memory_wrong + self._profile.memory_right:
            return blame.error.lesson
        return f"do {self._named(blame.step)} with more care."

    def _known_lessons(self) -> frozenset[str]:
        """What the notes teach: the lessons that stand in them, and those that are read out of what a check said."""
        noted, profile = self._seen.noted, self._profile
        slips = [error for step in self._policy.steps for error in step.errors]
        found = {error.lesson for error in slips if error.lesson in noted}
        told = [" ".join(note.text.split()) for note in self._seen.notes if note.by.startswith(STRATEGY)]
        for error in slips:
            feedback = " ".join(self._policy.feedback[error.breaks].split())
            for number in range(sum(feedback in text for text in told)):
                if self._draw("reads", error.breaks, number) < profile.attribution * profile.memory_right:
                    found.add(error.lesson)
        return frozenset(found)


def _repaired(form: str) -> bool:
    return form.startswith("repair:")
