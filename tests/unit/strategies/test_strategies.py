"""Every strategy keeps the contract; what each adds to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.core.errors import UsageError
from agentrewind.core.records import Criterion, Judged, Rewound, record_uid
from agentrewind.core.strategy import GoOn, Stop
from agentrewind.core.tools import CANDIDATES, COMMIT
from agentrewind.core.world import SnapshotId
from agentrewind.strategies import NAMES, Continue, Restart, Review, Rewind, by_name, in_force
from agentrewind.strategies.recovery import Recovery
from agentrewind.strategies.rewind_rules import RewindRules
from agentrewind.testing.strategies import StrategyContract, judged_tree, rejected


class TestContinue(StrategyContract):
    def strategy(self, equal_failures):
        return Continue(equal_failures)


class TestRewind(StrategyContract):
    def strategy(self, equal_failures):
        return Rewind(equal_failures)


class TestRestart(StrategyContract):
    def strategy(self, equal_failures):
        return Restart(equal_failures)


class TestReview(StrategyContract):
    def strategy(self, equal_failures):
        return Review(equal_failures)


def told(strategy, *verdicts):
    decision = strategy.decide(judged_tree(verdicts), verdicts[-1])
    assert isinstance(decision, GoOn)
    return decision.message


def test_continue_says_nothing_but_the_feedback():
    message = told(Continue(), rejected(1, satisfied=5, total=8), rejected(2, satisfied=3, total=8))
    assert message.endswith("FAILED a is not as it should be")
    assert "fell" not in message


def test_rewind_leaves_the_choice_and_names_both_tools():
    message = told(Rewind(), rejected(1))
    assert "Choose: repair" in message
    assert CANDIDATES in message
    assert COMMIT in message
    assert "fell" not in message


def test_rewind_says_where_progress_fell():
    verdicts = [rejected(number, satisfied=done, total=8) for number, done in enumerate((5, 6, 6, 3), 1)]
    assert "Progress fell: it was 6/8 after rec_000003 and is 3/8 now." in told(Rewind(), *verdicts)


@pytest.mark.parametrize(("was", "now"), [((5, 8), (5, 8)), ((5, 8), (6, 8)), ((5, 8), (3, 9)), ((None, None), (0, 8))])
def test_rewind_speaks_of_no_fall_where_there_is_none_or_none_can_be_known(was, now):
    verdicts = [rejected(1, satisfied=was[0], total=was[1]), rejected(2, satisfied=now[0], total=now[1])]
    assert "fell" not in told(Rewind(), *verdicts)


def test_what_was_reached_on_an_abandoned_branch_is_no_fall():
    tree = judged_tree([rejected(1, satisfied=3, total=8), rejected(2, satisfied=7, total=8)])
    tree.apply(Rewound(tree.next_branch(), record_uid(2), record_uid(2), SnapshotId("live"), "a note"))
    verdict = rejected(1, "FAILED b", satisfied=4, total=8)
    tree.apply(verdict)
    decision = Rewind().decide(tree, verdict)
    assert isinstance(decision, GoOn)
    assert "fell" not in decision.message


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 4))), min_size=1, max_size=12),
    st.integers(1, 6),
    st.sampled_from(NAMES),
)
def test_equal_inputs_give_equal_decisions_and_the_count_is_exact(items, limit, name):
    def decide():
        verdicts = [
            rejected(number, item, satisfied=done, total=None if done is None else 4)
            for number, (item, done) in enumerate(items, 1)
        ]
        return by_name(name, equal_failures=limit).decide(judged_tree(verdicts), verdicts[-1])

    decision = decide()
    assert decision == decide()
    names = [item for item, _ in items]
    run = next((at for at, item in enumerate(reversed(names)) if item != names[-1]), len(names))
    assert isinstance(decision, Stop) == (run >= limit)


def begins_again(verdicts, equal_failures=5):
    """What restart wants after these verdicts."""
    (trigger,) = in_force(by_name("restart"), RewindRules(), equal_failures=equal_failures).triggers
    return trigger.fires(judged_tree(verdicts))


def with_criteria(number, **outcomes):
    met = sum(outcome == "satisfied" for outcome in outcomes.values())
    verdict = rejected(number, "P2", satisfied=met, total=len(outcomes))
    return replace(verdict, criteria=tuple(Criterion(*item) for item in outcomes.items()))


def test_restart_goes_back_to_the_very_first_call_and_writes_down_what_failed():
    first = with_criteria(1, P1="satisfied", P2="failed", P3="satisfied")
    second = with_criteria(2, P1="satisfied", P2="failed", P3="error")
    wanted = begins_again([first, second])
    assert wanted.target == "rec_000001"
    for line in (
        "Attempt 2 failed at P2.",
        "The check said: P2 is not as it should be",
        "In order, 1 of 3 criteria were met; the best attempt so far met 2.",
        "1 passed, 1 failed, 1 could not be run.",
        "Met in an earlier attempt, and not in this one: P3.",
        "It has failed there 2 times in a row; after 3 more in a row no other attempt is made.",
    ):
        assert line in wanted.note.splitlines()
    assert [line.startswith(("Don't", "Deal")) for line in wanted.note.splitlines()[-2:]] == [True, True]


def test_restart_wants_nothing_before_a_rejection_or_after_an_acceptance():
    assert begins_again([]) is None
    assert begins_again([Judged(record_uid(1), accepted=True, exit_code=0)]) is None


@pytest.mark.parametrize("name", [name for name in NAMES if name != "restart"])
def test_only_restart_goes_back_unasked(name):
    assert in_force(by_name(name), RewindRules()) == RewindRules()


def recovered(verdicts, before, inner="continue"):
    return Recovery(by_name(inner), before).decide(judged_tree(verdicts), verdicts[-1])


def test_a_recovery_says_what_failed_first_and_counts_anew():
    verdicts = [rejected(number) for number in range(1, 12)]
    first = recovered(verdicts[:6], 5)
    assert isinstance(first, GoOn)
    assert "rejected at the same point each time" in first.message
    assert verdicts[5].feedback in first.message
    assert isinstance(recovered(verdicts[:10], 5), GoOn), "four equal failures since"
    assert isinstance(recovered(verdicts[:11], 5), Stop), "five"


def test_both_arms_of_a_recovery_are_told_the_same_but_for_the_way_back():
    verdicts = [rejected(number) for number in range(1, 7)]
    without, with_it = (recovered(verdicts, 5, name).message for name in ("continue", "rewind"))
    assert with_it.startswith(without)
    assert CANDIDATES in with_it.removeprefix(without)
    assert CANDIDATES not in without


def test_a_recovery_that_is_accepted_at_once_has_succeeded():
    verdicts = [rejected(1), Judged(record_uid(2), accepted=True, exit_code=0)]
    assert recovered(verdicts, 1) == Stop(ok=True, reason="The check accepted the work.")


def test_strategies_are_found_by_name():
    assert by_name("continue") == Continue(5)
    assert by_name("rewind", equal_failures=2) == Rewind(2)
    for name in NAMES:
        assert by_name(name).name == name


def test_an_unknown_strategy_is_refused_and_the_known_ones_are_named():
    with pytest.raises(UsageError, match=r"'retry'\. Known: continue, restart, review, rewind\."):
        by_name("retry")


# --- broken strategies, each caught by the check that is meant for it -------------------------------------------------


class Mute(Rewind):
    def decide(self, tree, verdict):
        decision = super().decide(tree, verdict)
        return GoOn("Try again.") if isinstance(decision, GoOn) else decision


class Stubborn(Rewind):
    def decide(self, tree, verdict):
        return GoOn(verdict.feedback)


class Counting(Rewind):
    """Counts calls instead of reading the run."""

    calls = 0

    def decide(self, tree, verdict):
        Counting.calls += 1
        return GoOn(f"{verdict.feedback} ({Counting.calls})")


class Forgetful(Rewind):
    """A rewind makes all failures forgotten."""

    def decide(self, tree, verdict):
        return GoOn(verdict.feedback) if tree.rewinds else super().decide(tree, verdict)


class Writing(Rewind):
    def decide(self, tree, verdict):
        tree.warnings.append("decided")
        return super().decide(tree, verdict)


class Naming(Rewind):
    offers_rewind = False


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Mute, "test_a_rejection_is_told_with_its_feedback"),
        (Stubborn, "test_an_accepted_submission_ends_the_run_well"),
        (Stubborn, "test_so_many_equal_failures_in_a_row_end_the_run_and_not_one_earlier"),
        (Counting, "test_deciding_changes_nothing_and_equal_runs_give_equal_decisions"),
        (Writing, "test_deciding_changes_nothing_and_equal_runs_give_equal_decisions"),
        (Forgetful, "test_a_rewind_does_not_reset_the_count"),
        (Naming, "test_the_two_tools_are_named_only_where_they_are_offered"),
    ],
)
def test_a_broken_strategy_is_caught(broken, check):
    class Kit(StrategyContract):
        __test__ = False

        def strategy(self, equal_failures):
            return broken(equal_failures)

    with pytest.raises(AssertionError):
        getattr(Kit(), check)()


# --- a check that never says the same twice ---------------------------------------------------------------------------


def ends(strategy, *verdicts):
    return isinstance(strategy.decide(judged_tree(verdicts), verdicts[-1]), Stop)


def noise(count, **more):
    return [rejected(number, f"noise {number}", **more) for number in range(1, count + 1)]


@pytest.mark.parametrize("name", NAMES)
def test_rejections_without_progress_end_the_run_whatever_they_say(name):
    assert not ends(by_name(name), *noise(24))
    decision = by_name(name).decide(judged_tree(noise(25)), noise(25)[-1])
    assert isinstance(decision, Stop)
    assert not decision.ok
    assert (
        decision.reason == "The check rejected 25 submissions in a row without any progress, the last one at: noise 25"
    )
    assert ends(by_name(name, rejections=3), *noise(3))


@pytest.mark.parametrize("name", NAMES)
def test_progress_begins_the_count_of_rejections_again(name):
    verdicts = [rejected(number, f"item {number}", satisfied=number, total=40) for number in range(1, 40)]
    assert not ends(by_name(name, rejections=3), *verdicts)
    standing = noise(3, satisfied=2, total=8)
    assert ends(by_name(name, rejections=3), *standing)
    assert not ends(by_name(name, rejections=3), *standing[:2], rejected(3, "c", satisfied=3, total=8))
    # what was lost and won again is no progress, and neither is the same part of another number
    wavering = [
        rejected(n, f"x{n}", satisfied=done, total=of) for n, (done, of) in enumerate([(4, 8), (1, 8), (2, 4)], 1)
    ]
    assert ends(by_name(name, rejections=3), *wavering)


@pytest.mark.parametrize("name", NAMES)
def test_another_exit_code_begins_the_count_of_rejections_again(name):
    verdicts = [replace(item, exit_code=1 + at // 2) for at, item in enumerate(noise(6))]
    assert not ends(by_name(name, rejections=3), *verdicts)
