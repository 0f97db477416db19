"""A process that makes a run with rewinds and is killed at a named crash point.

python rewinding_child.py DIR POINT AFTER [ACT]: prints `armed`, works in DIR/work, and dies of SIGKILL where it is
told to. ACT is `run` (a whole run), or `undo`, `restore` or `resume` on the run that is there.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

from agentrewind.core import crashpoints
from agentrewind.core.effects import Effect
from agentrewind.core.records import RecordUid, RunStarted
from agentrewind.dialects.openai_chat import OpenAIChat
from agentrewind.engine import offline
from agentrewind.engine.effects import Effects
from agentrewind.engine.session import Session
from agentrewind.journal.writer import JournalWriter
from agentrewind.snapshots.workspace import WorkspaceWorld
from tests.unit.engine.wire import PATH, SHELL, Provider, answer


def open_run(base: Path, *, new: bool) -> tuple[JournalWriter, WorkspaceWorld]:
    """The journal and the workspace of the run in `base`."""
    world = WorkspaceWorld.open(base / "work", base / "store")
    if new:
        log = JournalWriter.create(base / "run", RunStarted("crashing", str(base / "work"), 1, "0"))
    else:
        log = JournalWriter.open(base / "run")
    return log, world


def turns() -> list:
    """Writes, a rewind, more writes, a rewind to before the first one."""

    def shell(number: int):
        return lambda _: answer(calls=[(f"c{number}", "shell", {"step": number})])

    def commit(uid: str, note: str):
        return lambda _: answer(calls=[(f"k{note}", "backtrack_commit", {"record_uid": uid, "memory_summary": note})])

    return [
        shell(1),
        shell(2),
        shell(3),
        commit("rec_000003", "n1"),
        shell(4),
        shell(5),
        commit("rec_000001", "n2"),
        shell(6),
        lambda _: answer(text="done"),
    ]


def reaching_out(name, arguments, annotations=None) -> tuple[Effect, ...]:
    """Every step does something outside, which a command takes back: it writes beside the workspace that it was run."""
    step = arguments["step"]
    return (Effect("external", f"step {step}", undo=f"echo {step} >> ../undone"),)


def work(root: Path, step: int) -> str:
    """What each step does to the files: writes in place, by renaming, makes and removes."""
    (root / f"made-{step}").write_text(f"by step {step}\n" * 50)
    (root / "kept.txt").write_text(f"changed by step {step}\n")
    (root / "sub").mkdir(exist_ok=True)
    (root / "sub" / "moved.tmp").write_text(f"{step}")
    os.replace(root / "sub" / "moved.tmp", root / "sub" / "moved")
    if step == 3:
        shutil.rmtree(root / "original", ignore_errors=True)
    (root / ".env").write_text(f"TOKEN=of-step-{step}\n")
    with (root / "linked-outside").open("r+") as handle:
        handle.write(f"in place {step}")
    for name in ("other.txt", "link", "hard", "pipe"):
        (root / name).unlink(missing_ok=True)
    if not step % 2:
        (root / "other.txt").write_text(f"again {step}\n")
        (root / "link").symlink_to(f"made-{step}")
        os.link(root / "kept.txt", root / "hard")
        os.mkfifo(root / "pipe")
        (root / "kept.txt").chmod(0o600 if step % 4 else 0o755)
    return f"step {step} done"


def later(base: Path, act: str) -> None:
    """What a person does to the run afterwards."""
    log, world = open_run(base, new=False)
    if act == "undo":
        offline.undo(log, world)
    elif act == "restore":
        offline.restore_files(log, world, RecordUid("rec_000003"))
    else:
        offline.resume(log, world)
    world.close()
    log.close()


def main() -> None:
    base, point, after = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    act = sys.argv[4] if len(sys.argv) > 4 else "run"
    crashpoints.arm(point, lambda: os.kill(os.getpid(), signal.SIGKILL), after=after)
    print("armed", flush=True)
    if act == "run":
        run(base)
    else:
        later(base, act)


def run(base: Path) -> None:
    log, world = open_run(base, new=True)
    session = Session(log, world, [OpenAIChat()])
    session.effects = Effects(reaching_out)
    provider = Provider(turns())
    messages = [{"role": "user", "content": "do it"}]
    while True:
        reply = session.call(PATH, {"model": "m", "messages": list(messages), "tools": [SHELL]}, provider)
        message = json.loads(reply.body)["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            break
        for call in message["tool_calls"]:
            step = json.loads(call["function"]["arguments"])["step"]
            text = session.tool("shell", {"step": step}, lambda s=step: work(base / "work", s), call_id=call["id"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    session.end("done", ok=True)
    world.close()
    log.close()


if __name__ == "__main__":
    main()
