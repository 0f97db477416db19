"""ALFWorld in trials: its offers, its contexts, the program that plays it, and the command that measures it."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentrewind.cli.eval import command
from agentrewind.core.errors import UsageError
from agentrewind.learn.answers import decision
from agentrewind.learn.evaluation import Plan, evaluate
from agentrewind.learn.methods import RETROSPECTIVE
from agentrewind.learn.play import play
from agentrewind.learn.rollout import Request, trial
from agentrewind.learn.rules import Rules, protocol
from agentrewind.learn.solvers.policies import noisy, perfect
from agentrewind.learn.suites import Suite, suite
from agentrewind.learn.trial import Output, Trial
from tests.households import TASKS, written


def homes(root: Path) -> Suite:
    return suite("alfworld", count=10, data=written(root))


def played(chosen: Suite, number: int, answers: list[str], rules: Rules) -> tuple[Trial, list[Request]]:
    """A trial in which a policy gives these answers, and what it was asked."""
    asked: list[Request] = []

    def policy(request: Request) -> Output:
        asked.append(request)
        return Output(answers[len(asked) - 1])

    world = chosen.worlds[number](rules, "full", RETROSPECTIVE)
    return play(trial(world, rules), policy), asked


def test_the_walkthrough_wins_every_game_at_the_reference_length(tmp_path: Path) -> None:
    chosen = homes(tmp_path)
    assert len(chosen.worlds) == len(TASKS)
    for number, make in enumerate(chosen.worlds):
        world = make(protocol("P@1"), "full", RETROSPECTIVE)
        found = play(trial(world, protocol("P@1")), perfect(chosen.solver_of(number)))
        assert found.solved
        assert len(found.calls) == world.environment.reference_length


@pytest.mark.parametrize("seed", range(4))
def test_mistakes_are_made_good_within_the_allowances(seed: int, tmp_path: Path) -> None:
    rules = replace(protocol("T@3"), restores_allowance=False)
    chosen = homes(tmp_path)
    for number, make in enumerate(chosen.worlds):
        policy = noisy(chosen.solver_of(number), 0.4, seed=str(seed))
        assert play(trial(make(rules, "compact", RETROSPECTIVE), rules), policy).solved


def test_the_policy_is_offered_looks_too_and_a_fenced_block_is_an_action(tmp_path: Path) -> None:
    found, asked = played(homes(tmp_path), 0, ["```action\nLook\n```", "<action>fly</action>"], Rules(calls=2))
    assert asked[0].view is not None
    assert {"look", "help", "inventory"} <= set(asked[0].view.actions)
    assert "- look\n" in asked[0].context[-1]["content"]
    assert [call.did for call in found.calls] == ["acted", "invalid"]
    assert found.calls[0].action == "look"


def test_after_a_way_back_the_context_is_built_anew_with_task_and_note(tmp_path: Path) -> None:
    answers = [
        "<action>go to shelf 1</action>",
        "<action>go to fridge 1</action>",
        "```action\nrewind to C_1\n```",
        "<remark>the fridge was closed</remark>",
        "<action>look</action>",
    ]
    _, asked = played(homes(tmp_path), 0, answers, Rules(calls=5))
    system, restored = asked[4].context
    assert "Your task is to: " in system["content"]
    assert "the fridge was closed" in restored["content"]
    assert "You arrive at shelf 1" in restored["content"]


def test_the_example_of_the_prompt_is_read_as_an_action(tmp_path: Path) -> None:
    world = homes(tmp_path).worlds[0](Rules(), "full", RETROSPECTIVE)
    said = decision(world.words.system(), fenced=True)
    assert said is not None


@pytest.mark.parametrize(("spec", "why"), [("alfworld:moon", "no split"), ("alfworld:train", "no games of the split")])
def test_a_split_that_is_not_there_is_said_before_anything_is_played(spec: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=why):
        evaluate(Plan((spec,), alfworld=written(tmp_path)))


def test_without_a_directory_the_command_says_how_to_name_one() -> None:
    with pytest.raises(UsageError, match="--alfworld-data"):
        CliRunner().invoke(command, ["--env", "alfworld"], env={"ALFWORLD_DATA": ""}, catch_exceptions=False)


def test_the_command_measures_alfworld(tmp_path: Path) -> None:
    root = str(written(tmp_path))
    asked = ["--env", "alfworld:valid_unseen", "--policy", "perfect", "--seeds", "0", "--alfworld-data", root]
    done = CliRunner().invoke(command, asked, catch_exceptions=False)
    assert done.exit_code == 0
    assert "100.0" in done.output
    assert root not in done.output
    assert "medium (to 7)" in done.output
    assert "long (over 7)" in done.output
