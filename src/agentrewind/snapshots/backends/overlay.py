"""A workspace as a stack of overlayfs layers: a snapshot closes the upper one, a restore mounts another stack.

The directory itself is the lowest layer and is never written to; it is covered by the mount for as long as the
workspace is kept so, also between two openings. Nothing is copied but what is written, so many rollouts can be forked
from one snapshot. Mounts are gone after a reboot: the next opening makes them anew from what lies in the store.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from agentrewind.core.codec import canonical
from agentrewind.core.crashpoints import named, reach
from agentrewind.core.errors import Busy, RestoreRefused, SnapshotDamaged, UsageError, WorkspaceRefused
from agentrewind.core.world import Capabilities, Gap, SnapshotId
from agentrewind.snapshots import entry as e
from agentrewind.snapshots.backends import inside, mounts
from agentrewind.snapshots.backends.layers import Layer, folded, linked, read_layer, squash
from agentrewind.snapshots.backends.looking import look
from agentrewind.snapshots.backends.mounts import Overlay
from agentrewind.snapshots.backends.switching import RULES, SwitchedWorld
from agentrewind.snapshots.beneath import DIRECTORY, sync_file_system
from agentrewind.snapshots.clock import TICK_NS, Clock
from agentrewind.snapshots.plain import write_whole
from agentrewind.snapshots.reading import HashingSink, signature
from agentrewind.snapshots.scan import Scan, Seen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentrewind.snapshots.backends.ledger import Observed
    from agentrewind.snapshots.lease import Lease
    from agentrewind.snapshots.manifests import Manifest

DEPTH = 100
"""Layers above the base before they are squashed; the kernel takes 500, and a mount takes longer with each."""
_LAYER = re.compile("[0-9a-f]{16}")
_SOURCE = "agentrewind:"
_LINKED = "one of several names of a file: a write through one of them parts it from the others"
_LAYER_MADE = named("backend.overlay-layer-made")
_FROZEN = named("backend.overlay-frozen")
_ENTERED = named("backend.overlay-entered")


@dataclass(frozen=True, slots=True)
class Stack:
    """What lies under an upper layer: `snapshot` and then layers that no snapshot holds yet, topmost first."""

    lower: tuple[str, ...] = ()
    """All layers above the base, topmost first."""
    snapshot: SnapshotId | None = None
    unsaved: tuple[str, ...] = ()


def why_not(root: Path, store: Path) -> str:
    """Why the workspace `root` can't be kept as overlay layers in `store`; empty where it can. Tried, not guessed."""
    above = next(path for path in (store, *store.parents) if path.exists())
    covered = any(source.startswith(_SOURCE) for _, source in mounts.mounted_at(root))
    if not covered and os.stat(root).st_dev != os.stat(above).st_dev:
        return f"its store {store} lies on another file system"
    if not covered and os.path.ismount(root):
        return "something is mounted there already"
    trial = above / f".agentrewind-{secrets.token_hex(8)}.tmp"
    try:
        for name in ("lower", "upper", "work"):
            (trial / name).mkdir(parents=True)
        lower = [trial / "lower"]
        overlay = Overlay("agentrewind-trial", lower, trial / "upper", trial / "work", unprivileged=_unprivileged())
        os.close(mounts.detached(overlay))
    except OSError as error:
        return f"an overlay can't be mounted ({error.strerror}); it takes root, or a user and mount namespace"
    finally:
        shutil.rmtree(trial, ignore_errors=True)
    return ""


def _unprivileged() -> bool:
    """Whether root here is root of a user namespace only, who may not set `trusted.` attributes."""
    fields = Path("/proc/self/uid_map").read_text().split()
    return fields != ["0", "0", str(2**32 - 1)]


