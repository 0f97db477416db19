from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from agentrewind.engine.processes import RUN_MARK, descendants, end_all, marked, ticks_now

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def wait_until(true, seconds: float = 5.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it didn't come true in time"
        time.sleep(0.02)


def test_a_child_that_ignores_term_is_killed_and_named() -> None:
    since = ticks_now()
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import signal,time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)",
        ],
        stdout=subprocess.PIPE,
    )
    assert child.stdout.readline() == b"up\n"
    ended, alive = end_all(lambda: [p for p in descendants(os.getpid(), since) if p.pid == child.pid])
    child.stdout.close()
    child.wait()
    assert alive == []
    assert [process.pid for process in ended] == [child.pid]
    assert "time.sleep" in str(ended[0])


def test_what_was_started_before_is_left_alone() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        wait_until(lambda: any(p.pid == child.pid for p in descendants(os.getpid())))
        time.sleep(0.05)
        assert child.pid not in [process.pid for process in descendants(os.getpid(), ticks_now())]
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


def test_a_daemon_comes_back_to_the_subreaper_and_is_ended() -> None:
    script = """
import os, subprocess, sys, time
from agentrewind.engine.processes import become_subreaper, descendants, end_all, ticks_now
assert become_subreaper()
since = ticks_now()
subprocess.run(["bash", "-c", "setsid nohup sleep 61 >/dev/null 2>&1 & disown"], check=True)
time.sleep(0.2)
ended, alive = end_all(lambda: descendants(os.getpid(), since))
print(len(ended), len(alive), ended[0].command)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "1 0 sleep 61"


def test_the_mark_finds_an_orphan_of_a_dead_run_and_nobody_else() -> None:
    orphan = subprocess.Popen(["sleep", "62"], env={**os.environ, RUN_MARK: "run-x"})
    other = subprocess.Popen(["sleep", "62"], env={**os.environ, RUN_MARK: "run-xy"})
    try:
        wait_until(lambda: [process.pid for process in marked("run-x")] == [orphan.pid])
        ended, alive = end_all(lambda: marked("run-x"))
        assert ([process.pid for process in ended], alive) == ([orphan.pid], [])
        assert orphan.wait() == -signal.SIGTERM
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


STAYS = "#include <unistd.h>\nint main(void) { if (setuid(0)) return 1; sleep(600); return 0; }\n"


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("gcc") is None, reason="needs root, to make what a user can't end")
def test_a_process_that_its_user_may_not_end_is_named_as_alive(tmp_path):
    program = tmp_path / "stays"
    (tmp_path / "stays.c").write_text(STAYS)
    subprocess.run(["gcc", "-o", str(program), str(tmp_path / "stays.c")], check=True)
    program.chmod(0o4755)
    tmp_path.chmod(0o755)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:  # as somebody else: what is needed is imported already
        os.chdir(tmp_path)
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        child = subprocess.Popen(["./stays"])
        time.sleep(0.3)
        ended, alive = end_all(lambda: descendants(os.getpid()))
        os.write(writing, f"{len(ended)} {alive[0]} {child.pid}".encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as file:
        ended, named, command, expected = file.read().split()
    os.waitpid(pid, 0)
    os.kill(int(expected), signal.SIGKILL)
    assert (ended, named, command) == ("0", expected, "(./stays)")
