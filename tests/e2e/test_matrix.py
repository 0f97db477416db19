"""One matrix: whatever an agent is written with, whatever dialect it speaks, streamed or not, in every mode, two nested
rewinds end in one and the same context and in one and the same workspace (`tests.e2e.matrix` says which).

The cells with LiteLLM and mini-SWE-agent are in test_matrix_mini.py.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentrewind.compose.home import Home
from agentrewind.compose.runs import Run
from agentrewind.journal.check import check
from agentrewind.testing.scripted import ScriptedModel
from tests.e2e import matrix
from tests.e2e.matrix import ANSWER, EXPECTED, LOOPS, MODES, Model, expected_files, furnish
from tests.e2e.test_exec import KEY, Place, python
from tests.e2e.test_fresh import importable
from tests.trees import content, differences

__all__ = ["importable"]  # a fixture

ROOT = Path(__file__).parents[2]
FORMS = ("plain", "streamed")
LIGHT = [("openai", "chat"), ("openai", "responses"), ("openai", "kept"), ("anthropic", "messages")]
PROGRAMS = {
    **{
        f"{kind} {dialect} {form}": python("matrix_loop.py", kind, dialect, form)
        for kind, dialect in LIGHT
        for form in FORMS
    },
    **{
        f"curl {dialect} {form}": ("bash", str(ROOT / "tests/e2e/programs/curl_matrix.sh"), dialect, form)
        for dialect in ("chat", "responses", "messages")
        for form in FORMS
        if shutil.which("curl")
    },
}


@contextmanager
def played(tmp_path: Path, workspace: Path, **more: str) -> Iterator[ScriptedModel]:
    """A strict provider for one run, after which its requests and the files must be the expected ones."""
    model = Model(**more)
    with ScriptedModel(model) as server:
        yield server
        assert server.refused == []
    for number, (seen, expected) in enumerate(zip(model.seen, EXPECTED, strict=False), 1):
        assert seen[: len(expected)] == expected, f"call {number}"
        assert len(seen) == len(expected) or model.submit, f"call {number}"
    assert len(model.seen) == len(EXPECTED)
    assert differences(expected_files(tmp_path), content(workspace)) == []
    matrix.every_command_ran_once(workspace)


def place(base: Path) -> Place:
    workspace = base / "work"
    furnish(workspace)
    (base / "scratch").mkdir()
    ours = ("AGENTREWIND", "OPENAI", "ANTHROPIC", "COLUMNS")
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith(ours)},
        "HOME": str(base),
        "AGENTREWIND_HOME": str(base / "home"),
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_API_KEY": KEY,
        "SCRATCH": str(base / "scratch"),
    }
    return Place(base, workspace, environ)


def ended_well(here: Place) -> None:
    home = Home(here.base / "home")
    (run,) = (Run(home, run_id) for run_id in home.run_ids())
    assert (run.state, run.tree.rewinds, run.tree.warnings) == ("done", 2, [])
    assert {node.began.thread for node in run.tree.nodes.values()} == {"main"}
    assert {move.context for move in run.tree.moves} == {"exact"}
    assert check(run.path) == []


def an_agent_of_ours(base: Path, mode: str, *options: str, **model_options: str) -> None:
    """`agentrewind run` with an agent that it knows: it ends well."""
    here = place(base)
    with played(base, here.workspace, **model_options) as model:
        common = ("--model", "m", "--base-url", model.base_url, "--workspace", str(here.workspace))
        done = here.cli("run", *options, *common, "--mode", mode, "--sandbox", "none", matrix.TASK)
        assert done.returncode == 0, done.stderr
    ended_well(here)


@pytest.mark.parametrize("words", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_behind_the_proxy(tmp_path: Path, words: tuple[str, ...]) -> None:
    here = place(tmp_path)
    with played(tmp_path, here.workspace) as model:
        done = here.exec(model.base_url, *words, ANTHROPIC_BASE_URL=model.root_url)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{ANSWER}\n"
    ended_well(here)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "cell",
    [(*cell, form) for cell in LIGHT for form in FORMS if (*cell, form) != ("openai", "kept", "streamed")],
    ids="-".join,
)
def test_a_loop_in_a_process_of_ours(tmp_path: Path, cell: tuple[str, str, str], mode: str) -> None:
    with played(tmp_path, tmp_path / "work") as model:
        matrix.play(LOOPS[cell], mode, tmp_path, model.base_url)


@pytest.mark.parametrize("mode", ["in-place", "fresh", "reset"])
def test_the_built_in_agent(tmp_path: Path, mode: str) -> None:
    an_agent_of_ours(tmp_path, mode)
