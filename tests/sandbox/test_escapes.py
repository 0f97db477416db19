"""Out of the sandbox: every attempt succeeds without one (so that it means something), and none with one.

As root and as a plain user; a sandbox for each command, and the one of a session.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import pickle
import pty
import secrets
import shutil
import socket
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agentrewind.integrations.sandbox import commands_of, probe
from agentrewind.integrations.sandbox.session import Session, installation
from agentrewind.integrations.sandbox.side import prepare
from agentrewind.integrations.sandbox.spec import Confinement, Kind, Sandbox
from agentrewind.integrations.sandbox.view import tools_of
from tests.sandbox.escapes import ATTEMPTS, LIBC, syscall

NOBODY = 65534
KEY = "sk-SECRET-of-the-provider"
WORD = "SECRETWORD"
ROOT, PLAIN = 0, NOBODY

NEEDS_ROOT = {
    "read a file that only root may read", "write into usr", "write into etc", "write into var", "open a disk",
    "make a device and open it", "open the memory of the machine", "go through the root of the first process",
    "mount something", "uncover a mount", "make a mount writable", "change the root", "open a file by its handle",
    "enter the namespaces of a process outside", "write the pattern of core dumps", "write a setting of the kernel",
    "trigger a magic key", "make a control group", "write below sys", "load a module", "set the clock", "power off",
    "change the name of the machine",
}  # fmt: skip
"""What a plain user can't do anyway: with a sandbox as little."""
NEEDS_A_PLAIN_USER = {"become root by a setuid program"}
DEPENDS = {
    "talk to the hypervisor": "this kernel has no such sockets",
    "type into the terminal of the user": "this kernel lets nobody do that any more",
    "make a user namespace": "this machine lets nobody do that",
    "make a user namespace by cloning": "this machine lets nobody do that",
    "see an interface of the network": "this machine has no network",
    "open a disk": "this machine shows no disk",
    "make a device and open it": "this machine shows no disk",
    "open the memory of the machine": "this machine shows nobody its memory",
    "read a key of the keyring": "this kernel has no keyrings",
    "write below sys": "this kernel has no such setting",
    "make a control group": "no control group can be made here",
    "load a module": "this kernel loads no modules",
    "make a mount writable": "nothing can be mounted here",
    "trigger a magic key": "this kernel has no magic keys",
    "go through the root of the first process": "the first process here lives elsewhere",
    "set the clock": "nobody may set the clock here",
    "open a file by its handle": "this file system has no handles",
}
"""What may not succeed without a sandbox either, on another machine than a full one: then it is said."""

pytestmark = pytest.mark.skipif(not probe.bubblewrap().works, reason=f"no sandbox here: {probe.bubblewrap().what}")


@dataclass
class Outside:
    """Something of everything that must not be reached."""

    base: Path
    uid: int
    facts: dict[str, object] = field(default_factory=dict)

    @property
    def workspace(self) -> Path:
        return self.base / "workspace"

    def state(self) -> dict[str, object]:
        """All that must not change."""
        found: dict[str, object] = {}
        for top in ("outside", "home", "data"):
            for path in sorted((self.base / top).rglob("*")):
                info = path.lstat()
                content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(info.st_mode) else ""
                found[str(path)] = (info.st_mode, info.st_nlink, content)
        victim = self.facts["victim"]
        found["victim"] = os.path.exists(f"/proc/{victim}/mem") and os.getpriority(os.PRIO_PROCESS, victim)
        found["to end"] = subprocess.run(["pgrep", "-f", f"{self.facts['mark']}-to-end"], check=False).returncode
        found["name"] = socket.gethostname()
        found["core"] = Path("/proc/sys/kernel/core_pattern").read_text()
        for path in ("/usr/local", "/etc", "/var"):
            found[path] = os.path.lexists(f"{path}/agentrewind-escape")
        return found


def _answering(listener: socket.socket) -> None:
    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                if listener.type == socket.SOCK_DGRAM:
                    _, caller = listener.recvfrom(10)
                    listener.sendto(b"SECRET", caller)
                    continue
                line, _ = listener.accept()
                with contextlib.suppress(OSError), line:
                    line.recv(1)
                    line.sendall(b"SECRET")

    threading.Thread(target=serve, daemon=True).start()


def _listening(family: int, address: object, kind: int = socket.SOCK_STREAM) -> socket.socket:
    made = socket.socket(family, kind)
    made.bind(address)
    if kind == socket.SOCK_STREAM:
        made.listen()
    _answering(made)
    return made


def _files(base: Path) -> None:
    for name in ("outside", "home/.ssh", "data/store", "workspace", "socket"):
        (base / name).mkdir(parents=True)
    for name in ("outside/secret", "home/.ssh/id_rsa", "data/journal", "data/store/packs", "data/store/to-remove"):
        (base / name).write_text("SECRET\n")
    (base / "outside" / "secret").chmod(0o600)
    (base / "outside" / "to-move").write_text("x")
    (base / "home" / ".bashrc").write_text("# mine\n")
    (base / "workspace" / "planted-link").symlink_to(base / "outside" / "secret")
    shutil.copy(Path(__file__).with_name("escapes.py"), base / "workspace" / "escapes.py")


