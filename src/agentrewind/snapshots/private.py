"""What the store knows about secret files: sealed content under names that say nothing about it.

One random key a store, in a file that only its owner reads. A private object's id is a keyed hash, so that nobody
without the key can tell whether a guessed secret is in the store; its body is AES-256-GCM from `cryptography`, with a
nonce derived from key and plaintext, so that equal content stays one object.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from typing import TYPE_CHECKING

from agentrewind.core.crashpoints import named, reach
from agentrewind.snapshots.beneath import sync_directory
from agentrewind.snapshots.plain import read_plain
from agentrewind.snapshots.sealing import NONCE_BYTES, Cipher

if TYPE_CHECKING:
    from pathlib import Path

KEY_BYTES = 32
EMPTY = hashlib.sha256(b"").digest()
"""The id of no bytes, which are never stored."""
_KEY_WRITTEN = named("snapshot.key-written")


class Keys:
    """Keyed ids and sealing for one store."""

    def __init__(self, key: bytes, plain_ids: bytes | None = None) -> None:
        """`plain_ids`: the key for the ids of what isn't private, in an encrypted store."""
        self._plain_ids = plain_ids
        self._ids = self._derive(key, b"agentrewind private ids")
        self._notes = self._derive(key, b"agentrewind notes")
        self._nonces = self._derive(key, b"agentrewind nonces")
        self._cipher = Cipher(self._derive(key, b"agentrewind sealing"))

    @staticmethod
    def _derive(key: bytes, purpose: bytes) -> bytes:
        return hmac.digest(key, purpose, "sha256")

    def id(self, data: bytes) -> bytes:
        return hmac.digest(self._ids, data, "sha256")

    def content_id(self, data: bytes, *, private: bool) -> bytes:
        """The id under which these bytes are kept. Nothing has the same id everywhere."""
        if not data:
            return EMPTY
        if private:
            return self.id(data)
        if self._plain_ids is not None:
            return hmac.digest(self._plain_ids, data, "sha256")
        return hashlib.sha256(data).digest()

    def note(self, data: bytes) -> bytes:
        """A keyed hash that tells only whether something has changed."""
        return hmac.digest(self._notes, data, "sha256")[:16]

    def noting(self) -> hmac.HMAC:
        return hmac.new(self._notes, digestmod=hashlib.sha256)

    def seal(self, data: bytes) -> bytes:
        return self._cipher.seal(data, hmac.digest(self._nonces, data, "sha256")[:NONCE_BYTES])

    def unseal(self, sealed: bytes) -> bytes:
        """Raises: Unsealable."""
        return self._cipher.open(sealed)


def read_key(path: Path) -> bytes | None:
    """The key, or None where there is none or it is cut off. Raises: NotPlain: something else stands there."""
    try:
        key = read_plain(path, KEY_BYTES)
    except FileNotFoundError:
        return None
    return key if len(key) == KEY_BYTES else None


def make_key(path: Path) -> bytes:
    """Write a new random key, durable when it returns; a damaged one beside it is kept under another name."""
    key = secrets.token_bytes(KEY_BYTES)
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, key)
        os.fsync(fd)
    finally:
        os.close(fd)
    reach(_KEY_WRITTEN)
    if path.exists():
        os.rename(path, path.with_name(f"{path.name}.damaged-{secrets.token_hex(4)}"))
    os.rename(fresh, path)
    sync_directory(path.parent)
    return key
