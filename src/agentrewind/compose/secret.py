"""The values that must never stand in a journal: those of the environment and of the workspace's `.env` files."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from agentrewind.core.errors import UsageError
from agentrewind.core.redact import Redactor
from agentrewind.core.settings import table_of

SETTINGS_FILE = "agentrewind.toml"

SHORTEST = 8
"""Shorter values would blot out ordinary words."""
LARGEST_FILE = 256 * 1024

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|SECRETS|PASS|PASSWD|PASSWORD|PASSPHRASE|CREDENTIALS?|AUTH|DSN|PAT)(?:_|$)",
    re.IGNORECASE,
)
_SETTING = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.]*)\s*=\s*(.*?)\s*$")
_RANDOM = re.compile(r"[A-Za-z0-9_+=-]*(?=[A-Za-z+]*[0-9])(?=[0-9+]*[A-Za-z])[A-Za-z0-9+]{16}[A-Za-z0-9_+=-]*")
"""What stands in a `.env` file under a harmless name is secret if it looks random: 16 letters and digits in a row, with
both among them. Names of models and versions have shorter parts."""
_GENERATED = re.compile(r"(?=.*[0-9])(?=.*[a-z])(?=.*[A-Z])[A-Za-z0-9_+/=-]*[A-Za-z0-9+]{20}[A-Za-z0-9_+/=-]*")
"""What stands in the environment under a harmless name is secret if it looks generated: 20 letters and digits in a row,
and in all of it digits and both cases. Hashes, build numbers and names of models don't."""
_URL_PASSWORD = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_KNOWN = ("patterns", "variables")
_NOT_PRIVATE = (".example", ".sample", ".template", ".dist")


@dataclass(frozen=True, slots=True)
class SecretSettings:
    """The `[secrets]` table of an `agentrewind.toml`: what is secret besides what is recognised.

    `patterns` are regular expressions (their group 1 is the secret where they have one), `variables` names of
    variables, with `*` and `?`, in the environment and in `.env` files.
    """

    patterns: tuple[re.Pattern[str], ...] = ()
    variables: tuple[str, ...] = ()

    def named(self, name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.variables)


def settings_of(path: Path) -> SecretSettings:
    """What a settings file says; nothing where it isn't there or has no such table.

    Raises:
        UsageError: it can't be read as settings, with the key that is wrong.
    """
    table = table_of(path, "secrets", _KNOWN)
    texts = {key: table.get(key, []) for key in _KNOWN}
    for key, value in texts.items():
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise UsageError(f"{path}: secrets.{key} must be a list of texts")
    return SecretSettings(tuple(_pattern(item, path) for item in texts["patterns"]), tuple(texts["variables"]))


def _pattern(text: str, path: Path) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"{path}: secrets.patterns: {text!r} is not a regular expression: {error}") from error


def known_secrets(
    environ: Mapping[str, str],
    workspace: Path | None,
    settings: SecretSettings = SecretSettings(),
) -> frozenset[str]:
    """Values of at least `SHORTEST` characters that are secret for their name, their look, or as the password of a URL.

    They come from the environment and from the `.env` files of the workspace; in those, what merely looks random counts
    too.
    """
    found = {secret for name, value in environ.items() for secret in _secrets(name, value, _GENERATED, settings)}
    for path in _env_files(workspace) if workspace else ():
        found.update(secret for name, value in _settings(path) for secret in _secrets(name, value, _RANDOM, settings))
    return frozenset(value for value in found if len(value) >= SHORTEST and not os.path.isabs(value))


def redactor(environ: Mapping[str, str], workspace: Path | None = None) -> Redactor:
    """Takes those values, whatever looks like a key, and what the workspace's settings name out of text and JSON.

    Raises:
        UsageError: the settings can't be read.
    """
    settings = settings_of(workspace / SETTINGS_FILE) if workspace else SecretSettings()
    return Redactor(known_secrets(environ, workspace, settings), settings.patterns)


def say_without_secrets(error: BaseException, redact: Redactor) -> None:
    """Take the secrets out of what an error says."""
    error.args = tuple(redact.text(item) if isinstance(item, str) else item for item in error.args)


def _secrets(name: str, value: str, looks: re.Pattern[str], settings: SecretSettings) -> Iterator[str]:
    """What of a variable is secret: all of it, the password in it, or nothing."""
    in_url = _URL_PASSWORD.search(value)
    if in_url and re.search(r"\d", in_url[1]) and re.search(r"[A-Za-z]", in_url[1]):  # no `postgres:postgres`
        yield in_url[1]
        yield unquote(in_url[1])
    if in_url or _SECRET_NAME.search(name) or looks.fullmatch(value) or settings.named(name):
        yield value


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
