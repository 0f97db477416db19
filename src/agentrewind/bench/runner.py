"""Making the runs of a benchmark that aren't made yet: a process for each, several at a time.

A run counts from the moment at which its result is there, whole. What a killed process leaves is thrown away and made
again; runs that came to nothing for a reason of their own are listed and not counted.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrewind.bench.matrix import Matrix, Place
from agentrewind.bench.one import Conditions, run_one
from agentrewind.bench.recovering import recover_one
from agentrewind.bench.results import ABNORMAL, RESULT, TOUCHED, Result, Spec, result_at, write
from agentrewind.compose.harnesses import harness_by_name
from agentrewind.core.errors import AgentRewindError, Busy, UsageError
from agentrewind.journal.lease import Lease, is_held

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess
    from multiprocessing.process import BaseProcess

OUTPUT = "output.txt"
GRACE_S = 5.0
LEFT_S = 60.0
"""How long a process that a killed benchmark has left may take to notice."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When no more runs are begun. None: never."""

    usd: float | None = None
    tokens: int | None = None


@dataclass(slots=True)
class Tally:
    """How far a benchmark has come. `skipped` were done before."""

    total: int
    skipped: int = 0
    done: int = 0
    abnormal: int = 0
    usd: float = 0.0
    tokens: int = 0
    seconds: float = 0.0
    stopped: str = ""
    """Why no more runs were begun."""

    @property
    def left(self) -> int:
        return self.total - self.skipped - self.done - self.abnormal

    @property
    def rate(self) -> float:
        """Runs a second, since the beginning."""
        return (self.done + self.abnormal) / self.seconds if self.seconds else 0.0

    def add(self, result: Result) -> None:
        self.done += not result.abnormal
        self.abnormal += bool(result.abnormal)
        self.usd += result.usd or 0.0
        self.tokens += result.tokens

    def over(self, limits: Limits) -> str:
        """Which limit is reached; empty where none is."""
        if limits.usd is not None and self.usd >= limits.usd:
            return f"The limit of {limits.usd:g} USD is reached ({self.usd:.2f} spent)."
        if limits.tokens is not None and self.tokens >= limits.tokens:
            return f"The limit of {limits.tokens:,} tokens is reached ({self.tokens:,} used)."
        return ""


Told = Callable[[Tally, Result | None, str], None]
"""Hears of each run that ended: with its result, or with why there is none."""


def run_all(
    matrix: Matrix, place: Place, *, jobs: int = 1, ray: str | None = None, limits: Limits = Limits(), told: Told
) -> Tally:
    """Make all runs of `matrix` in `place` that are not done.

    Raises:
        UsageError: as `Place.settle`, or Ray isn't there. Busy: somebody else is at it.
        KeyboardInterrupt: what was under way is ended and not counted.
    """
    matrix.checked()
    place.root.mkdir(parents=True, exist_ok=True)
    lease = Lease.take(place.root)
    try:
        return _run_all(matrix, place, jobs=jobs, ray=ray, limits=limits, told=told)
    finally:
        lease.release()


def _run_all(matrix: Matrix, place: Place, *, jobs: int, ray: str | None, limits: Limits, told: Told) -> Tally:
    place.settle(matrix)
    specs = matrix.specs()
    for spec in specs:
        _wait_for(place.run_dir(spec))
    waiting = [spec for spec in specs if not place.is_done(spec)]
    tally = Tally(len(specs), skipped=len(specs) - len(waiting))
    for spec in _cut_off(place, waiting):
        _note_abnormal(place, spec, "it was cut off, and is made again")
    begun = time.monotonic()
    many = _on_ray(ray) if ray is not None else _local(matrix.harnesses, jobs)
    for spec, why in many(waiting, matrix.conditions, place, lambda: bool(tally.over(limits))):
        tally.seconds = time.monotonic() - begun
        result = result_at(place.run_dir(spec))
        if result is None:
            tally.abnormal += 1
        else:
            tally.add(result)
        reason = why if result is None else result.abnormal
        if reason:
            _note_abnormal(place, spec, reason)
        told(tally, result, reason)
    tally.stopped = tally.over(limits) if tally.left else ""
    return tally


def _wait_for(directory: Path) -> None:
    """Let a process end that a killed benchmark has left at work there. Raises: Busy: it doesn't."""
    until = time.monotonic() + LEFT_S
    while is_held(directory):
        if time.monotonic() > until:
            raise Busy(f"A process of another benchmark is at work in {directory}. Nothing was touched there.")
        time.sleep(0.1)


def _cut_off(place: Place, specs: Sequence[Spec]) -> Iterator[Spec]:
    """Throw away what is left of runs that don't count; those of them that nobody knows of yet."""
    for spec in specs:
        directory = place.run_dir(spec)
        if directory.exists():
            known = (directory / ABNORMAL).exists()
            shutil.rmtree(directory, ignore_errors=True)
            if not known:
                yield spec


