"""Who knows what did the harm: with a simulated policy, the runner does."""

from __future__ import annotations

from dataclasses import dataclass

from agentrewind.bench.sim.policy import Policy
from agentrewind.core.records import RecordUid, ThreadId
from agentrewind.core.tree import Node, RunTree
from agentrewind.strategies.selectors import Oracle


@dataclass(frozen=True, slots=True)
class Culprit:
    """A selector: the last point before the first error on the path that breaks the criterion which fails.

    What was asked for, where no error is known to.
    """

    policy: Policy
    name: str = "oracle"

    def choose(self, tree: RunTree, asked: RecordUid, thread: ThreadId) -> RecordUid:
        """See `Selector`."""
        cause = self.cause(tree)
        return asked if cause is None else Oracle(cause).choose(tree, asked, thread)

    def cause(self, tree: RunTree) -> RecordUid | None:
        """The LLM call with which things went wrong."""
        criterion = tree.verdicts[-1].first_failure if tree.verdicts else ""
        texts = {
            self.policy.text(number, form).strip(): error.breaks
            for number, form in self.policy.forms()
            if form and (error := self.policy.steps[number].error(form)) is not None
        }
        made = [(node.uid, texts[command]) for node in tree.path() if (command := _command(node)) in texts]
        fitting = [uid for uid, breaks in made if breaks == criterion] or [uid for uid, _ in made]
        if not fitting:
            return None
        return next((node.uid for node in tree.ancestors(fitting[0]) if node.is_llm), None)


def _command(node: Node) -> str:
    tool = node.began.tool
    arguments = tool.arguments if tool is not None else None
    return str(arguments.get("command", "")).strip() if isinstance(arguments, dict) else ""
