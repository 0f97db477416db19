"""A journal in front of another one."""

from __future__ import annotations

from typing import Generic, TypeVar

from agentrewind.core.codec import Json
from agentrewind.core.records import Event, MessageId
from agentrewind.core.tree import RunTree
from agentrewind.engine.checkpointer import Log

L = TypeVar("L", bound=Log)


class InFront(Generic[L]):
    """Hands everything on to the journal behind it; for those that do something more on the way."""

    def __init__(self, log: L) -> None:
        self._log = log

    @property
    def tree(self) -> RunTree:
        return self._log.tree

    def append(self, event: Event) -> None:
        self._log.append(event)

    def put(self, content: Json) -> MessageId:
        return self._log.put(content)

    def get(self, content: MessageId) -> Json:
        return self._log.get(content)

    def sync(self) -> None:
        self._log.sync()
