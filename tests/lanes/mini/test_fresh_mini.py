"""Fresh mode with the real mini-SWE-agent: the contexts and files of in place, nothing asked or run twice, cheap."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from agentrewind.testing.scripted import Request, ScriptedModel, Step, call
from tests.e2e.test_fresh import ONE, TWO, WHO, Place, is_memory, is_sound, notes, once, place, without_memory
from tests.lanes import needs
from tests.trees import content, differences

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

pytestmark = needs("minisweagent", "mini")


def bash(command: str) -> Step:
    return call("bash", {"command": command})


def script(kill: str = "true"):
    """Two rewinds, the second to a point that lies after the first, and a submission that is rejected on the way."""

    def play(request: Request) -> Step:  # noqa: PLR0911 (one line a situation)
        said = json.dumps(request.messages)
        if TWO in said:
            return bash(SUBMIT) if "third" in said else bash("echo third >> ../side; echo third | tee c.txt")
        if ONE in said:
            if "spoilt" in said:
                found = re.search(r"(rec_\d+)[^\n]*echo spoilt", request.results[-1])
                if found is None:
                    return call("backtrack_candidates", {"reason": "b is wrong"})
                return call("backtrack_commit", {"record_uid": found[1], "memory_summary": TWO})
            if "second" in said:
                return bash("echo spoilt >> ../side; echo x > b.txt; echo spoilt")
            return bash("echo second >> ../side; echo second | tee two.txt")
        match len(request.results):
            case 0:
                return bash("echo first >> ../side; echo one > a.txt")
            case 1:
                return bash(SUBMIT)
            case 2:
                return bash(f"echo gone >> ../side; rm -f a.txt; {kill}")
            case 3:
                return call("backtrack_candidates", {"reason": "a.txt is gone"})
        found = re.search(r"(rec_\d+)[^\n]*echo gone", request.results[-1])
        assert found
        return call("backtrack_commit", {"record_uid": found[1], "memory_summary": ONE})

    return play


CHECK = "echo judged >> ../side; test -f c.txt || { echo 'FAIL c.txt'; exit 1; }"


def run(here: Place, model: ScriptedModel, *options: str):
    return here.run(model, "--agent", "mini-swe-agent", "--check", CHECK, *options)


@pytest.mark.parametrize(("other", "memories"), [("fresh", 1), ("reset", 2)])
def test_two_rewinds_end_in_the_context_and_the_files_of_in_place(tmp_path: Path, other: str, memories: int) -> None:
    requests, places = [], []
    for mode in ("in-place", other):
        here = place(tmp_path / mode)
        with ScriptedModel(script()) as model:
            done = run(here, model, "--mode", mode)
            assert done.returncode == 0, done.stderr
            assert model.refused == []
            requests.append([request["messages"] for request in model.requests])
            places.append(here)
    in_place, here_too = requests
    assert len(in_place) == len(here_too)
    for left, right in zip(in_place, here_too, strict=True):
        assert without_memory(left) == without_memory(right)
        assert notes(left) == notes(right)
    assert sum(map(is_memory, here_too[-1])) == memories
    assert notes(here_too[-1]) == [ONE, TWO]
    there, here = places
    assert differences(content(there.workspace), content(here.workspace)) == []
    assert there.side == here.side == ["first", "judged", "gone", "second", "spoilt", "third", "judged"]
    is_sound(here)


@pytest.mark.parametrize("who", WHO)
def test_a_run_whose_process_is_killed_is_resumed_to_its_end(tmp_path: Path, who: str) -> None:
    here = place(tmp_path)
    with ScriptedModel(script(once(tmp_path, f"kill -9 {WHO[who]}"))) as model:
        killed = run(here, model, "--mode", "fresh")
        assert killed.returncode == (-signal.SIGKILL if who == "supervisor" else 1), killed.stderr
        assert (tmp_path / "killed").exists()
        done = here.cli("resume", "last")
        assert done.returncode == 0, done.stderr
        assert notes(model.last["messages"]) == [ONE, TWO]
    # The command that was cut off is run again, on the files as they were before it.
    assert here.side == ["first", "judged", "gone", "gone", "second", "spoilt", "third", "judged"]
    is_sound(here)
