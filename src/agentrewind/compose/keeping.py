"""How the snapshots of a workspace are kept: limits and encryption, from its settings and the environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentrewind.compose import own_keys
from agentrewind.core.errors import UsageError
from agentrewind.core.settings import table_of
from agentrewind.snapshots.budget import Limits, parse_size
from agentrewind.snapshots.encryption import Encryption, WrongKey
from agentrewind.snapshots.founding import parameters_of

KEY_FILE_VARIABLE = "AGENTREWIND_STORE_KEY_FILE"
PASSPHRASE_VARIABLE = "AGENTREWIND_STORE_PASSPHRASE"  # noqa: S105 (the name of a variable)
_KNOWN = ("max_size", "min_free", "encrypt")


@dataclass(frozen=True, slots=True)
class Keeping:
    """The `[store]` table of an `agentrewind.toml`."""

    limits: Limits = Limits()  # noqa: RUF009 (frozen)
    encrypt: bool = False


def keeping_of(settings: Path) -> Keeping:
    """What a settings file says; the defaults where it isn't there or has no such table.

    Raises:
        UsageError: it can't be read as settings, with the key that is wrong.
    """
    table = table_of(settings, "store", _KNOWN)
    encrypt = table.get("encrypt", False)
    if not isinstance(encrypt, bool):
        raise UsageError(f"{settings}: store.encrypt must be true or false")
    return Keeping(Limits(_size(table, "max_size", settings), _size(table, "min_free", settings)), encrypt)


def _size(table: Mapping[str, object], key: str, settings: Path) -> int | None:
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, str | int):
        raise UsageError(f'{settings}: store.{key} must be a size, like "2 GB"')
    try:
        return parse_size(value)
    except UsageError as error:
        raise UsageError(f"{settings}: store.{key}: {error}") from error


def key_of(environ: Mapping[str, str] = os.environ) -> Encryption | None:
    """The key that the environment names, if it names one. Raises: WrongKey: it can't be used."""
    if path := environ.get(KEY_FILE_VARIABLE):
        return Encryption.from_key_file(Path(os.path.abspath(os.path.expanduser(path))))
    if phrase := environ.get(PASSPHRASE_VARIABLE):
        return Encryption.from_passphrase(phrase)
    return None


def encryption_of(
    store: Path, *, wanted: bool = False, making: bool = False, environ: Mapping[str, str] = os.environ
) -> Encryption | None:
    """What `store` is to be opened with. A store that is about to be made (`making`) is sealed in any case: with the
    key of its owner where that is `wanted`, else with a key of its own. None for one that an earlier version made open.

    Raises:
        UsageError: the owner's key is needed and there is none; or the store is there and has no such key, although
            `wanted`. StoreError: a new store's own key can't be written.
    """
    there = os.path.lexists(store / "format")
    sealed = there and parameters_of(store) is not None
    own = own_keys.of(store) if sealed else None
    if own is not None and not wanted:
        return own
    if own is not None or (there and not sealed and wanted):
        raise UsageError(
            f"The snapshots in {store} are not encrypted with a key of yours, and such encryption begins with the first"
            " snapshot. Nothing was touched. Move the store away to begin a new one, or go on without."
        )
    if sealed or wanted:
        return _owners_key(store, sealed=sealed, environ=environ)
    return own_keys.made(store) if making and not there else None


def _owners_key(store: Path, *, sealed: bool, environ: Mapping[str, str]) -> Encryption:
    try:
        key = key_of(environ)
    except WrongKey as error:
        raise UsageError(str(error)) from error
    if key is None:
        raise UsageError(
            f"The snapshots in {store} are {'' if sealed else 'to be '}encrypted, and there is no key. Name a file"
            f" with it in {KEY_FILE_VARIABLE} (32 random bytes, kept outside of what it protects), or give a passphrase"
            f" in {PASSPHRASE_VARIABLE}. Nothing was touched. (A store with a key of its own, which you didn't choose,"
            f" needs one of the files {' and '.join(map(str, own_keys.places(store)))}: bring one back from a copy.)"
        )
    return key


def tell(text: str) -> None:
    """Where nobody else shows warnings: a line on standard error."""
    sys.stderr.write(f"agentrewind: {text}\n")
