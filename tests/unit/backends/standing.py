"""A process that stands in a directory for as long as a test lasts."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_WAIT = "import sys; print('here', flush=True); sys.stdin.read()"


@contextlib.contextmanager
def standing_in(directory: Path) -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-S", "-c", _WAIT], cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.stdin.close()