def _victim(base: Path, mark: str, uid: int) -> subprocess.Popen[bytes]:
    """A process of the same user, with a secret in its environment, an open file, and a directory outside."""
    return subprocess.Popen(
        ["bash", "-c", f"exec 9<secret; exec -a {mark}-{WORD} sleep 600"],
        cwd=base / "outside",
        env={"PATH": os.environ["PATH"], "TOKEN": "SECRET", "OPENAI_API_KEY": KEY},
        **({"user": uid, "group": uid, "extra_groups": []} if os.getuid() == 0 else {}),
    )


def _disk() -> list[int]:
    for line in Path("/proc/partitions").read_text().splitlines()[2:]:
        major, minor = line.split()[:2]
        return [int(major), int(minor)]
    return [0, 0]


@contextlib.contextmanager
def outside(uid: int) -> Iterator[Outside]:
    base = Path(tempfile.mkdtemp(prefix="agentrewind-escapes-"))
    mark = f"mark{secrets.token_hex(4)}"
    made = Outside(base, uid)
    _files(base)
    base.chmod(0o755)
    if uid != os.getuid():
        for path in (base, *base.rglob("*")):
            os.chown(path, uid, uid, follow_symlinks=False)
    if os.getuid() == 0:
        shutil.copy(shutil.which("id") or "/usr/bin/id", base / "workspace" / "setuid-id")
        (base / "workspace" / "setuid-id").chmod(0o4755)
    sockets = [
        tcp := _listening(socket.AF_INET, ("127.0.0.1", 0)),
        udp := _listening(socket.AF_INET, ("127.0.0.1", 0), socket.SOCK_DGRAM),
        _listening(socket.AF_UNIX, f"\0{mark}"),
        _listening(socket.AF_UNIX, str(base / "socket" / "s")),
    ]
    (base / "socket" / "s").chmod(0o777)
    shm = secrets.randbelow(1 << 30) + 1
    segment = LIBC.shmget(shm, 64, 0o1666)
    LIBC.shmat.restype = ctypes.c_void_p
    ctypes.memmove(LIBC.shmat(segment, None, 0), b"SECRET\0", 7)
    posix = Path("/dev/shm") / mark
    posix.write_text("SECRET")
    posix.chmod(0o644)
    victim = _victim(base, mark, uid)
    time.sleep(0.3)
    made.facts = {
        "secret": str(base / "outside" / "secret"), "outside": str(base / "outside"), "home": str(base / "home"),
        "journal": str(base / "data" / "journal"), "store": str(base / "data" / "store"), "victim": victim.pid,
        "mark": mark, "key": KEY, "word": WORD, "tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1],
        "socket": str(base / "socket" / "s"), "shm": shm, "disk": _disk(), "hostname": socket.gethostname(),
    }  # fmt: skip
    try:
        yield made
    finally:
        victim.kill()
        victim.wait()
        for item in sockets:
            item.close()
        LIBC.shmctl(segment, 0, None)
        posix.unlink()
        for mount in ("mounted", "covered", "read-only"):
            LIBC.umount2(os.fsencode(base / "workspace" / mount), 2)
        shutil.rmtree(base)


def in_a_terminal(uid: int, work: Callable[[], object]) -> object:
    """What `work` returns in a child with a terminal of its own, as that user, with a secret on its input."""
    reading, writing = os.pipe()
    pid, terminal = pty.fork()
    if pid == 0:
        try:
            if uid != os.getuid():
                os.setgroups([])
                os.setgid(uid)
                os.setuid(uid)
            said = work()
        except BaseException as error:  # noqa: BLE001
            said = error
        with open(writing, "wb") as file:
            pickle.dump(said, file)
        os._exit(0)
    os.close(writing)
    threading.Thread(target=_swallow, args=(terminal,), daemon=True).start()
    with open(reading, "rb") as file:
        data = file.read()
    os.waitpid(pid, 0)
    found = pickle.loads(data)
    if isinstance(found, BaseException):
        raise found
    return found


def _swallow(terminal: int) -> None:
    with contextlib.suppress(OSError):
        while os.read(terminal, 4096):
            pass
    os.close(terminal)


def _keyed(mark: str) -> None:
    """A key in the keyring of the user, and one's own link to it."""
    syscall("add_key", b"user", mark.encode(), b"SECRET", 6, -4)
    syscall("keyctl", 8, -4, -3)


ENVIRON = {
    "PATH": os.environ["PATH"], "DATABASE_PASSWORD": "SECRET", "AWS_SECRET_ACCESS_KEY": "SECRET", "OPENAI_API_KEY": KEY,
}  # fmt: skip