class OverlayWorld(SwitchedWorld):
    """See `SwitchedWorld`. A snapshot, too, needs the workspace for itself where something has changed."""

    backend: ClassVar[str] = "overlayfs"
    capabilities = Capabilities(private_paths=False, hard_links=False)

    def __init__(self, root: Path, store: Path, lease: Lease) -> None:
        if why := why_not(root, store):
            raise WorkspaceRefused(f"{root} can't be kept as overlay layers: {why}.")
        super().__init__(root, store, lease)
        self._base = store / "base"
        self._layers = store / "layers"
        self._stacks = store / "stacks"
        for directory in (self._base, self._layers, self._stacks):
            directory.mkdir(mode=0o700, exist_ok=True)
        self._clock = Clock(local=True)
        self._unprivileged = _unprivileged()
        self._seen, self._base_seen = Seen(), Seen()
        self._entered: list[Gap] = []
        self._upper = self._mounted() or self._mount_again()
        self._stack = self._read_stack(self._upper)
        self._current = self._stack.snapshot
        self._sweep()

    # The mounts

    def _mounted(self) -> str | None:
        """The upper layer of the mount that covers the workspace, if it is one of ours."""
        found = mounts.mounted_at(self.root)
        name = found[-1][1].removeprefix(_SOURCE) if found and found[-1][1].startswith(_SOURCE) else ""
        return name if name and (self._layers / name).exists() else None

    def _mount_again(self) -> str:
        """Cover the directory with the stack that was last in use, or with a first empty layer."""
        self._check_base()
        if not mounts.mounted_at(self._base):
            mounts.bind_read_only(self.root, self._base)
        head = self._directory / "head"
        name = self._above(head.read_text()) if head.exists() else self._new_layer(Stack(), self._look_at(self.root))
        mount = mounts.detached(self._overlay(name, self._read_stack(name)))
        try:
            self._part_from_outside(mount)
            mounts.attach(mount, self.root)
        finally:
            os.close(mount)
        write_whole(head, name.encode())
        return name

    def _above(self, head: str) -> str:
        """A new layer on what was last on top: a snapshot may hold that, and then it must not be written to."""
        stack = self._read_stack(head)
        root = self._look_at(self._layers / head / "upper")
        return self._new_layer(Stack((head, *stack.lower), stack.snapshot, (head, *stack.unsaved)), root)

    def _check_base(self) -> None:
        """Refuse a base that was written to while it wasn't covered: every snapshot stands on it."""
        mark = self._directory / "base-state"
        now = _state_of_base(self.root)
        if not mark.exists():
            write_whole(mark, now, durable=True)
        elif mark.read_bytes() != now:
            raise WorkspaceRefused(
                f"{self.root} was changed while its layers weren't mounted, and its snapshots stand on what it was."
                f" Bring it back to that, or keep it in a new store; the layers lie in {self._layers}."
            )

    def _part_from_outside(self, mount: int) -> None:
        """Copy up the files of the base that have names outside of it, through which they could be changed."""
        groups: dict[int, tuple[int, list[str]]] = {}
        for path, st in _walk(self._base):
            if stat.S_ISREG(st.st_mode) and st.st_nlink > 1:
                groups.setdefault(st.st_ino, (st.st_nlink, []))[1].append(path)
        for count, paths in groups.values():
            for path in paths if len(paths) < count else ():
                os.close(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=mount))

    def _overlay(self, name: str, stack: Stack, *, writable: bool = True) -> Overlay:
        lower = [*(self._layers / layer / "upper" for layer in stack.lower), self._base]
        layer = self._layers / name
        upper = layer / "upper" if writable else None
        return Overlay(_SOURCE + name, lower, upper, layer / "work", unprivileged=self._unprivileged)

    def _new_layer(self, stack: Stack, root: bytes) -> str:
        """An empty layer to lie on `stack`, with the attributes that the root of the workspace is to have."""
        if len(stack.lower) >= DEPTH:
            stack = Stack((self._squashed(stack.lower),), stack.snapshot, stack.unsaved)
        name = secrets.token_hex(8)
        layer = self._layers / name
        for part in ("upper", "work"):
            (layer / part).mkdir(mode=0o700, parents=True)
        _give_attributes(layer / "upper", root)
        self._write_stack(name, stack)
        reach(_LAYER_MADE)
        return name

    def _squashed(self, layers: tuple[str, ...]) -> str:
        name = secrets.token_hex(8)
        (self._layers / name).mkdir(mode=0o700)
        squash([self._layers / layer / "upper" for layer in layers], self._layers / name / "upper")
        self._write_stack(name, Stack())
        return name

    def _write_stack(self, name: str, stack: Stack) -> None:
        plain = {"lower": list(stack.lower), "snapshot": stack.snapshot, "unsaved": list(stack.unsaved)}
        write_whole(self._layers / name / "stack", canonical(plain))

    def _read_stack(self, name: str) -> Stack:
        plain = json.loads((self._layers / name / "stack").read_bytes())
        return Stack(tuple(plain["lower"]), plain["snapshot"], tuple(plain["unsaved"]))

    def _sweep(self) -> None:
        """Take away the layers that a killed process hadn't finished."""
        for layer in self._layers.iterdir():
            if not (layer / "stack").exists():
                shutil.rmtree(layer)

    def _put_on_top(self, name: str, mount: int | None = None) -> None:
        """Make `name` the upper layer in one step; the old one is closed.

        Raises:
            Busy: processes stand inside; nothing was done.
        """
        if mounts.is_busy(self.root):
            found = inside.standing_inside(self.root)
            raise Busy(
                f"{self.root} is in use by {inside.named(found) or 'a process that can not be named'}. Nothing was"
                " touched: end it, or let it leave the workspace and close its files there."
            )
        own = mounts.detached(self._overlay(name, self._read_stack(name))) if mount is None else mount
        try:
            mounts.attach(own, self.root, beneath=True)
        finally:
            if mount is None:
                os.close(own)
        try:
            mounts.unmount(self.root)
        except OSError:  # entered since we asked
            mounts.unmount(self.root, even_if_busy=True)
            self._entered = [Gap("", "entered while its layer was closed: what is written from there isn't seen")]
        self._upper, self._stack, self._seen = name, self._read_stack(name), Seen()
        write_whole(self._directory / "head", name.encode())

    def detach(self) -> None:
        """Uncover the directory: it shows what it was before it was kept so. The next opening mounts everything anew.

        Raises:
            Busy: processes stand inside.
        """
        if mounts.is_busy(self.root):
            raise Busy(f"{self.root} is in use by {inside.named(inside.standing_inside(self.root))}.")
        mounts.unmount(self.root)
        mounts.unmount(self._base)
        self.close()

    def sync(self) -> None:
        """Return once everything saved so far would survive a power loss."""
        fd = os.open(self._layers, DIRECTORY)
        try:
            sync_file_system(fd)
        finally:
            os.close(fd)
        super().sync()

    # Saving

    def _observe(self, name: SnapshotId) -> Observed:  # noqa: ARG002
        """Look first, and close the upper layer only where something has changed; then look at what can't move."""
        entries, seen = self._shown()
        if self._current is None or entries != self._ledger.state(self._current):
            below = Stack((self._upper, *self._stack.lower), self._current, (self._upper, *self._stack.unsaved))
            self._put_on_top(self._new_layer(below, self._look_at(self.root)))
            reach(_FROZEN)
            entries, seen = self._shown(seen)
        unstable, self._entered = [*seen.unstable, *self._entered], []
        return self._observed(entries, unstable, [Gap(path, _LINKED) for path in linked(entries)])

    def _shown(self, frozen: Seen | None = None) -> tuple[Manifest, Seen]:
        """The present state, put together from the last snapshot and the layers above it."""
        state = self._state_of_snapshot(self._stack.snapshot)
        seen = Seen()
        for layer in reversed(self._stack.unsaved):
            seen = self._scanned(self._layers / layer / "upper", frozen or Seen())
            state = folded(state, self._layer(layer, seen))
        self._seen = self._scanned(self._layers / self._upper / "upper", self._seen)
        state = folded(state, self._layer(self._upper, self._seen))
        return state, seen if frozen else self._seen

    def _state_of_snapshot(self, name: SnapshotId | None) -> Manifest:
        if name is not None:
            return self._ledger.state(name)
        self._base_seen = self._scanned(self._base, self._base_seen)
        return self._base_seen.entries

    def _layer(self, name: str, seen: Seen) -> Layer:
        fd = os.open(self._layers / name / "upper", DIRECTORY)
        try:
            return read_layer(fd, seen)
        finally:
            os.close(fd)

    def _scanned(self, tree: Path, known: Seen) -> Seen:
        fd = os.open(tree, DIRECTORY)
        try:
            return Scan(fd, RULES, HashingSink(self._ledger.keys), known, self._clock, tick_ns=TICK_NS).run()
        finally:
            os.close(fd)

    def _look_at(self, tree: Path) -> bytes:
        fd = os.open(tree, DIRECTORY)
        try:
            found = look(fd, "", HashingSink(self._ledger.keys))
        finally:
            os.close(fd)
        assert found is not None
        return found

    def _keep(self, name: SnapshotId, observed: Observed, label: str) -> None:  # noqa: ARG002
        """The layers are closed since they were observed; note which ones the snapshot is."""
        write_whole(self._stacks / name, canonical(list(self._stack.lower)))

    def _forget(self, name: SnapshotId) -> None:
        (self._stacks / name).unlink(missing_ok=True)

    def _committed(self, name: SnapshotId) -> None:
        self._stack = Stack(self._stack.lower, name)
        self._write_stack(self._upper, self._stack)
        reach(_ENTERED)

    # Bringing back

    def _now(self) -> Manifest:
        return self._shown()[0]

    def _stack_of(self, name: SnapshotId) -> Stack:
        """Raises: SnapshotDamaged: nobody can tell any more which layers it is."""
        try:
            lower = tuple(map(str, json.loads((self._stacks / name).read_bytes())))
        except (OSError, ValueError, TypeError) as error:
            raise SnapshotDamaged(f"Snapshot {name} lacks its list of layers. Nothing was touched.") from error
        if not all(_LAYER.fullmatch(layer) and (self._layers / layer).is_dir() for layer in lower):
            raise SnapshotDamaged(f"Snapshot {name} names layers that aren't there. Nothing was touched.")
        return Stack(lower, name)

    @contextlib.contextmanager
    def _stored(self, name: SnapshotId) -> Iterator[int]:
        stack = self._stack_of(name)
        lower = [*(self._layers / layer / "upper" for layer in stack.lower), self._base]
        with _opened(mounts.detached(self._readable(lower))) as fd:
            yield fd

    def _readable(self, lower: list[Path]) -> Overlay:
        """An overlay needs two layers at least: an empty one is put below."""
        empty = self._directory / "empty"
        empty.mkdir(mode=0o700, exist_ok=True)
        return Overlay("agentrewind-reading", [*lower, empty], unprivileged=self._unprivileged)

    @contextlib.contextmanager
    def _prepared(self, name: SnapshotId) -> Iterator[int]:
        root = self._ledger.state(name)[""]
        self._next = self._new_layer(self._stack_of(name), root)
        self._next_mount = mounts.detached(self._overlay(self._next, self._read_stack(self._next)))
        try:
            with _opened(self._next_mount) as fd:
                yield fd
        except BaseException:
            if self._upper != self._next:
                shutil.rmtree(self._layers / self._next)
            raise

    def _switch(self, name: SnapshotId) -> tuple[Gap, ...]:  # noqa: ARG002
        try:
            self._put_on_top(self._next, self._next_mount)
        except Busy as error:
            raise RestoreRefused(str(error)) from error
        return ()

    # Forking

    def fork(self, snapshot: SnapshotId, to: Path) -> None:
        """Mount the state of a snapshot at the directory `to`, to be written to apart from everything else. Whoever
        unmounts it ends the fork.

        Raises:
            SnapshotNotFound. UsageError: `to` isn't a directory, or nothing can be mounted there.
        """
        name = self._ledger.resolve(snapshot)
        layer = self._new_layer(self._stack_of(name), self._ledger.state(name)[""])
        try:
            mount = mounts.detached(self._overlay(layer, self._read_stack(layer)))
            try:
                mounts.attach(mount, to)
            finally:
                os.close(mount)
        except OSError as error:
            raise UsageError(f"Snapshot {name} can't be mounted at {to}: {error.strerror}") from error


