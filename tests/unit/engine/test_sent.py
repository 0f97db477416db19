"""A call's input id is that of all that it sends, whatever of it was sent before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrewind.core.codec import canonical, digest
from agentrewind.core.records import MessageId, RecordUid, record_uid
from agentrewind.engine import sent
from agentrewind.engine.sent import Sent

lists = st.lists(st.integers(0, 9).map(lambda number: {"content": number}), max_size=200)
changes = st.tuples(st.integers(0, 200), lists)
"""So many messages stay, and these come after them."""


class Kept:
    """What was stored, by id; `read` counts what was asked for again."""

    def __init__(self) -> None:
        self.forms: dict[MessageId, bytes] = {}
        self.read = 0

    def store(self, message: dict) -> tuple[MessageId, bytes]:
        self.forms[MessageId(digest(message))] = canonical(message)
        return MessageId(digest(message)), canonical(message)

    def form(self, content: MessageId) -> bytes:
        self.read += 1
        return self.forms[content]


@settings(max_examples=100, deadline=None)
@given(st.lists(changes, max_size=8))
def test_the_digest_and_the_list_of_a_record_are_those_of_what_was_sent(steps) -> None:
    kept, at, messages = Kept(), Sent(), []
    lists_of: dict[RecordUid, list[MessageId]] = {}
    for number, (stay, more) in enumerate(steps):
        messages = [*map(dict, messages[:stay]), *more]
        uid = record_uid(number)
        found = at.follow(messages, uid, kept.store, kept.form)
        base = lists_of[found.base] if found.base else []
        lists_of[uid] = [*base[: found.keep], *found.added]
        assert lists_of[uid] == [digest(message) for message in messages]
        head = {"model": "m", "params": {"b": 1, "a": [2]}, "tools": None}
        assert at.digests.of_input(head) == digest({"messages": messages, "model": "m", "params": {"b": 1, "a": [2]}})


def test_a_conversation_that_grows_or_changes_near_its_end_reads_nothing_again_and_holds_little() -> None:
    kept, at = Kept(), Sent()
    messages = [{"content": 0}]
    for number in range(1000):
        messages = [*messages[:-3], *({**message, "marked": number} for message in messages[-3:]), {"content": number}]
        at.follow(messages, record_uid(number), kept.store, kept.form)
    assert kept.read == 0
    assert len(at.digests._after) <= sent.NEWEST + 1000 // sent.EVERY + 2
    at.follow([*messages[:500], {"content": "back"}], record_uid(1001), kept.store, kept.form)
    assert kept.read < sent.EVERY
