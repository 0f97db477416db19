"""Which notes cross over under which policy, and what is to become one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.core.errors import UsageError
from agentrewind.core.memory import (
    CUMULATIVE,
    MemoryPolicy,
    Merged,
    Note,
    entries,
    injection,
    merging,
    policy_named,
    standing,
    to_merge,
    tokens,
)


def notes(*sizes: int) -> list[Note]:
    """Notes of so many tokens."""
    return [Note(f"b{n}", "rec_000001", chr(96 + n) * size * 4) for n, size in enumerate(sizes, 1)]


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("", CUMULATIVE),
        ("cumulative", CUMULATIVE),
        ("latest", MemoryPolicy("latest")),
        ("budget:9", MemoryPolicy("budget", 9)),
    ],
)
def test_a_policy_is_named_and_says_its_name(name, policy) -> None:
    assert policy_named(name) == policy
    assert policy_named(str(policy)) == policy


@pytest.mark.parametrize(
    "name", ["all", "budget", "budget:", "budget:0", "budget:-3", "budget:x", "latest:2", "budget:٣"]
)
def test_what_names_no_policy_is_refused(name) -> None:
    with pytest.raises(UsageError, match="budget:2000"):
        policy_named(name)


def test_latest_keeps_the_newest_and_what_the_retained_messages_hold() -> None:
    assert [note.branch for note in standing(MemoryPolicy("latest"), notes(1, 1, 1), {"b1"})] == ["b1", "b3"]
    assert standing(CUMULATIVE, notes(1, 1, 1), {"b1"}) == notes(1, 1, 1)


def test_a_merged_text_takes_the_place_of_all_that_it_covers_and_of_nothing_else() -> None:
    one, two, three = notes(1, 1, 1)
    small, wide = Merged(("b1", "b2"), "small"), Merged(("b1", "b2", "b3"), "wide")
    assert entries([one, two, three], [small, wide]) == [wide]
    assert entries([one, two], [small, wide]) == [small]
    assert entries([two, three], [small, wide]) == [two, three]
    assert entries([one, two, three], [small]) == [small, three]


def test_within_the_budget_nothing_is_merged() -> None:
    assert to_merge(notes(3, 3, 3), 9) == ()
    assert to_merge([], 0) == ()


def test_the_newest_note_is_never_merged_and_a_single_old_one_neither() -> None:
    assert to_merge(notes(100), 10) == ()
    assert to_merge(notes(100, 100), 10) == ()
    assert to_merge(notes(100, 100, 100), 10) == tuple(notes(100, 100))


def test_newer_notes_stay_as_they_are_while_they_fit_into_half_the_budget() -> None:
    assert to_merge(notes(5, 5, 5, 2, 2), 10) == tuple(notes(5, 5, 5))


@given(st.lists(st.integers(0, 30), max_size=12), st.integers(1, 60))
def test_what_is_merged_is_the_oldest_part_and_leaves_room(sizes, limit) -> None:
    all_notes = notes(*sizes)
    older = to_merge(all_notes, limit)
    assert list(older) == all_notes[: len(older)]
    assert len(older) != 1
    assert bool(older) <= (sum(sizes) > limit)
    kept = all_notes[len(older) :]
    if older:
        assert kept
        assert len(kept) == 1 or sum(tokens(note.text) for note in kept) <= limit // 2


def test_tokens_are_estimated_from_bytes() -> None:
    assert tokens("") == 0
    assert tokens("abcde") == 2
    assert tokens("漢字") == 2
    assert tokens("\udcff") == 1


def test_the_texts_name_each_note_and_its_branches() -> None:
    text = injection([Merged(("b1", "b2"), "old"), Note("b3", "rec_000002", "new")], rewinds=3, left=None)
    assert '<note 1 from="b1 b2">\nold\n</note>' in text
    assert '<note 2 from="b3">\nnew\n</note>' in text
    assert "<note 2>\nbbbb\n</note>" in merging(notes(1, 1), 100)