@contextlib.contextmanager
def _opened(mount: int) -> Iterator[int]:
    """A detached mount's root; the mount is gone at the end, unless it was put in place."""
    try:
        fd = os.open(".", DIRECTORY, dir_fd=mount)
        try:
            yield fd
        finally:
            os.close(fd)
    finally:
        os.close(mount)


def _walk(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    todo = [""]
    while todo:
        parent = todo.pop()
        with os.scandir(os.path.join(root, parent)) as found:
            for item in found:
                path = os.path.join(parent, item.name)
                st = item.stat(follow_symlinks=False)
                yield path, st
                if item.is_dir(follow_symlinks=False) and not os.path.ismount(item.path):
                    todo.append(path)


def _state_of_base(root: Path) -> bytes:
    """A hash that tells whether anything in a directory was touched; files with names outside don't count."""
    lines = [
        e.encode_text(path) + b"\0" + signature(st)[8:]
        for path, st in _walk(root)
        if stat.S_ISDIR(st.st_mode) or st.st_nlink == 1
    ]
    return hashlib.sha256(b"\n".join(sorted(lines))).hexdigest().encode()


def _give_attributes(directory: Path, data: bytes) -> None:
    """Make a new directory's attributes those of an entry."""
    entry = e.decode(data)
    os.chown(directory, entry.uid, entry.gid)
    for name, value in e.decode_xattrs(entry.xattrs):
        os.setxattr(directory, name, value)
    os.chmod(directory, entry.mode)
    os.utime(directory, ns=(entry.mtime_ns, entry.mtime_ns))
