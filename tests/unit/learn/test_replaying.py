"""A journal of a trial is training data like the trial itself."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from agentrewind.core.environment import ReplayDiverged
from agentrewind.environments.minesweeper import instances as boards
from agentrewind.environments.minesweeper.game import MineSweeper
from agentrewind.journal import JournalWriter, read_run
from agentrewind.learn.credit.retrail import state_anchored
from agentrewind.learn.methods import METHODS
from agentrewind.learn.play import Policy, play
from agentrewind.learn.record import record, started
from agentrewind.learn.replaying import outputs, played_again
from agentrewind.learn.rollout import Request, trial
from agentrewind.learn.rules import Rules
from agentrewind.learn.solvers.minesweeper import Safest
from agentrewind.learn.solvers.policies import noisy
from agentrewind.learn.training.rows import rows_of
from agentrewind.learn.trial import Output, Trial
from agentrewind.learn.worlds import World, minesweeper

BOARDS = [item.board for item in itertools.islice(boards.instances(5, 5), 6)]


def world(number: int, rules: Rules) -> World:
    return minesweeper("one task", MineSweeper(BOARDS[number % 2]), rules, "compact")


def with_tokens(policy: Policy) -> Policy:
    """As a model would: each answer has tokens, log-probabilities and the tokens of its prompt."""

    def sampled(request: Request) -> Output:
        answer = policy(request)
        tokens = tuple(map(ord, answer.text))
        return replace(
            answer, tokens=tokens, logprobs=tuple(-1 / token for token in tokens), prompt=(1, request.number)
        )

    return sampled


def recorded(found: Trial, played: World, to: Path) -> Path:
    with JournalWriter.create(to, started(to.name, found, "noisy")) as log:
        record(found, played, log)
    return to


@pytest.mark.parametrize("method", ["retrospective", "reflexion", "ga-rollback", "oracle-remark"])
def test_journals_read_back_give_the_archives_and_the_rows_of_the_live_trials(tmp_path: Path, method: str) -> None:
    rules, live, again = Rules(calls=20), [], []
    for number in range(8):
        played = world(number, rules)
        policy = with_tokens(noisy(Safest(5), 0.6, str(number)))
        live.append(play(trial(played, rules, METHODS[method]), policy))
        run = read_run(recorded(live[-1], played, tmp_path / str(number)))
        again.append(played_again(run, world(number, rules), rules, METHODS[method]))
    assert again == live
    rows = rows_of(state_anchored(live))
    assert rows
    assert rows_of(state_anchored(again)) == rows


def test_a_journal_of_another_instance_or_other_rules_is_noticed(tmp_path: Path) -> None:
    rules = Rules(calls=20)
    played = world(0, rules)
    found = play(trial(played, rules), noisy(Safest(5), 0.6, "3"))
    run = read_run(recorded(found, played, tmp_path / "run"))
    assert [answer.text for answer in outputs(run)] == [call.output.text for call in found.calls]
    with pytest.raises(ReplayDiverged, match="Call 1 of"):
        played_again(run, world(1, rules), rules)
    with pytest.raises(ReplayDiverged, match="trial of one task"):
        played_again(run, world(0, rules), Rules(calls=2))
