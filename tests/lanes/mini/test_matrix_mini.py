"""The cells of the matrix (test_matrix.py) that need heavy packages: LiteLLM, and mini-SWE-agent by its adapter."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e import matrix
from tests.e2e.matrix import ANSWER, LOOPS, MODES
from tests.e2e.test_exec import python
from tests.e2e.test_matrix import FORMS, an_agent_of_ours, ended_well, importable, place, played
from tests.lanes import needs

__all__ = ["importable"]

pytestmark = needs("litellm", "mini")

CELLS = [("litellm", dialect, form) for dialect in ("chat", "responses", "messages") for form in FORMS]
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")


@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_a_litellm_program_behind_the_proxy(tmp_path: Path, cell: tuple[str, str, str]) -> None:
    here = place(tmp_path)
    with played(tmp_path, here.workspace) as model:
        words = python("matrix_loop.py", *cell)
        more = {"ANTHROPIC_BASE_URL": model.root_url, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        done = here.exec(model.base_url, *words, **more)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith(f"{ANSWER}\n")
    ended_well(here)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_a_litellm_loop_in_a_process_of_ours(tmp_path: Path, cell: tuple[str, str, str], mode: str) -> None:
    with played(tmp_path, tmp_path / "work") as model:
        matrix.play(LOOPS[cell], mode, tmp_path, model.base_url)


@pytest.mark.parametrize("mode", ["in-place", "fresh", "reset"])
def test_mini_swe_agent(tmp_path: Path, mode: str) -> None:
    an_agent_of_ours(tmp_path, mode, "--agent", "mini-swe-agent", tool="bash", submit=SUBMIT)
