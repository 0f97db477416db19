"""Runs the checks of a task inside of the sandbox: the standard library alone, a process for each check.

driver.py KIT TESTS WORKSPACE SECONDS ID...     the last line that it prints is a JSON object: per criterion
                                                [outcome, detail]; what a check prints doesn't get there
driver.py --reward WORKSPACE DIRECTORY          for other runners: beside the checks, it writes reward.json there
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import select
import signal
import sys
import time
import tomllib
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

MARK = "agentrewind-verdicts "
DETAIL_LIMIT = 2000
ALONE_S = 60.0
"""How long a check may take where nobody says."""
_KILLED = "the check was killed by signal {}"


def main(arguments: list[str]) -> None:
    if arguments[0] == "--reward":
        reward(*arguments[1:])
        return
    kit, tests, workspace, seconds, *names = arguments
    out = os.dup(1)
    verdicts = judged(kit, tests, workspace, float(seconds), names)
    os.write(out, f"\n{MARK}{json.dumps(verdicts)}\n".encode())


def reward(workspace: str, directory: str) -> None:
    """Judge by the checks beside this file; 1 where all hold, and the share of the longest prefix that does."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "checklist.toml"), "rb") as file:
        names = [str(item["id"]) for item in tomllib.load(file)["criterion"]]
    verdicts = judged(here, here, workspace, ALONE_S, names)
    held = [verdicts[name][0] == "satisfied" for name in names]
    prefix = [*held, False].index(False)
    os.makedirs(directory, exist_ok=True)
    for name, value in (
        ("reward.json", {"reward": int(all(held)), "progress": prefix / len(held)}),
        ("verdicts.json", verdicts),
    ):
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)


def judged(kit: str, tests: str, workspace: str, seconds: float, names: list[str]) -> dict[str, list[str]]:
    """Per criterion [outcome, detail]. From now on nothing that this process prints is seen."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):
        os.dup2(nowhere, fd)
    sys.path[:0] = [kit, tests]
    checking = importlib.import_module("checking")  # once for all checks; theirs are imported apart
    return {name: _apart(functools.partial(_judge, checking, name, tests, workspace), seconds) for name in names}


def _judge(checking: Any, name: str, tests: str, workspace: str) -> list[str]:
    """Runs in the child."""
    try:
        check = _check(importlib.import_module("checks"), name)
        app = checking.App(workspace, os.path.join(tests, "expected.json"))
        check(app)
    except checking.Unsatisfied as unmet:
        return ["failed", str(unmet)[:DETAIL_LIMIT]]
    except BaseException:  # noqa: BLE001 (whatever goes wrong in a check is no verdict on the work)
        return ["error", traceback.format_exc()[-DETAIL_LIMIT:]]
    return ["satisfied", ""]


def _check(module: ModuleType, name: str) -> Callable[[Any], object]:
    found: list[Callable[[Any], object]] = [
        value for key, value in vars(module).items() if key.startswith(f"{name.lower()}_") and callable(value)
    ]
    if len(found) != 1:
        raise LookupError(f"checks.py must have one function {name.lower()}_..., and has {len(found)}")
    return found[0]


def _apart(act: Callable[[], list[str]], seconds: float) -> list[str]:
    """The result of `act` in a process of its own, or why there is none."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        with contextlib.suppress(OSError):
            os.write(writing, json.dumps(act()).encode())
        os._exit(0)
    os.close(writing)
    answer = _answer(reading, time.monotonic() + seconds)
    os.close(reading)
    for target in (-pid, pid):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(target, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if answer is None:
        return ["error", f"the check took longer than {seconds:g} s"]
    if not answer:
        return ["error", _KILLED.format(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else "the check said nothing"]
    verdict: list[str] = json.loads(answer)
    return verdict


def _answer(fd: int, deadline: float) -> bytes | None:
    """Everything that is written there until it is closed; None where that takes too long."""
    data = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([fd], [], [], left)[0]:
            continue
        chunk = os.read(fd, 65536)
        if not chunk:
            return data
        data += chunk
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
