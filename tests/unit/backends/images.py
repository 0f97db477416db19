"""File systems in files, mounted for a test and always taken away again; what can't be had is skipped."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SIZES = {"btrfs": 192 << 20, "xfs": 320 << 20}


@contextlib.contextmanager
def image(kind: str, place: Path) -> Iterator[Path]:
    """A new file system of `kind`, mounted below `place`."""
    program = f"mkfs.{kind}"
    if os.geteuid() != 0:
        pytest.skip("only root may mount an image")
    if shutil.which(program) is None:
        pytest.skip(f"{program} isn't installed")
    memory = Path("/dev/shm")
    file = (memory if memory.is_dir() else place) / f"agentrewind-{os.getpid()}-{secrets.token_hex(4)}.{kind}"
    at = place / kind
    with file.open("wb") as made:
        made.truncate(SIZES[kind])
    at.mkdir()
    try:
        subprocess.run([program, "-q", str(file)], check=True, capture_output=True)
        done = subprocess.run(["mount", "-o", "loop", str(file), str(at)], check=False, capture_output=True, text=True)
    finally:
        file.unlink()  # the mount keeps it, and nothing is left if we are killed
    if done.returncode != 0:
        pytest.skip(f"an image can't be mounted here: {done.stderr.strip()}")
    try:
        yield at
    finally:
        unmount_below(place)


def unmount_below(place: Path) -> None:
    """Take away every mount at or below a directory, the latest first."""
    points = [line.split()[4].replace("\\040", " ") for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in reversed(points):
        if Path(point).is_relative_to(place):
            subprocess.run(["umount", "-l", point], check=False, capture_output=True)
