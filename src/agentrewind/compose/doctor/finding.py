"""One thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["works", "less", "wrong"]
"""`less`: something can't be had here, and agentrewind goes on without it. `wrong`: it should be put right."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`what` was found; `lost` is what that means for the user, `remedy` what to do; both empty where all is well."""

    group: str
    name: str
    state: State
    what: str
    lost: str = ""
    remedy: str = ""
