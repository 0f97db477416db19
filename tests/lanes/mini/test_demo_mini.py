"""The demo with the real mini-SWE-agent: the same policy, the same proofs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lanes import needs

pytestmark = needs("minisweagent", "mini")


def cli(base: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, with the Python that has mini-SWE-agent; the command need not be installed there."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI", "AGENTREWIND"))}
    environ |= {"HOME": str(base), "AGENTREWIND_HOME": str(base / "data"), "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, "-c", "import sys; from agentrewind.cli import main; sys.exit(main())", *arguments],
        env={**environ, **more},
        cwd=base,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=250,
        check=False,
    )


def play(base: Path, *options: str, **more: str) -> tuple[str, dict[str, object]]:
    done = cli(base, "demo", "--agent", "mini-swe-agent", "--workspace", "shelf", *options, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    log = cli(base, "log", "last", "--json")
    assert log.returncode == 0, log.stderr
    return done.stdout, json.loads(log.stdout)


def test_it_succeeds_and_every_proof_holds(tmp_path: Path):
    out, tree = play(tmp_path)
    assert "Success: 10/10" in out
    claims = out.partition("Checked, after the run")[2]
    assert (claims.count("✓"), claims.count("✗")) == (6, 0)
    assert (tree["agent"], tree["state"], tree["satisfied"], tree["rewinds"]) == ("mini-swe-agent", "done", 10, 1)


@pytest.mark.parametrize(("option", "value", "rewinds"), [("--strategy", "continue", 0), ("--keep", "world", 1)])
def test_a_control_ends_below_ten(tmp_path: Path, option: str, value: str, rewinds: int):
    out, tree = play(tmp_path, option, value)
    assert "As expected" in out
    assert tree["satisfied"] < tree["total"]
    assert (tree["state"], tree["rewinds"]) == ("failed", rewinds)


def test_a_proxy_that_is_set_is_not_asked(tmp_path: Path):
    dead = "http://127.0.0.1:9"
    out, _ = play(tmp_path, HTTP_PROXY=dead, HTTPS_PROXY=dead, ALL_PROXY=dead)
    assert "Success: 10/10" in out