def _to_end(mark: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["bash", "-c", f"exec -a {mark}-to-end sleep 600"])


def _results(output: str) -> dict[str, object]:
    line = next((line for line in output.splitlines() if line.startswith("RESULT ")), None)
    assert line is not None, output
    return json.loads(line.removeprefix("RESULT "))


def _say(place: Outside, **more: object) -> None:
    path = place.workspace / "facts.json"
    path.write_text(json.dumps({**place.facts, **more}))
    path.chmod(0o644)


def free(place: Outside) -> dict[str, object]:
    """Each attempt, with nothing in its way."""
    _say(place, confined=False, mount=str(_bound(place)))

    def work() -> dict[str, object]:
        _keyed(str(place.facts["mark"]))
        ended = _to_end(str(place.facts["mark"]))
        reading, writing = os.pipe()
        os.write(writing, b"SECRET")
        os.set_inheritable(os.open(place.base / "outside" / "secret", os.O_RDONLY), True)
        done = subprocess.run(
            ["python3", "escapes.py", "facts.json"],
            cwd=place.workspace,
            env={**ENVIRON, "SSH_AUTH_SOCK": str(place.facts["socket"])},
            stdin=reading,
            capture_output=True,
            text=True,
            close_fds=False,
            check=False,
        )
        ended.kill()
        return _results(done.stdout + done.stderr)

    found = in_a_terminal(place.uid, work)
    time.sleep(1.5)
    found["stay behind as a daemon"] = (place.workspace / "written-late").exists()
    return found


def _bound(place: Outside) -> Path:
    """A directory that is mounted read-only, where such a thing can be made."""
    at = place.workspace / "read-only"
    at.mkdir(exist_ok=True)
    LIBC.mount(b"none", os.fsencode(at), b"tmpfs", 1, None)
    return at


def confined(place: Outside, kind: Kind) -> dict[str, object]:
    """Each attempt, in a sandbox."""
    _say(place, confined=True, mount="/usr")

    def work() -> dict[str, object]:
        home, work = str(place.base / "home"), str(place.workspace)
        _keyed(str(place.facts["mark"]))
        ended = _to_end(str(place.facts["mark"]))
        tools = (*tools_of(ENVIRON, home, work), *installation())
        hidden = (home, str(place.base / "data"))
        sandbox = Sandbox(Confinement(kind), work, str(place.base / "data" / "side"), tools=tools, hidden=hidden)
        prepare(sandbox)
        os.environ |= ENVIRON
        os.set_inheritable(os.open(place.base / "outside" / "secret", os.O_RDONLY), True)
        environ = {**ENVIRON, "SSH_AUTH_SOCK": str(place.facts["socket"])}
        session = contextlib.closing(Session(sandbox, environ)) if kind == "session" else contextlib.nullcontext()
        with session:
            done = commands_of(sandbox).run(
                "python3 escapes.py facts.json", cwd=place.workspace, environ=environ, timeout_s=60
            )
            time.sleep(1.5)
        assert ended.poll() is None, "a process outside was ended"
        ended.kill()
        return _results(done.output)

    before = place.state()
    found = in_a_terminal(place.uid, work)
    found["stay behind as a daemon"] = (place.workspace / "written-late").exists()
    after = {name: value for name, value in place.state().items() if "/data/side" not in name}
    assert after == before, "something outside has changed"
    return found


def _user_is_possible(uid: int) -> str:
    if uid != os.getuid() and os.getuid() != 0:
        return "only root can try it as another user"
    if uid == PLAIN and not os.path.exists("/usr/bin/python3"):
        return "there is no Python that a plain user may run"
    return ""


@pytest.fixture(scope="module", params=[ROOT, PLAIN], ids=["root", "plain user"])
def uid(request):
    if why := _user_is_possible(request.param):
        pytest.skip(why)
    return request.param


@pytest.fixture(scope="module")
def succeeded(uid):
    with outside(uid) as place:
        return free(place)


@pytest.fixture(scope="module", params=["bwrap", "session"])
def held(request, uid):
    with outside(uid) as place:
        return confined(place, request.param)


@pytest.mark.parametrize("name", ATTEMPTS)
def test_without_a_sandbox_it_succeeds(succeeded, uid, name):
    impossible = NEEDS_ROOT if uid else NEEDS_A_PLAIN_USER
    if succeeded[name] is not True and name in DEPENDS and name not in impossible:
        pytest.skip(f"{DEPENDS[name]}: {succeeded[name]}")
    assert (succeeded[name] is True) == (name not in impossible), succeeded[name]


@pytest.mark.parametrize("name", ATTEMPTS)
def test_in_a_sandbox_it_fails(held, name):
    assert held[name] is not True, held[name]


def test_there_are_at_least_thirty_that_mean_something_for_each_user(succeeded):
    assert sum(said is True for said in succeeded.values()) >= 30
