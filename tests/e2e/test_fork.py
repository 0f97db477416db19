"""`agentrewind fork`: a second run from a checkpoint, in its own files; the first one isn't touched."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from agentrewind.compose.forking import fork
from agentrewind.compose.home import Home
from agentrewind.compose.runs import Run
from agentrewind.core.errors import UsageError
from agentrewind.journal.check import check
from agentrewind.testing.scripted import ScriptedModel
from tests.e2e.test_exec import KEY, Place, here, one_sentence  # noqa: F401 (a fixture)
from tests.e2e.test_people import KINDS, NOTE, Gated, second
from tests.trees import describe, differences


def everything(root: Path) -> dict[str, bytes]:
    """Every byte below a directory, by name."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


class Original:
    """A run that has ended, and all that belongs to it."""

    def __init__(self, place: Place, gated: Gated, kind: str = "run, in-place") -> None:
        self.place, self.gated = place, gated
        gated.open()
        with ScriptedModel(gated, api_key=KEY) as model:
            assert KINDS[kind](place, model).wait(60) == 0
        self.id = place.json("runs")[0]["run"]
        self.target = second(place)
        self.home = Home(place.base / "home")
        self.before = self.bytes()

    def bytes(self) -> dict[str, dict]:
        home = self.place.base / "home"
        (store,) = [path for path in (home / "stores").iterdir() if path.name.startswith("site-")][:1]
        return {
            "journal": everything(home / "runs" / self.id),
            "store": everything(store),
            "files": describe(self.place.workspace),
        }

    def is_untouched(self) -> None:
        assert self.bytes() == self.before


@pytest.fixture
def original(here: Place) -> Original:  # noqa: F811
    return Original(here, Gated(here))


def test_a_fork_goes_its_own_way_from_there_and_the_original_stays_byte_for_byte(original: Original, tmp_path: Path):
    here, into = original.place, tmp_path / "second"  # noqa: F811
    made = here.json("fork", original.id, "--at", original.target, "--into", str(into))
    assert differences(original.gated.before, describe(into)) == []
    original.is_untouched()
    facts = here.json("log", made["run"])
    assert facts["forked_from"] == {"run_id": original.id, "record": original.target}
    assert (facts["workspace"], facts["state"]) == (str(into), "interrupted")
    assert [item["uid"] for item in here.json("candidates", made["run"])["shown"]] == [made["at"]]
    assert here.json("check", made["run"])["ok"] is True


def test_a_fork_of_the_built_in_agent_is_resumed_with_the_conversation_up_to_there(here: Place, tmp_path: Path):  # noqa: F811
    gated, into = Gated(here), tmp_path / "second"
    gated.open()
    with ScriptedModel(gated, api_key=KEY) as model:
        assert KINDS["run, in-place"](here, model).wait(60) == 0
        first = describe(here.workspace)
        made = here.json("fork", "last", "--at", second(here), "--into", str(into))
        assert here.cli("rewind", made["run"], "--to", made["at"], "--note", NOTE, "--yes").returncode == 0
        gated.place = Place(here.base, into, here.environ)
        done = here.cli("resume", made["run"])
        assert done.returncode == 0, done.stderr
        assert model.refused == []
    assert (into / "right.txt").exists()
    assert not (into / "wrong.txt").exists()
    assert describe(here.workspace) == first
    assert here.json("check", made["run"])["ok"] is True


def test_a_program_is_started_again_in_the_fork_of_a_run_that_is_alive(here: Place, tmp_path: Path):  # noqa: F811
    gated, into = Gated(here), tmp_path / "second"
    with ScriptedModel(gated, api_key=KEY) as model:
        agent = KINDS["exec"](here, model)
        gated.is_waiting()
        made = here.json("fork", "last", "--at", second(here), "--into", str(into))
        assert differences(gated.before, describe(into)) == []
        gated.open()
        assert agent.wait(60) == 0
        done = here.cli("exec", "--resume", made["run"], "--", "sh", "-c", f"echo more > '{into}/more.txt'")
        assert done.returncode == 0, done.stderr
    assert here.json("log", made["run"])["state"] == "done"
    assert (here.workspace / "late.txt").exists()
    assert not (into / "late.txt").exists()


def test_a_place_that_isnt_free_is_refused_and_nothing_is_made(original: Original, tmp_path: Path):
    here = original.place  # noqa: F811
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("precious\n")
    (tmp_path / "file").write_text("precious\n")
    (tmp_path / "link").symlink_to(tmp_path / "scratch")
    runs = set(os.listdir(here.base / "home" / "runs"))
    for uid, into, word in (
        (original.target, full, "is not empty"),
        (original.target, tmp_path / "file", "is not a directory"),
        (original.target, tmp_path / "link", "is not a directory"),
        (original.target, tmp_path / "no" / "where", "There is no directory"),
        (original.target, here.workspace / "inside", "inside one another"),
        (original.target, here.base / "home" / "inside", "inside one another"),
        (original.target, "", "empty"),
        ("rec_000099", tmp_path / "new", "no record"),
        ("rec_000002", tmp_path / "new", "tool call"),
    ):
        with pytest.raises(UsageError, match=word):
            fork(original.home, Run(original.home, original.id), uid, into)
    refused = here.cli("fork", original.id, "--at", original.target, "--into", str(full))
    assert (refused.returncode, "is not empty" in one_sentence(refused)) == (2, True)
    assert set(os.listdir(here.base / "home" / "runs")) == runs
    assert (full / "mine").read_text() == (tmp_path / "file").read_text() == "precious\n"
    assert not (tmp_path / "new").exists()
    original.is_untouched()


POINTS = ("fork.files copied", "fork.files saved", "fork.journal written", "fork.run named")


def test_a_fork_that_is_killed_leaves_nothing_half_done_and_can_be_made_again(original: Original, tmp_path: Path):
    here, into = original.place, tmp_path / "forks" / "second"  # noqa: F811
    into.parent.mkdir()
    for point in POINTS:
        runs = set(original.home.run_ids())
        killed = here.cli("fork", original.id, "--at", original.target, "--into", str(into), AGENTREWIND_CRASH_AT=point)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        assert not into.exists()
        new = set(original.home.run_ids()) - runs
        assert bool(new) == (point == "fork.run named")
        for run in new:
            assert check(original.home.run_dir(run)) == []
        original.is_untouched()
    made = here.json("fork", original.id, "--at", original.target, "--into", str(into))
    assert os.listdir(into.parent) == ["second"]
    assert not [name for name in os.listdir(here.base / "home" / "runs") if name.startswith(".")]
    assert differences(original.gated.before, describe(into)) == []
    assert here.json("check", made["run"])["ok"] is True
    original.is_untouched()


def test_without_a_directory_the_fork_lies_beside_the_workspace(original: Original):
    here = original.place  # noqa: F811
    (here.base / "site-fork").mkdir()
    made = here.json("fork", original.id, "--at", original.target)
    assert Path(made["workspace"]).name == "site-fork-2"
