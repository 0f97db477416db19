"""Running a command: what comes back, what can't happen."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrewind.engine import commands, started
from agentrewind.engine.commands import CANNOT_START, UNCONFINED, command_environ
from agentrewind.engine.output import Kept
from agentrewind.engine.started import TIMED_OUT

PATH = os.environ["PATH"]


@pytest.fixture
def run(tmp_path):
    def call(command, environ=None, **given):
        return UNCONFINED.run(command, cwd=tmp_path, environ={"PATH": PATH, **(environ or {})}, **given)

    return call


def alive(pid):
    """Whether the process runs: a zombie that nobody has waited for doesn't."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def gone(pid, within=5.0):
    deadline = time.monotonic() + within
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive(pid)


@contextlib.contextmanager
def ended_afterwards(path):
    """Kill the process whose pid stands in `path`, which the test has started."""
    try:
        yield
    finally:
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(path.read_text()), signal.SIGKILL)


def test_both_streams_come_back_in_the_order_of_writing(run):
    result = run("echo one; echo two >&2; echo three")
    assert result.output == "one\ntwo\nthree\n"
    assert (result.exit_code, result.truncated, result.timed_out) == (0, False, False)
    assert 0 < result.seconds < 10


@pytest.mark.parametrize(("command", "code"), [("exit 7", 7), ("no-such-program", 127), ("kill -9 $$", 137)])
def test_the_exit_code_is_that_of_a_shell(run, command, code):
    assert run(command).exit_code == code


def test_the_shell_is_bash_where_there_is_one(run):
    assert run("[[ a == a ]] && echo ${BASH_VERSION:+bash}").output == "bash\n"


def test_without_bash_sh_does(run, monkeypatch):
    monkeypatch.setattr(commands.shutil, "which", lambda _: None)
    assert run("echo hello").output == "hello\n"


def test_there_is_no_input(run):
    assert run("cat; read -r x || echo none").output == "none\n"


def test_there_is_no_terminal_to_ask_on(run):
    assert run("(exec 3<> /dev/tty) 2>/dev/null || echo none").output == "none\n"


def test_a_program_that_opens_the_output_by_name_wipes_nothing(run):
    assert (
        run("echo one; echo two > /dev/stderr; echo three > /dev/stdout; echo four").output == "one\ntwo\nthree\nfour\n"
    )


def test_undecodable_output_is_replaced_and_the_rest_is_kept(run):
    assert run(r"printf 'a\377b\n'").output == "a\ufffdb\n"


# --- children ---------------------------------------------------------------------------------------------------------


def test_a_child_that_holds_the_output_is_not_waited_for_and_lives_on(run, tmp_path):
    with ended_afterwards(tmp_path / "pid"):
        result = run("sleep 60 & echo $! > pid; echo begun")
        assert result.output == "begun\n"
        assert result.seconds < 5
        assert alive(int((tmp_path / "pid").read_text()))


def test_a_child_that_goes_on_writing_neither_dies_nor_blocks(run, tmp_path):
    code = (
        "import time\nfor n in range(200): print('x' * 4096, flush=True)\nopen('written', 'w').close(); time.sleep(60)"
    )
    with ended_afterwards(tmp_path / "pid"):
        run(f'sleep 0.3 && exec {sys.executable} -c "{code}" & echo $! > pid')
        deadline = time.monotonic() + 20
        while not (tmp_path / "written").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert (tmp_path / "written").exists()
        assert alive(int((tmp_path / "pid").read_text()))


def test_what_a_child_writes_just_after_the_end_is_still_taken(run):
    assert run("exec > >(sed s/a/b/); echo aaa").output == "baa\n"


def test_a_child_that_writes_for_ever_does_not_keep_us(run, tmp_path):
    with ended_afterwards(tmp_path / "pid"):
        result = run("yes & echo $! > pid; echo done", output_limit=1000)
        assert result.seconds < 5
        assert result.truncated


# --- time-outs and interrupts -----------------------------------------------------------------------------------------


def test_a_time_out_ends_the_command_and_its_children_and_keeps_the_output(run, tmp_path):
    result = run("echo begun; sleep 60 & echo $! > pid; sleep 60", timeout_s=0.3)
    assert (result.exit_code, result.timed_out, result.output) == (TIMED_OUT, True, "begun\n")
    assert result.seconds < 5
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_command_may_clean_up_before_it_is_ended(run, tmp_path):
    result = run("trap 'echo cleaned; exit' TERM; while true; do sleep 0.05; done", timeout_s=0.3)
    assert result.output.endswith("cleaned\n")


def test_a_command_that_ignores_term_is_killed(run, monkeypatch):
    monkeypatch.setattr(started, "GRACE_S", 0.2)
    result = run("trap '' TERM; echo $$; while true; do sleep 0.05; done", timeout_s=0.2)
    assert result.timed_out
    assert gone(int(result.output))


def test_a_time_out_of_years_is_one(run):
    assert run("echo hello", timeout_s=1e12).output == "hello\n"


def test_a_command_that_ends_in_time_is_not_timed_out(run):
    result = run("exit 3", timeout_s=30)
    assert (result.exit_code, result.timed_out) == (3, False)


