"""What is trained on, by which recipe, and what is said where torch isn't there. Training itself: make test-train."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentrewind.core.errors import UsageError
from agentrewind.learn.credit.samples import DecisionSample
from agentrewind.learn.methods import RETROSPECTIVE
from agentrewind.learn.play import play
from agentrewind.learn.rollout import trial
from agentrewind.learn.rules import Rules
from agentrewind.learn.solvers.policies import random_moves
from agentrewind.learn.suites import suite
from agentrewind.learn.training.methods import METHODS, training_of
from agentrewind.learn.training.recipe import read_recipe
from agentrewind.learn.training.rows import Row, rows_of
from agentrewind.learn.training.words import SPLIT, vocabulary
from agentrewind.learn.trial import Call, Output

RECIPES = Path(__file__).parents[3] / "recipes"


def sample(advantage: float, weight: float, tokens: tuple[int, ...] = (1, 2)) -> DecisionSample:
    output = Output("x", tokens, tuple(-1.0 for _ in tokens), (7, 8))
    return DecisionSample("u", 0, Call(1, "execution", 0, 0, "s", (), (), output, "acted"), advantage, weight)


def test_rows_without_an_advantage_are_left_out_and_the_mean_of_the_rest_is_the_objective() -> None:
    rows = rows_of([sample(1.0, 0.5), sample(0.0, 0.25), sample(-2.0, 0.25)])
    assert rows == [Row((7, 8), (1, 2), (-1.0, -1.0), 1.0), Row((7, 8), (1, 2), (-1.0, -1.0), -1.0)]
    assert sum(row.advantage for row in rows) / len(rows) == 1.0 * 0.5 + -2.0 * 0.25


def test_a_sample_without_the_tokens_that_were_sampled_is_refused() -> None:
    with pytest.raises(UsageError, match="has no tokens"):
        rows_of([sample(1.0, 1.0, ())])


def test_every_method_samples_the_same_number_of_attempts() -> None:
    for method in METHODS.values():
        assert method.trials(24) * method.rules(Rules()).attempts == 24
    with pytest.raises(UsageError, match="can't be parted"):
        training_of("retrail").trials(8)
    with pytest.raises(UsageError, match="no training method"):
        training_of("x")


@pytest.mark.parametrize("environment", ["minesweeper:6:3", "sokoban:6:2"])
def test_the_vocabulary_has_every_word_of_a_compact_prompt(environment: str) -> None:
    words, rules = set(vocabulary()), Rules()
    world = suite(environment, 1).worlds[0](rules, "compact", RETROSPECTIVE)
    found = play(trial(world, rules), random_moves("0"))
    said = " ".join(message["content"] for call in found.calls for message in call.context)
    assert set(re.findall(SPLIT, said.replace("no idea", ""))) <= words


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.name)
def test_the_recipes_of_the_project_are_read(path: Path) -> None:
    assert read_recipe(path).name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("updates = 'many'", "updates"),
        ("bananas = 1", "bananas is nothing that a recipe has"),
        ("[cloning]\nspeed = 1", "cloning.speed"),
        ("method = 'magic'", "no training method"),
        ("attempts = 25", "can't be parted"),
        ("tasks = 300", "pool at least tasks"),
        ("= 1", "no recipe"),
    ],
)
def test_a_recipe_that_is_wrong_is_refused_in_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_recipe(path)


def test_a_python_recipe_defines_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("from agentrewind.learn.training.recipe import Recipe\nrecipe = Recipe('mine', updates=3)\n")
    assert read_recipe(path).updates == 3
    path.write_text("x = 1\n")
    with pytest.raises(UsageError, match="defines no `recipe`"):
        read_recipe(path)
    path.write_text("import not_installed_anywhere\n")
    with pytest.raises(UsageError, match=r"mine.py needs what isn't installed: .*not_installed_anywhere"):
        read_recipe(path)


def test_without_torch_the_command_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "small.toml").write_text("updates = 1\n")
    (tmp_path / "torch.py").write_text("raise ImportError('not here')\n")
    path = f"{tmp_path}:{Path(__file__).parents[3] / 'src'}"
    done = subprocess.run(
        [sys.executable, "-m", "agentrewind", "train", "small.toml"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "agentrewind[train]" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "small-trained").exists()
