"""Which class a path falls in: tracked, private, excluded or volatile.

Patterns are those of `.gitignore`, in their plain part: `*`, `?`, `[...]` within a name, `**` across directories, a
slash inside or in front anchors at the root, one at the end means directories only, `!` takes back an earlier
pattern. The user's own `.gitignore` has no influence.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from agentrewind.core.codec import digest
from agentrewind.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


class PathClass(Enum):
    TRACKED = "tracked"
    PRIVATE = "private"
    EXCLUDED = "excluded"
    VOLATILE = "volatile"


PRIVATE = (
    ".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist",
    "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk",
    "*.pem", "!*cert*.pem", "!*chain*.pem", "!ca.pem", "!ca-*.pem", "!*.pub.pem",
    "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.ppk", "*.kdbx",
    ".netrc", "_netrc", ".pgpass", ".pypirc", ".npmrc", ".yarnrc.yml", ".git-credentials", ".htpasswd", ".my.cnf",
    ".dockercfg", "**/.docker/config.json", "**/.kube/config", "**/.aws/credentials", "**/.aws/config",
    "**/.cargo/credentials", "**/.cargo/credentials.toml", "**/.config/gh/hosts.yml", "**/.streamlit/secrets.toml",
    "credentials.tfrc.json", "terraform.tfvars", "service-account*.json", "service_account*.json",
    ".ssh/", ".gnupg/", "**/.config/gcloud/",
)  # fmt: skip
"""Secrets: `.env` files, private keys, the credential files of well-known tools."""

VOLATILE = (
    "**/__pycache__/*.pyc", "**/__pycache__/*.pyo", "**/__pycache__/*.pyc.*",
    "**/__pycache__/*.nbi", "**/__pycache__/*.nbc",
    ".pytest_cache/", ".mypy_cache/", ".ruff_cache/",
)  # fmt: skip
"""Caches that every tool rebuilds. Of `__pycache__` only compiled files: a person's file that lies there is tracked."""


@dataclass(frozen=True, slots=True)
class _Pattern:
    regex: str
    anchored: bool
    directories_only: bool
    negated: bool


def _translate(glob: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(glob):
        if glob.startswith("**/", at):
            out.append("(?:[^/]+/)*")
            at += 3
        elif glob.startswith("**", at):
            out.append(".*")
            at += 2
        elif glob[at] == "*":
            out.append("[^/]*")
            at += 1
        elif glob[at] == "?":
            out.append("[^/]")
            at += 1
        elif glob[at] == "[" and (end := glob.find("]", at + 2)) > 0:
            inner = glob[at + 1 : end].replace("\\", "\\\\")
            out.append("[" + ("^" + inner[1:] if inner[0] in "!^" else inner) + "]")
            at = end + 1
        else:
            if glob[at] == "\\" and at + 1 < len(glob):
                at += 1
            out.append(re.escape(glob[at]))
            at += 1
    return "".join(out)


def _parse(text: str) -> _Pattern:
    """Raises: UsageError: not a pattern."""
    negated = text.startswith("!")
    body = text[1:] if negated else text
    directories_only = body.endswith("/")
    body = body.rstrip("/")
    anchored = "/" in body
    try:
        regex = _translate(body.removeprefix("/"))
        re.compile(regex)
    except re.error as error:
        raise UsageError(f"{text!r} is not a path pattern: {error}") from error
    if not body.strip("/"):
        raise UsageError(f"{text!r} is not a path pattern: it names nothing")
    return _Pattern(regex, anchored, directories_only, negated)


class _Matcher:
    """Several patterns at once; the last one that matches decides, as in `.gitignore`."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [(re.compile(pattern.regex, re.DOTALL), pattern) for pattern in map(_parse, patterns)]

    def __call__(self, path: str, name: str, *, is_directory: bool) -> bool:
        for regex, pattern in reversed(self._patterns):
            if (not pattern.directories_only or is_directory) and regex.fullmatch(path if pattern.anchored else name):
                return not pattern.negated
        return False


def _last_names(patterns: Sequence[str]) -> re.Pattern[str]:
    """Matches every name that one of the patterns could end in: most names end the search here."""
    last = {_parse(text.rstrip("/").rpartition("/")[2].removeprefix("!")).regex for text in patterns}
    return re.compile("|".join(f"(?:{regex})" for regex in sorted(last)) or r"(?!)", re.DOTALL)


@dataclass(frozen=True)
class PathRules:
    """Patterns a class. Excluded comes before private, private before volatile."""

    private: tuple[str, ...] = PRIVATE
    excluded: tuple[str, ...] = ()
    volatile: tuple[str, ...] = VOLATILE
    digest: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", digest([self.private, self.excluded, self.volatile]))
        _ = self._matchers  # a bad pattern is refused here, not in the middle of a scan

    @classmethod
    def everything_tracked(cls) -> PathRules:
        """For task suites: there keys, certificates and caches are the work."""
        return cls((), (), ())

    @classmethod
    def load(cls, path: Path) -> PathRules:
        """The `[paths]` table of an `agentrewind.toml`: lists `private`, `excluded`, `volatile`, each added to the
        defaults (excluded has none); `defaults = false` starts from nothing.

        Raises:
            UsageError: the file can't be read or says something else, with the key that is wrong.
        """
        try:
            with path.open("rb") as file:
                table = tomllib.load(file).get("paths", {})
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: can't be read as settings: {error}") from error
        return cls._from_table(table, path)

    @classmethod
    def _from_table(cls, table: object, path: Path) -> PathRules:
        if not isinstance(table, dict):
            raise UsageError(f"{path}: [paths] must be a table")
        known = {"private", "excluded", "volatile", "defaults"}
        if unknown := sorted(table.keys() - known):
            raise UsageError(f"{path}: [paths] has no setting {unknown[0]!r}; it has {', '.join(sorted(known))}")
        defaults = table.get("defaults", True)
        if not isinstance(defaults, bool):
            raise UsageError(f"{path}: paths.defaults must be true or false")
        private, volatile = (PRIVATE, VOLATILE) if defaults else ((), ())
        return cls(
            private + cls._patterns(table, "private", path),
            cls._patterns(table, "excluded", path),
            volatile + cls._patterns(table, "volatile", path),
        )

    @staticmethod
    def _patterns(table: dict[str, object], key: str, path: Path) -> tuple[str, ...]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise UsageError(f"{path}: paths.{key} must be a list of patterns (non-empty strings)")
        return tuple(value)

    @cached_property
    def _matchers(self) -> tuple[_Matcher, _Matcher, _Matcher]:
        return _Matcher(self.excluded), _Matcher(self.private), _Matcher(self.volatile)

    @cached_property
    def _may_matter(self) -> Callable[[str], object]:
        return _last_names((*self.excluded, *self.private, *self.volatile)).fullmatch

    def of(self, path: str, name: str, parent: PathClass, *, is_directory: bool) -> PathClass:
        """The class of `path`, whose directory is of class `parent`."""
        if self._may_matter(name) is None:
            return parent
        excluded, private, volatile = self._matchers
        if excluded(path, name, is_directory=is_directory):
            return PathClass.EXCLUDED
        if parent is PathClass.PRIVATE or private(path, name, is_directory=is_directory):
            return PathClass.PRIVATE
        if parent is PathClass.VOLATILE or volatile(path, name, is_directory=is_directory):
            return PathClass.VOLATILE
        return PathClass.TRACKED
