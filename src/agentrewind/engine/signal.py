"""What leaves a harness against its will, and what was raised in another process."""

from __future__ import annotations

from agentrewind.core.records import Failure


class RewindSignal(BaseException):
    """The agent goes back: what it is doing ends here. In fresh mode its process does (rewind.md, section 4).

    Not an `Exception`, since harnesses turn those into observations; none of the signals of Python or asyncio, which
    they handle. Its text is always the same and holds no digit: some retry on any error that speaks of "429".
    Whoever swallows it gets it again at the next call: the supervisor goes by the journal, not by this exception.
    """

    def __init__(self) -> None:
        super().__init__("agentrewind: the agent goes back, and what it was doing ends here")


class RaisedElsewhere(BaseException):
    """What was asked of another process raised there, where it goes on its way; `failure` is for the record."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure
