"""Which agents and SDKs are here, and whether those are versions that somebody has tried."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from agentrewind.compose.doctor.finding import Finding
from agentrewind.compose.doctor.tested import Tested, rows

GROUP = "Agents and SDKs"
UNTRIED = "nobody has tried this version with agentrewind"
_ABOVE = 4
"""How far above a program the manifest of its npm package may lie."""


def findings() -> Iterator[Finding]:
    """Packages of this Python, then programs in PATH."""
    for row in rows("package"):
        have = installed(row.name)
        if have:
            yield _here(row, have)
        elif row.gives:
            remedy = f"`pip install 'agentrewind[{row.extra}]'`"
            yield Finding(GROUP, row.name, "less", "not installed", row.gives, remedy)
    for row in rows("program"):
        path = shutil.which(row.name)
        if path:
            yield _program(row, path)


def installed(package: str) -> str:
    """The version of a package; empty where it isn't installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _here(row: Tested, have: str) -> Finding:
    what = f"{have}; {row.told}; {row.how}"
    if row.covers(have):
        return Finding(GROUP, row.name, "works", what)
    return Finding(GROUP, row.name, "less", what, UNTRIED, f"`pip install '{row.name}>={row.since},<{row.before}'`")


def _program(row: Tested, path: str) -> Finding:
    have = version_of(path)
    what = f"{path}, {have or 'version unknown'}; {row.told}; {row.how}"
    if not have or row.covers(have):
        return Finding(GROUP, row.name, "works", what)
    return Finding(GROUP, row.name, "less", what, UNTRIED, f"Its tests ran with {row.tried}; try a short task first.")


def version_of(path: str) -> str:
    """The version of a program, as the npm package says that it belongs to, or the path where it lies; empty where
    neither does. The program isn't started: it might call home.
    """
    real = Path(os.path.realpath(path))
    for directory in real.parents[:_ABOVE]:
        try:
            found = json.loads((directory / "package.json").read_bytes()).get("version")
        except (OSError, ValueError, AttributeError):
            continue
        if isinstance(found, str):
            return found
    numbered = [part for part in real.parts if re.fullmatch(r"v?\d+\.\d+\.\d+\S*", part)]
    return numbered[-1].removeprefix("v") if numbered else ""
