"""The simulator of ScienceWorld: its own package and Java (the extra `scienceworld`).

It is started with one identity hash for all objects. Its collections then list things in the order in which they were
put there, and a replay is the same to the byte; with the hashes that Java draws, their order differs from one reset to
the next.
"""

from __future__ import annotations

import atexit
import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from agentrewind.core.codec import Json
from agentrewind.core.errors import AgentRewindError, UsageError
from agentrewind.environments.scienceworld.simulator import Task, Told

JAVA = "java"
NO_JAVA = "ScienceWorld runs in Java, and there is no `java` here. On Debian: apt install default-jre-headless."
NO_PACKAGE = "ScienceWorld isn't installed: `pip install 'agentrewind[scienceworld]'`."
MEMORY_MB = 512
SEED = 0
TREE = "objectTree.json"
"""What the simulator calls the file into which it writes its things."""
UNKNOWN = ("No known action matches that input.", "Unknown action.")
ASKS = "Ambiguous request:"
_NUMBER = re.compile(r"^(\d+):\t", re.MULTILINE)


class Lost(AgentRewindError):
    """The simulator ended by itself. What was recorded of the game is still there; begin it anew."""


class JavaSimulator:
    """A process of Java that ends with this one.

    Raises:
        UsageError: Java or the package isn't here.
        Lost (each method): the process can't be talked to.
    """

    def __init__(self, memory_mb: int = MEMORY_MB) -> None:
        if shutil.which(JAVA) is None:
            raise UsageError(NO_JAVA)
        try:
            from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
            from scienceworld.constants import BASEPATH, JAR_PATH
        except ImportError as error:
            raise UsageError(NO_PACKAGE) from error
        options = [f"-Xmx{memory_mb}m", "-XX:+UseSerialGC", "-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2"]
        port, self._process = launch_gateway(
            classpath=JAR_PATH, javaopts=options, die_on_exit=True, cwd=BASEPATH, return_proc=True
        )
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(auto_field=True, port=port), java_process=self._process
        )
        self._server = self._gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface()
        self._directory = tempfile.TemporaryDirectory(prefix="agentrewind-scienceworld-")
        self._asked = False
        atexit.register(self.close)

    def begin(self, task: Task) -> Told:
        with _talking():
            self._server.load(task.name, task.variation, task.simplifications, False)  # noqa: FBT003
            self._asked = False
            return Told(str(self._server.freeActionLook()), True, 0, False, self._things())  # noqa: FBT003

    def act(self, command: str) -> Told:
        with _talking():
            answer = str(self._server.step(command))
            score, ended = round(100 * self._server.getScore()), bool(self._server.getCompleted())
            taken = self._asked or not answer.startswith(UNKNOWN)
            numbers = tuple(_NUMBER.findall(answer)) if answer.startswith(ASKS) else ()
            self._asked = bool(numbers)
            return Told(answer, taken, score, ended, self._things(), numbers)

    def world(self) -> Json:
        with _talking():
            trouble = self._server.getObjectTree(self._directory.name)
        if trouble:
            raise Lost(f"The simulator doesn't tell what there is: {trouble}")
        return json.loads(Path(self._directory.name, TREE).read_bytes())

    def progress(self) -> str:
        with _talking():
            return str(self._server.getGoalProgressStr())

    def description(self) -> str:
        with _talking():
            return str(self._server.getTaskDescription())

    def templates(self) -> Sequence[str]:
        with _talking():
            return list(self._server.getPossibleActions())

    def valid(self) -> Sequence[str]:
        """The same ones each time: which of several like things a name stands for is drawn."""
        with _talking():
            companion = getattr(self._gateway.jvm.scala.util, "Random$")
            getattr(companion, "MODULE$").setSeed(SEED)
            return list(self._server.getValidActionObjectCombinations())

    def gold(self, task: Task) -> Sequence[str]:
        """The simulator is then somewhere else."""
        with _talking():
            self._server.load(task.name, task.variation, task.simplifications, True)  # noqa: FBT003
            return list(self._server.getGoldActionSequence())

    def tasks(self) -> Sequence[str]:
        with _talking():
            return list(self._server.getTaskNames())

    def variations(self, task: str, split: str) -> Sequence[int]:
        """Those of `train`, `dev` or `test`. The simulator is then somewhere else."""
        with _talking():
            self._server.load(task, 0, "", False)  # noqa: FBT003
            return list(getattr(self._server, f"getVariations{split.capitalize()}")())

    def close(self) -> None:
        """End the process."""
        atexit.unregister(self.close)
        self._gateway.close()
        self._process.stdin.close()
        self._process.terminate()
        self._process.wait()
        self._directory.cleanup()

    def _things(self) -> tuple[str, ...]:
        return tuple(sorted(self._server.getPossibleObjects()))


@contextmanager
def _talking() -> Iterator[None]:
    from py4j.protocol import Py4JError

    try:
        yield
    except Py4JError as error:
        line = " ".join(str(error).split())[:300]
        raise Lost(f"The simulator of ScienceWorld can't go on: {line}. Begin the game anew.") from error


class JavaStage:
    """Up to `limit` simulators, started when they are needed; who hasn't played for longest gives his up."""

    def __init__(self, limit: int = 1) -> None:
        self._limit = limit
        self._seats: list[tuple[object, JavaSimulator]] = []
        """Who played last is last."""
        self._gold: dict[Task, tuple[str, ...]] = {}

    def simulator(self, player: object) -> tuple[JavaSimulator, bool]:
        for number, seat in enumerate(self._seats):
            if seat[0] is player:
                self._seats.append(self._seats.pop(number))
                return seat[1], True
        simulator = JavaSimulator() if len(self._seats) < self._limit else self._seats.pop(0)[1]
        self._seats.append((player, simulator))
        return simulator, False

    def gold(self, task: Task) -> Sequence[str]:
        if task not in self._gold:
            simulator, _ = self.simulator(object())
            self._gold[task] = tuple(simulator.gold(task))
        return self._gold[task]

    def tasks(self) -> Sequence[str]:
        return self.simulator(object())[0].tasks()

    def variations(self, task: str, split: str) -> Sequence[int]:
        return self.simulator(object())[0].variations(task, split)

    def close(self) -> None:
        """End all simulators; the next player starts a new one."""
        while self._seats:
            self._seats.pop()[1].close()
