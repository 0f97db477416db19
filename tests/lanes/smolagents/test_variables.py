"""The variables of a CodeAgent go back with its conversation and its files."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agentrewind.testing.harnesses import script
from agentrewind.testing.scripted import ScriptedModel
from tests.lanes import needs
from tests.lanes.smolagents.test_smolagents import TestCodeAgent as Contract
from tests.lanes.smolagents.test_smolagents import code

Contract.__test__ = False
pytestmark = needs("smolagents", "smolagents")

FIRST = (
    "import math",
    "import random",
    "x = random.random()",
    "before = x",
    "kept = [1]",
    "also = kept",
    "numbers = (n for n in range(3))",
    "def double(n):",
    "    return 2 * n",
    "print('first done')",
)
WRONG = ("x = 99", "kept.append(2)", "new = 1", "def double(n):", "    return 0", "print('wrong done')")
LOOK = (
    "print('as it was:', x == before, kept, also is kept, double(21), math.floor(2.5))",
    "kept.append(3)",
    "print('still one:', also)",
    "try:",
    "    print(new)",
    "except Exception as error:",
    "    print('nothing new')",
)


def story(play, seen):
    if "nothing new" in seen.text.split("Back.")[-1] and "as it was" in seen.text:
        return play.speaker.submission("Looked.")
    if seen.notes(script.ONE):
        return code("Look.", *LOOK)
    if "first done\n" not in seen.text:
        return code("Now step-A.", *FIRST)
    if "wrong done\n" not in seen.text:
        return code("Now step-B.", *WRONG)
    return play.back(seen, "B", script.ONE)


@pytest.mark.parametrize("mode", ["in-place", "fresh", "reset"])
def test_variables_are_those_of_the_checkpoint_and_what_is_lost_is_named(tmp_path, mode):
    played = Contract().play(tmp_path, mode, story)
    assert played.exit_code == 0, played.errors
    shown = played.seen[-1].text
    assert "as it was: True [1] True 42 2" in shown
    assert "still one: [1, 3]" in shown
    told = next(seen.text for seen in played.seen if seen.notes(script.ONE))
    assert "could not be brought back, define them again: numbers." in told


def test_code_that_runs_into_the_time_limit_of_smolagents_goes_back_all_the_same(tmp_path):
    """It is lost on its way out of the thread; the next call of the model is made from the checkpoint."""
    program = """
import sys, agentrewind
from smolagents import CodeAgent, OpenAIModel

with agentrewind.session("work") as run:
    model = OpenAIModel("m", api_base=sys.argv[1], api_key="k")
    agent = run.attach(CodeAgent([], model, executor_kwargs={"timeout_seconds": 1}, verbosity_level=-1,
                                 additional_authorized_imports=["time"]))
    print(agent.run("Do it."))
print(run.tree.rewinds)
"""

    def play(request):
        said = "\n".join(item.text for item in request.said)
        if "<note" in said:
            return code("End.", "final_answer('back')")
        if "one\n" not in said:
            return code("Now step-A.", "import time", "print('one')")
        back = "backtrack_commit('rec_000001', 'NOTE')"
        return code("Back.", "import time", "time.sleep(1.5)", back)

    (tmp_path / "work").mkdir()
    with ScriptedModel(play) as model:
        done = subprocess.run(
            [sys.executable, "-c", program, model.base_url],
            cwd=tmp_path,
            env=Contract()._environ(tmp_path),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert done.stdout == "back\n1\n", done.stderr
    assert len(model.requests) == 3


def test_the_signal_is_no_rate_limit_to_smolagents():
    """It retries whatever says so, for minutes."""
    from smolagents.models import is_rate_limit_error

    from agentrewind.engine.signal import RewindSignal

    assert not is_rate_limit_error(RewindSignal())


def test_a_variable_too_large_is_named_and_the_others_are_kept(monkeypatch):
    from smolagents.local_python_executor import LocalPythonExecutor

    from agentrewind.integrations.harnesses import smol_variables

    monkeypatch.setattr(smol_variables, "LARGEST", 1000)
    executor = LocalPythonExecutor([])
    executor.send_tools({})
    executor("large = 'x' * 2000\nsmall = 1\nclass Thing:\n    size = 1\nthing = Thing()")
    held = smol_variables.held(executor)
    assert held.lost == ("Thing", "large", "thing")
    executor("small = 2\nmore = 3")
    smol_variables.bring_back(executor, held)
    assert {name for name in executor.state if not name.startswith("_")} == {"small"}
    assert executor.state["small"] == 1
