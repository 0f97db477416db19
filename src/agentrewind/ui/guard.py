"""Who may talk to the page's server: a browser on this machine that was given the link, and no other page in it.

Any web page can make a browser send requests to a port of this machine, and a name that its owner points at 127.0.0.1
makes them look like its own. So the host that is asked for must be ours, the token of the link must come as a cookie
that no other site's request carries, and what changes something must come from our own page, with a secret that only
our page can read.
"""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
FORGERY_HEADER = "x-agentrewind"


class Guard:
    """Middleware: answers 403 to whoever isn't our page.

    Attributes:
        token: stands in the link that the terminal shows. forgery: what the page sends along when it changes something.
    """

    def __init__(self, port: int) -> None:
        self.token = secrets.token_urlsafe(24)
        self.forgery = secrets.token_urlsafe(24)
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._cookie = f"agentrewind-{port}"

    def around(self, app: ASGIApp) -> ASGIApp:
        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                return
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
            if headers.get("host", "") not in self._hosts:
                await _answer(send, 403, "This page is served to this machine only, by its own address.")
            elif given and scope["method"] == "GET" and _same(given, self.token):
                cookie = f"{self._cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
                await _answer(send, 303, "", {"location": scope["path"], "set-cookie": cookie})
            elif not _same(_cookie_of(headers, self._cookie), self.token):
                await _answer(send, 403, "Open the link that the terminal shows: it holds the key to this page.")
            elif scope["method"] not in ("GET", "HEAD") and (why := self._forged(headers)):
                await _answer(send, 403, why)
            else:
                await app(scope, receive, _with_headers(send))

        return guarded

    def _forged(self, headers: dict[str, str]) -> str:
        """Why a request that changes something isn't from our page; empty where it is."""
        if headers.get("origin", "").removeprefix("http://") not in self._hosts:
            return "This request comes from another page."
        if not _same(headers.get(FORGERY_HEADER, ""), self.forgery):
            return "This request lacks the secret of the page; load the page anew."
        return ""


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _cookie_of(headers: dict[str, str], name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_encoded(HEADERS)]
        await send(message)

    return sending


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def _answer(send: Send, status: int, text: str, more: dict[str, str] | None = None) -> None:
    headers = {**HEADERS, "content-type": "text/plain; charset=utf-8", **(more or {})}
    await send({"type": "http.response.start", "status": status, "headers": _encoded(headers)})
    await send({"type": "http.response.body", "body": text.encode()})
