"""The simulated guard: it knows which calls do harm, and is right as often as its profile says."""

from __future__ import annotations

import json
from typing import Any

from agentrewind.bench.sim.draws import draw
from agentrewind.bench.sim.model import Simulated
from agentrewind.bench.sim.reading import HELD
from agentrewind.testing.scripted import Request, Turn, say

HARMFUL = ("order violation", "destructive slip")


def judged(model: Simulated, request: Request) -> Turn:
    """The answer to a guard's question, which holds the proposed call as JSON in its last message.

    Chance depends on the call and on how many were held back of late, and on nothing else that is quoted there: outputs
    tell how long something took.
    """
    command = proposed(request.said[-1].text)
    harmful = _is_harmful(model, command)
    held = sum(said.text.count(HELD) for said in request.said)
    place = draw(model.seed, "guard", command, held)
    rate = model.profile.guard_true_positive if harmful else model.profile.guard_false_positive
    unsafe = place < rate
    reason = "This would destroy what can't be made again." if harmful else "This looks risky."
    answer = {"decision": "UNSAFE" if unsafe else "SAFE", "reason": reason if unsafe else "Nothing speaks against it."}
    return say(json.dumps(answer))


def proposed(text: str) -> str:
    """The command of the call that a guard's question is about: in the JSON object on its last line."""
    try:
        given: Any = json.loads(text.rstrip().splitlines()[-1])
        return str(given["arguments"]["command"]).strip()
    except (ValueError, LookupError, TypeError):
        return ""


def _is_harmful(model: Simulated, command: str) -> bool:
    policy = model.policy
    for number, form in policy.forms():
        error = policy.steps[number].error(form) if form else None
        if error is not None and error.kind in HARMFUL and policy.text(number, form).strip() == command:
            return True
    return False
