"""Commands in a sandbox each: what they can do, what is left of them, what they can take."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from agentrewind.engine.commands import CANNOT_START
from agentrewind.engine.processes import RUN_MARK
from agentrewind.engine.started import TIMED_OUT
from agentrewind.integrations.sandbox import cgroups, commands_of, configuration, probe, side
from agentrewind.integrations.sandbox import filter as filters
from agentrewind.integrations.sandbox.side import prepare
from agentrewind.integrations.sandbox.spec import REACH, Confinement, Limits, Sandbox, told
from agentrewind.integrations.sandbox.view import search_path, shows, tools_of, view

needs_bwrap = pytest.mark.skipif(not probe.bubblewrap().works, reason=f"no sandbox here: {probe.bubblewrap().what}")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def make(tmp_path, workspace):
    def made(limits: Limits | None = None, **more: object) -> Sandbox:
        tools = tools_of(os.environ, str(tmp_path / "home"), str(workspace))
        confinement = replace(Confinement("bwrap", limits=limits or Limits()), **more)
        sandbox = Sandbox(confinement, str(workspace), str(tmp_path / "side"), tools=tools)
        prepare(sandbox)
        return sandbox

    return made


@pytest.fixture
def run(make, workspace):
    sandbox = make()

    def ran(command: str, **more: object):
        environ = {**os.environ, **more.pop("environ", {})}
        return commands_of(sandbox).run(command, **{"cwd": workspace, "environ": environ, "timeout_s": 60, **more})

    return ran


def alive(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{RUN_MARK}={mark}".encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


@needs_bwrap
class TestCommands:
    def test_what_it_writes_and_prints_is_there_and_its_exit_code_is_its_own(self, run, workspace):
        done = run("echo hello > made; pwd; echo oops >&2; exit 7")
        assert (workspace / "made").read_text() == "hello\n"
        assert done.output == f"{workspace}\noops\n"
        assert done.exit_code == 7

    @pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="there is no /dev/shm")
    def test_a_workspace_in_memory_is_there_and_so_is_what_may_be_read_there(self, tmp_path):
        """Below /dev, of which the sandbox has its own."""
        with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
            workspace, other = Path(place, "work"), Path(place, "other")
            workspace.mkdir()
            other.mkdir()
            (other / "told").write_text("told\n")
            sandbox = Sandbox(Confinement("bwrap", readable=(str(other),)), str(workspace), str(tmp_path / "side"))
            prepare(sandbox)
            done = commands_of(sandbox).run(
                f"echo hello > made; pwd; cat {other}/told; ls /dev/shm; echo zero > /dev/null",
                cwd=workspace,
                environ=os.environ,
                timeout_s=60,
            )
            assert (done.exit_code, done.output) == (0, f"{workspace}\ntold\n{workspace.parent.name}\n")
            assert (workspace / "made").read_text() == "hello\n"

    def test_one_that_dies_of_a_signal_says_so(self, run):
        assert run("kill -TERM $$").exit_code == 128 + 15

    def test_its_input_is_empty_and_it_has_no_terminal(self, run):
        assert run("cat; tty").output == "not a tty\n"

    def test_nothing_of_it_is_left_whatever_it_started(self, run, workspace):
        mark = f"left-{time.monotonic_ns()}"
        writer = "setsid nohup sh -c 'while :; do date >> late; sleep 0.02; done' >/dev/null 2>&1 &"
        done = run(f"({writer}) ; sleep 600 & sleep 0.2", environ={RUN_MARK: mark})
        assert done.exit_code == 0
        written = (workspace / "late").read_bytes()
        assert written, "it had been running"
        assert alive(mark) == []
        time.sleep(0.2)
        assert (workspace / "late").read_bytes() == written

    def test_a_time_out_ends_all_of_it(self, run):
        mark = f"slow-{time.monotonic_ns()}"
        done = run("sleep 600 & trap '' TERM; sleep 600", timeout_s=0.5, environ={RUN_MARK: mark})
        assert done.timed_out
        assert done.exit_code == TIMED_OUT
        assert alive(mark) == []

    def test_at_a_time_out_it_may_put_itself_in_order(self, run, workspace):
        run("trap 'echo tidy > tidied; exit' TERM; sleep 600 & wait", timeout_s=0.5)
        assert (workspace / "tidied").read_text() == "tidy\n"

    def test_the_limit_of_time_holds_where_no_other_is_set(self, make, workspace):
        sandbox = make(Limits(seconds=0.3))
        assert commands_of(sandbox).run("sleep 600", cwd=workspace, environ=os.environ).timed_out

    def test_of_much_output_the_head_and_the_tail_are_kept(self, run):
        done = run("yes | head -c 3000000; echo end", output_limit=1000)
        assert done.truncated
        assert len(done.output) < 1200
        assert done.output.endswith("end\n")

    def test_a_command_of_a_megabyte_runs(self, run):
        done = run(f"echo {'x' * 1_000_000} | wc -c")
        assert done.output == "1000001\n"

    def test_a_directory_that_is_gone_is_said(self, run, workspace):
        done = run("true", cwd=workspace / "gone")
        assert done.exit_code == CANNOT_START
        assert f"{workspace}/gone" in done.output

    def test_temporary_files_and_the_home_directory_stay_from_command_to_command(self, run, tmp_path):
        run("echo script > /tmp/kept; echo profile > ~/kept")
        assert run("cat /tmp/kept ~/kept").output == "script\nprofile\n"
        assert (tmp_path / "side" / "files" / "tmp" / "kept").read_text() == "script\n"
        assert (tmp_path / "side" / "files" / "home" / "kept").read_text() == "profile\n"

    def test_elsewhere_nothing_can_be_written_that_would_be_gone_with_the_command(self, run):
        for path in ("/lost", "/etc/lost", "/usr/lost", "/var/lost", "/run/lost", "/home/lost"):
            assert run(f"echo x > {path}").exit_code != 0, path

    def test_pagers_editors_and_questions_are_off(self, run):
        done = run("echo $PAGER $GIT_PAGER $EDITOR $GIT_EDITOR $GIT_TERMINAL_PROMPT $TERM")
        assert done.output == "cat cat true true 0 dumb\n"

    def test_a_variable_is_seen_where_it_is_named(self, make, workspace):
        environ = {**os.environ, "MINE": "1", "OTHER": "2", "A_API_KEY": "k"}
        sandbox = make(environ=("MINE",))
        done = commands_of(sandbox).run("echo [$MINE$OTHER]", cwd=workspace, environ=environ)
        assert done.output == "[1]\n"
        done = commands_of(sandbox).run("echo $A_API_KEY", cwd=workspace, environ=environ, pass_keys=("A_API_KEY",))
        assert done.output == "k\n"

    def test_the_network_is_that_of_the_machine_only_by_an_explicit_word(self, make, workspace):
        with closing(socket.create_server(("127.0.0.1", 0))) as server:
            asks = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]} && echo reached"
            off = commands_of(make()).run(asks, cwd=workspace, environ=os.environ)
            on = commands_of(make(network=True)).run(asks, cwd=workspace, environ=os.environ)
        assert "reached" not in off.output
        assert on.output == "reached\n"

    def test_servers_and_clients_within_one_command_find_each_other(self, run):
        serve = "python3 -m http.server -b 127.0.0.1 8123 >/dev/null 2>&1 & "
        ask = "for i in $(seq 50); do exec 3<>/dev/tcp/127.0.0.1/8123 && echo up && break; sleep 0.2; done 2>/dev/null"
        assert run(serve + ask).output == "up\n"

    def test_the_workspace_can_be_seen_at_another_place(self, make, workspace):
        sandbox = replace(make(), place="/app")
        done = commands_of(sandbox).run("pwd; echo x > made", cwd=workspace, environ=os.environ)
        assert done.output == "/app\n"
        assert (workspace / "made").exists()

    def test_a_sandbox_that_cant_be_made_is_no_result_of_the_command(self, make, workspace):
        sandbox = replace(make(), workspace=str(workspace / "gone"))
        done = commands_of(sandbox).run("true", cwd=workspace / "gone", environ=os.environ)
        assert done.exit_code == CANNOT_START
        assert "could not be made" in done.output

    def test_ctrl_c_leaves_nothing(self, run, monkeypatch):
        mark = f"interrupted-{time.monotonic_ns()}"
        interrupts = threading.Timer(0.7, lambda: os.kill(os.getpid(), signal.SIGINT))
        interrupts.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                run("sleep 600 & sleep 600", environ={RUN_MARK: mark})
        finally:
            interrupts.cancel()
        assert alive(mark) == []


@needs_bwrap
class TestLimits:
    def test_so_many_processes_and_no_more(self, make, workspace):
        if os.getuid() == 0 and not cgroups.places():
            pytest.skip("for root only control groups limit processes, and none can be made here")
        limits = Limits(processes=20)
        groups = cgroups.made(f"test-{os.getpid()}", limits)
        try:
            sandbox = replace(make(limits), cgroup=groups)
            command = "for i in $(seq 60); do sleep 5 & done 2>&1; jobs -p | wc -l"
            done = commands_of(sandbox).run(command, cwd=workspace, environ=os.environ, timeout_s=30)
        finally:
            cgroups.removed(groups)
        assert "Resource temporarily unavailable" in done.output or "Cannot fork" in done.output

    def test_so_much_memory_and_no_more(self, make, workspace):
        limits = Limits(memory=100 << 20)
        groups = cgroups.made(f"test-{os.getpid()}", limits)
        if not any("memory" in group or Path(group, "memory.max").exists() for group in groups):
            pytest.skip("no control group for memory can be made here")
        try:
            sandbox = replace(make(limits), cgroup=groups)
            takes = "python3 -c 'x = bytearray(400 << 20); print(len(x))'"
            done = commands_of(sandbox).run(takes, cwd=workspace, environ=os.environ)
            assert done.exit_code == 128 + 9
            assert "no more memory" in done.output
            fits = commands_of(sandbox).run("echo fine", cwd=workspace, environ=os.environ)
            assert fits.output == "fine\n"
        finally:
            cgroups.removed(groups)
        assert not any(os.path.exists(group) for group in groups)

    def test_a_file_may_be_so_large(self, make, workspace):
        sandbox = make(Limits(file_size=100_000))
        commands_of(sandbox).run("head -c 1000000 /dev/zero > big", cwd=workspace, environ=os.environ)
        assert (workspace / "big").stat().st_size <= 100_352


@needs_bwrap
class TestTraps:
    """What an agent might leave behind for the next command, whose sandbox is made outside."""

    def test_a_link_where_bubblewrap_mounts_makes_nothing_outside(self, make, workspace, tmp_path, monkeypatch):
        top = workspace.relative_to("/tmp").parts[0] if str(workspace).startswith("/tmp/") else ""
        if not top:
            pytest.skip("the workspace isn't below /tmp, so nothing is mounted below the side directory")
        victim = tmp_path / "outside"
        victim.mkdir()
        below = Path("/tmp") / top
        rest = workspace.relative_to(below)
        trap = f"mv /tmp/{top} /tmp/moved; ln -s /oldroot{victim} /tmp/{top}"
        sandbox = make()
        run = commands_of(sandbox).run
        run(trap, cwd=workspace, environ=os.environ)
        assert run("pwd", cwd=workspace, environ=os.environ).output == f"{workspace}\n"
        assert list(victim.iterdir()) == []
        run(f"rm -rf /tmp/moved; {trap}", cwd=workspace, environ=os.environ)
        monkeypatch.setattr("agentrewind.integrations.sandbox.running.mount_points", lambda _: None)
        run("pwd", cwd=workspace, environ=os.environ)
        assert (victim / rest.parts[0]).exists(), "without the check bubblewrap follows the link: the test can fail"

    def test_a_file_where_bubblewrap_mounts_is_put_out_of_the_way(self, make, tmp_path):
        sandbox = make()
        place = side.Path(sandbox.side) / "files" / "home"
        (place / "x").write_text("x")
        side._make(place, ["x", "y"], is_file=False)
        assert (place / "x" / "y").is_dir()

    def test_what_the_workspace_says_of_its_interpreter_opens_nothing(self, tmp_path, workspace):
        secret = tmp_path / "home" / ".ssh"
        (secret / "bin").mkdir(parents=True)
        venv = workspace / "venv"
        (venv / "bin").mkdir(parents=True)
        (venv / "pyvenv.cfg").write_text(f"home = {secret}/bin\n")
        (venv / "bin" / "python3").symlink_to(secret / "bin")
        found = tools_of({"PATH": f"{venv}/bin"}, str(tmp_path / "home"), str(workspace))
        assert found == ()


class TestView:
    @pytest.fixture
    def sandbox(self, tmp_path, workspace):
        return Sandbox(Confinement("bwrap"), str(workspace), str(tmp_path / "side"))

    def test_only_the_workspace_and_its_side_can_be_written(self, sandbox, workspace, tmp_path):
        written = {mount.source for mount in view(sandbox) if mount.how == "write"}
        assert written == {str(workspace), str(tmp_path / "side/files/tmp"), str(tmp_path / "side/files/home")}

    def test_what_is_hidden_is_covered_inside_of_what_may_be_read(self, sandbox, tmp_path):
        (tmp_path / "shared" / "data").mkdir(parents=True)
        sandbox = replace(
            sandbox,
            confinement=replace(sandbox.confinement, readable=(str(tmp_path / "shared"),)),
            hidden=(str(tmp_path / "shared" / "data"),),
        )
        assert shows(sandbox, str(tmp_path / "shared"))
        assert not shows(sandbox, str(tmp_path / "shared" / "data"))

    def test_of_a_home_directory_only_programs_are_shown(self, tmp_path, workspace):
        home = tmp_path / "home"
        for name in (".cargo/bin", ".nvm/versions/node/v20/bin", "project/tools/bin"):
            (home / name).mkdir(parents=True)
        (home / ".cargo" / "credentials.toml").write_text("secret")
        path = os.pathsep.join(f"{home}/{name}" for name in (".cargo/bin", ".nvm/versions/node/v20/bin"))
        found = tools_of({"PATH": path}, str(home), str(workspace))
        assert found == (f"{home}/.cargo/bin", f"{home}/.nvm/versions/node/v20")

    def test_a_virtual_environment_is_shown_as_a_whole_with_its_interpreter(self, tmp_path, workspace):
        venv = tmp_path / "venv"
        subprocess.run(["python3", "-m", "venv", "--without-pip", str(venv)], check=True)
        found = tools_of({"PATH": f"{venv}/bin"}, str(tmp_path / "home"), str(workspace))
        assert str(venv) in found

    def test_no_part_of_the_system_is_shown_because_a_program_lies_in_it(self, tmp_path, workspace):
        assert tools_of({"PATH": "/:/etc:/tmp:/home:/root:/proc/self"}, str(tmp_path / "home"), str(workspace)) == ()

    def test_path_names_only_what_is_seen(self, sandbox, workspace):
        environ = {"PATH": f"/home/somebody/bin:{workspace}/bin:relative:/usr/bin"}
        assert search_path(sandbox, environ).split(":")[:3] == [REACH, f"{workspace}/bin", "/usr/bin"]

    def test_the_agent_is_told_what_it_has_to_know(self, sandbox):
        assert "there is no network" in told(sandbox)
        assert told(None) == ""


def test_the_filter_is_one_program_for_each_known_machine():
    for machine in filters.MACHINES:
        code = filters.program(machine)
        assert code is not None
        assert len(code) % 8 == 0
        assert len(code) // 8 < 4096
    assert filters.program("pdp11") is None


@needs_bwrap
class TestConfiguration:
    def test_what_programs_look_up_in_etc_is_there_and_nothing_else(self, run):
        done = run("ls /etc; cat /etc/passwd; getent services http")
        names = set(done.output.split())
        assert {"passwd", "group", "hosts", "nsswitch.conf"} <= names
        assert not {"shadow", "ssh", "sudoers", "cron.d"} & names
        for name in ("services", "localtime", "ld.so.cache", "os-release"):
            if os.path.exists(f"/etc/{name}"):
                seen = run(f"cat /etc/{name} | sha256sum").output.split()[0]
                assert seen == hashlib.sha256(Path(f"/etc/{name}").read_bytes()).hexdigest()

    def test_it_can_not_be_written(self, run):
        done = run("echo x > /etc/hosts; echo x > /etc/new; rm -f /etc/passwd; cat /etc/hosts")
        assert "x\n" not in done.output
        assert "127.0.0.1 localhost" in done.output

    def test_what_only_some_may_read_is_not_copied(self, tmp_path, monkeypatch):
        source = tmp_path / "etc"
        source.mkdir()
        (source / "open").write_text("for all")
        (source / "closed").write_text("for some")
        (source / "closed").chmod(0o640)
        (source / "loop").symlink_to(".")
        to = tmp_path / "to"
        configuration._copy(str(source), to, 3)
        assert (to / "open").read_text() == "for all"
        assert not list(to.rglob("closed"))

    def test_something_of_etc_can_be_asked_for_by_name(self, make, workspace):
        if not os.path.exists("/etc/fstab"):
            pytest.skip("there is no /etc/fstab here")
        sandbox = make(readable=("/etc/fstab",))
        done = commands_of(sandbox).run("cat /etc/fstab", cwd=workspace, environ=os.environ, timeout_s=60)
        assert (done.exit_code, done.output) == (0, Path("/etc/fstab").read_text())


def test_few_things_are_mounted(make):
    """Each costs a command time, and the more the more there are."""
    sandbox = make()
    mounted = [mount.at for mount in view(sandbox) if mount.how != "link"]
    others = set(sandbox.tools) | {f"/etc/{name}" for name in configuration.MOUNTED}
    assert len([at for at in mounted if at not in others]) <= 14, mounted


def test_what_lies_in_something_that_is_seen_is_mounted_with_it(make, tmp_path):
    outer, inner = tmp_path / "tools", tmp_path / "tools" / "bin"
    inner.mkdir(parents=True)
    sandbox = replace(make(), tools=(str(outer), str(inner)))
    assert [mount.at for mount in view(sandbox) if "tools" in mount.at] == [str(outer)]
    (inner / "more").mkdir()
    hidden = replace(sandbox, tools=(str(outer), str(inner / "more")), hidden=(str(inner),))
    assert [(mount.at, mount.how) for mount in view(hidden) if "tools" in mount.at] == [
        (str(outer), "read"),
        (str(inner), "nothing"),
        (str(inner / "more"), "read"),
    ]
