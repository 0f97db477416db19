"""One optimiser step after another, from rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from agentrewind.core.errors import AgentRewindError
from agentrewind.environments.draws import Draws
from agentrewind.learn.training.backend import Backend, Loss, Pass
from agentrewind.learn.training.rows import Row


class NotFinite(AgentRewindError):
    """A loss or a gradient that is no number. The step was not made; `rows` are those that it was to be made of."""

    def __init__(self, what: str, rows: Sequence[Row]) -> None:
        super().__init__(what)
        self.rows = rows


@dataclass(frozen=True, slots=True)
class Learned:
    """Means over the steps of an update."""

    loss: float = 0.0
    divergence: float = 0.0
    clipped: float = 0.0
    norm: float = 0.0
    tokens: int = 0
    steps: int = 0


def learn(backend: Backend, rows: Sequence[Row], loss: Loss, rate: float, *, size: int = 0, seed: str = "") -> Learned:
    """Train on rows, in steps of `size` of them in an order that the seed shuffles (0: all in one step).

    Raises:
        NotFinite: the weights are those before the step that failed.
    """
    parts = _parts(rows, size, seed)
    passes, norms = [], []
    for part in parts:
        seen, norm = _step(backend, part, loss, rate)
        passes.append(seen)
        norms.append(norm)
    backend.sync()
    count = len(parts) or 1
    return Learned(
        sum(seen.loss for seen in passes) / count,
        sum(seen.divergence for seen in passes) / count,
        sum(seen.clipped for seen in passes) / count,
        sum(norms) / count,
        sum(seen.tokens for seen in passes),
        len(parts),
    )


def _step(backend: Backend, rows: Sequence[Row], loss: Loss, rate: float) -> tuple[Pass, float]:
    seen = backend.forward_backward(rows, loss, len(rows))
    if not math.isfinite(seen.loss):
        raise NotFinite(f"the loss is {seen.loss}", rows)
    norm = backend.optim_step(rate)
    if not math.isfinite(norm):
        raise NotFinite(f"the norm of the gradient is {norm}", rows)
    return seen, norm


def _parts(rows: Sequence[Row], size: int, seed: str) -> list[list[Row]]:
    if not rows:
        return []
    if not size or size >= len(rows):
        return [list(rows)]
    shuffled = Draws(f"steps/{seed}").some(rows, len(rows))
    return [shuffled[first:][:size] for first in range(0, len(shuffled), size)]