def test_ctrl_c_ends_the_command_and_travels_on(tmp_path):
    code = (
        "import os, pathlib, sys\n"
        "from agentrewind.engine.commands import UNCONFINED\n"
        "try:\n"
        "    UNCONFINED.run('echo $$ > pid; sleep 60; true', cwd=pathlib.Path(sys.argv[1]), environ=dict(os.environ))\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert child.poll() is None
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=20)
    assert out == "interrupted\n"
    assert gone(int((tmp_path / "pid").read_text()))


def test_commands_in_several_threads_do_not_disturb_each_other(run):
    outputs = {}

    def work(number):
        outputs[number] = run(f"for i in 1 2 3; do echo {number}; done").output

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outputs == {number: f"{number}\n" * 3 for number in range(8)}


def test_no_descriptor_is_left_open(run):
    run("true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        run("echo hello", timeout_s=5)
        run("sleep 60", timeout_s=0.05)
    assert len(os.listdir("/proc/self/fd")) == before


def test_without_pidfd_it_works_the_same(run, monkeypatch):
    monkeypatch.delattr(started.os, "pidfd_open")
    assert run("echo hello; sleep 0.1; echo bye").output == "hello\nbye\n"
    assert run("sleep 60", timeout_s=0.2).timed_out


# --- what can't be started --------------------------------------------------------------------------------------------


def test_a_workspace_that_is_gone_is_said_to_be(tmp_path):
    result = UNCONFINED.run("pwd", cwd=tmp_path / "gone", environ={})
    assert result.exit_code == CANNOT_START
    assert result.output == f"The command could not be started in {tmp_path}/gone: No such file or directory.\n"


def test_a_command_that_no_system_takes_is_refused_in_words(run):
    result = run("echo a\0b")
    assert result.exit_code == CANNOT_START
    assert "null byte" in result.output


def test_a_command_of_any_length_runs(run):
    text = "x" * 300_000
    assert run(f"cat > f <<'EOF'\n{text}\nEOF\nwc -c < f").output.strip() == "300001"


def test_half_a_surrogate_pair_in_a_command_is_no_error(run):
    assert run("echo a\ud83db").output == "a?b\n"


# --- a long output ----------------------------------------------------------------------------------------------------


def test_of_a_long_output_head_and_tail_are_kept_and_a_line_says_what_is_missing(run):
    result = run("seq 1 100000", output_limit=1000)
    assert result.truncated
    assert result.output.startswith("1\n2\n3\n")
    assert result.output.endswith("99999\n100000\n")
    assert "\n[... 587,895 bytes of output left out here ...]\n" in result.output


def test_an_output_of_exactly_the_limit_is_whole(run):
    result = run("printf %01000d 7", output_limit=1000)
    assert not result.truncated
    assert len(result.output) == 1000


def test_a_gigabyte_of_output_needs_no_gigabyte(run):
    result = run("head -c 300000000 /dev/zero", output_limit=1000)
    assert "bytes of output left out here" in result.output
    assert len(result.output) < 1100


@given(st.text(min_size=1, max_size=300), st.integers(2, 400), st.lists(st.integers(1, 50), min_size=1))
def test_cut_anywhere_what_is_kept_is_a_head_and_a_tail_of_the_text(text, limit, sizes):
    data = text.encode("utf-8", "replace")
    kept = Kept(limit)
    at = 0
    for number in range(len(data)):
        size = sizes[number % len(sizes)]
        kept.add(data[at : at + size])
        at += size
    text = data.decode()
    if not kept.left_out:
        assert kept.text() == text
        return
    head, _, tail = kept.text().partition("\n[... ")
    missing, _, tail = tail.partition(" bytes of output left out here ...]\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head.encode()) + len(tail.encode()) <= limit
    assert int(missing.replace(",", "")) == len(data) - len(head.encode()) - len(tail.encode())


# --- the environment --------------------------------------------------------------------------------------------------


def test_keys_of_model_providers_are_not_passed_on_unless_asked(run):
    keys = {"OPENAI_API_KEY": "a", "ANTHROPIC_AUTH_TOKEN": "b", "API_KEY": "c", "HF_TOKEN": "d", "gemini_apikey": "e"}
    others = {"HOME": "/h", "GH_TOKEN": "f", "KEYBOARD": "g", "API_KEY_FILE": "h"}
    assert command_environ(keys | others) == others | {"GIT_TERMINAL_PROMPT": "0", "PAGER": "cat", "GIT_PAGER": "cat"}
    assert command_environ(keys, ["API_KEY"])["API_KEY"] == "c"
    assert run("echo $OPENAI_API_KEY", keys, pass_keys=["OPENAI_API_KEY"]).output == "a\n"


def test_git_is_the_one_of_the_workspace_whatever_git_we_were_started_from(run, tmp_path):
    other = tmp_path / "other"
    subprocess.run(["git", "init", "-q", other], check=True)
    redirected = {"GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other), "GIT_INDEX_FILE": str(other / "index")}
    result = run("git init -q here && cd here && touch a && git add a && git rev-parse --show-toplevel", redirected)
    assert result.output == f"{tmp_path}/here\n"
    assert not (other / "index").exists()


def test_no_pager_stands_in_the_way(run):
    assert run("echo $PAGER $GIT_PAGER $GIT_TERMINAL_PROMPT", {"PAGER": "less"}).output == "cat cat 0\n"


def test_the_working_directory_is_the_one_given_even_through_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    result = UNCONFINED.run("pwd", cwd=tmp_path / "link", environ={"PATH": PATH, "PWD": "/elsewhere"})
    assert result.output == f"{tmp_path}/link\n"
