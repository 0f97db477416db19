"""What goes upstream, as its record has it: of a conversation that grows, each call pays for what is new in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agentrewind.core.codec import Json, canonical, digest_parts
from agentrewind.core.edits import Message
from agentrewind.core.records import MessageId, MessageList, RecordUid


@dataclass(slots=True)
class Sent:
    """What went upstream last, with the ids and canonical bytes of its messages."""

    messages: list[Message] = field(default_factory=list)
    ids: list[MessageId] = field(default_factory=list)
    canonical: list[bytes] = field(default_factory=list)
    uid: RecordUid | None = None

    def follow(
        self, effective: list[Message], uid: RecordUid, store: Callable[[Message], tuple[MessageId, bytes]]
    ) -> MessageList:
        """The messages of the call `uid`, which goes out next; those that weren't in the last one are stored.

        `store` keeps one message: its id, and the canonical bytes of what was kept.
        """
        keep = 0
        for before, after in zip(self.messages, effective, strict=False):
            if before is not after and before != after:
                break
            keep += 1
        ids, known = self.ids[:keep], self.canonical[:keep]
        for message in effective[keep:]:
            content, form = store(message)
            ids.append(content)
            known.append(form)
        base = self.uid
        self.messages, self.ids, self.canonical, self.uid = effective, ids, known, uid
        return MessageList(base, keep if base else 0, tuple(ids[keep:] if base else ids))


def input_id(head: Mapping[str, Json], messages: Sequence[bytes]) -> str:
    """The digest of the canonical JSON of model, params, tools and messages together, from parts known already."""
    rest = {key: (canonical(value),) for key, value in head.items() if value is not None}
    parts: dict[str, Sequence[bytes]] = {**rest, "messages": messages}
    return digest_parts(_object(parts))


def _object(parts: Mapping[str, Sequence[bytes]]) -> Iterator[bytes]:
    """The canonical JSON of an object: each value is one part, but for the list of messages."""
    for number, key in enumerate(sorted(parts)):
        yield (b"," if number else b"{") + b'"' + key.encode() + b'":'
        if key == "messages":
            yield b"["
            for place, message in enumerate(parts[key]):
                yield b"," + message if place else message
            yield b"]"
        else:
            yield from parts[key]
    yield b"}"