def _note_abnormal(place: Place, spec: Spec, why: str) -> None:
    line = {"run": spec.key, "why": why, "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    with open(place.abnormal, "a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


def touch(directory: Path, what: str) -> Place:
    """Take the run in `directory` out of the count because a person did something to it; its benchmark.

    Raises:
        UsageError: there is no run that counts.
    """
    result = result_at(directory)
    if result is None or not result.counts:
        raise UsageError(f"There is no run in {directory} that counts. Its directory ends in the number of the run.")
    if not what.strip():
        raise UsageError("Say what was done to the run.")
    place = Place(directory.absolute().parents[5])
    write(replace(result, touched=what), directory)
    (directory / RESULT).unlink()
    _note_abnormal(place, result.spec, TOUCHED + what)
    return place


Many = Callable[[Sequence[Spec], Conditions, Place, Callable[[], bool]], Iterator[tuple[Spec, str]]]
"""Makes runs, and yields each that ended with why it has no result (empty where it has one). The last argument says
whether no more are to be begun.
"""


# --- processes of this machine ----------------------------------------------------------------------------------------


def _local(harnesses: Sequence[str], jobs: int) -> Many:
    """Forks of a process that has imported the harnesses: a run begins at once, and takes nothing over from another."""
    context = multiprocessing.get_context("forkserver")
    preload = ["agentrewind.bench.one", "agentrewind.bench.runner"]
    for name in harnesses:
        preload += harness_by_name(name).preload
    context.set_forkserver_preload(preload)

    def many(
        specs: Sequence[Spec], conditions: Conditions, place: Place, enough: Callable[[], bool]
    ) -> Iterator[tuple[Spec, str]]:
        waiting = list(reversed(specs))
        running: dict[int, tuple[ForkServerProcess, Spec]] = {}
        try:
            while running or (waiting and not enough()):
                while waiting and len(running) < jobs and not enough():
                    spec = waiting.pop()
                    process = context.Process(target=made, args=(spec, conditions, str(place.run_dir(spec))))
                    with _without_program():
                        process.start()
                    running[process.sentinel] = process, spec
                ready = set(wait(list(running)))
                for process, spec in [running.pop(sentinel) for sentinel in list(running) if sentinel in ready]:
                    process.join()
                    yield spec, _said(process.exitcode, place.run_dir(spec))
        finally:
            _end([process for process, _ in running.values()])

    return many


@contextmanager
def _without_program() -> Iterator[None]:
    """New processes run nothing of the program that this one was started as: its file may do all of it again."""
    main = sys.modules["__main__"]
    file = main.__dict__.pop("__file__", None)
    try:
        yield
    finally:
        if file is not None:
            main.__file__ = file


def _end(processes: Sequence[ForkServerProcess]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(GRACE_S)
        if process.is_alive():
            process.kill()
            process.join()


def _said(code: int | None, directory: Path) -> str:
    """Why a process ended without a result; empty where it ended well."""
    if code == 0:
        return ""
    how = f"it was killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"it ended with {code}"
    with suppress(OSError):
        lines = (directory / OUTPUT).read_text("utf-8", "replace").strip().splitlines()
        if lines:
            return f"{how}: {lines[-1][:300]}"
    return how


def made(spec: Spec, conditions: Conditions, directory: str) -> None:
    """Make one run; the whole life of a process, which ends with the one that started it. What it prints goes into a
    file beside its result.
    """
    threading.Thread(target=_end_with, args=(multiprocessing.parent_process(),), daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    path = Path(directory)
    path.mkdir(parents=True, exist_ok=True)
    lease = Lease.take(path)  # whoever makes this run again waits until we are gone
    output = os.open(path / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(output, number)
    try:
        play = recover_one if conditions.recovery else run_one
        play(spec, conditions, path)
    except AgentRewindError as error:
        sys.exit(f"{type(error).__name__}: {error}")
    finally:
        lease.release()


def _end_with(parent: BaseProcess | None) -> None:
    """Be gone when the process is that makes the benchmark."""
    if parent is not None:
        parent.join()
        os._exit(1)


# --- Ray --------------------------------------------------------------------------------------------------------------


def _on_ray(address: str) -> Many:
    """The same on a Ray cluster, whose machines share the directory and have this package installed."""
    try:
        import ray
    except ImportError:
        raise UsageError("Ray isn't installed here. `pip install 'agentrewind[ray]'` adds it.") from None

    def many(
        specs: Sequence[Spec], conditions: Conditions, place: Place, enough: Callable[[], bool]
    ) -> Iterator[tuple[Spec, str]]:
        ray.init(address=None if address == "local" else address, log_to_driver=False, include_dashboard=False)
        try:
            task: Any = ray.remote(max_retries=0, num_cpus=1)(_in_a_process)
            running = {task.remote(spec, conditions, str(place.run_dir(spec).absolute())): spec for spec in specs}
            while running and not enough():
                ready, _ = ray.wait(list(running))
                for reference in ready:
                    yield running.pop(reference), _fetched(ray, reference)
        finally:
            ray.shutdown()

    return many


def _fetched(ray: Any, reference: Any) -> str:
    try:
        return str(ray.get(reference))
    except ray.exceptions.RayError as error:
        return f"Ray lost it: {type(error).__name__}"


def _in_a_process(spec: Spec, conditions: Conditions, directory: str) -> str:
    """One run in a process of its own on whatever machine this is; why it has no result."""
    process = multiprocessing.get_context("spawn").Process(target=made, args=(spec, conditions, directory))
    with _without_program():
        process.start()
    process.join()
    return _said(process.exitcode, Path(directory))
