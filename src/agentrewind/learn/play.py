"""Trials and policies brought together: one by one, or many in one batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentrewind.learn.rollout import Asking, Request
from agentrewind.learn.trial import Output, Trial

Policy = Callable[[Request], Output]
"""One trial's: it may remember what it was asked."""
Batch = Callable[[Sequence[tuple[int, Request]]], Sequence[Output]]
"""Answers a batch; each request comes with the number of its trial."""


def play(asking: Asking, policy: Policy) -> Trial:
    """One trial, to its end."""
    return play_together([asking], lambda asked: [policy(request) for _, request in asked])[0]


def play_together(askings: Sequence[Asking], answer: Batch) -> list[Trial]:
    """All trials, side by side: every round asks for one output of each that still runs."""
    ended: dict[int, Trial] = {}
    waiting: list[tuple[int, Request]] = []
    for number, asking in enumerate(askings):
        _advance(number, asking, None, waiting, ended)
    while waiting:
        asked, waiting = waiting, []
        for (number, _), output in zip(asked, answer(asked), strict=True):
            _advance(number, askings[number], output, waiting, ended)
    return [ended[number] for number in range(len(askings))]


def _advance(
    number: int,
    asking: Asking,
    output: Output | None,
    waiting: list[tuple[int, Request]],
    ended: dict[int, Trial],
) -> None:
    try:
        request = next(asking) if output is None else asking.send(output)
    except StopIteration as done:
        ended[number] = done.value
    else:
        waiting.append((number, request))
