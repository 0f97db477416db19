"""The first snapshot of a large directory, on a terminal: it says how far it is, and can be interrupted."""

from __future__ import annotations

import os
import pty
import re
import select
import sys
import time
from pathlib import Path

import pytest

WORDS = [sys.executable, "-m", "agentrewind", "snap", "create"]
PATIENCE_S = 120


def a_tree(root: Path, files: int) -> None:
    for number in range(files):
        if number % 500 == 0:
            directory = root / f"d{number}"
            directory.mkdir(parents=True)
        (directory / f"f{number}").write_text(f"{number}\n" * 20)


def on_a_terminal(words: list[str], home: Path, *, interrupted_at: int | None = None) -> tuple[int, str]:
    """Exit code and all that was shown; Ctrl-C is pressed once so many paths are said to be done."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(words[0], words, {**os.environ, "AGENTREWIND_HOME": str(home), "TERM": "xterm"})
    shown, pressed, end = b"", False, time.monotonic() + PATIENCE_S
    while True:
        assert select.select([terminal], [], [], max(end - time.monotonic(), 0))[0], shown[-200:]
        try:
            shown += os.read(terminal, 65_536)
        except OSError:  # the other side has closed it
            break
        counts = re.findall(rb"snapshot: ([0-9,]+)", shown)
        if interrupted_at and not pressed and counts and int(counts[-1].replace(b",", b"")) >= interrupted_at:
            os.write(terminal, b"\x03")
            pressed = True
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()


def interrupted_and_begun_anew(place: Path, files: int, at: int) -> None:
    root, home = place / "ws", place / "home"
    a_tree(root, files)
    code, shown = on_a_terminal([*WORDS, str(root)], home, interrupted_at=at)
    assert code == 130, shown[-300:]
    assert shown.rstrip().endswith("agentrewind: Interrupted.")
    assert "Snapshots from before are as they were" in shown
    assert "Traceback" not in shown
    listed = on_a_terminal([*WORDS[:3], "snap", "list", str(root), "--json"], home)
    assert (listed[0], listed[1].strip()) == (0, "[]")
    code, shown = on_a_terminal([*WORDS, str(root)], home)
    assert code == 0
    assert re.search(r"snapshot [0-9a-f]{12}: [0-9,]+ paths", shown)
    assert on_a_terminal([*WORDS[:3], "store", "check", str(root)], home)[0] == 0


def test_the_first_snapshot_says_how_far_it_is_and_can_be_interrupted(tmp_path: Path) -> None:
    interrupted_and_begun_anew(tmp_path, 80_000, at=200)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_so_does_that_of_three_hundred_thousand_files(tmp_path: Path) -> None:
    interrupted_and_begun_anew(tmp_path, 300_000, at=100_000)
