"""`agentrewind demo` does what it says, by the look of somebody who doesn't believe it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from agentrewind.cli.demo_world.layout import lay_out
from agentrewind.cli.demo_world.policy import CATALOGUE, TASK, policy
from agentrewind.cli.demo_world.proofs import Evidence, of_success
from agentrewind.compose.agents import RunSettings, start
from agentrewind.compose.home import Home
from agentrewind.compose.runs import Run
from agentrewind.testing.scripted import Request, ScriptedModel, Turn

PROGRAM = str(Path(sys.executable).with_name("agentrewind"))
ORDER = "from shelfmark import parse as p; assert p('QA76.9 .D3') < p('QA76.9 .D35') < p('QA76.9 .D4')"
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="no git here")


@dataclass(frozen=True)
class Played:
    """A demo that has been played in a home, a temporary directory and a workspace of its own."""

    base: Path
    done: subprocess.CompletedProcess[str]

    @property
    def workspace(self) -> Path:
        return self.base / "shelf"

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return cli(self.base, *arguments)

    def tree(self) -> dict[str, object]:
        done = self.cli("log", "last", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def lost(self) -> list[str]:
        """The received records that are not as their seals say, which are read from git and not from the files."""
        seals = subprocess.check_output(["git", "show", "HEAD:tests/records/SEALS"], cwd=self.workspace, text=True)
        found = []
        for digest, time, name in (line.split() for line in seals.splitlines()):
            path = self.workspace / "tests/records/received" / name
            same = hashlib.sha256(path.read_bytes()).hexdigest() == digest and path.stat().st_mtime_ns == int(time)
            found += [] if same else [name]
        return found

    def repaired(self) -> bool:
        environ = {**os.environ, "PYTHONPATH": "src", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", ORDER]
        return (
            subprocess.run(command, cwd=self.workspace, env=environ, check=False, capture_output=True).returncode == 0
        )

    def score(self) -> str:
        command = [sys.executable, "checklist.py", "--check"]
        said = subprocess.run(command, cwd=self.workspace, check=False, capture_output=True, text=True).stdout
        return said.rpartition("progress: ")[2].strip()


def cli(base: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    for name in ("home", "tmp"):
        (base / name).mkdir(exist_ok=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI", "AGENTREWIND"))}
    environ |= {"HOME": str(base / "home"), "TMPDIR": str(base / "tmp"), "AGENTREWIND_HOME": str(base / "data")}
    return subprocess.run(
        [PROGRAM, *arguments],
        check=False,
        env={**environ, "COLUMNS": "80", "PYTHONIOENCODING": "utf-8", **more},
        cwd=base,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=100,
    )


def play(base: Path, *options: str) -> Played:
    done = cli(base, "demo", "--workspace", str(base / "shelf"), *options)
    return Played(base, done)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play(tmp_path_factory.mktemp("demo"))


def test_it_succeeds_and_says_so(played: Played):
    assert played.done.returncode == 0, played.done.stdout + played.done.stderr
    assert "Success: 10/10" in played.done.stdout
    assert "✗ 7/10" in played.done.stdout
    assert played.done.stderr == ""


@needs_git
def test_the_received_records_are_as_their_seals_say_and_the_repair_is_there(played: Played):
    assert played.lost() == []
    assert played.repaired()
    assert played.score() == "10/10"


def test_every_proof_has_a_tick(played: Played):
    claims = played.done.stdout.partition("Checked, after the run")[2]
    assert claims.count("✓") == 6
    assert "✗" not in claims


def test_the_story_and_the_proofs_fit_into_80_columns(played: Played):
    story, _, rest = played.done.stdout.partition("The run, as")
    proofs = rest.partition("Kept:")[2].rpartition("Next:")[0]  # the last line names the program by its path
    shown = story.partition("What the agent does")[2] + proofs
    assert len(shown.splitlines()) > 40
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown


def test_the_log_shows_one_rewind_with_its_note_and_an_abandoned_branch(played: Played):
    tree = played.tree()
    [move] = [move for move in tree["moves"] if move["kind"] == "rewind"]
    assert "--preserve" in move["note"]
    assert (tree["satisfied"], tree["total"], tree["state"]) == (10, 10, "done")
    abandoned = [node for node in tree["nodes"] if not node["on_path"]]
    assert any("make_catalogue.py" in call for node in abandoned for call in node["calls"])
    assert any(node["verdict"] and node["verdict"]["satisfied"] == 7 for node in abandoned)
    shown = played.cli("log", "last")
    assert shown.returncode == 0
    assert f"back to before {move['to']}" in shown.stdout


def test_the_home_directory_stays_empty(played: Played):
    assert list((played.base / "home").iterdir()) == []
    assert list((played.base / "tmp").iterdir()) == []


@needs_git
def test_undo_brings_the_damage_back_and_undo_again_the_success(tmp_path: Path):
    played = play(tmp_path)
    assert played.cli("undo", "last").returncode == 0
    assert len(played.lost()) == 6
    assert played.cli("undo", "last").returncode == 0
    assert played.lost() == []
    assert played.score() == "10/10"


@needs_git
@pytest.mark.parametrize(
    ("options", "rewinds"), [(("--strategy", "continue"), 0), (("--keep", "world"), 1)], ids=["continue", "keep world"]
)
def test_a_control_ends_below_ten_with_records_lost(tmp_path: Path, options: tuple[str, ...], rewinds: int):
    played = play(tmp_path, *options)
    assert played.done.returncode == 0, played.done.stdout + played.done.stderr
    assert "As expected" in played.done.stdout
    satisfied, total = map(int, played.score().split("/"))
    assert satisfied < total == 10
    assert len(played.lost()) >= 5
    assert played.repaired()
    tree = played.tree()
    assert (tree["rewinds"], tree["state"]) == (rewinds, "failed")
    assert "5 times in a row" in tree["reason"]


def test_without_a_workspace_it_plays_in_a_temporary_one_that_stays(tmp_path: Path):
    done = cli(tmp_path, "demo")
    assert done.returncode == 0, done.stdout + done.stderr
    [place] = (tmp_path / "tmp").iterdir()
    assert (place / "shelfmark/build/catalogue.json").is_file()


def test_without_git_it_succeeds_too(tmp_path: Path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "sh", "cat", "find", "head", "ls", "sed", "touch"):
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    done = cli(tmp_path, "demo", "--workspace", "shelf", PATH=str(programs))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "shelf/.git").exists()


def test_a_directory_that_is_not_empty_is_refused_and_not_touched(tmp_path: Path):
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf/mine.txt").write_text("mine")
    played = play(tmp_path)
    assert played.done.returncode == 2
    assert "is not empty" in played.done.stderr
    assert [path.name for path in (tmp_path / "shelf").iterdir()] == ["mine.txt"]


def test_a_directory_that_can_be_no_workspace_is_refused_and_stays(tmp_path: Path):
    (tmp_path / "data/mine").mkdir(parents=True)
    done = cli(tmp_path, "demo", "--workspace", "data/mine")
    assert (done.returncode, done.stdout) == (2, "")
    assert (tmp_path / "data/mine").is_dir()
    assert cli(tmp_path, "demo", "--workspace", "data/fresh").returncode == 2
    assert not (tmp_path / "data/fresh").exists()


@pytest.fixture
def evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Evidence:
    """What the proofs look at after a success, made in this process so that it can be spoilt."""
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    workspace = tmp_path / "shelf"
    originals = lay_out(workspace)
    home = Home.of()
    with ScriptedModel(policy) as model:
        settings = RunSettings("builtin", "scripted", TASK, model.base_url, "python3 checklist.py --check")
        finished = start(home, settings, workspace)
    assert finished.outcome.ok
    return Evidence(Run(home, finished.run_id), workspace, originals, model.requests)


def failing(evidence: Evidence) -> list[str]:
    return [proof.claim for proof in of_success(evidence) if not proof.holds]


def test_a_proof_fails_where_its_claim_does_not_hold(evidence: Evidence):
    assert failing(evidence) == []
    mark = evidence.workspace / "src/shelfmark/mark.py"
    repaired = mark.read_text()
    mark.write_text(repaired.replace('"0." + digits', "digits"))
    assert any("repair" in claim for claim in failing(evidence))
    mark.write_text(repaired)

    abandoned = evidence.run.messages(next(node.uid for node in reversed(evidence.abandoned) if node.is_llm))
    spoilt = [*evidence.requests, {"messages": [*evidence.requests[-1]["messages"], abandoned[-1]]}]
    assert failing(replace(evidence, requests=spoilt)) != []
    twice = [*evidence.requests[-1]["messages"], evidence.requests[-1]["messages"][0]]
    note = evidence.rewind.note if evidence.rewind else ""
    assert failing(replace(evidence, requests=[{"messages": [*twice, {"role": "user", "content": note}]}])) != []

    record = evidence.workspace / evidence.originals[0].path
    os.utime(record)
    assert any("received records" in claim for claim in failing(evidence))


def test_the_agent_decides_by_what_it_sees_and_without_its_note_it_repeats_the_mistake(evidence: Evidence):
    def answer(messages: list[dict[str, object]], number: int = 0) -> Turn:
        body = {**evidence.requests[-1], "messages": messages}
        step = policy(Request(body, number, number, ()))
        assert isinstance(step, Turn)
        return step

    for body in evidence.requests:
        assert answer(body["messages"]) == answer(body["messages"], 7)
    note = evidence.rewind.note if evidence.rewind else "?"
    after = next(body["messages"] for body in evidence.requests if note in str(body["messages"][-1]["content"]))
    assert answer(after).calls[0].arguments["command"] == f"{CATALOGUE} --preserve"
    assert answer(after[:-1]).calls[0].arguments["command"] == CATALOGUE
