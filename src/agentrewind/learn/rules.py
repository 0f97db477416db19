"""What a trial may spend, and which ways back it has (paper "ReTRAIL", appendices C.3 and C.4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentrewind.core.errors import UsageError

KEPT_OF_A_REFLECTION = 4800
"""Characters of a reflection that are kept: its last ones, marked as cut (retrospective.md, section 1)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The budgets of one trial; the defaults are the paper's T@3."""

    calls: int = 60
    """Model calls in all: execution and reflection. Going back never refunds one."""
    proactive: int = 3
    """So many rewinds may be asked for by the model itself."""
    attempts: int = 3
    """Macro-attempts: each recovery that a failure forces begins one more."""
    allowance: int = 20
    """Decisions on the active path; using it up is a failure."""
    restores_allowance: bool = True
    """A way back to `C_j` leads back to the allowance that was used at `C_j`; False: it begins anew."""
    segments: int | None = None
    """At most so many forward segments, whatever began them."""
    reflection: int = KEPT_OF_A_REFLECTION

    def __post_init__(self) -> None:
        if self.calls < 1 or self.attempts < 1 or self.allowance < 1 or self.proactive < 0:
            raise UsageError("A trial needs at least one call, one attempt and an allowance of one decision.")


P_AT_1 = Rules(proactive=0, attempts=1)
"""No way back."""
T_AT_1 = Rules(attempts=1)
"""Back when the model asks for it; the first failure ends the trial."""


def protocol(name: str, rules: Rules | None = None) -> Rules:
    """The rules of `P@1` or `T@k`.

    Raises:
        UsageError: another name.
    """
    rules = rules or Rules()
    kind, _, attempts = name.strip().upper().partition("@")
    if kind == "P" and attempts == "1":
        return replace(rules, proactive=0, attempts=1)
    if kind == "T" and attempts.isdigit() and int(attempts):
        return replace(rules, attempts=int(attempts))
    raise UsageError(f"{name!r} is no protocol; there are P@1 (no way back), T@1, T@2, T@3, …")
