"""How a store begins, and by what it is known: a line that says its format, and the parameters of its encryption."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from agentrewind.core.errors import NO_ROOM, StorageFull, StoreError, UsageError
from agentrewind.snapshots import encryption
from agentrewind.snapshots.packs import PackFiles
from agentrewind.snapshots.plain import NotPlain, read_plain, write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from agentrewind.snapshots.encryption import Encryption, Vault

FORMAT = b"agentrewind snapshot store 1\n"
"""A newer format needs another magic in its packs, too: they say what a store is where this line is damaged."""
_MOST_MARK = 1 << 16


def opened_vault(directory: Path, key: Encryption | None) -> Vault | None:
    """What opens the records of the store in `directory`; None where it isn't encrypted.

    Raises:
        UsageError: there is no store that this version reads, or the key is missing, wrong or not wanted.
    """
    parameters = parameters_of(directory)
    if parameters is not None:
        return encryption.unlocked(directory, parameters, key)
    if key is not None:
        raise encryption.WrongKey(
            f"The snapshot store {directory} is not encrypted, and encryption begins with the first snapshot. Nothing"
            " was touched. Move the store away to begin a new one, or go on without encryption."
        )
    return None


def parameters_of(directory: Path) -> bytes | None:
    """Those of its encryption, None where it has none. They stand in two files, and either is enough.

    Raises:
        UsageError: there is no store that this version reads.
    """
    try:
        mark = read_plain(directory / "format", _MOST_MARK)
    except FileNotFoundError as error:
        raise UsageError(
            f"{directory}: no snapshot store there; nothing has been saved for this workspace yet"
        ) from error
    except NotPlain as error:
        raise UsageError(f"{directory}: not a snapshot store: {error}") from error
    kind, rest = mark[: len(FORMAT)], mark[len(FORMAT) :]
    if kind != FORMAT:
        rest = _parameters_in(mark)
        sealed = _packs_sealed(directory)
        if sealed is None or (sealed and not rest and _other_parameters(directory) is None):
            raise UsageError(f"{directory}: not a snapshot store that this version reads (it says {mark[:60]!r})")
    return rest if _is_json(rest) else _other_parameters(directory) or rest or None


def _parameters_in(mark: bytes) -> bytes:
    """Those that stand behind a damaged first line."""
    at = mark.find(b"{")
    return mark[at:] if at >= 0 else b""


def _packs_sealed(directory: Path) -> bool | None:
    """Whether the packs are encrypted; None where nothing there is a pack of ours."""
    files = PackFiles(directory / "packs")
    for pack in files.numbers():
        for record, _, _ in files.scan(pack, 0):
            return record.sealed
    return None


def mend_format(directory: Path) -> None:
    """Write the line by which a store is known anew, where it is damaged."""
    if not read_plain(directory / "format", _MOST_MARK).startswith(FORMAT):
        write_whole(directory / "format", FORMAT + (parameters_of(directory) or b""), durable=True)


def _other_parameters(directory: Path) -> bytes | None:
    try:
        return read_plain(directory / encryption.PARAMETERS, _MOST_MARK)
    except (FileNotFoundError, NotPlain):
        return None


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def make(directory: Path, key: Encryption | None) -> None:
    """Begin a store. Raises: StorageFull, StoreError: it can't be."""
    try:
        (directory / "packs").mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        parameters = _other_parameters(directory)
        if parameters is None and key is not None:
            if any((directory / "packs").iterdir()):
                raise StoreError(f"{directory}: what is there was not encrypted. Nothing was touched.")
            parameters = encryption.new_parameters(key)
            write_whole(directory / encryption.PARAMETERS, parameters, durable=True)
        write_whole(directory / "format", FORMAT + (parameters or b""), durable=parameters is not None)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StorageFull(f"No room to make a snapshot store in {directory}. Nothing was touched.") from error
        raise StoreError(f"{directory}: can't make a snapshot store there: {error.strerror}") from error


def clear_half_written(directory: Path) -> None:
    """What a process left that was killed while it wrote a file."""
    for left in directory.glob("*.new"):
        with contextlib.suppress(IsADirectoryError, PermissionError):
            left.unlink()
