"""Encryption of a whole store: records sealed under a key that the store doesn't hold.

The key comes from a file or from a passphrase (scrypt). Contents, names, sizes and descriptions are inside the sealed
bodies; the names of objects are keyed hashes, so that equal content still is one object and nobody without the key can
test a guess. Readable stay: how many objects and snapshots there are, and about how large they are together.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentrewind.core.codec import canonical
from agentrewind.core.errors import UsageError
from agentrewind.snapshots.plain import NotPlain, read_plain
from agentrewind.snapshots.sealing import NONCE_BYTES, Cipher

if TYPE_CHECKING:
    from pathlib import Path

LEAST_KEY = 16
"""A key file has at least so many bytes."""
MOST_KEY = 1 << 20
PARAMETERS = "encryption"
_CHECKED = b"agentrewind: this is the key"
_WORK = {"n": 1 << 16, "r": 8, "p": 1}
"""The cost of scrypt: 64 MB and some tenths of a second for each guess."""
_MOST_WORK = 1 << 22


class WrongKey(UsageError):
    """The store is encrypted under another key, or a key is missing or not wanted. Nothing was touched."""


@dataclass(frozen=True, slots=True)
class Encryption:
    """Where the key comes from: the bytes of a file, or a passphrase."""

    secret: bytes
    passphrase: bool = False

    def __repr__(self) -> str:
        return f"Encryption({'passphrase' if self.passphrase else 'key file'})"

    @classmethod
    def from_key_file(cls, path: Path) -> Encryption:
        """The content of a file, at least `LEAST_KEY` bytes of it.

        Raises:
            WrongKey: it can't be read, or is too short to be a key.
        """
        try:
            secret = read_plain(path.resolve(), MOST_KEY)
        except FileNotFoundError as error:
            raise WrongKey(f"There is no key file {path}. Nothing was touched.") from error
        except NotPlain as error:
            raise WrongKey(f"The key file can't be used: {error} Nothing was touched.") from error
        if len(secret) < LEAST_KEY:
            raise WrongKey(f"{path} is too short for a key: it needs {LEAST_KEY} bytes. Nothing was touched.")
        return cls(secret)

    @classmethod
    def from_passphrase(cls, text: str) -> Encryption:
        """Raises: WrongKey: it is empty."""
        if not text:
            raise WrongKey("The passphrase of the store is empty. Nothing was touched.")
        return cls(text.encode("utf-8", "surrogateescape"), passphrase=True)

    def derive(self, parameters: dict[str, Any]) -> bytes:
        """The key of the store with these parameters. Raises: ValueError, KeyError, TypeError: they are damaged."""
        salt = bytes.fromhex(parameters["salt"])
        if not self.passphrase:
            return hmac.digest(salt, b"agentrewind store key" + self.secret, "sha256")
        n, r, p = (int(parameters[name]) for name in ("n", "r", "p"))
        if n * r * p > _MOST_WORK * _WORK["r"]:
            raise ValueError("parameters out of bounds")
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

        return Scrypt(salt=salt, length=32, n=n, r=r, p=p).derive(self.secret)


class Vault:
    """Seals and opens the records of one encrypted store."""

    def __init__(self, key: bytes) -> None:
        self.ids = hmac.digest(key, b"agentrewind object ids", "sha256")
        self._cipher = Cipher(hmac.digest(key, b"agentrewind records", "sha256"))
        self.mark = hmac.digest(key, _CHECKED, "sha256").hex()

    def seal(self, data: bytes, bound: bytes) -> bytes:
        """Ciphertext that opens only together with the same `bound` bytes."""
        return self._cipher.seal(data, os.urandom(NONCE_BYTES), bound)

    def open(self, sealed: bytes, bound: bytes) -> bytes:
        """Raises: Unsealable."""
        return self._cipher.open(sealed, bound)


def new_parameters(encryption: Encryption) -> bytes:
    """What a new encrypted store writes down: the salt, the work, and a mark by which a wrong key is told."""
    parameters: dict[str, Any] = {"salt": secrets.token_hex(32), "from": _kind(encryption), **_WORK}
    parameters["mark"] = Vault(encryption.derive(parameters)).mark
    return canonical(parameters) + b"\n"


def _kind(encryption: Encryption) -> str:
    return "passphrase" if encryption.passphrase else "file"


def unlocked(directory: Path, parameters: bytes, encryption: Encryption | None) -> Vault:
    """The vault of the store in `directory`.

    Raises:
        WrongKey: no key, or not this store's.
    """
    try:
        plain = json.loads(parameters)
        wanted, mark = str(plain["from"]), str(plain["mark"])
        vault = None if encryption is None or _kind(encryption) != wanted else Vault(encryption.derive(plain))
    except (ValueError, KeyError, TypeError) as error:
        raise WrongKey(f"{directory}: the parameters of its encryption are damaged. Nothing was touched.") from error
    needs = "a passphrase" if wanted == "passphrase" else "a key file"
    if vault is None:
        raise WrongKey(f"The snapshot store {directory} is encrypted and needs {needs}. Nothing was touched.")
    if not hmac.compare_digest(vault.mark, mark):
        raise WrongKey(f"The key is not that of the encrypted snapshot store {directory}. Nothing was touched.")
    return vault
