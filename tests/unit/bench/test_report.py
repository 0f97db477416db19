"""Folds over results by hand, and a page that is whole, says what it is, and needs nothing else."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.bench.analysis import curves, growth, pareto, repeats, segments, spending, thirds, within
from agentrewind.bench.matrix import Matrix, Place
from agentrewind.bench.one import Conditions
from agentrewind.bench.report.charts import anchor_of
from agentrewind.bench.report.files import write_report
from agentrewind.bench.report.svg import ticks
from agentrewind.bench.results import ABNORMAL, RESULT, Move, Result, Spec, Submission, write
from agentrewind.bench.runner import touch
from agentrewind.core.errors import UsageError


def submission(nodes: int, satisfied: int) -> Submission:
    criteria = {f"P{number}": "satisfied" if number <= satisfied else "failed" for number in range(1, 5)}
    return Submission(nodes, satisfied, 4, f"P{satisfied + 1}", criteria)


def run(arm: str, task: str, seed: int, *submissions: tuple[int, int], moves: tuple[Move, ...] = (), **more) -> Result:
    given = [submission(*item) for item in submissions]
    last = given[-1]
    return Result(
        Spec(task, arm, "builtin", "simulated:plain", seed), success=last.satisfied == 4, satisfied=last.satisfied,
        total=4, ended="It ended <so>.", submissions=tuple(given), moves=moves, nodes=last.nodes,
        input_tokens=100 * last.nodes, simulated="abc", **more,
    )  # fmt: skip


def move(nodes: int, back: int, memory: int = 50) -> Move:
    return Move(nodes, "rec_000001", "agent", "", "", back, memory)


RESULTS = [
    run("continue", "a", 0, (10, 2), (40, 2)),
    run("continue", "a", 1, (10, 4)),
    run("continue", "b", 0, (20, 1), (80, 1)),
    run("continue", "b", 1, (20, 1), (60, 1)),
    run("rewind", "a", 0, (10, 2), (30, 4), moves=(move(12, 6),)),
    run("rewind", "a", 1, (10, 4)),
    run("rewind", "b", 0, (20, 1), (40, 4), moves=(move(22, 20, 60), move(30, 4, 90))),
    run("rewind", "b", 1, (20, 1), (50, 2)),
]


def test_a_curve_stays_flat_after_the_end_of_a_run() -> None:
    continued, rewound = curves(RESULTS)
    assert continued.nodes == rewound.nodes
    at = dict(zip(rewound.nodes, zip(rewound.success, rewound.progress, strict=True), strict=True))
    assert at[0] == (0, 0)
    assert at[80] == (0.75, (1 + 1 + 1 + 0.5) / 4)
    assert dict(zip(continued.nodes, continued.success, strict=True))[80] == 0.25


@given(st.lists(st.sampled_from(RESULTS), min_size=1, max_size=8))
def test_success_never_falls_along_a_curve(results) -> None:
    for curve in curves(results):
        assert list(curve.success) == sorted(curve.success)


def test_all_arms_are_held_to_the_same_budgets() -> None:
    continued, rewound = within(RESULTS)
    # continue takes 47.5 nodes on average, rewind 32.5
    assert continued.shares == ((32, 0.25), (48, 0.25), (96, 0.25))
    assert rewound.shares == ((32, 0.5), (48, 0.75), (96, 0.75))
    assert within([]) == []


def test_the_cost_of_a_success_counts_failures_too() -> None:
    continued, rewound = spending(RESULTS)
    assert continued.nodes.value == 40 + 10 + 80 + 60
    assert rewound.nodes.value == pytest.approx((30 + 10 + 40 + 50) / 3)
    assert rewound.tokens.value == pytest.approx(100 * rewound.nodes.value)
    assert rewound.usd is None, "no price is known"
    assert pareto([continued, rewound]) == [rewound]
    (none,) = spending([RESULTS[0]])
    assert none.nodes.value == float("inf")
    assert pareto([none]) == []


def test_thirds_are_of_the_lengths_of_continue() -> None:
    found = {(item.cell.arm, item.third): item for item in thirds(RESULTS)}
    assert {third for _, third in found} == {0, 2}, "the medians are 25 and 70"
    assert found["continue", 0].success == 0.5
    assert (found["rewind", 2].success, found["rewind", 2].low, found["rewind", 2].high) == (0.5, 0.0, 1.0)
    assert thirds([item for item in RESULTS if item.spec.arm == "rewind"]) == []


def test_growth_and_repeats_by_hand() -> None:
    first, second = growth(RESULTS)
    assert (first.runs, first.mean, first.most) == (2, 55, 60)
    assert (second.runs, second.mean) == (1, 90)
    continued, rewound = repeats(RESULTS)
    assert (continued.alike, continued.tasks, continued.at_k, continued.all_k) == (1, 2, 0.5, 0.0)
    assert (rewound.alike, rewound.at_k, rewound.all_k) == (1, 1.0, 0.5)


def test_a_run_as_its_branches() -> None:
    parts = segments(RESULTS[6])
    # 22 nodes, back by 20; 8 more, back by 4; 10 more
    assert [(part.start, part.end, part.kept) for part in parts] == [(0, 22, 2), (22, 30, 4), (30, 40, 10)]
    assert [part.memory for part in parts] == [0, 60, 90]
    across = replace(RESULTS[6], moves=(move(22, 10), move(30, 12)))
    assert [part.kept for part in segments(across)] == [8, 0, 10], "a rewind past an earlier fork takes of both"


@given(st.floats(0.01, 1e6))
def test_ticks_are_few_and_reach_the_top(high) -> None:
    found = ticks(high)
    assert found[-1] >= high * (1 - 1e-9)
    assert 2 <= len(found) <= 8
    assert found == sorted(found)


# --- the page ---------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What stands in a page: its elements, its ids and where its links lead."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[key] for key in ("href", "src") if key in given]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        del tag, attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


@pytest.fixture
def place(tmp_path) -> Place:
    place = Place(tmp_path / "bench")
    conditions = Conditions({"a": "/a", "b": "/b"})
    place.settle(Matrix("little", ("continue", "rewind"), ("builtin",), ("simulated:plain",), 2, conditions))
    for result in RESULTS:
        directory = place.run_dir(result.spec)
        directory.mkdir(parents=True)
        write(result, directory)
    return place


def test_the_page_is_whole_offline_and_says_first_that_the_policy_is_simulated(place) -> None:
    files, _ = write_report(place)
    text = files[0].read_text()
    page = Page(text)
    assert "http" not in text.replace("http-equiv", "")
    assert "<script" not in text
    assert page.words.index("Simulated policy") < page.words.index("Results")
    assert "abc" in page.words
    assert "seeds 0 to 1" in page.words
    assert {f"#{anchor_of(result)}" for result in RESULTS} == set(page.links)
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert "It ended <so>." in page.words
    assert len(text) < 200_000


def test_the_numbers_beside_it_are_those_of_the_results(place) -> None:
    write_report(place)
    rows = list(csv.DictReader((place.root / "table.csv").read_text().splitlines()))
    assert [(row["strategy"], row["success"], row["rewinds"]) for row in rows] == [
        ("continue", "0.25", "0.0"),
        ("rewind", "0.75", "0.75"),
    ]
    assert len(list(csv.DictReader((place.root / "runs.csv").read_text().splitlines()))) == 8
    data = json.loads((place.root / "report.json").read_text())
    assert [cell["success"] for cell in data["cells"]] == [0.25, 0.75]
    assert not re.search("Infinity|NaN", (place.root / "report.json").read_text())


def test_a_run_that_was_touched_is_listed_and_no_longer_counted(place) -> None:
    directory = place.run_dir(RESULTS[0].spec)
    assert touch(directory, "ended a shell that waited").root == place.root
    assert not (directory / RESULT).exists()
    assert (directory / ABNORMAL).exists()
    files, notes = write_report(place)
    (note,) = (item for item in notes if "by hand" in item)
    assert note.startswith(f"{RESULTS[0].spec.key} was touched by hand: ended a shell that waited (20")
    assert note.endswith("and was not made again yet.")
    assert note in " ".join(Page(files[0].read_text()).words.split())
    write(RESULTS[0], directory)
    assert any(item.endswith("and was since made again.") for item in write_report(place)[1])
    assert "ended a shell" in place.abnormal.read_text()
    (directory / RESULT).unlink()
    with pytest.raises(UsageError, match="no run"):
        touch(directory, "again")
    with pytest.raises(UsageError, match="Say what"):
        touch(place.run_dir(RESULTS[1].spec), " ")
