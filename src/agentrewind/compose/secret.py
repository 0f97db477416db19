"""The values that must never stand in a journal: those of the environment and of the workspace's `.env` files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentrewind.core.redact import Redactor

SHORTEST = 8
"""Shorter values would blot out ordinary words."""
LARGEST_FILE = 256 * 1024

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|SECRETS|PASS|PASSWD|PASSWORD|PASSPHRASE|CREDENTIALS?|AUTH|DSN|PAT)(?:_|$)",
    re.IGNORECASE,
)
_SETTING = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*?)\s*$")
_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+=-]{16,}")
_URL_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
_NOT_PRIVATE = (".example", ".sample", ".template", ".dist")


def known_secrets(environ: Mapping[str, str], workspace: Path | None) -> frozenset[str]:
    """Values of at least `SHORTEST` characters under a secret-looking name; of `.env` files also those that look random
    or hold a password in a URL.
    """
    found = {value for name, value in environ.items() if _SECRET_NAME.search(name)}
    for path in _env_files(workspace) if workspace else ():
        found.update(value for name, value in _settings(path) if _secret(name, value))
    return frozenset(value for value in found if len(value) >= SHORTEST and not os.path.isabs(value))


def redactor(environ: Mapping[str, str], workspace: Path | None = None) -> Redactor:
    """Takes those values, and whatever looks like a key, out of text and JSON."""
    return Redactor(known=known_secrets(environ, workspace))


def say_without_secrets(error: BaseException, redact: Redactor) -> None:
    """Take the secrets out of what an error says."""
    error.args = tuple(redact.text(item) if isinstance(item, str) else item for item in error.args)


def _secret(name: str, value: str) -> bool:
    return bool(_SECRET_NAME.search(name) or _RANDOM.fullmatch(value) or _URL_PASSWORD.search(value))


def _env_files(workspace: Path) -> Iterator[Path]:
    """The `.env` files in the workspace and in the directories right below it."""
    for directory in (workspace, *_directories(workspace)):
        try:
            names = sorted(os.listdir(directory))
        except OSError:
            continue
        for name in names:
            if (name == ".env" or name.startswith(".env.")) and not name.endswith(_NOT_PRIVATE):
                yield directory / name


def _directories(workspace: Path) -> list[Path]:
    try:
        with os.scandir(workspace) as entries:
            return sorted(Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _settings(path: Path) -> Iterator[tuple[str, str]]:
    try:
        if not path.is_file() or path.stat().st_size > LARGEST_FILE:
            return
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return
    for line in text.splitlines():
        match = _SETTING.match(line)
        if match:
            yield match[1], match[2].strip("'\"")
