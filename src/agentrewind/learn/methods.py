"""Inference-time methods: how a policy is asked, and what is done about a mistake (paper, section 5.1).

All share one interface and one budget: a method that goes back pays for its reflections like any other.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentrewind.core.errors import UsageError
from agentrewind.learn.remarks import Remarks


@dataclass(frozen=True, slots=True)
class Method:
    name: str
    answer: str
    """The last part of the execution prompt: how to answer."""
    restarts: bool = False
    """A failure leads back to the initial state, whatever the reflection says, and nothing is asked for before one."""
    assistant: bool = False
    """After each decision a second prompt looks for an error and says where it is."""
    remarks: Remarks = "own"
    """Whose remark goes back with the policy; what it wrote itself is paid for and chooses the target all the same."""


THINK = "First think it through, then end with exactly one action tag."
METHODS = {
    method.name: method
    for method in (
        Method("zero-shot", "Answer with the action tag alone, without any other text."),
        Method(
            "react",
            "Answer with one line that begins with Thought: and says what the state tells and what follows from it,"
            " then one line that begins with Action: and holds exactly one action tag.",
        ),
        Method("reflexion", THINK, restarts=True),
        Method("ga-rollback", THINK, assistant=True),
        Method("retrospective", THINK),
        Method("no-memory", THINK, remarks="none"),
        Method("oracle-remark", THINK, remarks="oracle"),
        Method("random-remark", THINK, remarks="random"),
        Method("raw-suffix", THINK, remarks="suffix"),
    )
}
RETROSPECTIVE = METHODS["retrospective"]


def method_of(name: str) -> Method:
    """Raises: UsageError: there is no such method."""
    found = METHODS.get(name.strip().lower())
    if found is None:
        raise UsageError(f"{name!r} is no method; there are {', '.join(METHODS)}.")
    return found
