"""The worlds in Gymnasium's clothes. The lane: make test-worlds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gymnasium", reason="the extra `gym` isn't installed")

import gymnasium
from gymnasium.utils.env_checker import check_env

from agentrewind.core.environment import IllegalAction
from agentrewind.core.errors import UsageError
from agentrewind.environments.draws import Draws
from agentrewind.learn.contexts import View
from agentrewind.learn.gym import Numbered, RewindableEnv, cells, moves
from agentrewind.learn.solvers.sokoban import Shortest
from tests.households import written

MODULE = "agentrewind.learn.gym:"


def made(name: str, root: Path, **more: Any) -> Any:
    data = {"data": written(root), "split": "valid_unseen"} if name == "AlfWorld" else {}
    return gymnasium.make(f"{MODULE}agentrewind/{name}-v0", count=4, render_mode="ansi", **data, **more)


@pytest.mark.parametrize("name", ["MineSweeper", "Sokoban", "AlfWorld"])
def test_gymnasium_itself_finds_nothing_wrong(name: str, tmp_path: Path) -> None:
    env = made(name, tmp_path)
    check_env(env.unwrapped)
    env.close()


@pytest.mark.parametrize("name", ["MineSweeper", "Sokoban", "AlfWorld"])
def test_an_episode_goes_back_through_the_wrappers(name: str, tmp_path: Path) -> None:
    env = gymnasium.wrappers.TimeLimit(made(name, tmp_path), 50)
    observation, info = env.reset(seed=1)
    start = env.unwrapped.checkpoint()
    assert hash(start) == hash(env.unwrapped.checkpoint())
    moved, *_, later = env.step(info["actions"][0])
    assert (moved, later["fingerprint"]) != (observation, info["fingerprint"])
    assert env.unwrapped.restore(start) == (observation, info)
    assert env.render() == observation


def test_a_loop_of_somebody_else_solves_a_room_with_a_solver(tmp_path: Path) -> None:
    env = made("Sokoban", tmp_path)
    observation, _ = env.reset(options={"instance": 2})
    total, ended = 0.0, False
    while not ended:
        view = View(observation, 0, (), 0, 1, 0, 1)
        observation, reward, ended, truncated, info = env.step(Shortest().best(view, frozenset(), Draws("0")))
        assert not truncated
        total += reward
    assert (info["outcome"], total > 9, info["actions"]) == ("solved", True, ())


def test_an_episode_that_failed_goes_on_after_a_restore(tmp_path: Path) -> None:
    env = made("MineSweeper", tmp_path)
    _, info = env.reset(seed=0)
    before, failed = env.unwrapped.checkpoint(), False
    while not failed:
        for action in info["actions"]:
            env.unwrapped.restore(before)
            *_, failed, _, info = env.step(action)
            if failed:
                break
    assert info["outcome"] in {"failed", "solved"}
    _, info = env.unwrapped.restore(before)
    assert (info["outcome"], bool(info["actions"])) == (None, True)


def test_nonsense_is_worth_nothing_and_info_says_why(tmp_path: Path) -> None:
    env = made("Sokoban", tmp_path)
    observation, before = env.reset(seed=0)
    for action in ("north", "", "up, up, up, up"):
        again, reward, ended, _, info = env.unwrapped.step(action)
        assert (again, reward, ended) == (observation, 0, False)
        assert "nothing was done" in info.pop("invalid")
        assert info == before


def test_instances_follow_one_another_and_a_seed_says_where_they_begin(tmp_path: Path) -> None:
    env = made("Sokoban", tmp_path)
    tasks = [env.reset(seed=5 if not number else None)[1]["task"] for number in range(5)]
    assert tasks[0] == tasks[4]
    assert len(set(tasks)) == 4
    assert env.reset(seed=5)[1]["task"] == tasks[0]


def test_a_checkpoint_of_another_instance_is_refused(tmp_path: Path) -> None:
    env = made("Sokoban", tmp_path).unwrapped
    with pytest.raises(IllegalAction, match="reset"):
        env.checkpoint()
    env.reset(options={"instance": 0})
    other = env.checkpoint()
    env.reset(options={"instance": 1})
    before = env.checkpoint()
    with pytest.raises(IllegalAction, match="nothing was changed"):
        env.restore(other)
    assert env.checkpoint() == before


@pytest.mark.parametrize(("name", "texts"), [("MineSweeper", cells(6)), ("Sokoban", moves())])
def test_numbers_stand_for_actions_and_a_mask_says_which_are_on_offer(
    name: str, texts: list[str], tmp_path: Path
) -> None:
    env = Numbered(made(name, tmp_path), texts)
    _, info = env.reset(seed=2)
    start = env.unwrapped.checkpoint()
    assert [texts[at] for at in info["action_mask"].nonzero()[0]] == list(info["actions"])
    for _ in range(5):
        offered = info["action_mask"].nonzero()[0]
        if len(offered):
            *_, info = env.step(int(offered[0]))
            assert "invalid" not in info
    assert env.restore(start)[1]["action_mask"].any()
    assert env.action_space.n == len(texts)


def test_a_size_of_ones_own_and_a_world_that_is_not_there() -> None:
    env = RewindableEnv("minesweeper:4:2", count=2, split="test")
    assert len(env.reset()[0].splitlines()) == 4
    with pytest.raises(UsageError, match="names no environment"):
        RewindableEnv("chess")
