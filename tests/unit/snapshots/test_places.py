"""The small dictionary of where objects lie is a dictionary."""

from __future__ import annotations

import hashlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.snapshots import places
from agentrewind.snapshots.places import Places

ACTS = st.lists(
    st.tuples(st.sampled_from(["set", "del", "settle"]), st.integers(0, 30), st.integers(-1, 1 << 30)), max_size=80
)


def name_of(number: int) -> bytes:
    return hashlib.sha256(b"%d" % number).digest()


@given(acts=ACTS)
def test_whatever_is_done_it_holds_what_a_dictionary_would(acts: list[tuple[str, int, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "_FEW", 2)
        found, expected = Places(), dict[bytes, int]()
        for act, key, value in acts:
            name = name_of(key)
            if act == "set":
                found[name] = expected[name] = value
            elif act == "settle":
                found.settle()
            else:
                assert found.pop(name, None) == expected.pop(name, None)
            assert len(found) == len(expected)
            assert all((name in found, found.get(name)) == (name in expected, expected.get(name)) for name in expected)
            assert name_of(99) not in found
        assert dict(found.pairs()) == dict(found.items()) == expected
        assert expected.keys() - found.keys() == set()


def test_what_is_no_id_is_refused() -> None:
    found = Places()
    with pytest.raises(ValueError, match="32 bytes"):
        found[b"short"] = 1
    assert b"short" not in found
    assert b"" not in found


def test_it_takes_less_than_half_of_what_a_dictionary_takes() -> None:
    count = 20_000
    tracemalloc.start()
    try:
        found = Places()
        for number in range(count):
            found[name_of(number)] = number // 20
        found.settle()
        assert tracemalloc.get_traced_memory()[0] / count < 60
    finally:
        tracemalloc.stop()
    assert found[name_of(17)] == 0
