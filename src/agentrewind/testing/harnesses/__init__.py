"""The contracts of a harness adapter, to be run on any of them: subclass one, say what it is, and have pytest run it.

`HarnessContract` looks at an adapter alone: a list plays the recorder. `RewindContract` looks at it under
`agentrewind run`, as a user has it: what is recorded, and what comes back at a rewind. In both, the real package is
driven, a scripted model on loopback plays the model, and commands are real.
"""

from __future__ import annotations

from agentrewind.testing.harnesses.alone import DEAD, KEY, Ended, HarnessContract, Notebook, Recorded, Run, Subject
from agentrewind.testing.harnesses.rewinds import Played, RewindContract

__all__ = [
    "DEAD",
    "KEY",
    "Ended",
    "HarnessContract",
    "Notebook",
    "Played",
    "Recorded",
    "RewindContract",
    "Run",
    "Subject",
]
