"""Canonical JSON has one form; records come back as they were or not at all."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.core import codec
from agentrewind.core.records import (
    EVENT_TAGS,
    EVENTS,
    Event,
    LlmInput,
    MessageList,
    NodeEnded,
    RunStarted,
    Usage,
    record_uid,
)


@dataclass(frozen=True)
class Pair:
    name: str
    size: tuple[int, float] = (0, 0.0)
    mode: Literal["a", "b"] = "a"
    flags: dict[str, bool] | None = None


def test_equal_values_have_one_form_whatever_their_order():
    assert codec.canonical({"b": 1, "a": {"d": 1, "c": 2}}) == b'{"a":{"c":2,"d":1},"b":1}'
    assert codec.digest({"b": 1, "a": 2}) == codec.digest({"a": 2, "b": 1})


def test_text_is_not_normalised():
    assert codec.digest("é") != codec.digest("e\u0301")
    assert codec.canonical("é") == '"é"'.encode()


def test_undecodable_bytes_in_names_have_a_form():
    assert codec.canonical({"p": "x\udcff"}) == b'{"p":"x\\udcff"}'


def test_what_json_lacks_is_refused():
    with pytest.raises(ValueError, match="JSON"):
        codec.canonical(float("inf"))


def test_defaults_are_left_out_and_come_back():
    plain = codec.to_plain(RunStarted("r", "/w", 1, "0", task="t"))
    assert plain == {"run_id": "r", "workspace": "/w", "started_ns": 1, "version": "0", "task": "t"}
    assert codec.from_plain(RunStarted, plain) == RunStarted("r", "/w", 1, "0", task="t")


def test_what_a_default_factory_makes_is_left_out_too_and_comes_back():
    ended = NodeEnded(record_uid(1))
    assert codec.to_plain(ended) == {"uid": "rec_000001"}
    assert codec.from_plain(NodeEnded, {"uid": "rec_000001"}) == ended
    with_usage = replace(ended, usage=Usage(input=3))
    assert codec.to_plain(with_usage) == {"uid": "rec_000001", "usage": {"input": 3}}


def test_a_record_that_came_back_shares_no_default_with_another():
    one, two = (codec.from_plain(RunStarted, codec.to_plain(RunStarted("r", "/w", 1, "0"))) for _ in range(2))
    one.settings["changed"] = True
    assert two.settings == {}
    assert codec.to_plain(one)["settings"] == {"changed": True}


def test_keys_of_a_newer_writer_are_left_out():
    assert codec.from_plain(Usage, {"input": 3, "tomorrow": 1}) == Usage(input=3)


@pytest.mark.parametrize(
    "plain",
    [
        None,
        [],
        {},
        {"name": 1},
        {"name": None},
        {"name": "x", "size": 1},
        {"name": "x", "size": [1]},
        {"name": "x", "size": [1, 2, 3]},
        {"name": "x", "size": [True, 2]},
        {"name": "x", "size": [1.5, 2]},
        {"name": "x", "size": [1, "2"]},
        {"name": "x", "mode": "c"},
        {"name": "x", "mode": ["a"]},
        {"name": "x", "flags": [1]},
    ],
)
def test_a_value_of_another_type_is_refused(plain):
    with pytest.raises(TypeError):
        codec.from_plain(Pair, plain)


def test_a_whole_number_stands_for_a_float_and_lists_become_tuples():
    assert codec.from_plain(Pair, {"name": "x", "size": [1, 2]}) == Pair("x", (1, 2))


def test_nested_records_are_checked_too():
    good = codec.to_plain(LlmInput("m", MessageList(added=("sha256:x",))))
    assert codec.from_plain(LlmInput, good) == LlmInput("m", MessageList(added=("sha256:x",)))
    with pytest.raises(TypeError):
        codec.from_plain(LlmInput, good | {"messages": {"added": [1]}})


def test_every_event_has_one_tag():
    assert {EVENTS[tag] for tag in EVENT_TAGS.values()} == set(Event.__args__)
    assert not [field.name for cls in EVENTS.values() for field in fields(cls) if field.name in ("n", "event", "crc")]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_canonical_json_reads_back_as_the_value(value):
    import json

    assert json.loads(codec.canonical(value)) == value
    assert codec.canonical(json.loads(codec.canonical(value))) == codec.canonical(value)
