"""Where requests go on to, and with which headers."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import httpx

from agentrewind.core.errors import UsageError

Family = Literal["openai", "anthropic"]
Headers = list[tuple[bytes, bytes]]

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com"

PLACEHOLDER = "agentrewind"
"""The key of a client that has none: SDKs don't start without one."""
_PLACEHOLDERS = frozenset({b"", PLACEHOLDER.encode(), b"dummy", b"empty", b"none", b"null", b"sk-dummy", b"x"})

CONNECT_S = 15.0
SILENCE_S = 600.0
"""How long an upstream may send nothing at all: as long as the SDKs wait."""
IDLE_S, KEPT = 15.0, 100
"""How long a connection is kept that nobody uses, and how many are."""

_OF_THE_CONNECTION = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_OF_THE_CLIENT = frozenset({b"host", b"expect"})
_OF_THE_BYTES = frozenset({b"accept-encoding", b"content-encoding", b"content-length"})


@dataclass(frozen=True, slots=True)
class Upstream:
    """One provider.

    Args:
        base_url: as its SDK takes it: for OpenAI with the version (`https://api.openai.com/v1`), for Anthropic without.
        api_key: for clients that have none of their own.

    Raises:
        UsageError: that is no URL of a server.
    """

    base_url: str
    family: Family = "openai"
    api_key: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        try:
            url = httpx.URL(self.base_url)
        except httpx.InvalidURL as error:
            raise UsageError(f"{self.base_url!r} is not a URL: {error}.") from error
        if url.scheme not in ("http", "https") or not url.host:
            raise UsageError(f"{self.base_url!r} is not the URL of a model's endpoint, like {OPENAI}.")

    @property
    def base(self) -> httpx.URL:
        return _parsed(self.base_url)

    @property
    def on_loopback(self) -> bool:
        host = self.base.host
        try:
            return host == "localhost" or ipaddress.ip_address(host).is_loopback
        except ValueError:
            return False

    def target(self, path: bytes, query: bytes) -> bytes:
        """The path and query there of what the client asked for at `path` here."""
        rest = path.removeprefix(b"/v1") if self.family == "openai" else path
        raw = self.base.raw_path.rstrip(b"/") + rest
        return raw + b"?" + query if query else raw

    def headers(self, client: Iterable[tuple[bytes, bytes]]) -> Headers:
        """The client's headers without those of its connection; with our key where it has none."""
        kept = without(client, _OF_THE_CONNECTION | _OF_THE_CLIENT)
        return self._with_key(kept) if self.api_key else kept

    def _with_key(self, headers: Headers) -> Headers:
        keys = [value for name, value in headers if name in (b"authorization", b"x-api-key", b"api-key")]
        if any(value.removeprefix(b"Bearer").strip().lower() not in _PLACEHOLDERS for value in keys):
            return headers
        kept = without(headers, frozenset({b"authorization", b"x-api-key", b"api-key"}))
        if self.family == "anthropic":
            return [*kept, (b"x-api-key", self.api_key.encode())]
        return [*kept, (b"authorization", b"Bearer " + self.api_key.encode())]


@functools.cache
def _parsed(base_url: str) -> httpx.URL:
    return httpx.URL(base_url)


def without(headers: Iterable[tuple[bytes, bytes]], names: frozenset[bytes]) -> Headers:
    return [(name, value) for name, value in headers if name.lower() not in names]


def for_new_body(headers: Headers) -> Headers:
    """For a body of our own, uncompressed both ways."""
    return [*without(headers, _OF_THE_BYTES), (b"accept-encoding", b"identity")]


def of_answer(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The headers of an answer whose bytes are passed on as they come."""
    return without(headers, _OF_THE_CONNECTION)


def of_read_answer(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """The headers of an answer that was read and decoded."""
    kept = without(headers, _OF_THE_CONNECTION | _OF_THE_BYTES)
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in kept)
