"""What can be counted by hand: ranks, exact distributions, corrections, intervals, thirds."""

from __future__ import annotations

import itertools
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.bench.power import power
from agentrewind.bench.statistics import (
    agreement,
    approximate_p,
    bootstrap,
    exact_p,
    holm,
    pass_all,
    pass_at,
    rank_biserial,
    ranked,
    tertiles,
    wilson,
)

PAPER = (
    (35, 35.5, 0.89), (23, 59.0, 0.57), (54, 0.0, 1.00),
    (39, 115.5, 0.70), (30, 154.0, 0.34), (40, 190.0, 0.54),
    (36, 29.0, 0.91), (23, 50.0, 0.64), (58, 0.0, 1.00),
    (53, 307.5, 0.57), (46, 248.0, 0.54), (53, 347.0, 0.52),
)  # fmt: skip
"""Pairs that differ, W and r of the paper's Table 15."""


@pytest.mark.parametrize(("pairs", "w", "r"), PAPER)
def test_every_r_of_the_papers_table_comes_out_of_its_n_and_w(pairs, w, r) -> None:
    assert rank_biserial(w, pairs) == pytest.approx(r, abs=0.00501)


def test_signed_ranks_by_hand() -> None:
    found = ranked([3, -1, 0, 2, 2, -4, 0])
    # sizes 1, 2, 2, 3, 4 have ranks 1, 2.5, 2.5, 4, 5
    assert (found.plus, found.minus, found.pairs) == (4 + 2.5 + 2.5, 1 + 5, 5)
    assert found.w == 6
    assert found.r == pytest.approx(3 / 15) == pytest.approx(rank_biserial(6, 5))
    kept = ranked([3, -1, 0, 2, 2, -4, 0], "pratt")
    # the two zeros take the ranks 1 and 2
    assert (kept.plus, kept.minus, kept.pairs) == (6 + 4.5 + 4.5, 3 + 7, 5)


def test_the_exact_distribution_by_hand() -> None:
    assert exact_p(ranked([1, 2, 3])) == pytest.approx(2 / 8), "all of one sign, or all of the other"
    assert exact_p(ranked([1, 2, -3])) == 1.0
    assert exact_p(ranked([-1, 2, 3, 4])) == pytest.approx(4 / 16), (
        "W is 1: no or one minus, the least, and the reverse"
    )
    assert exact_p(ranked([0, 0])) == 1.0
    assert exact_p(ranked([1] * 21)) is None


@given(st.lists(st.integers(-6, 6), max_size=9))
def test_the_exact_distribution_is_that_of_counting_all_signs(differences) -> None:
    found = ranked(differences)
    total = sum(found.ranks)
    sums = [
        sum(rank for rank, taken in zip(found.ranks, signs, strict=True) if taken)
        for signs in itertools.product((False, True), repeat=found.pairs)
    ]
    extreme = sum(min(value, total - value) <= found.w for value in sums)
    assert exact_p(found) == pytest.approx(extreme / len(sums))


@given(st.lists(st.integers(-9, 9), max_size=30))
def test_ranks_add_up_and_turn_with_the_signs(differences) -> None:
    found, turned = ranked(differences), ranked([-each for each in differences])
    assert found.plus + found.minus == pytest.approx(found.pairs * (found.pairs + 1) / 2)
    assert (found.plus, found.r) == (turned.minus, pytest.approx(-turned.r))
    assert exact_p(found) == exact_p(turned)


def test_holm_by_hand() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    assert holm({"a": 0.6, "b": 0.5}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=8))
def test_a_corrected_value_is_no_smaller_and_keeps_the_order(values) -> None:
    corrected = holm(values)
    assert all(value <= corrected[name] <= 1 for name, value in values.items())
    order = sorted(values, key=lambda name: values[name])
    assert [corrected[name] for name in order] == sorted(corrected.values())


def mean(groups) -> float:
    return sum(map(sum, groups)) / sum(map(len, groups))


def test_a_bootstrap_is_the_same_again_and_holds_the_estimate() -> None:
    groups = [[float(number % 3)] for number in range(30)]
    found = bootstrap(groups, mean)
    assert found == bootstrap(groups, mean)
    assert found.value == 1.0
    assert found.low < 1.0 < found.high
    assert 0.2 < found.high - found.low < 0.8, "1.96 times twice 0.82 over the root of 30 is 0.58"
    still = bootstrap([[1.0]] * 5, mean)
    assert (still.low, still.value, still.high) == (1.0, 1.0, 1.0)


def test_draws_that_are_not_finite_are_left_out() -> None:
    found = bootstrap([[0.0], [1.0]], lambda groups: 1 / mean(groups) if mean(groups) else float("inf"))
    assert (found.low, found.high) == (1.0, 2.0)


def test_tertiles_by_hand() -> None:
    assert tertiles({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6}) == {
        "a": 0,
        "b": 0,
        "c": 1,
        "d": 1,
        "e": 2,
        "f": 2,
    }
    assert set(tertiles(dict.fromkeys("abc", 7)).values()) == {0}
    assert tertiles({}) == {}


def test_agreement_counts_cells_that_were_run_more_than_once() -> None:
    assert agreement({"a": [True, True], "b": [True, False, True], "c": [False], "d": [False, False]}) == (2, 3)


def test_pass_at_k_and_pass_all_k_by_hand() -> None:
    assert pass_at(1, 4, 1) == pass_all(1, 4, 1) == 0.25
    assert pass_at(2, 4, 1) == pytest.approx(0.5)
    assert pass_all(2, 4, 3) == pytest.approx(0.5)
    assert (pass_at(3, 3, 1), pass_all(3, 3, 2)) == (1.0, 0.0)


def test_the_normal_approximation_by_hand_and_near_the_exact_value() -> None:
    # n = 8, no ties, W = 3: mean 18, variance 51
    assert approximate_p(ranked([1, 2, -3, 4, 5, 6, 7, 8])) == pytest.approx(2 * NormalDist().cdf(-15 / 51**0.5))
    assert approximate_p(ranked([0, 0])) == approximate_p(ranked([])) == 1.0
    many = ranked([3, -1, 4, 1, -5, 9, 2, 6, -5, 3, 5, 8, 9, 7, -9, 3])
    assert approximate_p(many) == pytest.approx(exact_p(many), abs=0.02)


def test_wilsons_interval_by_hand_and_at_its_ends() -> None:
    found = wilson(4, 8)
    # z²/n = 0.4802; half = 1.96 * sqrt(0.25 / 8 + 0.4802 / 32) / 1.4802
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.2152, 0.7848), abs=1e-4)
    assert wilson(0, 29).low == 0
    assert 0.1 < wilson(0, 29).high < 0.13
    assert wilson(29, 29).high == pytest.approx(1)


def test_power_grows_with_tasks_and_runs_and_without_a_difference_is_the_level(monkeypatch) -> None:
    assert power(24, 1) < power(24, 3) < power(24, 10)
    assert power(8, 3) < power(24, 3)
    assert power(24, 3) == power(24, 3)
    monkeypatch.setattr("agentrewind.bench.power.GAIN", 0.0)
    assert power(24, 3, draws=999) == pytest.approx(0.05, abs=0.025)
