"""Where everything is kept: runs, snapshot stores and leases below one directory, never inside a workspace."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from agentrewind.core.errors import UnknownRun, UsageError
from agentrewind.journal.format import JOURNAL

LAST = "last"
HOME_VARIABLE = "AGENTREWIND_HOME"

_RUN_ID = re.compile(r"\d{8}-\d{6}(-[a-z0-9-]+)?-[0-9a-f]{4}")
_STAMP = len("20261201-003812")
_SLUG_WORDS = 5
_SLUG_LENGTH = 28
_CLOSE_ENOUGH = 3


@dataclass(frozen=True, slots=True)
class Home:
    """The directory of one user. Nothing is made there before it is needed."""

    root: Path

    @classmethod
    def of(cls, environ: Mapping[str, str] = os.environ) -> Home:
        """That of `AGENTREWIND_HOME`, else the user's data directory."""
        named = environ.get(HOME_VARIABLE)
        if named:
            return cls(Path(os.path.abspath(os.path.expanduser(named))))
        return cls(Path(platformdirs.user_data_dir("agentrewind")))

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def leases(self) -> Path:
        return self.root / "leases"

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    def sandbox_of(self, run_id: str) -> Path:
        """What the commands of a run see as `/tmp` and as their home directory, and its snapshots."""
        return self.root / "sandboxes" / run_id

    def store_of(self, workspace: Path) -> Path:
        """The snapshot store of the workspace with this real path."""
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", workspace.name)[:40] or "root"
        return self.root / "stores" / f"{name}-{hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]}"

    def made(self) -> Home:
        """With its directories in place, readable by this user alone.

        Raises:
            UsageError: they can't be made.
        """
        for directory in (self.root, self.runs, self.leases, self.root / "stores", self.root / "sandboxes"):
            try:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise UsageError(
                    f"Can't make the directory {directory}: {error.strerror}. Runs and snapshots are kept there;"
                    f" set {HOME_VARIABLE} to a directory of yours to keep them elsewhere."
                ) from error
        return self

    def run_dir(self, run_id: str) -> Path:
        return self.runs / run_id

    def is_run_id(self, name: str) -> bool:
        """Whether a run could be called so: then it names a directory of ours, and nothing else."""
        return _RUN_ID.fullmatch(name) is not None

    def run_ids(self) -> list[str]:
        """All runs, oldest first.

        Raises:
            UsageError: the directory can't be read.
        """
        try:
            names = os.listdir(self.runs)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UsageError(
                f"The runs can't be looked up in {self.runs}: {error.strerror}. {HOME_VARIABLE} names another place."
            ) from error
        ids = (name for name in names if _RUN_ID.fullmatch(name) and (self.runs / name / JOURNAL).exists())
        return sorted(ids, key=self._age)

    def find(self, ref: str) -> str:
        """The id of the run that `ref` names: `last`, an id, or the beginning (or the end) of just one.

        Raises:
            UnknownRun: none, or several.
        """
        ids = self.run_ids()
        if not ids:
            raise UnknownRun(f"There is no run yet in {self.runs}. `agentrewind run` makes one.")
        if ref == LAST:
            return ids[-1]
        if ref in ids:
            return ref
        found = [run_id for run_id in ids if run_id.startswith(ref) or run_id.endswith(f"-{ref}")] if ref else []
        if len(found) == 1:
            return found[0]
        if found:
            shown = ", ".join(found[-_CLOSE_ENOUGH:])
            raise UnknownRun(f"{len(found)} runs match {ref!r}: {shown}. Write more of the id.")
        raise UnknownRun(f"There is no run {ref!r}. The newest is {ids[-1]}; `agentrewind runs` lists them all.")

    def _age(self, run_id: str) -> tuple[str, int, str]:
        """By the second in the id; runs of the same second by their header."""
        return run_id[:_STAMP], _started(self.run_dir(run_id)), run_id


_HEADER = 1 << 20
"""A first line longer than this is no header."""


def _started(run_dir: Path) -> int:
    try:
        with open(run_dir / JOURNAL, "rb") as journal:
            return int(json.loads(journal.readline(_HEADER))["started_ns"])
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
        return 0


def new_run_id(task: str, now_ns: int) -> str:
    """Sortable by time and readable: `20261201-003812-fix-the-bug-3f2a`."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now_ns // 1_000_000_000))
    return "-".join(part for part in (stamp, slug(task), secrets.token_hex(2)) if part)


def slug(text: str) -> str:
    """The first words of a text as lower-case ASCII, with `-` between them; may be empty."""
    words = re.findall(r"[a-z0-9]+", text.lower())[:_SLUG_WORDS]
    while words and len("-".join(words)) > _SLUG_LENGTH:
        words.pop()
    return "-".join(words)
