"""Random histories, random edits, random rewrites whose provenance is known: what `align` says must agree with it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from agentrewind.core.align import align
from agentrewind.core.edits import Edit, splice


def memory(name):
    return {"memory": name}


@dataclass(frozen=True)
class Item:
    """A message of the rewritten list: its digest, and the old messages that it stems from (none: said anew)."""

    key: str
    sources: tuple[int, ...]


@st.composite
def edited(draw, *, alphabet=None):
    """Old digests and edits over them. Every cut has a note, insertions have none."""
    length = draw(st.integers(1, 14))
    if alphabet:
        old = [draw(st.sampled_from(alphabet)) for _ in range(length)]
    else:
        old = [f"m{index}" for index in range(length)]
    points = sorted(draw(st.lists(st.integers(0, length), max_size=6)))
    edits = []
    for number, (start, stop) in enumerate(zip(points[::2], points[1::2], strict=False)):
        name = f"b{number + 1}"
        if draw(st.booleans()):
            edits.append(Edit(start, stop, (memory(name),), name, (name,)))
        else:
            edits.append(Edit(start, start, ({"listing": name},)))
    return old, edits


@st.composite
def rewritten(draw, old):
    """Old messages kept, dropped, elided one by one or summed up; then what was said since."""
    items = []
    index = 0
    while index < len(old):
        size = draw(st.integers(1, 5))
        size = min(size, len(old) - index)
        sources = tuple(range(index, index + size))
        match draw(st.sampled_from(["keep", "keep", "keep", "drop", "elide", "sum"])):
            case "keep":
                items += [Item(old[source], (source,)) for source in sources]
            case "elide":
                items += [Item(f"elided {source}", (source,)) for source in sources]
            case "sum" if size > 1:
                items.append(Item(f"sum {sources}", sources))
        index += size
    items += [Item(f"fresh {number}", ()) for number in range(draw(st.integers(0, 3)))]
    return items


def cut_of(edits, index):
    return next((number for number, edit in enumerate(edits) if edit.start <= index < edit.stop), None)


def abandoned(edits, item):
    """True, False, or None for a mixture."""
    kinds = {cut_of(edits, source) is not None for source in item.sources}
    return bool(kinds) and (kinds.pop() if len(kinds) == 1 else None)


def survivors(items, edits):
    """The rewritten list after the edits: items and inserted messages in order."""
    return splice(list(items), edits)


def check(old, edits, items):
    found = align(old, [item.key for item in items], edits)
    if found is None:
        return None
    left = survivors(items, found)
    kept = [entry for entry in left if isinstance(entry, Item)]
    expected = [item for item in items if not abandoned(edits, item)]
    assert kept == expected
    assert all(abandoned(edits, item) is not None for item in items if item in kept)
    notes = [entry["memory"] for entry in left if "memory" in (entry if isinstance(entry, dict) else {})]
    assert notes == [edit.branch for edit in edits if edit.branch]
    return found


@settings(max_examples=1500, deadline=None)
@given(st.data())
def test_nothing_abandoned_is_left_and_nothing_else_is_cut(data):
    old, edits = data.draw(edited())
    check(old, edits, data.draw(rewritten(old)))


@settings(max_examples=1500, deadline=None)
@given(st.data())
def test_the_same_with_messages_that_repeat_themselves(data):
    old, edits = data.draw(edited(alphabet="abc"))
    check(old, edits, data.draw(rewritten(old)))


@settings(max_examples=400, deadline=None)
@given(edited(), st.integers(0, 3))
def test_an_extended_history_keeps_its_edits(case, fresh):
    old, edits = case
    assert align(old, old + [f"fresh {n}" for n in range(fresh)], edits) == tuple(edits)


@settings(max_examples=600, deadline=None)
@given(edited(), st.data())
def test_dropped_messages_never_need_a_guess_while_the_newest_one_stays(case, data):
    old, edits = case
    gone = data.draw(st.sets(st.integers(0, len(old) - 1))) - {len(old) - 1}
    items = [Item(key, (index,)) for index, key in enumerate(old) if index not in gone]
    assert check(old, edits, [*items, Item("fresh", ())]) is not None


@settings(max_examples=600, deadline=None)
@given(edited(), st.data())
def test_single_messages_put_in_another_form_never_need_a_guess(case, data):
    old, edits = case
    assume(all(edit.start > 0 or edit.branch for edit in edits))
    gone = data.draw(st.sets(st.integers(0, len(old) - 1)))
    alone = {index for index in gone if not {index - 1, index + 1} & gone} - {len(old) - 1}
    items = [Item(f"elided {index}" if index in alone else key, (index,)) for index, key in enumerate(old)]
    found = check(old, edits, [*items, Item("fresh", ())])
    assert found == tuple(edits)


@settings(max_examples=1000, deadline=None)
@given(st.data())
def test_a_hint_decides_nothing_and_stays_with_its_message_or_goes(data):
    old, edits = data.draw(edited())
    free = [index for index in range(len(old)) if cut_of(edits, index) is None]
    marked = data.draw(st.sets(st.sampled_from(free))) if free else set()
    hints = [Edit(index, index + 1, ({"hint": old[index]},), hint=f"stall:{index}") for index in sorted(marked)]
    items = data.draw(rewritten(old))
    new = [item.key for item in items]
    bare, found = align(old, new, edits), align(old, new, sorted((*edits, *hints), key=lambda e: (e.start, e.stop)))
    if bare is None or found is None:
        assert found is bare
        return
    assert tuple(edit for edit in found if not edit.hint) == bare
    splice(new, found)
    shown = {edit.hint for edit in found if edit.hint}
    for edit in (edit for edit in found if edit.hint):
        assert new[edit.start] == edit.inserted[0]["hint"]
    there = {hint.hint for hint in hints if old[hint.start] in new}
    assert shown <= there
    if not edits:
        assert shown == there


def cut(start, stop, name="b1"):
    return Edit(start, stop, (memory(name),), name, (name,))


OLD = ["system", "task", "a1", "t1", "a2", "t2", "a3", "t3", "a4", "t4"]


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (["system", "task", *OLD[6:], "a5"], cut(2, 2)),
        (["system", "task", "t2", *OLD[6:], "a5"], cut(2, 3)),
        (["system", "task", "a1", "t1 elided", "a2", "t2 elided", *OLD[6:], "a5"], cut(4, 6)),
        (["system", "task", "a1", "t1", "a2", "omitted", "t2", *OLD[6:]], cut(4, 7)),
        (["system", "task", "a1", "t1", "reminder", *OLD[4:]], cut(5, 7)),
        (["system", "task", "summary of a1 to t3", "a4", "t4", "a5"], None),
        (["system", "task", "a1", "t1", "summary of a2 and t2", "a3", "t3"], None),
        (["a2", "system", "task"], None),
        ([], cut(0, 0)),
    ],
)
def test_what_harnesses_do(new, expected):
    found = align(OLD, new, [cut(4, 6)])
    assert found == (None if expected is None else (expected,))


def test_a_summary_right_behind_a_rewind_needs_a_guess():
    assert align(OLD, [*OLD[:4], "summary or answer?", "t5"], [cut(4, 10)]) is None


def test_an_answered_tool_goes_with_its_neighbours():
    listing = Edit(4, 4, ({"listing": "x"},))
    assert align(OLD, ["system", "task", "summary", *OLD[6:]], [listing]) == ()
    assert align(OLD, [*OLD[:4], *OLD[6:]], [listing]) == (listing,)


def test_a_note_without_a_certain_place_needs_a_guess():
    assert align(OLD, ["system", "task", "summary", *OLD[6:]], [cut(4, 4)]) is None


def test_equal_messages_on_both_sides_of_a_cut_need_a_guess_only_where_one_is_gone():
    old = ["task", "oops", "a1", "oops", "a2"]
    assert align(old, ["task", "oops", "a2"], [cut(2, 4)]) is None
    assert align(old, ["task", "oops", "a1", "oops", "a2", "x"], [cut(2, 4)]) == (cut(2, 4),)
    assert align(old, ["task", "oops", "oops", "a2"], [cut(2, 4)]) == (cut(2, 3),)


def test_a_message_said_again_at_the_end_is_no_abandoned_one_by_chance():
    assert align(["task", "oops", "a1"], ["task", "a1", "oops"], [cut(1, 2)]) is None
    assert align(["task", "oops", "a1", "a2"], ["task", "oops", "a2", "oops"], [cut(2, 3)]) == (cut(2, 2),)
