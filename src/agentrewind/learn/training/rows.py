"""What an engine trains on: a prompt, the tokens that were sampled after it, and one number that says what they are
worth (retrospective.md, section 8).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentrewind.core.errors import UsageError
from agentrewind.learn.credit.samples import DecisionSample

Tokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One decision. The loss touches the tokens of `output` and nothing else; they are never tokenised again."""

    prompt: Tokens
    output: Tokens
    behaviour: tuple[float, ...]
    """The log-probability that each token of `output` had when it was sampled; empty for a demonstration."""
    advantage: float = 1.0
    """Folded: right for an engine that takes the mean over the tokens of a row, and then over rows."""


def rows_of(samples: Sequence[DecisionSample]) -> list[Row]:
    """The rows of samples. Those without an advantage have no gradient: they are left out, which changes nothing, since
    the rest is folded for the rows that stay.

    Raises:
        UsageError: a sample whose policy kept no tokens.
    """
    kept = [sample for sample in samples if sample.advantage]
    return [_row(sample, len(kept)) for sample in kept]


def _row(sample: DecisionSample, rows: int) -> Row:
    output = sample.call.output
    if not output.tokens or len(output.tokens) != len(output.logprobs) or not output.prompt:
        raise UsageError(
            f"Call {sample.call.number} of a trial of {sample.task} has no tokens as they were sampled; it can't be"
            " trained on."
        )
    return Row(output.prompt, output.tokens, output.logprobs, sample.folded(rows))


def parts_of(rows: Sequence[Row], at_once: int) -> Iterator[list[Row]]:
    """The rows in parts of at most `at_once` tokens, padding included, or of one row; those of like length together."""
    part: list[Row] = []
    for row in sorted(rows, key=lambda row: len(row.prompt) + len(row.output)):
        longest = len(row.prompt) + len(row.output)
        if part and longest * (len(part) + 1) > at_once:
            yield part
            part = []
        part.append(row)
    if part:
        yield part
