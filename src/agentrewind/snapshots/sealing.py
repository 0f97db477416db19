"""Sealed bytes: AES-256-GCM from `cryptography`, which is loaded when something is sealed or opened first."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12


class Unsealable(ValueError):
    """Sealed bytes that this key doesn't open: damaged, or sealed under another key."""


class Cipher:
    """Seals under one key; no nonce may be used for two different plaintexts."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._cipher: AESGCM | None = None

    def seal(self, data: bytes, nonce: bytes, bound: bytes | None = None) -> bytes:
        """Nonce and ciphertext, which open only together with the same `bound` bytes."""
        return nonce + self._aead().encrypt(nonce, data, bound)

    def open(self, sealed: bytes, bound: bytes | None = None) -> bytes:
        """Raises: Unsealable."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._aead().decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound)
        except (InvalidTag, ValueError) as error:
            raise Unsealable("the key does not open what is sealed: it is damaged, or not under this key") from error

    def _aead(self) -> AESGCM:
        if self._cipher is None:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            self._cipher = AESGCM(self._key)
        return self._cipher
