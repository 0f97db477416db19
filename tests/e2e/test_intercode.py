"""Commands of real agents in the sandbox: every restore is equal to an independent copy. In short form here; all of
them: `make intercode`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agentrewind.integrations.sandbox import probe

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared/data/intercode/trajectories.jsonl"

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.skipif(not DATA.exists(), reason="the trajectories aren't there (shared/data beside the checkout)"),
    pytest.mark.skipif(not probe.bubblewrap().works, reason="commands of strangers run in bubblewrap only"),
]


def replayed(tmp_path: Path, *options: str) -> tuple[int, dict]:
    out = tmp_path / "found.json"
    words = [sys.executable, ROOT / "benchmarks/intercode.py", *options, "--json", out]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=850, check=False)
    assert out.exists(), done.stderr
    return done.returncode, json.loads(out.read_text())


def test_every_restore_is_equal_to_an_independent_copy(tmp_path: Path) -> None:
    code, found = replayed(tmp_path, "--only", "12")
    assert (found["trajectories"], found["differing"], found["differences"], code) == (12, 0, [], 0)
    assert found["restores"] == found["commands"] + 12 > 60
    assert {"hard links", "link", "empty directory"} <= found["seen"].keys()


def test_a_judge_that_sees_a_difference_is_believed(tmp_path: Path) -> None:
    """The same with a judge for whom no two trees are alike: the figures are its own."""
    judge = tmp_path / "judge.py"
    judge.write_text("def describe(root, ignore, times, owner):\n    return {root: {'type': 'dir'}}\n")
    code, found = replayed(tmp_path, "--only", "1", "--judge", str(judge))
    assert code == 1
    assert found["differing"] == found["restores"] > 0
