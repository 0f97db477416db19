"""Archives out of recorded trials: what the policy answered is answered again, and the same trial comes of it.

So a journal is training data like the archive of a live trial, with the same samples.
"""

from __future__ import annotations

from dataclasses import replace

from agentrewind.core.codec import canonical, digest_bytes, from_plain
from agentrewind.core.environment import ReplayDiverged
from agentrewind.learn.methods import RETROSPECTIVE, Method
from agentrewind.learn.play import play
from agentrewind.learn.record import SAMPLED, Contents
from agentrewind.learn.rollout import Request, trial
from agentrewind.learn.rules import Rules
from agentrewind.learn.trial import Output, Trial
from agentrewind.learn.worlds import World


def outputs(run: Contents) -> list[Output]:
    """All that the policy of a recorded trial answered, in order, abandoned branches included; with its tokens."""
    found = []
    for node in run.tree.nodes.values():
        if node.is_llm and node.ended is not None and node.ended.output is not None:
            said = run.get(node.ended.output)
            text = said["choices"][0]["message"]["content"]
            found.append(replace(from_plain(Output, {"text": "", **said.get(SAMPLED, {})}), text=text))
    return found


def played_again(run: Contents, world: World, rules: Rules, method: Method = RETROSPECTIVE) -> Trial:
    """The archive of a recorded trial, equal to that which was recorded.

    Args:
        run: a recorded trial.
        world: its instance.
        rules: as they were.
        method: as it was.

    Raises:
        ReplayDiverged: the policy was asked something else than was recorded, or not as often.
    """
    answers = iter(zip(_asked(run), outputs(run), strict=True))

    def recorded(request: Request) -> Output:
        asked, answer = next(answers, ("", None))
        if answer is None or asked != digest_bytes(canonical(list(request.context))):
            raise ReplayDiverged(f"Call {request.number} of the trial of {world.task} isn't the one that was recorded.")
        return answer

    found = play(trial(world, rules, method), recorded)
    if next(answers, None) is not None:
        raise ReplayDiverged(f"The trial of {world.task} ends after {len(found.calls)} calls; more were recorded.")
    return found


def _asked(run: Contents) -> list[str]:
    return [node.began.input_id for node in run.tree.nodes.values() if node.is_llm]
