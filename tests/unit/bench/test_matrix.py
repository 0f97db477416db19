"""Arms, the matrix, results and their table: values in, values out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.bench.arms import ABLATIONS, arm_named
from agentrewind.bench.guarding import cases, measured
from agentrewind.bench.matrix import Matrix, Place
from agentrewind.bench.one import Conditions
from agentrewind.bench.results import Result, Spec, Submission, read, results_in, write
from agentrewind.bench.table import rows_of
from agentrewind.compose.agents import RunSettings
from agentrewind.compose.effects import classifier
from agentrewind.core.effects import Confinement
from agentrewind.core.errors import UsageError
from agentrewind.core.review import Review
from agentrewind.integrations.guards.rules import RuleGuard

BASE = RunSettings("builtin", "m", "The task.")


def settings(name: str, *, paper: bool = False, seed: int = 0) -> RunSettings:
    return arm_named(name).settings(BASE, paper=paper, seed=seed)


def test_a_strategy_alone_changes_nothing_else() -> None:
    assert settings("continue") == replace(BASE, strategy="continue")
    assert settings("restart") == replace(BASE, strategy="restart", mode="fresh"), "a fresh process for each attempt"


def test_each_ablation_is_one_setting_away_from_the_whole() -> None:
    whole, *others = (settings(name) for name in ABLATIONS)
    for other in others:
        differing = [name for name in RunSettings.__slots__ if getattr(whole, name) != getattr(other, name)]
        assert len(differing) == 1


def test_the_paper_settles_what_its_tables_say() -> None:
    found = settings("rewind", paper=True)
    assert (found.mode, found.max_rewinds, found.rejections, found.equal_failures) == ("fresh", None, None, 5)
    assert (found.candidates, found.rules.memory, found.rules.notice, found.rules.trigger) == (
        80,
        "cumulative",
        "off",
        "never",
    )
    assert settings("rewind+keep=context", paper=True).mode == "in place"


def test_changes_are_said_after_a_plus() -> None:
    found = settings("rewind+memory=none+selector=random+candidates=all+trigger=failures:3+keep=world", seed=4)
    assert (found.rules.memory, found.rules.selector, found.candidates) == ("none", "random:4", None)
    assert (found.rules.trigger, found.keep) == ("failures:3", "world")
    assert arm_named("rewind+selector=oracle").has_oracle


@pytest.mark.parametrize(
    "name",
    ["", "retry", "rewind+", "rewind+keep", "rewind+keep=all", "rewind+memory=x", "rewind+selector=y",
     "rewind+candidates=0", "rewind+memory=none+memory=none", "rewind+colour=red", "rewind+trigger=often"],
)  # fmt: skip
def test_what_names_no_arm_is_refused(name) -> None:
    with pytest.raises(UsageError):
        arm_named(name)


def matrix(**more) -> Matrix:
    given = {"suite": "s", "arms": ("continue", "rewind"), "harnesses": ("builtin",), "models": ("simulated:plain",)}
    return Matrix(**{**given, "runs": 2, "conditions": Conditions({"a": "/a", "b": "/b"}), **more})


def test_a_matrix_holds_every_combination_once_and_a_part_of_it_is_balanced() -> None:
    specs = matrix().checked().specs()
    assert len(specs) == len({spec.key for spec in specs}) == 8
    assert {spec.seed for spec in specs[:4]} == {0}


@pytest.mark.parametrize(
    "wrong",
    [
        {"arms": ("retry",)},
        {"harnesses": ("none",)},
        {"models": ("simulated:none",)},
        {"models": ()},
        {"arms": ("rewind+selector=oracle",), "models": ("gpt-5",)},
    ],
)
def test_a_matrix_that_names_what_is_not_there_is_refused(wrong) -> None:
    with pytest.raises(UsageError):
        matrix(**wrong).checked()


def test_a_benchmark_can_grow_and_not_change(tmp_path) -> None:
    place = Place(tmp_path / "out")
    place.settle(matrix())
    place.settle(matrix(arms=("restart",), runs=1))
    begun = place.begun()
    assert begun.arms == ("continue", "rewind", "restart")
    assert begun.runs == 2
    for other in (Conditions({"a": "/a"}, paper=True), Conditions({"a": "/elsewhere"})):
        with pytest.raises(UsageError, match="other conditions"):
            place.settle(matrix(conditions=other))
    assert place.begun() == begun
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(UsageError, match="isn't empty"):
        Place(tmp_path / "full").settle(matrix())


names = st.text(min_size=1, max_size=12)
results = st.builds(
    Result,
    st.builds(Spec, names, names, names, names, st.integers(0, 3)),
    success=st.booleans(),
    satisfied=st.integers(0, 5),
    total=st.just(5),
    ended=st.text(),
    submissions=st.lists(st.builds(Submission, st.integers(0, 9), st.just(1), st.just(5))).map(tuple),
    usd=st.one_of(st.none(), st.floats(0, 9)),
    effects=st.dictionaries(st.text(), st.integers(0, 9)),
)


@given(results)
def test_what_is_written_is_read_again(tmp_path_factory, result) -> None:
    place = tmp_path_factory.mktemp("r")
    write(result, place)
    assert read(place / "result.json") == result


@given(st.builds(Spec, names, names, names, names, st.integers(0, 99)))
def test_a_run_has_a_directory_of_its_own_five_levels_down(spec) -> None:
    parts = spec.key.split("/")
    assert len(parts) == 5
    assert not {"", ".", ".."} & set(parts)


def test_a_damaged_result_is_named(tmp_path) -> None:
    path = tmp_path / "runs/a/b/c/d/0/result.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(UsageError, match=r"result\.json"):
        results_in(tmp_path)
    with pytest.raises(UsageError, match="no results"):
        results_in(tmp_path / "nothing")


def came(arm: str, seed: int, *, ok: bool, task: str = "a", **more) -> Result:
    return Result(
        Spec(task, arm, "builtin", "m", seed), success=ok, satisfied=8 if ok else 4, total=8, ended="", **more
    )


def test_rows_are_means_over_tasks_then_runs_and_leave_out_what_does_not_count() -> None:
    found = [
        came("rewind", 0, ok=True),
        came("rewind", 0, ok=False, task="b"),
        came("rewind", 1, ok=True),
        came("rewind", 1, ok=True, task="b"),
        came("rewind", 2, ok=False, abnormal="killed"),
        came("rewind", 2, ok=False, touched="a shell was ended"),
        came("continue", 0, ok=False),
    ]
    continued, rewound = rows_of(found)
    assert rewound.facts["runs"] == 4
    assert rewound.success == pytest.approx((0.75, 0.35355339))
    assert rewound.progress == pytest.approx((0.875, 0.1767767))
    assert continued.success == (0.0, 0.0)
    assert rows_of(reversed(found))[1].facts == rewound.facts, "in whatever order the runs were made"


# --- the guard's own test set -----------------------------------------------------------------------------------------


def test_the_rule_guard_on_its_test_set() -> None:
    found, reads = cases(), classifier(Path("/work/app"), Confinement(network=False, outside=False))
    assert sum(case.harmful for case in found) == len(found) / 2
    result = measured(RuleGuard(), found, reads.command)
    assert result.failed == 0
    assert result.precision is not None
    assert result.precision >= 0.9
    assert result.recall >= 0.7
    assert result.caught + result.missed + result.alarms + result.passed == len(found)


def test_a_guard_that_holds_all_back_has_recall_alone_and_one_that_holds_nothing_back_has_none() -> None:
    class All:
        name = "all"

        def review(self, _):
            return Review(safe=False, reason="no", failed=True)

    class Nothing:
        name = "nothing"

        def review(self, _):
            return Review(safe=True, reason="yes")

    found = cases()
    assert (measured(All(), found).recall, measured(All(), found).precision) == (1.0, 0.5)
    assert measured(All(), found).failed == len(found)
    assert (measured(Nothing(), found).recall, measured(Nothing(), found).precision) == (0.0, None)
