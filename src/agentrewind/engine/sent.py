"""What goes upstream, as its record has it: of a conversation that grows, each call pays for what is new in it."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agentrewind.core.codec import Json, canonical
from agentrewind.core.edits import Message
from agentrewind.core.records import MessageId, MessageList, RecordUid

if TYPE_CHECKING:
    from hashlib import _Hash

NEWEST, EVERY = 16, 64
"""The digest so far is remembered after each of the newest messages, and after every so many of the older ones: a
harness moves a marker, or shortens a result, some messages before the end.
"""


@dataclass(slots=True)
class Digests:
    """The digest of a list of messages, one after the other, as far as each of some places in it."""

    _after: dict[int, _Hash] = field(default_factory=lambda: {0: hashlib.sha256(b'{"messages":[')})
    """By number of messages."""

    def back_to(self, count: int) -> int:
        """Forget what comes after so many messages; how many of them the newest one that is left has."""
        for place in [place for place in self._after if place > count]:
            del self._after[place]
        return max(self._after)

    def go_on(self, forms: Iterable[bytes]) -> None:
        """More messages, in their canonical form."""
        count = max(self._after)
        found = self._after[count].copy()
        for form in forms:
            found.update(b"," + form if count else form)
            count += 1
            self._after[count] = found.copy()
            old = count - NEWEST
            if old > 0 and old % EVERY:
                self._after.pop(old, None)

    def of_input(self, head: Mapping[str, Json]) -> str:
        """The digest of the canonical JSON of all messages and of `head`, whose names come after `messages`."""
        found = self._after[max(self._after)].copy()
        parts = (b',"' + key.encode() + b'":' + canonical(head[key]) for key in sorted(head) if head[key] is not None)
        found.update(b"]" + b"".join(parts) + b"}")
        return f"sha256:{found.hexdigest()}"


@dataclass(slots=True)
class Sent:
    """What went upstream last, with the ids of its messages."""

    messages: list[Message] = field(default_factory=list)
    ids: list[MessageId] = field(default_factory=list)
    digests: Digests = field(default_factory=Digests)
    uid: RecordUid | None = None

    def follow(
        self,
        effective: list[Message],
        uid: RecordUid,
        store: Callable[[Message], tuple[MessageId, bytes]],
        form_of: Callable[[MessageId], bytes],
    ) -> MessageList:
        """The messages of the call `uid`, which goes out next; those that weren't in the last one are stored.

        `store` keeps one message: its id, and the canonical bytes of what was kept. `form_of` are those of one that was
        kept earlier.
        """
        keep = 0
        for before, after in zip(self.messages, effective, strict=False):
            if before is not after and before != after:
                break
            keep += 1
        base, ids = self.uid, self.ids[:keep]
        stored = [store(message) for message in effective[keep:]]
        known = self.digests.back_to(keep)
        self.digests.go_on(itertools.chain(map(form_of, ids[known:]), (form for _, form in stored)))
        ids += [content for content, _ in stored]
        self.messages, self.ids, self.uid = effective, ids, uid
        return MessageList(base, keep if base else 0, tuple(ids[keep:] if base else ids))
