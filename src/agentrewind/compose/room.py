"""Who shares a workspace: a directory beside the leases, with a lock for each run that is in it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from agentrewind.compose.home import Home
from agentrewind.core.codec import Json
from agentrewind.core.errors import Busy

_ROOM, _MEMBER = ".room", ".member"
_PLAIN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class _State:
    """Who has something at work now, and who had at any time since somebody looked at the workspace last."""

    now: frozenset[str] = frozenset()
    since: frozenset[str] = frozenset()


class Room:
    """One run's place among those that share a workspace; the crew of its world. Left by the death of its process."""

    shared = True

    def __init__(self, home: Home, workspace: Path, me: str) -> None:
        """Come in."""
        home.made()
        self._me = me
        name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:32]
        self._directory = home.leases / f"{name}{_ROOM}"
        self._directory.mkdir(mode=0o700, exist_ok=True)
        self._member = self._directory / f"{me}{_MEMBER}"
        self._fd = os.open(self._member, _PLAIN, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        with self._guarded():
            (self._directory / "root").write_bytes(os.fsencode(workspace))
        self.at_work(working=True)

    def others(self) -> bool:
        """Whether another run is in it."""
        return bool(_alive(self._directory) - {self._me})

    def leave(self) -> None:
        """What it had at work is at work no more."""
        with self._guarded():
            state = self._read()
            self._write(_State(state.now - {self._me}, state.since))
        with suppress(FileNotFoundError):
            os.unlink(self._member)
        os.close(self._fd)

    def at_work(self, working: bool) -> None:
        """See `Crew`."""
        with self._guarded():
            state = self._read()
            if working:
                self._write(_State(state.now | {self._me}, state.since | {self._me}))
            else:
                self._write(_State(state.now - {self._me}, state.since - {self._me}))

    def since_last_look(self) -> list[str]:
        """See `Crew`."""
        with self._guarded():
            return sorted(self._read().since)

    def looked(self) -> None:
        """See `Crew`. What a run that was killed had at work counts up to this look."""
        with self._guarded():
            state = self._read()
            alive = state.now & ({self._me} | _alive(self._directory))
            self._write(_State(alive, alive))

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        fd = os.open(self._directory / "guard", _PLAIN, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _read(self) -> _State:
        try:
            plain: Json = json.loads((self._directory / "state").read_bytes())
            return _State(frozenset(map(str, plain["now"])), frozenset(map(str, plain["since"])))
        except (OSError, ValueError, KeyError, TypeError):
            return _State()

    def _write(self, state: _State) -> None:
        part = self._directory / "state.part"
        part.write_text(json.dumps({"now": sorted(state.now), "since": sorted(state.since)}))
        os.replace(part, self._directory / "state")


def refuse_if_shared(home: Home, workspace: Path) -> None:
    """Raises: Busy: runs share this workspace, or one above or below it."""
    for room in home.leases.glob(f"*{_ROOM}"):
        try:
            root = Path(os.fsdecode((room / "root").read_bytes()))
        except OSError:
            continue
        members = sorted(_alive(room)) if root == workspace or _overlap(root, workspace) else []
        if members:
            raise Busy(
                f"{workspace} is in use: {' and '.join(members)} {'shares' if len(members) == 1 else 'share'} it. Start"
                " another run there with --share too, or wait until they have ended."
            )


def _overlap(one: Path, other: Path) -> bool:
    return one in other.parents or other in one.parents


def _alive(room: Path) -> set[str]:
    return {path.name.removesuffix(_MEMBER) for path in room.glob(f"*{_MEMBER}") if _is_held(path)}


def _is_held(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
