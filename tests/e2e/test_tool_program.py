"""An agent that has only a shell goes back by `agentrewind tool`, in real processes and real files."""

from __future__ import annotations

import subprocess
from pathlib import Path

from agentrewind.testing.scripted import Request, ScriptedModel, Step, say
from tests.e2e.test_exec import LOOPS, PROGRAM, Place, here, in_workspace, one_sentence  # noqa: F401 (a fixture)
from tests.trees import describe, differences


class Back:
    """A model whose only tool is the shell: it spoils the workspace, and goes back by a command."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.before: dict = {}
        self.after: dict = {}
        self.listing = ""
        self.said: list = []

    def __call__(self, request: Request) -> Step:
        self.said = request.said
        steps = len(request.results)
        assert set(request.tools) == {"shell"}
        if request.says("the note"):
            self.after = self.after or describe(self.workspace)
            return say("In order.")
        if steps == 1:
            self.before = describe(self.workspace)
        if steps == 3:
            self.listing = request.results[2]
        commands = (
            "echo 1 > one",
            "rm -r original; chmod 700 tool.sh; echo 2 > two",
            f"'{PROGRAM}' tool candidates 'the original is gone'",
            f"echo 'the note: keep the original' | '{PROGRAM}' tool commit rec_000002 - lost && echo 3 > three",
        )
        return in_workspace(self.workspace, commands[steps])


def test_files_and_conversation_come_back_and_the_command_is_never_read_of(here: Place):  # noqa: F811
    back = Back(here.workspace)
    with ScriptedModel(back) as model:
        done = here.exec(model.base_url, *LOOPS["httpx"], options=("--no-inject",))
        assert done.returncode == 0, done.stderr
        assert model.refused == []
    assert done.stdout == "In order.\n"
    assert "rec_000002" in back.listing
    assert differences(back.before, back.after) == []
    text = "\n".join(item.text for item in back.said)
    assert text.count("the note: keep the original") == 1
    assert "Accepted" not in text
    assert [item.role for item in back.said] == ["user", "assistant", "tool", "system"]
    facts = here.json("log", "last")
    assert (facts["rewinds"], facts["moves"][0]["to"], facts["moves"][0]["by"]) == (1, "rec_000002", "agent")
    assert not (Path(facts["directory"]) / "tools").exists()
    assert here.json("check", "last")["ok"] is True


def test_outside_of_a_run_it_says_so(here: Place):  # noqa: F811
    done = here.cli("tool", "candidates")
    assert done.returncode == 2
    assert "not started inside of a run" in one_sentence(done)


def test_after_its_run_it_says_so(here: Place):  # noqa: F811
    here.exec("http://127.0.0.1:9/v1", "true")
    run = here.json("log", "last")["run"]
    done = here.cli("tool", "commit", "rec_000001", "note", AGENTREWIND_RUN=run)
    assert done.returncode == 1
    assert "Nothing was moved" in done.stderr


def test_help_says_what_it_is(here: Place):  # noqa: F811
    done = subprocess.run([PROGRAM, "tool", "--help"], env=here.environ, capture_output=True, text=True, check=True)
    assert "commit RECORD_UID NOTE" in done.stdout
