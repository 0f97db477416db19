"""The table of before and after: what counts as a gain."""

from __future__ import annotations

import io

from rich.console import Console

from agentrewind.cli.trained import comparison, line_of, paired, show_comparison
from agentrewind.learn.scores import Score
from agentrewind.learn.training.recipe import Cloning, Recipe


def scores(method: str, protocol: str, solved: str, *, seeds: int = 1) -> list[Score]:
    """One letter an instance; `+` is solved."""
    return [
        Score("e", method, "p", protocol, seed, f"e/{n}", sign == "+", 5, 4, 4, 1, 1, None, "")
        for seed in range(seeds)
        for n, sign in enumerate(solved)
    ]


def printed(before: list[Score], after: list[Score]) -> str:
    text = io.StringIO()
    show_comparison(comparison(before, after), Console(file=text, width=160))
    return text.getvalue()


def test_a_change_is_paired_by_instance_and_its_interval_is_of_instances() -> None:
    same = paired(scores("m", "T@3", "+-+-", seeds=3), scores("m", "T@3", "+-+-", seeds=2))
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)
    more = paired(scores("m", "T@3", "++++++++"), scores("m", "T@3", "--------"))
    assert (more.value, more.low, more.high) == (1.0, 1.0, 1.0)
    some = paired(scores("m", "T@3", "+-------"), scores("m", "T@3", "--------"))
    assert some.low == 0.0 < some.value < some.high


def test_a_gain_counts_only_where_the_interval_excludes_nothing() -> None:
    memory = scores("no-memory", "T@3", "--------")
    small = printed(
        [*scores("retrospective", "T@3", "--------"), *memory], [*scores("retrospective", "T@3", "+-------"), *memory]
    )
    assert "no gain was shown" in small
    large = printed(
        [*scores("retrospective", "T@3", "--------"), *memory], [*scores("retrospective", "T@3", "++++++++"), *memory]
    )
    assert "T@3 gained 100.0 points, and the interval excludes 0" in large
    assert "worth +100.0 points" in large
    assert [line.split()[:2] for line in large.splitlines()[1:3]] == [["T@3", "own"], ["T@3", "no-memory"]]


def test_nothing_is_compared_with_what_was_not_measured() -> None:
    assert comparison(None, scores("m", "T@3", "+")) == []
    assert not printed([], [])


def test_every_phase_has_a_line() -> None:
    recipe = Recipe("r", cloning=Cloning(steps=10), updates=4)
    place = {"cloned": 10, "updated": 1}
    seen = {"solved": 0.5, "first": 0.25, "asked": 0.1, "spread": 1.0, "rows": 1, "norm": 0.5, "tokens_s": 1234.5}
    assert line_of({"phase": "clone", **place, "loss": 1.0, "norm": 2.0}, recipe).startswith(
        "clone 10 of 10: loss 1.000"
    )
    assert "update 1 of 4: solved 50.0 % (at once 25.0 %), asked back 0.10" in line_of(
        {"phase": "update", **place, **seen}, recipe
    )
    assert "evaluation after 1 update" in line_of({"phase": "evaluation", **place}, recipe)
    assert "+20.0 points" in line_of({"phase": "gate", "gap": 0.2, "least": 0.15}, recipe)
    assert "7 trials" in line_of({"phase": "demonstrations", "trials": 7}, recipe)
