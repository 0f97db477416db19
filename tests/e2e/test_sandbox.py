"""What a run in a sandbox leaves in its `/tmp` and its home directory goes where the run goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentrewind.integrations.sandbox import probe
from agentrewind.testing.scripted import Request, ScriptedModel, Step, call, say
from tests.e2e.test_cli_run import PROGRAM, place

pytestmark = pytest.mark.skipif(not probe.bubblewrap().works, reason=f"no sandbox here: {probe.bubblewrap().what}")


@pytest.fixture
def here(tmp_path):
    with place(tmp_path) as made:
        yield made


def script(request: Request) -> Step:
    results = request.results
    if request.says("[agentrewind]"):
        return say("Done.") if request.says("read:") else call("shell", {"command": "echo read: $(cat ~/notes /tmp/s)"})
    if not results:
        return call("shell", {"command": "echo one > ~/notes; echo early > /tmp/s"})
    if len(results) == 1:
        return call("shell", {"command": "echo two > ~/notes; rm /tmp/s; echo x > /tmp/late"})
    return call("backtrack_commit", {"record_uid": "rec_000003", "memory_summary": "The notes were right."})


def test_a_rewind_brings_them_back_with_the_workspace_and_a_fork_takes_them_along(here, tmp_path):
    with ScriptedModel(script) as model:
        done = here.run(model.base_url, "--sandbox", "bwrap")
        told = [message["content"] for message in model.requests[-1]["messages"] if message["role"] == "tool"][-1]
    assert done.returncode == 0, done.stderr
    assert told.startswith("read: one early\n")
    assert "/home/agent/notes" in done.stderr
    (side,) = (here.home / "sandboxes").iterdir()
    assert sorted(path.name for path in (side / "files" / "tmp").iterdir() if path.is_file()) == ["s"]
    assert (side / "files" / "home" / "notes").read_text() == "one\n"
    forked = here.json("fork", "last", "--at", "rec_000003", "--into", str(tmp_path / "fork"))
    copy = here.home / "sandboxes" / forked["run"] / "files"
    assert (copy / "home" / "notes").read_text() == "one\n"
    assert (copy / "tmp" / "s").read_text() == "early\n"


class ByCommand:
    """A model that goes back by a command in its sandbox, in the modes that have a process of the agent apart too."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def __call__(self, request: Request) -> Step:
        self.said.append("\n".join(item.text for item in request.said))
        steps = len(request.results)
        if request.says("<note"):
            return say("Done.")
        commands = (
            "echo one > kept",
            "rm kept; echo two > lost",
            "agentrewind tool candidates; agentrewind --version",
            "agentrewind tool commit rec_000003 'kept was needed' && agentrewind tool commit rec_000001 again",
        )
        return call("shell", {"command": commands[steps]})


@pytest.mark.parametrize("sandbox", ["bwrap", "session", "none"])
@pytest.mark.parametrize("mode", ["in-place", "fresh"])
def test_a_command_of_the_agent_reaches_the_tools_of_its_run(here, sandbox, mode):
    model_of = ByCommand()
    with ScriptedModel(model_of) as model:
        path = os.pathsep.join((str(Path(PROGRAM).parent), here.environ["PATH"]))
        done = here.run(model.base_url, "--sandbox", sandbox, "--mode", mode, PATH=path)
    assert done.returncode == 0, done.stderr
    assert (here.workspace / "kept").read_text() == "one\n"
    assert not (here.workspace / "lost").exists()
    listed = next(text for text in model_of.said if "Checkpoints, oldest first" in text)
    assert "rec_000003" in listed
    assert "kept was needed" in model_of.said[-1]
    assert "rm kept" not in model_of.said[-1]
    facts = here.json("log", "last")
    assert (facts["rewinds"], facts["moves"][0]["to"], facts["moves"][0]["context"]) == (1, "rec_000003", "exact")
