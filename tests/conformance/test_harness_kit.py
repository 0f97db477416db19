"""The kit of harnesses is itself looked at: adapters that are right pass, and each fault is caught by its check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentrewind.testing.harnesses import RewindContract, script
from agentrewind.testing.harnesses.rewinds import CHECKS
from agentrewind.testing.scripted import Turn

ROOT = Path(__file__).parents[2]
HERE = "tests.conformance.broken_harnesses"


class TestTheExample(RewindContract):
    """The one in `docs/write-an-adapter.md`."""

    agent = "own_adapter:Adapter"
    paths = (str(ROOT / "examples"),)
    asynchronous = {}  # it always is  # noqa: RUF012


class InWords(RewindContract):
    agent = f"{HERE}:InWords"
    paths = (str(ROOT),)
    not_applicable = {"streamed": "it asks for whole answers", "async": "it is synchronous"}  # noqa: RUF012

    def said(self, text, calls):
        lines = (json.dumps({"name": call.name, "arguments": call.arguments}) for call in calls)
        return Turn("\n".join((text, *(f"CALL {line}" for line in lines))))


class TestInWords(InWords):
    """Tools that the provider isn't told of: the two are called inside of the harness."""


def broken(name: str) -> InWords:
    return type(name, (InWords,), {"agent": f"{HERE}:{name}", "not_applicable": {}})()


NESTED = {
    "Unrecorded": ("in-place", "test_every_call_is_recorded_once"),
    "KeepsTheListToItself": ("in-place", "test_the_candidates_are_shown_with_what_they_changed"),
    "BringsFilesAlong": ("in-place", "test_a_commit_brings_back_conversation_and_files_together"),
    "RunsBeforeItAsks": ("fresh", "test_a_commit_brings_back_conversation_and_files_together"),
    "DropsNotes": ("reset", "test_each_note_is_shown_exactly_once"),
    "GoesBackOnce": ("reset", "test_a_second_rewind_crosses_the_first"),
}
OWN_RUN = {
    "RunsTheRest": ("in-place", "test_a_commit_among_other_calls_leaves_nothing_of_them"),
    "GoesOnAlone": ("in-place", "test_nothing_that_catches_everything_holds_a_rewind_up"),
    "Restless": ("fresh", "test_a_new_process_that_asks_something_else_runs_nothing_twice"),
    "EndsAtAFailure": ("in-place", "test_a_command_that_fails_is_told_and_can_be_rewound"),
    "SaysThatItStreams": ("in-place", "test_it_streams"),
    "LoopsInALoop": ("in-place", "test_it_is_run_in_an_event_loop"),
}


@pytest.mark.parametrize(("name", "mode", "check"), [(name, *rest) for name, rest in NESTED.items()])
def test_a_fault_is_caught_by_its_check(name: str, mode: str, check: str, tmp_path: Path) -> None:
    kit = broken(name)
    played = kit.play(tmp_path, mode, script.nested)
    with pytest.raises(AssertionError):
        getattr(kit, check)(played)


@pytest.mark.parametrize(("name", "mode", "check"), [(name, *rest) for name, rest in OWN_RUN.items()])
def test_a_fault_is_caught_by_the_run_of_its_check(name: str, mode: str, check: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        getattr(broken(name), check)(mode, tmp_path)


def test_an_adapter_to_which_nothing_applies_fails() -> None:
    kit = broken("InWords")
    kit.not_applicable = dict.fromkeys(CHECKS, "it is a stone")
    with pytest.raises(AssertionError, match="no check applies"):
        kit.test_what_does_not_apply_is_said_with_a_reason_and_something_does()


def test_a_check_that_does_not_exist_can_not_be_declared_away() -> None:
    kit = broken("InWords")
    kit.not_applicable = {"comit": "misspelt"}
    with pytest.raises(AssertionError, match="comit"):
        kit.test_what_does_not_apply_is_said_with_a_reason_and_something_does()


def test_the_reason_for_what_does_not_apply_is_printed() -> None:
    with pytest.raises(pytest.skip.Exception, match="async doesn't apply: it is synchronous"):
        InWords().applies("async")
