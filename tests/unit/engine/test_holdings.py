"""What an agent holds besides its messages: kept at each call, brought back at a rewind, and never written."""

from __future__ import annotations

from agentrewind.core.records import RecordUid
from agentrewind.engine.holdings import Held, Holdings

A, B, C = (RecordUid(f"rec_00000{number}") for number in (1, 3, 5))


def at(holdings: Holdings, uid: RecordUid, data: bytes, *lost: str) -> None:
    holdings.hold(Held(data, lost))
    holdings.belongs_to(uid)


def test_the_state_of_the_target_is_given_once() -> None:
    holdings = Holdings()
    at(holdings, A, b"a")
    at(holdings, B, b"b")
    holdings.go_back(A)
    assert holdings.take() == Held(b"a")
    assert holdings.take() is None


def test_the_call_that_is_made_at_the_target_has_its_state_and_not_that_of_the_abandoned() -> None:
    holdings = Holdings()
    at(holdings, A, b"a")
    holdings.hold(Held(b"abandoned"))
    holdings.go_back(A)
    holdings.belongs_to(C)
    assert holdings.take() == Held(b"a")
    holdings.go_back(C)
    assert holdings.take() == Held(b"a")


def test_a_target_of_which_nothing_is_known_leaves_nothing_and_says_so() -> None:
    holdings = Holdings()
    at(holdings, B, b"b")
    holdings.go_back(A)
    assert holdings.take() == Held()
    assert "None of the variables" in holdings.told(A)


def test_what_is_lost_is_named_and_what_is_whole_needs_no_word() -> None:
    holdings = Holdings()
    at(holdings, A, b"a", "lock", "socket")
    at(holdings, B, b"b")
    assert holdings.told(A).endswith("define them again: lock, socket.")
    assert holdings.told(B) == ""


def test_an_agent_that_never_held_anything_is_left_alone() -> None:
    holdings = Holdings()
    holdings.go_back(A)
    assert holdings.take() is None
    assert holdings.told(A) == ""


def test_a_woken_copy_holds_what_it_holds() -> None:
    holdings = Holdings()
    at(holdings, A, b"a")
    holdings.go_back(A)
    holdings.stay()
    assert holdings.take() is None
