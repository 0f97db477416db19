"""The five calls that an engine has (retrospective.md, section 8). Pure: no engine is known here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

from agentrewind.learn.training.rows import Row, Tokens
from agentrewind.learn.worlds import Style

COMPACT_ANSWER = 48
"""Tokens; the longest remark that is demonstrated has some 35."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """How tokens are drawn. The defaults are those of training; an evaluation has others."""

    temperature: float = 1.0
    """0: always the likeliest."""
    top_p: float = 1.0
    top_k: int = 0
    """0: all."""
    max_tokens: int = 256

    def for_style(self, style: Style) -> Decoding:
        """Cut short where answers are a few words: a model that doesn't play yet would fill all the room."""
        return replace(self, max_tokens=min(self.max_tokens, COMPACT_ANSWER)) if style == "compact" else self


@dataclass(frozen=True, slots=True)
class Prompt:
    """What tokens are wanted for. Equal seeds draw equal tokens, whatever stands beside it in the batch."""

    tokens: Tokens
    seed: str


@dataclass(frozen=True, slots=True)
class Sampled:
    """The end token included, where one was drawn."""

    tokens: Tokens
    logprobs: tuple[float, ...]
    """Of each token under the policy itself: at temperature 1, nothing cut off."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What is minimised: the mean over the tokens of a row, then over rows.

    `clipped`: minus `min(r A, clip(r, 1 - c, 1 + c) A)`, with `r` the ratio of new to behaviour probability.
    `imitation`: minus the log-probability.
    """

    kind: Literal["clipped", "imitation"] = "clipped"
    clip: float = 0.2


@dataclass(frozen=True, slots=True)
class Pass:
    """What one `forward_backward` saw: sums over its rows of the means over their tokens, divided by `of`."""

    loss: float
    divergence: float
    """Of the behaviour policy from the new one, by the estimator `r - 1 - log r`; 0 for imitation."""
    clipped: float
    """The share of tokens whose ratio lies outside of the clip range."""
    tokens: int
    """Read in all: prompts and outputs."""


class Backend(Protocol):
    """Weights that can be sampled from and trained. One thread at a time."""

    def sample(self, prompts: Sequence[Prompt], decoding: Decoding) -> list[Sampled]:
        """Tokens after each prompt, from the weights as of the last `sync`."""

    def forward_backward(self, rows: Sequence[Row], loss: Loss, of: int) -> Pass:
        """Add the gradient of the rows' losses, divided by `of`, to what has gathered since the last step.

        Args:
            rows: some or all rows of a step.
            loss: of a row.
            of: how many rows the whole step has.
        """

    def optim_step(self, rate: float) -> float:
        """Clip what has gathered, take a step, and forget it. Returns the norm before clipping; where that isn't finite
        nothing was changed.
        """

    def sync(self) -> None:
        """Let `sample` use the weights as they are now."""

    def save(self, directory: Path) -> None:
        """Write weights (in the form of transformers), optimiser and random state into an empty directory."""

    def load(self, directory: Path) -> None:
        """Bring back what `save` wrote, exactly. A gradient that has gathered is forgotten."""
