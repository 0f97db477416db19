"""The tests that SciPy makes, and comparisons of whole benchmarks."""

from __future__ import annotations

import random
from dataclasses import replace
from math import comb
from statistics import NormalDist

import pytest

from agentrewind.bench.comparing import compared, family
from agentrewind.bench.results import Result, Spec
from agentrewind.bench.statistics import approximate_p, exact_p, mcnemar, ranked, wilcoxon
from agentrewind.bench.table import Cell
from agentrewind.core.errors import UsageError

pytestmark = pytest.mark.lane
pytest.importorskip("scipy", reason="SciPy isn't installed here (make test-bench)")


def test_mcnemar_on_the_papers_example() -> None:
    assert mcnemar(69, 6) == pytest.approx(2 * sum(_choose(75, k) for k in range(7)) / 2**75)
    assert mcnemar(69, 6) < 1.3e-2
    assert mcnemar(3, 3) == mcnemar(0, 0) == 1.0


def _choose(n: int, k: int) -> int:
    return comb(n, k)


def test_wilcoxon_by_hand_and_near_the_exact_value() -> None:
    # n = 8, no ties, W = 3: mean 18, variance 51, z = -15 / sqrt(51)
    differences = [1, 2, -3, 4, 5, 6, 7, 8]
    assert ranked(differences).w == 3
    assert wilcoxon(differences) == pytest.approx(2 * NormalDist().cdf(-15 / 51**0.5))
    chance = random.Random(1)
    many = [chance.randrange(-5, 8) for _ in range(20)]
    exact = exact_p(ranked(many))
    assert exact is not None
    assert wilcoxon(many) == pytest.approx(exact, abs=0.03)
    assert wilcoxon([0, 0]) == wilcoxon([]) == 1.0
    assert wilcoxon(many) == pytest.approx(approximate_p(ranked(many))), "ties and all"


def test_zeros_weigh_by_pratt() -> None:
    differences = [0] * 12 + [1, 2, 3, 4, -5]
    # ranks 13 to 17 instead of 1 to 5: W is 17 of 75, mean 37.5, variance (13² + ... + 17²) / 4
    expected = 2 * NormalDist().cdf((17 - 37.5) / (sum(rank * rank for rank in range(13, 18)) / 4) ** 0.5)
    assert wilcoxon(differences, "pratt") == pytest.approx(expected)
    assert wilcoxon(differences, "wilcox") != pytest.approx(expected)


def results(arm: str, outcome) -> list[Result]:
    return [
        Result(Spec(f"t{task}", arm, "h", "m", run), success=outcome(task, run) == 7, satisfied=outcome(task, run),
               total=7, ended="")
        for task in range(6)
        for run in range(3)
    ]  # fmt: skip


def test_a_comparison_pairs_tasks_and_is_the_reverse_of_its_reverse() -> None:
    better = results("rewind", lambda task, run: 7 if (task + run) % 3 else 4)
    worse = results("continue", lambda task, run: 7 if (task + run) % 3 == 1 and task % 2 else 4)
    left, right = Cell("rewind", "h", "m"), Cell("continue", "h", "m")
    found = compared([*better, *worse], left, right)
    assert (found.tasks, found.runs) == (6, 3)
    assert found.difference.value == pytest.approx(2 / 3 - 3 / 18)
    assert (found.won, found.lost) == (9, 0)
    assert found.ranks.r == 1.0
    assert found.p_exact == pytest.approx(2 / 2**6)
    back = compared([*better, *worse], right, left)
    assert (back.difference.value, back.ranks.r, back.p) == (-found.difference.value, -1.0, found.p)
    assert compared(better, left, left).p == 1.0


def test_pairs_are_whole_numbers_so_that_equal_ones_tie() -> None:
    """7 criteria and 3 runs: as fractions, 1/7 + 2/7 and 3/7 differ in the last place."""
    mine = results("a", lambda task, run: (1, 2, 0)[run] if task else (3, 0, 0)[run])
    other = results("b", lambda _task, _run: 0)
    found = compared([*mine, *other], Cell("a", "h", "m"), Cell("b", "h", "m"), "progress")
    assert set(found.ranks.ranks) == {3.5}


def test_a_family_is_corrected_over_all_its_tests_and_leaves_out_what_does_not_count() -> None:
    arms = {"rewind": 7, "continue": 3, "restart": 5}
    found = [each for arm, reached in arms.items() for each in results(arm, lambda *_, r=reached: r)]
    tests = family(found, "rewind")
    assert len(tests) == 4
    assert all(item.holm == pytest.approx(min(1.0, 4 * item.p)) for item in tests), "all four are equal"
    abnormal = [replace(item, abnormal="killed") if item.spec.arm == "restart" else item for item in found]
    assert {item.right.arm for item in family(abnormal, "rewind")} == {"continue"}
    with pytest.raises(UsageError, match="no run of the same task"):
        compared(abnormal, Cell("rewind", "h", "m"), Cell("restart", "h", "m"))
