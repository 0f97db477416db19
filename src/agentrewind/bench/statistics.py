"""Paired comparisons of strategies over tasks: what is tested, on which pairs, and how large the difference is.

Nothing in here needs SciPy but `wilcoxon` and `mcnemar`; W, n, r and the exact distribution of few pairs are counted by
hand, so that they can be checked by hand. Pairs are whole numbers (fractions would break ties by how they are rounded).
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from agentrewind.core.errors import UsageError

K = TypeVar("K", bound=Hashable)
EXACT = 20
"""Up to so many pairs that differ, all assignments of signs are counted."""
Zeros = Literal["wilcox", "pratt"]
"""Pairs without a difference are left out before ranking, as in the paper; or ranked, and left out then."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """The signed ranks of paired differences. `plus` and `minus` are the sums of the ranks of either sign."""

    plus: float
    minus: float
    pairs: int
    """How many differ."""
    ranks: tuple[float, ...]
    """Of those that differ, without signs."""

    @property
    def w(self) -> float:
        """The statistic of the two-sided test: the smaller sum."""
        return min(self.plus, self.minus)

    @property
    def r(self) -> float:
        """The matched-pairs rank-biserial correlation, from -1 to 1; 0 where nothing differs."""
        total = self.plus + self.minus
        return (self.plus - self.minus) / total if total else 0.0


def ranked(differences: Sequence[int], zeros: Zeros = "wilcox") -> Ranked:
    """The signed ranks of differences, equal sizes sharing their mean rank."""
    taken = [each for each in differences if each] if zeros == "wilcox" else list(differences)
    order = sorted(range(len(taken)), key=lambda at: abs(taken[at]))
    ranks = [0.0] * len(taken)
    at = 0
    while at < len(order):
        end = at
        while end < len(order) and abs(taken[order[end]]) == abs(taken[order[at]]):
            end += 1
        for place in order[at:end]:
            ranks[place] = (at + 1 + end) / 2
        at = end
    signed = [(rank, each) for rank, each in zip(ranks, taken, strict=True) if each]
    plus = sum(rank for rank, each in signed if each > 0)
    minus = sum(rank for rank, each in signed if each < 0)
    return Ranked(plus, minus, len(signed), tuple(rank for rank, _ in signed))


def rank_biserial(w: float, pairs: int) -> float:
    """|r| from the statistic W and the number of pairs that differ: 1 - 2W / (n(n+1)/2)."""
    return 1 - 2 * w / (pairs * (pairs + 1) / 2)


def exact_p(found: Ranked) -> float | None:
    """The two-sided probability of so small a W, over all assignments of signs; None for more than `EXACT` pairs.

    1 where nothing differs.
    """
    if found.pairs > EXACT:
        return None
    doubled = [round(2 * rank) for rank in found.ranks]  # mean ranks are halves
    counts = {0: 1}
    for rank in doubled:
        more: dict[int, int] = {}
        for total, count in counts.items():
            more[total] = more.get(total, 0) + count
            more[total + rank] = more.get(total + rank, 0) + count
        counts = more
    limit, whole = round(2 * found.w), sum(doubled)
    extreme = sum(count for total, count in counts.items() if min(total, whole - total) <= limit)
    return min(extreme / float(2**found.pairs), 1.0)


def approximate_p(found: Ranked) -> float:
    """The two-sided p by the normal approximation to the distribution of W, ties included; 1 where nothing differs.

    Over all signs, W has the mean Σr / 2 and the variance Σr² / 4.
    """
    if not found.pairs:
        return 1.0
    spread = math.sqrt(sum(rank * rank for rank in found.ranks)) / 2
    return math.erfc((sum(found.ranks) / 2 - found.w) / spread / math.sqrt(2))


def wilcoxon(differences: Sequence[int], zeros: Zeros = "wilcox") -> float:
    """The two-sided p of the signed-rank test by its normal approximation; 1 where nothing differs.

    Raises:
        UsageError: SciPy isn't installed.
    """
    if not any(differences):
        return 1.0
    stats = _scipy()
    return float(stats.wilcoxon(list(differences), zero_method=zeros, method="approx", correction=False).pvalue)


def mcnemar(won: int, lost: int) -> float:
    """The exact two-sided p of McNemar's test: of the pairs of runs that differ, so many were won and lost.

    Raises:
        UsageError: SciPy isn't installed.
    """
    return 1.0 if won + lost == 0 else float(_scipy().binomtest(won, won + lost, 0.5).pvalue)


def _scipy() -> Any:
    try:
        from scipy import stats
    except ImportError:
        raise UsageError("The tests need SciPy. `pip install 'agentrewind[bench]'` adds it.") from None
    return stats


def holm(values: Mapping[K, float]) -> dict[K, float]:
    """The p values of a family, corrected by Holm's method, by the names of the tests."""
    corrected: dict[K, float] = {}
    highest = 0.0
    for place, (name, value) in enumerate(sorted(values.items(), key=lambda item: item[1])):
        highest = max(highest, min(1.0, (len(values) - place) * value))
        corrected[name] = highest
    return {name: corrected[name] for name in values}


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and where 95 % of its bootstrap lie."""

    value: float
    low: float
    high: float


def bootstrap(
    groups: Sequence[Sequence[float]],
    of: Callable[[Sequence[Sequence[float]]], float],
    *,
    draws: int = 2000,
    seed: int = 0,
) -> Interval:
    """The percentile interval of a statistic over groups (tasks), which are drawn again with replacement as wholes.

    Draws whose statistic isn't finite are left out. Equal seeds give equal intervals.
    """
    chance = random.Random(seed)  # noqa: S311 (a draw, no secret)
    found = (of(chance.choices(groups, k=len(groups))) for _ in range(draws))
    values = sorted(value for value in found if math.isfinite(value))
    here = of(groups)
    if not values:
        return Interval(here, here, here)
    return Interval(here, _quantile(values, 0.025), _quantile(values, 0.975))


def wilson(successes: int, trials: int) -> Interval:
    """A share with Wilson's 95 % interval, which stays within 0 and 1 however few trials there are.

    Raises:
        ZeroDivisionError: there are none.
    """
    share, z = successes / trials, 1.959964
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials)) / (1 + z * z / trials)
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half))


def _quantile(values: Sequence[float], part: float) -> float:
    """By linear interpolation between the sorted values."""
    place = part * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def tertiles(lengths: Mapping[K, float]) -> dict[K, int]:
    """0, 1 or 2 for each: in which third of the distribution its length lies; equal lengths in the same one."""
    if not lengths:
        return {}
    ordered = sorted(lengths.values())
    cuts = (_quantile(ordered, 1 / 3), _quantile(ordered, 2 / 3))
    return {name: sum(length > cut for cut in cuts) for name, length in lengths.items()}


def agreement(outcomes: Mapping[K, Sequence[bool]]) -> tuple[int, int]:
    """In how many cells all repeated runs ended alike, of how many that were run more than once."""
    repeated = [runs for runs in outcomes.values() if len(runs) > 1]
    return sum(len(set(runs)) == 1 for runs in repeated), len(repeated)


def pass_at(k: int, runs: int, solved: int) -> float:
    """The chance that one of `k` runs, drawn from these without putting back, solved it."""
    return 1.0 - math.comb(runs - solved, k) / math.comb(runs, k)


def pass_all(k: int, runs: int, solved: int) -> float:
    """The chance that all of `k` such runs solved it."""
    return math.comb(solved, k) / math.comb(runs, k)


def deviation(values: Sequence[float]) -> float:
    """The sample standard deviation; 0 of a single value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0
