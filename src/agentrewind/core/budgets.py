"""Limits of a run. `None` means no limit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may spend. Counters belong to the run and are never rewound (rewind.md, section 4)."""

    rewinds: int | None = 50
    candidates: int = 80
    internal_calls: int = 20
    """How many rewind-tool calls in a row may be answered inside one call of the harness."""
    batch_wait_s: float = 5.0
    """How long a commit waits for other threads' open tool batches."""
    equal_failures: int = 5
    """How many equal rejections in a row end the run."""


UNLIMITED = Budget(rewinds=None)
"""The paper's profile."""
