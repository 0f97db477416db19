"""The real ScienceWorld: Java and its package. The lane: make test-scienceworld."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import hypothesis  # noqa: F401 (its plugin imports it in the summary at the end, where Python 3.11 can't parse it any more)
import pytest

from agentrewind.core.environment import IllegalAction
from agentrewind.core.errors import UsageError
from agentrewind.environments.scienceworld.game import ScienceWorld
from agentrewind.environments.scienceworld.simulator import Task
from agentrewind.integrations import scienceworld
from agentrewind.integrations.scienceworld import JavaStage, Lost
from agentrewind.learn.evaluation import Plan, evaluate
from agentrewind.learn.rules import Rules
from agentrewind.testing.environments import EnvironmentContract

pytestmark = pytest.mark.timeout(600)
pytest.importorskip("scienceworld", reason="the extra `scienceworld` isn't installed")
if shutil.which("java") is None:
    pytest.skip("there is no Java here", allow_module_level=True)

TASKS = ("find-animal", "boil", "power-component")


@pytest.fixture(scope="module")
def stage() -> Iterator[JavaStage]:
    made = JavaStage()
    yield made
    made.close()


class TestScienceWorld(EnvironmentContract):
    sequences = 3
    length = 5
    tried = 4

    @pytest.fixture(autouse=True)
    def _with(self, stage: JavaStage) -> None:
        self._stage = stage

    def environment(self, number: int) -> ScienceWorld:
        return ScienceWorld(Task(TASKS[number % 3], number // 3 + 1), self._stage)

    def nonsense(self) -> list[Any]:
        return ["", "fly", "open", "two\nlines"]

    def can_end_by_chance(self) -> bool:
        return False


@pytest.mark.parametrize("name", ["boil", "chemistry-mix", "find-plant", "lifespan-shortest-lived", "use-thermometer"])
def test_a_gold_sequence_wins_and_is_the_same_when_it_is_played_again(stage: JavaStage, name: str) -> None:
    game = ScienceWorld(Task(name, 1), stage)
    for command in game.gold:
        if game.outcome is None:
            game.step(command)
    assert game.outcome == "solved"
    end, seen = game.checkpoint(), game.observe()
    game.reset()
    game.restore(end)
    assert (game.observe(), game.fingerprint()) == (seen, end.point.identity)


def test_another_process_tells_the_same_to_the_byte(stage: JavaStage) -> None:
    other = JavaStage()
    try:
        mine, again = (ScienceWorld(Task("boil", 2), at) for at in (stage, other))
        for command in mine.gold[:12]:
            assert mine.step(command) == again.step(command)
        assert mine.checkpoint() == again.checkpoint()
    finally:
        other.close()


def test_a_question_comes_back_with_the_state_in_which_it_was_asked(stage: JavaStage) -> None:
    game = ScienceWorld(Task("find-animal", 0), stage)
    before = game.checkpoint()
    asked = game.step("open door")
    assert asked.moved
    assert "enter the number" in asked.observation
    question = game.checkpoint()
    game.restore(before)
    with pytest.raises(IllegalAction):
        game.step("0")
    game.restore(question)
    assert "door" in game.step("0").observation


def test_no_task_begins_with_a_score(stage: JavaStage) -> None:
    simulator, _ = stage.simulator(object())
    for name in stage.tasks():
        simulator.begin(Task(name, 0))
        told = simulator.act("no such command")
        assert (told.taken, told.score, told.ended) == (False, 0, False)


def test_the_gold_sequence_is_played_in_an_evaluation_and_its_archive_replays() -> None:
    plan = Plan(
        ("scienceworld:find-non-living-thing",), policies=("perfect", "noisy:0.3"), protocols=("P@1", "T@3"),
        seeds=(0,), instances=3, rules=Rules(),
    )  # fmt: skip
    scores = evaluate(plan)
    assert all(item.solved for item in scores if item.policy == "perfect")
    assert all(item.calls == item.reference for item in scores if item.policy == "perfect")
    assert any(item.solved for item in scores if item.policy != "perfect")


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(UsageError, match="no task of ScienceWorld"):
        evaluate(Plan(("scienceworld:fly",)))


def test_without_java_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scienceworld.shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match="default-jre-headless"):
        JavaStage().simulator(object())


def test_a_simulator_that_has_died_is_an_error_that_says_so() -> None:
    stage = JavaStage()
    game = ScienceWorld(Task("boil", 0), stage)
    simulator, _ = stage.simulator(game)
    simulator._process.kill()
    simulator._process.wait()
    with pytest.raises(Lost, match="Begin the game anew"):
        game.step("look around")
    stage.close()
