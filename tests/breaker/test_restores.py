"""What an independent tester found: restores that end wrong, though no byte is lost."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

import agentrewind
from agentrewind.core.errors import AgentRewindError
from agentrewind.snapshots import entry as e
from agentrewind.testing.scripted import ScriptedModel, call, say
from tests.damage import flip_in_the_objects

RUN = [sys.executable, "-c", "from agentrewind.cli.entry import main; main()"]


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENTREWIND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    root = tmp_path / "w"
    root.mkdir()
    return root


def agentrewind_says(*arguments) -> str:
    done = subprocess.run([*RUN, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def test_a_snapshot_from_before_a_file_was_declared_private_can_be_restored(workspace):
    (workspace / "production.yml").write_text("a: 1")
    with agentrewind.Workspace(workspace) as world:
        target = world.snapshot()
    (workspace / "agentrewind.toml").write_text('[paths]\nprivate = ["production.yml"]\n')
    with agentrewind.Workspace(workspace) as world:
        assert world.restore(target.id).verified


def test_the_state_before_a_cut_off_restore_comes_back_when_its_target_is_damaged(workspace):
    files = [workspace / f"f{number}" for number in range(4)]
    old = [os.urandom(3000) for _ in files]
    write(files, old)
    with agentrewind.Workspace(workspace) as world:
        target = world.snapshot()
        write(files, [b"new %d" % number for number in range(4)])
        live = world.snapshot()
    crash = {**os.environ, "AGENTREWIND_CRASH_AT": "snapshot.restore-file-written:2"}
    cut_off = subprocess.run([*RUN, "snap", "restore", target.id, str(workspace), "--yes"], env=crash, check=False)
    assert cut_off.returncode == -signal.SIGKILL
    flip_in_the_objects(workspace.parent / "home", 3000 * len(old), which=0)
    with agentrewind.Workspace(workspace) as world:
        world.restore(live.id)
    assert [path.read_bytes() for path in files] == [b"new %d" % number for number in range(4)]


def test_last_is_what_a_person_saved_last(workspace):
    file = workspace / "notes.txt"
    file.write_text("good")
    agentrewind_says("snap", "create", workspace)
    file.write_text("oops")
    agentrewind_says("snap", "restore", "last", workspace, "--yes")
    agentrewind_says("snap", "create", workspace, "--label", "good again")
    file.write_text("another mistake")
    agentrewind_says("snap", "restore", "last", workspace, "--yes")
    assert file.read_text() == "good"


def test_a_label_stands_in_the_list(workspace):
    (workspace / "a").write_text("a")
    agentrewind_says("snap", "create", workspace)
    agentrewind_says("snap", "create", workspace, "--label", "before the upgrade")
    assert "before the upgrade" in agentrewind_says("snap", "list", workspace)


@pytest.mark.parametrize("what", ["a file", "a link"])
@pytest.mark.parametrize("act", ["snapshot", "restore"])
def test_a_workspace_that_became_something_else_is_refused_in_words(workspace, what, act):
    (workspace / "a").write_text("a")
    with agentrewind.Workspace(workspace) as world:
        target = world.snapshot()
        elsewhere = workspace.with_name("elsewhere")
        shutil.move(workspace, elsewhere)
        workspace.write_text("file") if what == "a file" else workspace.symlink_to(elsewhere)
        with pytest.raises(AgentRewindError):
            world.snapshot() if act == "snapshot" else world.restore(target.id)


def test_a_link_target_with_a_nul_byte_is_malformed():
    with pytest.raises(e.Malformed):
        e.decode(e.encode(e.Entry(e.SYMLINK, 0, 0, 0, 1, target=b"a\0b")))


def test_restore_ends_what_a_killed_run_had_left_running(workspace):
    log = workspace / "log"
    log.write_text("start\n")

    def script(request):
        busy = {"command": "while sleep 0.1; do echo on >> log; done"}
        return say("done") if request.results else call("shell", busy)

    with ScriptedModel(script) as model:
        command = [*RUN, "run", "--model", "m", "--base-url", model.base_url, "--workspace", str(workspace), "task"]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        wait_for(lambda: "on" in log.read_text())
        run.kill()
        run.wait()
    try:
        agentrewind_says("restore", "last", "rec_000001", "--yes")
        time.sleep(0.5)
        assert log.read_text() == "start\n"
    finally:
        end_what_runs_in(workspace)


def write(files, contents) -> None:
    for path, data in zip(files, contents, strict=True):
        path.write_bytes(data)


def wait_for(condition) -> None:
    end = time.monotonic() + 8
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def end_what_runs_in(workspace) -> None:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            inside = os.readlink(f"/proc/{pid}/cwd") == str(workspace)
        except OSError:
            continue
        if inside:
            os.kill(int(pid), signal.SIGKILL)
