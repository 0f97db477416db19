"""Whether the worlds that need more than this package can be played."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec

from agentrewind.compose.doctor.finding import Finding

GROUP = "Worlds"
LOST = "`agentrewind eval --env scienceworld`"


def findings() -> Iterator[Finding]:
    """ScienceWorld's package, and the Java that it runs in."""
    if find_spec("scienceworld") is None:
        remedy = "`pip install 'agentrewind[scienceworld]'`"
        yield Finding(GROUP, "scienceworld", "less", "isn't installed", LOST, remedy)
    else:
        yield Finding(GROUP, "scienceworld", "works", "is installed")
    java = shutil.which("java")
    said = _version(java) if java else ""
    if said:
        yield Finding(GROUP, "java", "works", said)
    else:
        what = f"{java} doesn't start" if java else "there is no `java` in the path"
        yield Finding(GROUP, "java", "less", what, LOST, "`apt install default-jre-headless`")


def _version(java: str) -> str:
    """The first line of what it says of itself; empty where it says nothing."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = done.stderr.strip().splitlines()
    return lines[0] if lines and not done.returncode else ""
