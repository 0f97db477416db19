"""What all environments say alike: budgets, ways back, the order of a reflection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agentrewind.learn.contexts import BranchView, View
from agentrewind.learn.methods import THINK
from agentrewind.learn.rules import Rules
from agentrewind.learn.trial import Context

TRIGGERS = {
    "asked": "You asked to go back.",
    "failed": "The attempt failed and can't be continued from here.",
    "allowance": "The allowance of this path is used up.",
}
REVIEW = (
    "You watch another player. Look for the first decision below that was a mistake: one that made the task harder,"
    " or can't be taken back. If there is none, answer <verdict>fine</verdict>. If there is one, answer"
    " <target>C_j</target> with the checkpoint just before it, and in <remark>…</remark> what was wrong and what to do"
    " instead."
)


def budgets(rules: Rules) -> str:
    """The part of an execution prompt about spending and going back."""
    back = (
        "After a rewind the allowance stands where it stood at that checkpoint."
        if rules.restores_allowance
        else "After a rewind the allowance begins anew."
    )
    asking = (
        f"You may go back by yourself up to {rules.proactive} times: answer <action>rewind to C_j</action> with a"
        " j below the present one. Go back when an earlier state offers a better plan, or when this path is stuck."
        if rules.proactive
        else "You can't ask to go back in this trial."
    )
    return (
        f"Two budgets count. You have {rules.calls} answers in all, reflections included; going back never returns one."
        f" And {rules.allowance} decisions may lie on the present path. {back}\n"
        "Every state on the path is a checkpoint: C_0 is the beginning, C_i the state after i decisions. Going back to"
        " C_j brings the state back exactly; what you noted about the abandoned part stays with you.\n"
        f"{asking}"
    )


def numbers(view: View) -> str:
    targets = ", ".join(f"C_{target}" for target in view.targets) or "none"
    return (
        f"Checkpoint C_{view.checkpoint}. Answers used: {view.used} of {view.calls}. On this path:"
        f" {view.spent} of {view.allowance}. You may go back to: {targets}."
    )


def compact_numbers(view: View) -> str:
    targets = f"0-{view.targets[-1]}" if view.targets else "none"
    return f"C_{view.checkpoint} calls {view.calls - view.used} path {view.allowance - view.spent} back {targets}"


def branch_story(branch: BranchView, since: int) -> str:
    """The states and decisions from checkpoint `since` on."""
    steps = zip(range(since + 1, branch.source + 1), branch.actions[since:], branch.states[since + 1 :], strict=True)
    later = (f"Decision: {action}\nC_{index}:\n{state}" for index, action, state in steps)
    return "\n".join((f"C_{since}:\n{branch.states[since]}", *later))


def full_reflection(branch: BranchView, about: str) -> str:
    """The user message of a reflection, or of an assistant's review."""
    if branch.trigger == "review":
        return f"{REVIEW}\n\n{branch_story(branch, 0)}\n\nEarlier remarks:\n{_earlier(branch)}"
    known = branch.target is not None
    since = branch.target if branch.target is not None else 0
    where = (
        f"You are about to go back from C_{branch.source} to C_{branch.target}."
        if known
        else f"You are about to go back from C_{branch.source}. Choose the checkpoint, C_0 to C_{branch.source - 1}."
    )
    choice = "" if known else "\nName the checkpoint as <target>C_j</target>."
    return (
        f"{TRIGGERS[branch.trigger]} {where}\n\n"
        f"What happened:\n{branch_story(branch, since)}\n\n"
        f"Your earlier notes:\n{_earlier(branch)}\n\n"
        "Write the note that you will have when you continue. Say why this branch failed or stalled, which facts it"
        f" showed ({about}), what must not be done again, and a concrete plan from the checkpoint. What is still useful"
        f" in earlier notes has to be said again. Put it into <remark>…</remark>.{choice}"
    )


def _earlier(branch: BranchView) -> str:
    return "\n\n".join(branch.earlier) or "none"


def compact_reflection(branch: BranchView, draw: Callable[[str], str] = str) -> str:
    since = branch.source - 1 if branch.target is None else branch.target
    target = f"C_{branch.target}" if branch.target is not None else f"choose 0-{branch.source - 1}"
    done = "; ".join(branch.actions[since:])
    return (
        f"{branch.trigger} at C_{branch.source}\ndid {done}\nto {target}\n"
        f"{branch.states[branch.source]}\nC_{since}\n{draw(branch.states[since])}"
    )


@dataclass(frozen=True, slots=True)
class Saying:
    """What is said about one environment alone."""

    game: str
    """Its rules and symbols."""
    short: str
    """The same in the compact style: a name."""
    example: str
    """What decides, and the form of an action."""
    about: str
    """Facts that a note may be about."""
    ask: str = ""
    """What an observation ends with."""
    draw: Callable[[str], str] = str
    """A state as the compact style shows it."""


class Words:
    """The words of an environment (`Wording`), in the style `full` or `compact`."""

    def __init__(self, saying: Saying, rules: Rules, style: str, answer: str = THINK) -> None:
        self._saying = saying
        self._rules = rules
        self._full = style == "full"
        self._answer = answer

    def system(self) -> str:
        saying = self._saying
        if not self._full:
            return saying.short
        return f"{saying.game}\n\n{budgets(self._rules)}\n\n{saying.example} {self._answer}"

    def observation(self, view: View) -> str:
        if not self._full:
            return f"{compact_numbers(view)}\n{self._saying.draw(view.observation)}"
        return f"{view.observation}\n{numbers(view)}\n{self._saying.ask}"

    def feedback(self, why: str, view: View) -> str:
        return f"{why}\n{numbers(view)}" if self._full else f"invalid {compact_numbers(view)}"

    def memory(self, note: str, target: int) -> str:
        return (
            f"Note from a branch that left C_{target} and was abandoned:\n{note}"
            if self._full
            else f"note C_{target} {note}"
        )

    def reflection(self, branch: BranchView) -> Context:
        saying = self._saying
        system = f"{saying.game}\n\nYou look back on a branch of your own play." if self._full else "reflect"
        user = full_reflection(branch, saying.about) if self._full else compact_reflection(branch, saying.draw)
        return ({"role": "system", "content": system}, {"role": "user", "content": user})
