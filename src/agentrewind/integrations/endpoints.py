"""What can be the URL of a model's endpoint."""

from __future__ import annotations

from urllib.parse import urlsplit

from agentrewind.core.errors import UsageError


def checked_url(url: str) -> str:
    """`url`, which a server may answer at.

    Raises:
        UsageError: it can't be the URL of a server.
    """
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an unfinished IPv6 address, a port that is none
        fits = False
    if not fits or not url.isprintable() or " " in url:
        raise UsageError(f"{url!r} is not the URL of a model's endpoint, like https://api.openai.com/v1.")
    return url
