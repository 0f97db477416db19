"""Commands in a container each, where Docker or Podman is there: the same directories, the same limits."""

from __future__ import annotations

import contextlib
import os
import resource
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace

from agentrewind.engine.commands import CANNOT_START, CommandResult, encoded
from agentrewind.engine.processes import RUN_MARK
from agentrewind.engine.started import Process, Start
from agentrewind.integrations.sandbox.confined import Confined, Wanted
from agentrewind.integrations.sandbox.spec import HOME, SIDES, Sandbox
from agentrewind.integrations.tool_program.client import SOCKET_VARIABLE

IMAGE = "debian:stable-slim"
"""What is used where the user names no image. It has to be there already: nothing is fetched in passing."""

_ENGINE_FAILED = 125
_ENDING_S = 30.0
_FILES, _PROCESSES = 65_536, 32_768
_OF_THE_IMAGE = ("PATH", "SHELL", "VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "GOROOT", "RUSTUP_HOME")
_LEFT_OUT = (*_OF_THE_IMAGE, SOCKET_VARIABLE)
"""The run can't be reached from inside: an image need not have a Python that could ask."""
_OF_THE_ENGINE = ("PATH", "HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DBUS_SESSION_BUS_ADDRESS")


def confined(sandbox: Sandbox) -> Confined:
    """A container for each command, of the engine that the confinement names: when its `run` returns it is gone."""
    return Confined(sandbox, _prepared, _blamed)


def _blamed(result: CommandResult, sandbox: Sandbox) -> CommandResult:
    if result.exit_code != _ENGINE_FAILED:
        return result
    text = f"{sandbox.confinement.kind} could not start a container: {result.output}"
    return replace(result, exit_code=CANNOT_START, output=text)


@contextlib.contextmanager
def _prepared(sandbox: Sandbox, asked: Wanted) -> Iterator[Start]:
    name, environ = f"agentrewind-{secrets.token_hex(6)}", asked.environ
    variables = {key: value for key, value in asked.variables.items() if key not in _LEFT_OUT}
    words = container_words(sandbox, name, asked.cwd, variables)
    client = {key: environ[key] for key in environ if key in _OF_THE_ENGINE or key.startswith("DOCKER_")}
    line: list[str | bytes] = [*words, "/bin/sh", "-c", encoded(asked.command)]

    def start(sink: int) -> _Container:
        popen = subprocess.Popen(
            line,
            # `--env NAME` takes the value from here: what stands in the words of a process, everybody may read.
            env={**variables, **client},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
        return _Container(popen, sandbox.confinement.kind, name, client)

    yield start


def container_words(sandbox: Sandbox, name: str, cwd: str, variables: Mapping[str, str]) -> list[str]:
    """The words that start a container, up to its image."""
    confinement, limits = sandbox.confinement, sandbox.confinement.limits
    mounts = [(sandbox.workspace, sandbox.at, "rw")]
    mounts += [(str(sandbox.sides / side), at, "rw") for side, at in SIDES.items()]
    mounts += [(os.path.realpath(path), os.path.realpath(path), "ro") for path in confinement.readable]
    return [
        *(confinement.kind, "run", "--rm", "--pull", "never", "--name", name, "--hostname", "sandbox"),
        *("--network", "bridge" if confinement.network else "none"),
        *("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--security-opt", "label=disable"),
        # With control groups of both versions, as here and there, crun starts nothing; Docker uses runc anyway.
        *(["--runtime", "runc"] if confinement.kind == "podman" and shutil.which("runc") else []),
        *("--ipc", "private", "--stop-timeout", "2", "--workdir", cwd),
        *(["--userns", "keep-id"] if confinement.kind == "podman" and os.getuid() else []),
        *("--user", f"{os.getuid()}:{os.getgid()}"),
        *(["--memory", str(limits.memory), "--memory-swap", str(limits.memory)] if limits.memory else []),
        *(["--pids-limit", str(limits.processes)] if limits.processes else []),
        *("--ulimit", "core=0:0", "--ulimit", f"nofile={_at_most(resource.RLIMIT_NOFILE, _FILES)}"),
        *("--ulimit", f"nproc={_at_most(resource.RLIMIT_NPROC, limits.processes or _PROCESSES)}"),
        *(["--ulimit", f"fsize={limits.file_size}"] if limits.file_size else []),
        *(word for mount in mounts for word in ("--volume", ":".join(mount))),
        *(word for key in variables if key not in ("HOME", "PWD") for word in ("--env", key)),
        *("--env", f"HOME={HOME}"),
        *("--label", f"agentrewind.run={variables.get(RUN_MARK, '')}"),
        confinement.image or IMAGE,
    ]


def _at_most(kind: int, wanted: int) -> str:
    """A limit that the engine may set: by default it wants more than a user may have."""
    hard = resource.getrlimit(kind)[1]
    limit = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    return f"{limit}:{limit}"


class _Container(Process):
    """The client of the engine, and the container that it started: to end one isn't to end the other."""

    def __init__(self, popen: subprocess.Popen[bytes], engine: str, name: str, environ: Mapping[str, str]) -> None:
        super().__init__(popen)
        self._engine, self._name, self._environ = engine, name, dict(environ)
        self._told = False

    def signal(self, number: signal.Signals) -> None:
        self._told = True
        self._tell("kill", "--signal", number.name, self._name)
        if number is signal.SIGKILL:
            super().signal(number)

    def wait(self) -> int:
        code = super().wait()
        if self._told:
            self._tell("rm", "--force", self._name)
        return code

    def _tell(self, *words: str) -> None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [self._engine, *words],
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_ENDING_S,
                check=False,
            )
