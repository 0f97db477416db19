"""Services that a project declares: stopped before files are restored, started again afterwards.

A restore under a running database would be a restore of half of it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentrewind.core.world import RestoreReport, RunWorld, SnapshotId
from agentrewind.core.wrapping import Wrapping
from agentrewind.engine.commands import Commands, command_environ
from agentrewind.engine.processes import Process, descendants, end_all

SETTLES_S = 0.3
"""How long a service without a ready check is watched: one that ends within that did not come up."""


@dataclass(frozen=True, slots=True)
class Service:
    """As declared: `start` is a command that stays; `ready` one that succeeds once the service can be used."""

    name: str
    start: str
    ready: str = ""
    within_s: float = 30.0


class Host(Protocol):
    """Where services run."""

    def start(self, command: str) -> int:
        """Start a command that stays; a number that names it. Raises: OSError."""

    def alive(self, number: int) -> bool: ...

    def end(self, number: int) -> None:
        """End it and all that it started. Raises: OSError."""

    def pids(self, numbers: Collection[int]) -> set[int]:
        """The processes behind the numbers, as they are seen from here."""


class Beside:
    """Services as processes of ours: the user's own, as the commands of an agent without a sandbox are."""

    def __init__(self, cwd: Path, environ: Mapping[str, str]) -> None:
        self._cwd, self._environ = cwd, command_environ(environ, (), cwd)
        self._known: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, command: str) -> int:
        """See `Host`."""
        started = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=self._cwd,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._known[started.pid] = started
        return started.pid

    def alive(self, number: int) -> bool:
        """See `Host`."""
        return self._known[number].poll() is None

    def end(self, number: int) -> None:
        """See `Host`: its descendants first, as they would come to us when it is gone."""
        started = self._known.pop(number)
        known = {(item.pid, item.started) for item in descendants(number)}

        def left() -> list[Process]:
            """It, what it has started, and what came to us from there meanwhile."""
            found = descendants(os.getpid())
            known.update((item.pid, item.started) for item in found if item.parent == number)
            return [item for item in found if item.pid == number or (item.pid, item.started) in known]

        _, alive = end_all(left)
        started.poll()
        if alive:
            raise OSError(0, f"still running: {', '.join(map(str, alive))}")

    def pids(self, numbers: Collection[int]) -> set[int]:
        """See `Host`."""
        return set(numbers)


class Services:
    """The services of one run.

    Args:
        said: told of each service that doesn't come up, or can't be stopped.
    """

    def __init__(
        self,
        declared: Sequence[Service],
        host: Host,
        commands: Commands,
        cwd: Path,
        environ: Mapping[str, str],
        *,
        said: Callable[[str], None],
    ) -> None:
        self._declared, self._host, self._commands = tuple(declared), host, commands
        self._cwd, self._environ, self._said = cwd, environ, said
        self._running: dict[str, int] = {}

    def pids(self) -> set[int]:
        """Their processes, which a rewind ends by itself in its own order."""
        found = self._host.pids(self._running.values())
        return found | {item.pid for pid in found for item in descendants(pid)}

    def start(self) -> None:
        """Start all that don't run, in the order in which they are declared; each is waited for."""
        for service in self._declared:
            if service.name not in self._running:
                problem = self._started(service)
                if problem:
                    self._said(f"The service {service.name!r} did not come up: {problem}")

    def _started(self, service: Service) -> str:
        """Why it did not come up; empty where it did."""
        try:
            number = self._host.start(service.start)
        except OSError as error:
            return f"{error.strerror or error}."
        self._running[service.name] = number
        waits = f"until {{ {service.ready}\n}} >/dev/null 2>&1; do sleep 0.1; done" if service.ready else ""
        within = service.within_s if waits else None
        done = self._commands.run(waits or f"sleep {SETTLES_S}", cwd=self._cwd, environ=self._environ, timeout_s=within)
        if not self._host.alive(number):
            del self._running[service.name]
            return f"{service.start!r} has ended already."
        if done.timed_out:
            return f"it runs, but {service.ready!r} did not succeed within {service.within_s:g} s."
        return ""

    def stop(self) -> None:
        """End all of them, the last one first."""
        for name in reversed(list(self._running)):
            try:
                self._host.end(self._running.pop(name))
            except OSError as error:
                self._said(f"The service {name!r} could not be stopped: {error.strerror or error}.")

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Inside they don't run; afterwards they do, whatever happened."""
        ran = bool(self._running)
        self.stop()
        try:
            yield
        finally:
            if ran:
                self.start()


class Serviced(Wrapping[RunWorld]):
    """A world with services in it: as the world, and a restore has them stopped."""

    def __init__(self, world: RunWorld, services: Services) -> None:
        super().__init__(world)
        self._services = services

    @property
    def shared(self) -> bool:
        """See `TellsApart`."""
        return self._world.shared

    def at_work(self, working: bool) -> None:
        """See `TellsApart`."""
        self._world.at_work(working)

    def quiet(self) -> bool:
        """See `TellsApart`."""
        return self._world.quiet()

    def restore_own(
        self, snapshot: SnapshotId, mine: str, *, people: bool, until: SnapshotId | None = None
    ) -> RestoreReport:
        """See `KeepsOthers`."""
        with self._services.stopped():
            return self._world.restore_own(snapshot, mine, people=people, until=until)

    def restore(self, snapshot: SnapshotId, *, dry_run: bool = False, accept_incomplete: bool = False) -> RestoreReport:
        """See `World`."""
        if dry_run:
            return super().restore(snapshot, dry_run=True, accept_incomplete=accept_incomplete)
        with self._services.stopped():
            return super().restore(snapshot, accept_incomplete=accept_incomplete)

    def resume(self) -> RestoreReport | None:
        """See `World`."""
        with self._services.stopped():
            return super().resume()
