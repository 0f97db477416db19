"""The study's cells: run once, gone on with, and the same when they are run again."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra `train`: make test-train")

STUDY = Path(__file__).parents[3] / "benchmarks" / "training_study.py"
RECIPE = """
environment = "minesweeper:4:2"
updates = 1
tasks = 1
pool = 2
attempts = 3
[rules]
calls = 8
[cloning]
instances = 6
trials = 30
steps = 30
rows = 16
rate = 0.01
[evaluation]
instances = 2
seeds = [0]
"""


def study(directory: Path) -> tuple[str, Any]:
    """What is printed, and the report without times."""
    command = [sys.executable, str(STUDY), "short.toml", "--out", "cells", "--methods", "grpo,retrail", "--seeds", "0"]
    done = subprocess.run(
        [*command, "--to", "report"], cwd=directory, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((directory / "report.json").read_text())
    for row in found["rows"]:
        del row["seconds"]
    for curve in found["curves"]:
        for line in curve["metrics"]:
            del line["seconds"], line["tokens_s"]
    return done.stdout, found


def test_a_cell_that_is_run_again_gives_the_same_numbers_and_the_others_are_not_run(tmp_path: Path) -> None:
    (tmp_path / "short.toml").write_text(RECIPE)
    said, first = study(tmp_path)
    assert "2 of 2 cells are complete" in said
    assert [row["method"] for row in first["rows"]] == ["grpo", "retrail"]
    shutil.rmtree(tmp_path / "cells" / "retrail-0")
    said, again = study(tmp_path)
    assert again == first
    assert "retrail-0: update 1 of 1" in said
    assert "grpo-0" not in said
