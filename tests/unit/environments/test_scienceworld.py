"""ScienceWorld's side of a replay, with a simulator of our own; the real one has a lane: make test-scienceworld."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from agentrewind.core.environment import Branch, IllegalAction, ReplayDiverged
from agentrewind.environments.scienceworld.game import ScienceWorld, State
from agentrewind.environments.scienceworld.identity import identity, phrases
from agentrewind.environments.scienceworld.simulator import Task
from agentrewind.learn.methods import RETROSPECTIVE
from agentrewind.learn.play import play
from agentrewind.learn.rollout import trial
from agentrewind.learn.rules import protocol
from agentrewind.learn.solvers.policies import noisy, perfect
from agentrewind.learn.solvers.scienceworld import Gold
from agentrewind.learn.trial import Output
from agentrewind.learn.worlds import World, scienceworld
from tests.laboratory import GOLD, Bench, Laboratory

TASK = Task("boil", 0)


def test_the_gold_sequence_wins_and_the_score_is_the_reward() -> None:
    game = ScienceWorld(TASK, Bench(Laboratory()))
    done = [game.step(command) for command in game.gold]
    assert [item.reward for item in done] == [0, 0.3, 0, 0, 0.7]
    assert (game.outcome, game.progress(), game.reference_length) == ("solved", 1.0, len(GOLD))


def holding(number: str, *inside: str) -> dict[str, Any]:
    """A pot with things in it, each with its name and number."""
    things = {name: {"uuid": name.partition("-")[2], "name": name.partition("-")[0]} for name in inside}
    return {"uuid": number, "name": "pot", "contents": things}


def test_the_order_in_which_things_are_listed_is_no_part_of_a_state() -> None:
    simulator = Laboratory()
    game = ScienceWorld(TASK, Bench(simulator))
    game.step("go kitchen")
    before, seen = game.fingerprint(), game.checkpoint()
    answers = set()
    for _ in range(6):
        game.reset()
        answers.add(game.step("go kitchen").observation)
        answers.add(game.step("look around").observation)
        game.restore(seen)
        assert game.fingerprint() == before
    assert simulator.resets > 6
    assert phrases("a (b, c), d") == phrases("d, a\n\t(c, b)")
    pot, other = holding("1", "a-2", "b-3"), holding("9", "b-4", "a-5")
    assert identity(pot) == identity(other)
    assert identity(pot) != identity({**pot, "contents": {}})


def refusal(game: ScienceWorld, state: State) -> str:
    """What a restore says that can't be made; nothing where it could. Either way the state is what it says it is."""
    game.reset()
    try:
        game.restore(state)
    except ReplayDiverged as error:
        return str(error) if not game.checkpoint().done else "went somewhere"
    return "" if game.checkpoint() == state else "went elsewhere"


def test_a_replay_that_tells_something_else_is_an_error_and_nothing_is_pretended() -> None:
    game = ScienceWorld(TASK, Bench(Laboratory(random.Random(1))))
    for command in ("go kitchen", "activate stove", "wait", "wait"):
        game.step(command)
    state = game.checkpoint()
    refusals = [refusal(game, state) for _ in range(12)]
    assert any("played again" in text for text in refusals)
    assert not any("went" in text for text in refusals)
    game.reset()
    assert game.observe() == ScienceWorld(TASK, Bench(Laboratory())).observe()


def test_players_who_share_a_simulator_do_not_disturb_one_another() -> None:
    simulator = Laboratory()
    bench = Bench(simulator)
    mine, other = ScienceWorld(TASK, bench), ScienceWorld(replace(TASK, variation=1), bench)
    for number, command in enumerate(GOLD[:3]):
        mine.step(command)
        other.step("wait")
        assert (len(mine.checkpoint().done), len(other.checkpoint().done)) == (number + 1, number + 1)
    assert mine.fingerprint() != other.fingerprint()
    alone = ScienceWorld(TASK, Bench(Laboratory()))
    for command in GOLD[:3]:
        alone.step(command)
    assert alone.fingerprint() == mine.fingerprint()


