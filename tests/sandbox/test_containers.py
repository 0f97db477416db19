"""Commands in a container each, where an engine is there: the real one, on an image that is made here.

The image holds nothing but links: the programs are those of this machine, mounted to be read.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agentrewind.engine.commands import CANNOT_START
from agentrewind.engine.processes import RUN_MARK
from agentrewind.engine.started import TIMED_OUT
from agentrewind.integrations.sandbox import commands_of, probe
from agentrewind.integrations.sandbox.containers import container_words
from agentrewind.integrations.sandbox.side import prepare
from agentrewind.integrations.sandbox.spec import Confinement, Kind, Limits, Sandbox

MARK = f"test-{os.getpid()}"
IMAGE = f"agentrewind-test-of-links:{os.getpid()}"


def image_of(engine: str) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name in ("bin", "sbin", "lib", "lib64", "lib32"):
            if os.path.islink(f"/{name}"):
                link = tarfile.TarInfo(name)
                link.type, link.linkname = tarfile.SYMTYPE, os.readlink(f"/{name}")
                tar.addfile(link)
        for name in ("usr", "etc", "proc", "sys", "dev", "tmp", "home", "home/agent", "run", "var"):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(directory)
    subprocess.run([engine, "import", "-", IMAGE], input=data.getvalue(), capture_output=True, check=True, timeout=100)


@pytest.fixture(scope="module", params=["podman", "docker"])
def engine(request) -> Iterator[Kind]:
    found = probe.engine(request.param)
    if not found.works:
        pytest.skip(found.what)
    if not os.path.islink("/bin"):
        pytest.skip("this machine keeps programs outside of /usr, and the image of this test has none")
    image_of(request.param)
    yield request.param
    subprocess.run([request.param, "rmi", "-f", IMAGE], capture_output=True, check=False)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def sandbox(engine, tmp_path, workspace) -> Sandbox:
    confinement = Confinement(engine, readable=("/usr",), image=IMAGE)
    made = Sandbox(confinement, str(workspace), str(tmp_path / "side"))
    prepare(made)
    return made


def ran(sandbox: Sandbox, command: str, **more: object):
    environ = {**os.environ, RUN_MARK: MARK, **more.pop("environ", {})}
    options = {"cwd": Path(sandbox.workspace), "environ": environ, "timeout_s": 60, **more}
    return commands_of(sandbox).run(command, **options)


def containers(engine: str) -> list[str]:
    """Those of this process: others may run agents of their own."""
    words = [engine, "ps", "-aq", "--filter", f"label=agentrewind.run={MARK}"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


def test_what_it_writes_and_prints_is_there_and_its_exit_code_is_its_own(engine, sandbox, workspace):
    done = ran(sandbox, "echo hello > made; pwd; echo ~; echo oops >&2; exit 7")
    assert done.exit_code == 7, done
    assert done.output.splitlines() == [str(workspace), "/home/agent", "oops"]
    assert (workspace / "made").read_text() == "hello\n"
    assert (workspace / "made").stat().st_uid == os.getuid()
    assert containers(engine) == []


def test_temporary_files_and_the_home_directory_stay_and_nothing_else_can_be_written(sandbox):
    assert ran(sandbox, "echo a > /tmp/kept; echo b > ~/kept").exit_code == 0
    assert ran(sandbox, "cat /tmp/kept ~/kept").output == "a\nb\n"
    assert ran(sandbox, "touch /lost").exit_code != 0
    assert ran(sandbox, "touch /usr/lost").exit_code != 0


def test_there_is_no_network_no_secret_and_no_process_of_others(sandbox, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    seen = ran(
        sandbox,
        f"cat {secret}; env; cat /proc/net/dev; ls -d /proc/[0-9]* | wc -l; grep -i capeff /proc/self/status",
        environ={"OPENAI_API_KEY": "sk-SECRET", "DATABASE_PASSWORD": "SECRET"},
    ).output
    assert "SECRET" not in seen
    assert "eth0" not in seen
    assert "CapEff:\t0000000000000000" in seen


def test_a_key_that_is_passed_is_in_no_words_of_a_process(sandbox):
    environ = {"MY_API_KEY": "sk-passed"}
    words: list[bytes] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    words.append(path.read_bytes())
                except OSError:
                    continue
            time.sleep(0.05)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        result = ran(sandbox, "echo $MY_API_KEY; sleep 0.5", environ=environ, pass_keys=("MY_API_KEY",))
    finally:
        done.set()
        watcher.join()
    assert result.output == "sk-passed\n"
    assert not any(b"sk-passed" in item for item in words)


def test_a_time_out_ends_the_container_too(engine, sandbox):
    done = ran(sandbox, "sleep 600 & sleep 600", timeout_s=2)
    assert done.timed_out
    assert done.exit_code == TIMED_OUT
    assert containers(engine) == []


def test_ctrl_c_ends_the_container_too(engine, sandbox):
    interrupts = threading.Timer(3, lambda: os.kill(os.getpid(), signal.SIGINT))
    interrupts.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            ran(sandbox, "sleep 600")
    finally:
        interrupts.cancel()
    assert containers(engine) == []


def test_an_image_that_isnt_there_is_no_result_of_the_command(sandbox):
    missing = replace(sandbox, confinement=replace(sandbox.confinement, image="localhost/no-such-image:1"))
    done = ran(missing, "true")
    assert done.exit_code == CANNOT_START
    assert "could not start a container" in done.output


@pytest.mark.parametrize("kind", ["docker", "podman"])
def test_the_words_confine_whatever_the_engine(kind, tmp_path):
    limits = Limits(memory=1 << 30, processes=100, file_size=5000)
    confinement = Confinement(kind, readable=("/usr",), image="image:1", limits=limits)
    sandbox = Sandbox(confinement, "/work", str(tmp_path))
    words = container_words(sandbox, "name", "/work", {"MY_API_KEY": "sk-passed", "HOME": "/home/agent"})
    line = " ".join(words)
    for part in (
        "--network none", "--read-only", "--cap-drop ALL", "no-new-privileges", "--pull never", "--rm",
        "--pids-limit 100", f"--memory {1 << 30}", "--volume /work:/work:rw",
        "--volume /usr:/usr:ro", "--env MY_API_KEY",
    ):  # fmt: skip
        assert part in line, part
    assert "sk-passed" not in line
    assert words[-1] == "image:1"
    shared = replace(sandbox, confinement=replace(confinement, network=True))
    assert "--network none" not in " ".join(container_words(shared, "name", "/work", {}))
