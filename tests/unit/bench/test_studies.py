"""Every study names arms that there are, differs in one thing, and says what it is good for."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest

from agentrewind.bench.arms import arm_named
from agentrewind.bench.one import Conditions
from agentrewind.bench.report.study import lines_of, write_study
from agentrewind.bench.studies import STUDIES, study_named
from agentrewind.core.errors import UsageError
from tests.unit.bench.test_report import RESULTS, Page

by_name = pytest.mark.parametrize("study", STUDIES.values(), ids=lambda study: study.name)


@by_name
def test_a_study_can_be_run_and_says_what_it_shows(study) -> None:
    matrix = study.matrix("core", ("builtin",), ("simulated:plain",), 2, Conditions({"a": "/a"}))
    assert matrix.checked().specs()
    assert len(set(study.arms)) == len(study.arms) > 1
    assert study.asks.endswith("?")
    assert study.shows
    assert study.not_shown
    assert all(arm_named(arm) for arm in study.arms)


@by_name
def test_arms_of_a_study_turn_one_kind_of_setting(study) -> None:
    keys = {key for arm in study.arms for key in arm_named(arm).changes}
    assert len(keys) <= 1 or study.name in {"persistence", "attribution"}


def test_a_study_of_a_knob_turns_it_and_needs_a_simulated_policy() -> None:
    study = study_named("attribution")
    assert study.models(["simulated:plain"])[0] == "simulated:plain,attribution=0"
    assert [study.level(model) for model in study.models(["simulated:plain"])] == list(study.levels)
    with pytest.raises(UsageError, match="--simulated"):
        study.models(["gpt"])
    with pytest.raises(UsageError, match="persistence"):
        study_named("nothing")


def runs_of(study, results=RESULTS):
    """Results for each arm and model of a study, made of those of two arms."""
    return [
        replace(result, spec=replace(result.spec, arm=arm, model=model))
        for model in study.models(["simulated:plain"])
        for number, arm in enumerate(study.arms)
        for result in results
        if result.spec.arm == ("rewind", "continue")[number % 2]
    ]


@by_name
def test_the_page_of_a_study_is_whole_and_offline_and_its_numbers_stand_beside_it(study, tmp_path) -> None:
    results = runs_of(study)
    files = write_study(study, results, tmp_path, {"suite": "core"})
    text = files[0].read_text()
    page = Page(text)
    assert "http" not in text
    assert "<script" not in text
    assert page.words.index("Simulated policy") < page.words.index("Figures")
    assert study.shows in page.words
    assert study.not_shown in page.words
    assert text.count('role="img"') >= 1
    rows = list(csv.DictReader(files[1].read_text().splitlines()))
    assert len(rows) == len(study.arms) * max(len(study.levels), 1)
    data = json.loads(files[2].read_text())
    assert [arm["success"] for arm in data["arms"]] == [float(row["success"]) for row in rows]


def test_differences_are_to_the_first_arm_of_the_same_model() -> None:
    study = study_named("cost")
    lines = lines_of(study, RESULTS)
    assert [line.cell.arm for line in lines] == ["rewind", "continue"]
    assert lines[0].difference is None
    assert lines[1].difference.difference.value == 0.25 - 0.75
    assert lines[1].difference.ranks.pairs == 2