def test_going_on_from_where_the_simulator_is_needs_no_reset() -> None:
    simulator = Laboratory()
    game = ScienceWorld(TASK, Bench(simulator))
    game.step("go kitchen")
    early = game.checkpoint()
    game.step("wait")
    late, resets, acts = game.checkpoint(), simulator.resets, simulator.acts
    game.restore(late)
    assert (simulator.resets, simulator.acts) == (resets, acts)
    game.restore(early)
    game.restore(late)
    assert (simulator.resets, simulator.acts) == (resets + 1, acts + 2)


def test_a_question_is_a_state_and_its_numbers_are_the_actions() -> None:
    game = ScienceWorld(TASK, Bench(Laboratory()))
    before = game.checkpoint()
    assert game.step("open box").moved
    asked = game.checkpoint()
    assert list(game.actions()) == list(game.offers()) == ["0", "1"]
    game.restore(before)
    assert "0" not in game.actions()
    game.restore(asked)
    assert "red" in game.step("0").observation


def test_offers_are_forms_with_one_thing_and_actions_those_that_make_sense() -> None:
    game = ScienceWorld(TASK, Bench(Laboratory()))
    assert {"go kitchen", "activate red box", "wait", "look around"} <= set(game.offers())
    assert not any(command.startswith("move") for command in (*game.offers(), *game.actions()))
    assert list(game.actions()) == ["focus on blue box", "focus on red box", "go garden", "go kitchen", "wait"]


def test_the_wrong_focus_fails_for_good_and_a_way_back_leads_out() -> None:
    game = ScienceWorld(TASK, Bench(Laboratory()))
    before = game.checkpoint()
    done = game.step("focus on red box")
    assert (done.outcome, done.reward, game.progress(), game.actions(), game.offers()) == ("failed", -1, 0, [], [])
    branch = Branch((before, game.checkpoint()), (done.reward,))
    assert (game.endpoint_score(branch), game.branch_score(branch)) == (-1, 0)
    game.restore(before)
    assert game.outcome is None


def made(style: str = "full", name: str = "T@3") -> World:
    game = ScienceWorld(TASK, Bench(Laboratory()))
    return scienceworld("boil/0", game, protocol(name), "full" if style == "full" else "compact", RETROSPECTIVE)


def test_the_solver_needs_no_way_back_and_makes_its_mistakes_good() -> None:
    found = play(trial(made(name="P@1"), protocol("P@1")), perfect(Gold(lambda: GOLD)))
    assert (found.solved, len(found.calls)) == (True, 5)
    solved = [
        play(trial(made(name=name), protocol(name)), noisy(Gold(lambda: GOLD), 0.9, str(seed))).solved
        for name in ("P@1", "T@3")
        for seed in range(12)
    ]
    assert sum(solved[12:]) > sum(solved[:12])


def test_notes_stand_in_the_observation_after_a_way_back_and_the_prefix_is_restored() -> None:
    answers = iter(
        [
            "<action>go kitchen</action>",
            "<action>focus on stove</action>",
            "<remark>not the stove</remark><target>1</target>",
        ]
    )
    world, asked = made(), []

    def policy(request: object) -> Output:
        asked.append(request)
        return Output(next(answers, "<action>wait</action>"))

    play(trial(world, replace(protocol("T@3"), calls=4)), policy)
    first, restored = asked[1].context, asked[3].context
    assert restored[:-1] == first[:-1]
    assert "not the stove" in restored[-1]["content"]
    assert "- move OBJ to OBJ" in restored[0]["content"]
    assert "Your task is to boil water." in restored[0]["content"]


@pytest.mark.parametrize("command", ["", " ", "fly", "two\nlines"])
def test_what_is_no_command_is_refused(command: str) -> None:
    game = ScienceWorld(TASK, Bench(Laboratory()))
    with pytest.raises(IllegalAction, match="nothing happens"):
        game.step(command)
