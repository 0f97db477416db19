"""Every event comes back from plain JSON, and from a line of the journal, as it was."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import typing
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrewind.core import codec
from agentrewind.core.codec import Json
from agentrewind.core.records import EVENTS
from agentrewind.journal import format as fmt

texts = st.text(st.characters(), max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
st.register_type_strategy(str, texts)
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))


def events(cls: type) -> st.SearchStrategy:
    """Any value of the record type: what `Json` is, is any JSON."""
    return st.builds(cls, **{name: _values(hint) for name, hint in typing.get_type_hints(cls).items()})


def _values(hint: object) -> st.SearchStrategy:
    if hint is Json:
        return json_values
    if dataclasses.is_dataclass(hint):
        return events(hint)
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        return st.lists(_values(arguments[0]), max_size=3).map(tuple)
    if type(None) in arguments:
        return st.none() | _values(next(argument for argument in arguments if argument is not type(None)))
    return st.from_type(hint)


@pytest.mark.parametrize("tag", EVENTS)
def test_an_event_survives_plain_json_and_a_line(tag):
    cls = EVENTS[tag]

    @settings(max_examples=40, deadline=None)
    @given(events(cls), st.integers(0, 2**40))
    def holds(event, number):
        assert codec.from_plain(cls, json.loads(codec.canonical(codec.to_plain(event)))) == event
        ids = []
        line = fmt.encode_event(number, event, lambda content: ids.append(content) or len(ids) - 1)
        assert line.endswith(b"\n")
        assert b"\n" not in line[:-1]
        assert fmt.decode_event(line[:-1], ids.__getitem__) == (number, event)
        assert json.loads(line)["event"] == tag

    holds()


@given(json_values)
@settings(max_examples=200, deadline=None)
def test_a_content_survives_its_line(value):
    data = fmt.canonical(value)
    line, begin = fmt.encode_content(7, data)
    assert fmt.locate_content(line[:-1]) == (7, begin, begin + len(data))
    assert fmt.content_id(data) == codec.digest(value)
    assert fmt.open_content(codec.digest(value), line[begin : begin + len(data)]) == value
    assert json.loads(line)["content"] == value


def decoded(line):
    return fmt.decode_event(line, lambda number: f"content {number}")


@given(st.binary(max_size=80))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_refused_with_a_reason_or_are_a_line(data):
    for decode in (decoded, fmt.locate_content):
        with pytest.raises(ValueError, match=r"\S"):
            decode(data)
    with contextlib.suppress(ValueError):
        assert fmt.parse(data) == json.loads(data)


@given(json_values)
@settings(max_examples=200, deadline=None)
def test_any_json_with_a_right_checksum_is_an_event_or_refused(value):
    plain = {"n": 0, "event": "node_began", "llm": value, "tool": value, "uid": value}
    body = json.dumps(plain).encode()[:-1]
    with pytest.raises(ValueError, match=r"malformed|nested|twice|JSON|large"):
        decoded(body + b',"crc":"%08x"}' % zlib.crc32(body))
