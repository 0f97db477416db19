"""Curves for TensorBoard, where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentrewind.core.codec import Json


class Board:
    """Writes the numbers of a line of metrics; without a writer it writes nothing."""

    def __init__(self, writer: Any = None) -> None:
        self._writer = writer

    def add(self, phase: str, step: int, seen: Json) -> None:
        for name, value in seen.items() if self._writer else ():
            self._writer.add_scalar(f"{phase}/{name}", value, step)


@contextmanager
def board(directory: Path) -> Iterator[Board]:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        yield Board()
        return
    with SummaryWriter(str(directory / "tensorboard")) as writer:
        yield Board(writer)
