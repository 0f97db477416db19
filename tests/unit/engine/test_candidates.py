from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from agentrewind.core.world import Change
from agentrewind.engine.candidates import Candidate, Listing, line, readable, render, thin


def candidate(
    number: int, *, satisfied: int | None = None, effects: tuple[str, ...] = (), deleted: int = 0
) -> Candidate:
    changes = tuple(Change("D", f"f{index}") for index in range(deleted))
    return Candidate(f"rec_{number:06d}", 0, "", (), changes, deleted, satisfied, 8, None, effects, True, deleted)


def uids(found: list[Candidate]) -> list[int]:
    return [int(item.uid[4:]) for item in found]


@given(st.integers(0, 300), st.integers(1, 90), st.data())
def test_thinning_keeps_order_size_first_and_newest(size: int, limit: int, data: st.DataObject) -> None:
    marks = data.draw(st.lists(st.sampled_from([None, 1, 2, 3]), min_size=size, max_size=size))
    found = [candidate(number, satisfied=mark) for number, mark in enumerate(marks)]
    shown = uids(thin(found, limit))
    assert shown == sorted(set(shown))
    assert len(shown) == min(size, limit)
    if size:
        assert shown[-1] == size - 1
    if size and limit > 1:
        assert shown[0] == 0
        newest = min(10, limit - 1, size)
        assert set(range(size - newest, size)) <= set(shown)


POINTS = st.tuples(st.sampled_from([None, 2, 2, 2, 5]), st.booleans(), st.sampled_from([0, 0, 0, 19, 20, 300]))


@settings(max_examples=300, deadline=None)
@given(st.lists(POINTS, min_size=1, max_size=200), st.integers(2, 90))
def test_thinning_keeps_every_turning_point_while_there_is_room_and_fills_evenly(points, limit) -> None:
    """The first, the last ten, each change of progress, each point before an effect or a large deletion."""
    found = [
        candidate(number, satisfied=mark, effects=("pushed",) if effect else (), deleted=deleted)
        for number, (mark, effect, deleted) in enumerate(points)
    ]
    marks = [mark for mark, _, _ in points]
    musts = {0, *range(max(len(found) - 10, 0), len(found))}
    musts |= {at for at in range(1, len(found)) if marks[at] != marks[at - 1]}
    musts |= {at for at, (_, effect, deleted) in enumerate(points) if effect or deleted >= 20}
    shown = uids(thin(found, limit))
    assert len(shown) == min(len(found), limit)
    if len(musts) <= limit:
        assert musts <= set(shown)
        rest = [at for at in range(len(found)) if at not in musts]
        free = limit - len(musts)
        places = [rest.index(at) for at in shown if at in set(rest)]
        if 0 < free < len(rest):
            bounds = [-1, *places, len(rest)]
            assert max(after - before for before, after in itertools.pairwise(bounds)) <= 2 * len(rest) // free + 2
    else:
        assert shown[1:] == sorted(musts)[-(limit - 1) :], "the newest ones, and the first"
        assert shown[0] == 0


def test_each_line_says_what_going_back_would_mean() -> None:
    whole = Candidate(
        "rec_000007",
        1,
        "I remove the cache",
        ("shell(rm -r cache)",),
        tuple(Change("D", f"cache/{index}") for index in range(4)),
        31,
        5,
        8,
        "rec_000003",
        ("pushed to origin",),
        complete=False,
    )
    text = line(whole)
    for part in (
        "rec_000007",
        "1 step ago",
        "progress 5/8",
        "I remove the cache; shell(rm -r cache)",
        "31 files: D cache/0, D cache/1, D cache/2 and 28 more",
        "files as at rec_000003",
        "would survive: pushed to origin",
        "snapshot incomplete",
    ):
        assert part in text, part
    assert "\n" not in text


def test_turning_points_survive_thinning() -> None:
    found = [candidate(number, satisfied=3 if number >= 57 else 2) for number in range(200)]
    found[120] = candidate(120, satisfied=3, effects=("pushed to origin",))
    found[33] = candidate(33, satisfied=2, deleted=25)
    shown = uids(thin(found, 30))
    assert {0, 57, 120, 33} <= set(shown)


def test_the_rest_is_spread_evenly() -> None:
    shown = uids(thin([candidate(number) for number in range(1000)], 80))
    gaps = [after - before for before, after in itertools.pairwise(shown[:70])]
    assert max(gaps) <= 3 * min(gaps[1:])


def test_what_was_left_out_is_said_in_one_line() -> None:
    found = [candidate(number) for number in range(100)]
    text = render(Listing(tuple(thin(found, 20)), 100))
    assert text.splitlines()[-1].startswith("80 more checkpoints")


def test_an_empty_listing_says_to_go_on() -> None:
    assert "no checkpoint" in render(Listing((), 0))


def test_names_with_control_characters_stay_in_their_line() -> None:
    assert readable("line\nbreak") == "line\\nbreak"
    assert readable("bad\udcffname") == "bad\\udcffname"
    assert readable("café.txt") == "café.txt"
