"""Verdicts that are wrong, late or missing: what is told, what is kept, and that equal runs are told the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.bench.arms import arm_named
from agentrewind.bench.results import Result, Spec, Submission
from agentrewind.bench.validators import PENDING, Hearing, as_it_was, told, validator_named
from agentrewind.core.errors import UsageError
from agentrewind.core.records import Criterion, Judged, record_uid
from agentrewind.tasks.check import EVALUATOR_ERROR
from agentrewind.tasks.task import Checklist
from agentrewind.tasks.task import Criterion as Check

CHECKLIST = Checklist(tuple(Check(f"P{number}", "correctness", "", f"P{number} is wrong.") for number in (1, 2, 3)))


def truth(satisfied: int, number: int = 1) -> Judged:
    outcomes = tuple(
        Criterion(item.id, "satisfied" if place < satisfied else "failed") for place, item in enumerate(CHECKLIST)
    )
    right = satisfied == len(CHECKLIST)
    first = "" if right else f"P{satisfied + 1}"
    feedback = "" if right else CHECKLIST[first].feedback
    after = record_uid(number)
    return Judged(after, right, 0 if right else 1, first, feedback, satisfied, len(CHECKLIST), outcomes)


TRUTHS = st.lists(st.integers(0, 3), min_size=1, max_size=8).map(
    lambda given: [truth(satisfied, number) for number, satisfied in enumerate(given, 1)]
)
HOW = st.sampled_from(["exact", "noisy:0.5", "noisy:1", "delayed:1", "delayed:3", "absent"])


@given(TRUTHS, HOW)
def test_what_is_told_belongs_to_the_newest_submission_and_is_the_same_each_time(truths, how) -> None:
    said = told(validator_named(how), truths, CHECKLIST, (0, "t"))
    assert said.after == truths[-1].after
    assert said == told(validator_named(how), truths, CHECKLIST, (0, "t"))
    assert said.accepted == (said.exit_code == 0) == (not said.first_failure)


@given(TRUTHS)
def test_an_exact_one_and_one_that_is_never_wrong_tell_the_truth(truths) -> None:
    for how in ("exact", "noisy:0"):
        assert told(validator_named(how), truths, CHECKLIST) == truths[-1]


@given(TRUTHS)
def test_one_that_is_always_wrong_says_the_opposite_with_a_criterion_s_own_words(truths) -> None:
    said = told(validator_named("noisy:1"), truths, CHECKLIST, (0, "t"))
    assert said.accepted != truths[-1].accepted
    assert said.feedback == ("" if said.accepted else CHECKLIST[said.first_failure].feedback)


def test_a_noisy_one_is_wrong_about_as_often_as_it_says() -> None:
    found = [
        told(validator_named("noisy:0.2"), [truth(1)] * number, CHECKLIST, (seed,)).accepted
        for seed in range(300)
        for number in range(1, 5)
    ]
    assert 0.16 < sum(found) / len(found) < 0.24


def test_a_late_one_answers_with_an_earlier_verdict() -> None:
    how, truths = validator_named("delayed:2"), [truth(1, 1), truth(3, 2), truth(0, 3), truth(2, 4)]
    assert [told(how, truths[:number], CHECKLIST).first_failure for number in (1, 2, 3)] == [PENDING, PENDING, "P2"]
    assert told(how, truths, CHECKLIST) == replace(truths[1], after=record_uid(4))
    assert told(how, truths, CHECKLIST).accepted, "what was right two submissions ago"


def test_an_absent_one_accepts_and_knows_nothing() -> None:
    said = told(validator_named("absent"), [truth(0)], CHECKLIST)
    assert (said.accepted, said.satisfied, said.criteria, said.feedback) == (True, None, (), "")


@pytest.mark.parametrize("how", ["noisy:1", "absent", "delayed:1"])
def test_an_error_of_the_evaluator_is_never_hidden(how) -> None:
    error = replace(truth(1), first_failure=f"{EVALUATOR_ERROR}P2: crash")
    assert told(validator_named(how), [error], CHECKLIST) == error


def test_a_hearing_keeps_what_was_true() -> None:
    given_ = iter([truth(1), truth(3)])
    hearing = Hearing(lambda _place, _after: next(given_), validator_named("noisy:1"), CHECKLIST, (0, "t"))
    said = [hearing(Path("/nowhere")), hearing(Path("/nowhere"))]
    assert hearing.truths == [truth(1), truth(3)]
    assert [item.accepted for item in said] == [True, False]


def test_a_result_holds_the_truth_and_what_was_told_instead() -> None:
    heard = (Submission(4, 3, 3), Submission(9, 1, 3, "P2"), Submission(12, 2, 3, "P3"))
    result = Result(Spec("t", "rewind", "h", "m", 0), success=True, satisfied=3, total=3, ended="", submissions=heard)
    first, second, third = as_it_was(result, [truth(1), truth(3), truth(2)]).submissions
    assert (first.nodes, first.satisfied, first.first_failure, first.told) == (4, 1, "P2", "accepted")
    assert (second.satisfied, second.told) == (3, "P2")
    assert (third.satisfied, third.told) == (2, ""), "as it was"


@pytest.mark.parametrize(
    "name", ["noisy", "noisy:2", "noisy:-1", "noisy:nan", "delayed:0", "delayed:x", "late", "exact:1"]
)
def test_what_names_no_validator_is_refused(name) -> None:
    with pytest.raises(UsageError, match="noisy:P"):
        arm_named(f"rewind+validator={name}")


def test_an_arm_says_which_it_has() -> None:
    assert arm_named("rewind").validator.is_exact
    assert arm_named("continue+validator=noisy:0.2").validator.share == 0.2
