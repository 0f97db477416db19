"""A training run: stopped and gone on with, measured in two ways, stopped by a loss that is no number, gated."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the extra `train`: make test-train")

from click.testing import CliRunner  # noqa: E402

from agentrewind.cli.group import group  # noqa: E402
from agentrewind.core.errors import TrainingStopped, UsageError  # noqa: E402
from agentrewind.learn.rules import Rules  # noqa: E402
from agentrewind.learn.training.engines import trained  # noqa: E402
from agentrewind.learn.training.kept import Place, TrainingDirectory  # noqa: E402
from agentrewind.learn.training.measuring import measured  # noqa: E402
from agentrewind.learn.training.methods import METHODS  # noqa: E402
from agentrewind.learn.training.recipe import Cloning, Evaluation, Recipe  # noqa: E402
from agentrewind.learn.training.trainer import Trainer  # noqa: E402

RECIPE = Recipe(
    "short",
    environment="minesweeper:4:2",
    cloning=Cloning(instances=6, trials=30, steps=30, rows=16, rate=1e-2),
    updates=3,
    tasks=2,
    pool=4,
    attempts=6,
    rules=Rules(calls=8),
    keep_every=1,
    evaluation=Evaluation(instances=4, seeds=(0,)),
)
TIMES = ("seconds", "tokens_s")


def run(recipe: Recipe, directory: Path, *, measure: bool = False) -> Trainer:
    trainer = Trainer(recipe, directory, lambda line: None)
    trainer.train(measure=measure)
    return trainer


def weights_of(trainer: Trainer) -> list[Any]:
    return list(trainer.engine.backend.model.parameters())  # type: ignore[attr-defined]


def same(one: Trainer, other: Trainer) -> bool:
    return all(torch.equal(mine, theirs) for mine, theirs in zip(weights_of(one), weights_of(other), strict=True))


def lines(directory: Path) -> list[Any]:
    found = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in TIMES} for line in found]


def test_a_run_that_was_stopped_equals_one_that_was_not(tmp_path: Path) -> None:
    whole = run(RECIPE, tmp_path / "whole")
    for updates in (0, 1, 3):
        parts = run(RECIPE.up_to(updates), tmp_path / "parts")
    assert same(whole, parts)
    assert lines(tmp_path / "whole") == lines(tmp_path / "parts")
    before = Trainer(replace(RECIPE, updates=0, model="tiny"), tmp_path / "fresh", lambda line: None)
    assert not same(whole, before)


def test_one_that_was_killed_after_its_last_checkpoint_makes_those_steps_again(tmp_path: Path) -> None:
    seldom = replace(RECIPE, keep_every=2)
    whole = run(seldom, tmp_path / "whole")

    class Killed(Exception):
        pass

    def dies(line: Any) -> None:
        if line.get("updated") == 3:
            raise Killed

    with pytest.raises(Killed):
        Trainer(seldom, tmp_path / "killed", dies).train(measure=False)
    kept = TrainingDirectory(tmp_path / "killed", seldom)
    assert max(kept.checkpoints()) == Place(30, 2)
    assert same(whole, run(seldom, tmp_path / "killed"))
    assert lines(tmp_path / "whole") == lines(tmp_path / "killed")


def test_the_command_eval_on_the_weights_equals_the_trainer_s_own_evaluation(tmp_path: Path) -> None:
    trainer = run(RECIPE, tmp_path / "run", measure=True)
    own = trainer.directory.scores(trainer.place)
    assert own is not None
    weights = trainer.directory.weights(trainer.place)
    command = ["eval", "--env", RECIPE.environment, "--policy", str(weights), "--style", "compact", "--seeds", "0"]
    # The command has the paper's budget of calls, so the trainer is asked to measure under it too.
    paper = replace(RECIPE, rules=Rules())
    found = CliRunner().invoke(group, [*command, "--instances", "4", "--out", str(tmp_path / "scores")])
    assert found.exit_code == 0, found.output
    kept = [json.loads(line) for line in (tmp_path / "scores" / "trials.jsonl").read_text().splitlines()]
    again = [score for score in measured(trainer.engine, paper) if score.method == "retrospective"]
    names = ("protocol", "seed", "task", "solved", "calls", "actions", "states", "rewinds", "attempts", "why_ended")
    assert [[line.get(name, 0) for name in names] for line in kept] == [
        [getattr(score, name) for name in names] for score in again
    ]
    loaded = measured(trained(weights), RECIPE)
    assert loaded == own


def test_a_loss_that_is_no_number_stops_it_and_the_batch_is_kept(tmp_path: Path) -> None:
    trainer = Trainer(RECIPE, tmp_path / "run", lambda line: None)
    pass_, seen = trainer.engine.backend.forward_backward, []

    def spoiled(rows: Any, loss: Any, of: int) -> Any:
        found = pass_(rows, loss, of)
        seen.append(rows)
        return replace(found, loss=math.nan) if loss.kind == "clipped" else found

    trainer.engine.backend.forward_backward = spoiled  # type: ignore[method-assign]
    with pytest.raises(TrainingStopped, match=r"the loss is nan.*stopped\.jsonl.*newest checkpoint"):
        trainer.train(measure=False)
    facts, *rows = [json.loads(line) for line in (tmp_path / "run" / "stopped.jsonl").read_text().splitlines()]
    assert facts == {"stopped": "the loss is nan", "cloned": 30}
    assert len(rows) == len(seen[-1])
    assert tuple(rows[0]["prompt"]) == seen[-1][0].prompt
    assert max(trainer.directory.checkpoints()) == Place(30, 0)


def test_the_gate_stands_before_any_update(tmp_path: Path) -> None:
    gated = replace(RECIPE, evaluation=replace(RECIPE.evaluation, gate=1.01))
    with pytest.raises(TrainingStopped, match="gate isn't passed"):
        run(gated, tmp_path / "run")
    assert max(TrainingDirectory(tmp_path / "run", gated).checkpoints()) == Place(30, 0)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_makes_an_update(tmp_path: Path, method: str) -> None:
    one = replace(RECIPE, method=method, cloning=None, updates=1, attempts=3, tasks=1, pool=1)
    run(one, tmp_path / "run")
    assert lines(tmp_path / "run")[-1]["updated"] == 1


def test_another_recipe_is_refused_in_a_directory_that_is_in_use(tmp_path: Path) -> None:
    run(replace(RECIPE, updates=0), tmp_path / "run")
    with pytest.raises(UsageError, match="another recipe"):
        run(replace(RECIPE, rate=1.0), tmp_path / "run")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="isn't empty"):
        run(RECIPE, tmp_path / "other")
