"""What a journal keeps without its secrets, kept whole in memory while the run goes on."""

from __future__ import annotations

import re

from agentrewind.core.codec import Json, digest
from agentrewind.core.records import Event, MessageId, NodeEnded, RecordUid
from agentrewind.engine.checkpointer import Log
from agentrewind.engine.logs import InFront
from agentrewind.engine.prefix import Unservable

_MARK = re.compile(r"\[redacted [a-z-]+\]")


class Whole(InFront[Log]):
    """A journal that remembers, for this process, the outputs that it could only keep in part."""

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self._changed: dict[MessageId, Json] = {}
        self._whole: dict[RecordUid, Json] = {}
        self._ours: set[RecordUid] = set()

    def append(self, event: Event) -> None:
        self._log.append(event)
        if isinstance(event, NodeEnded):
            self._ours.add(event.uid)
            if event.output in self._changed:
                self._whole[event.uid] = self._changed[event.output]
            self._changed.clear()

    def put(self, content: Json) -> MessageId:
        found = self._log.put(content)
        if digest(content) != found:
            self._changed[found] = content
        return found

    def output(self, uid: RecordUid) -> Json:
        """What call `uid` returned, as it was.

        Raises:
            Unservable: it can't be said.
        """
        if uid in self._whole:
            return self._whole[uid]
        ended = self.tree.node(uid).ended
        if ended is None or ended.output is None:
            raise Unservable(f"{uid} returned nothing that could be given again")
        kept = self.get(ended.output)
        if uid not in self._ours and marked(kept):
            raise Unservable(f"the output of {uid} held a secret, which isn't kept")
        return kept


def marked(value: Json) -> bool:
    """Whether something stands in the place of a secret anywhere in `value`."""
    if isinstance(value, str):
        return _MARK.search(value) is not None
    if isinstance(value, dict):
        return any(marked(item) for item in value.values())
    return isinstance(value, list) and any(marked(item) for item in value)
