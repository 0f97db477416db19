"""Which class a path falls in: tracked, private, excluded or volatile.

Patterns are those of `.gitignore`, in their plain part: `*`, `?`, `[...]` within a name, `**` across directories, a
slash inside or in front anchors at the root, one at the end means directories only, `!` takes back an earlier
pattern. The user's own `.gitignore` has no influence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from agentrewind.core.codec import digest
from agentrewind.core.errors import UsageError
from agentrewind.core.settings import table_of

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


LONGEST_PATTERN = 1000
_MOST_CROSSINGS = 4
"""How often `**` may stand inside of a name: each doubles the work."""


class _Names:
    """One or more names in a row, each with its own pattern; `**` between such rows stands for any number of names.

    Matching takes time in proportion to path and pattern, whatever they are: a row has a fixed length, so the first
    place where it fits is as good as any other.
    """

    def __init__(self, glob: str) -> None:
        self._rows: list[list[re.Pattern[str]]] = [[]]
        names = glob.split("/")
        for name in names:
            if name == "**":
                self._rows.append([])
            else:
                self._rows[-1].append(re.compile(_translate(name), re.DOTALL))
        self._least = sum(map(len, self._rows)) + (names[-1] == "**")

    def matches(self, path: str) -> bool:
        names = path.split("/")
        first, last = self._rows[0], self._rows[-1]
        if len(names) < self._least or not _fits(first, names, 0):
            return False
        if len(self._rows) == 1:
            return len(names) == len(first)
        at, end = len(first), len(names) - len(last)
        for row in self._rows[1:-1]:
            while at + len(row) <= end and not _fits(row, names, at):
                at += 1
            at += len(row)
        return at <= end and _fits(last, names, end)


def _fits(row: list[re.Pattern[str]], names: list[str], at: int) -> bool:
    return all(regex.fullmatch(names[at + number]) for number, regex in enumerate(row))


@dataclass(frozen=True, slots=True)
class _Pattern:
    last: re.Pattern[str]
    """What it matches ends in such a name."""
    paths: tuple[_Names, ...]
    """None where it has no slash: then it matches by name alone."""
    directories_only: bool
    negated: bool


def _translate(glob: str) -> str:
    """A pattern of one name as a regular expression that never goes back behind a `*` that has matched: what stands
    between two of them has a fixed length, so the first place where it fits is as good as any other.
    """
    parts: list[str] = [""]
    at = 0
    while at < len(glob):
        if glob[at] == "*":
            parts.append("")
            at = len(glob) - len(glob[at:].lstrip("*"))
        elif glob[at] == "?":
            parts[-1] += "[^/]"
            at += 1
        elif glob[at] == "[" and (end := glob.find("]", at + 2)) > 0:
            inner = glob[at + 1 : end].replace("\\", "\\\\")
            parts[-1] += "[" + ("^" + inner[1:] if inner[0] in "!^" else inner) + "]"
            at = end + 1
        else:
            if glob[at] == "\\" and at + 1 < len(glob):
                at += 1
            parts[-1] += re.escape(glob[at])
            at += 1
    if len(parts) == 1:
        return parts[0]
    middle = "".join(f"(?>[^/]*?{part})" for part in parts[1:-1])
    return f"{parts[0]}{middle}[^/]*{parts[-1]}"


def _parse(text: str) -> _Pattern:
    """Raises: UsageError: not a pattern."""
    if len(text) > LONGEST_PATTERN:
        raise UsageError(f"{text[:40]!r}… is not a path pattern: it has more than {LONGEST_PATTERN} characters")
    negated = text.startswith("!")
    body = text[1:] if negated else text
    directories_only = body.endswith("/")
    body = body.rstrip("/")
    if not body.strip("/"):
        raise UsageError(f"{text!r} is not a path pattern: it names nothing")
    try:
        if "/" not in body:
            return _Pattern(re.compile(_translate(body), re.DOTALL), (), directories_only, negated)
        globs = _crossing(body.removeprefix("/").split("/"), text)
        last = re.compile(_last_name(body.rpartition("/")[2]), re.DOTALL)
        return _Pattern(last, tuple(_Names(glob) for glob in globs), directories_only, negated)
    except re.error as error:
        raise UsageError(f"{text!r} is not a path pattern: {error}") from error


def _crossing(names: list[str], text: str) -> list[str]:
    """The pattern without `**` inside of a name: that stands for `*`, or for `*/**/*`. Raises: UsageError."""
    found, crossings = [""], 0
    for number, name in enumerate(names):
        parts = [name] if name == "**" else re.split(r"\*\*+", name)
        crossings += len(parts) - 1
        if crossings > _MOST_CROSSINGS:
            raise UsageError(
                f"{text!r} is not a path pattern: `**` stands inside of names more than {_MOST_CROSSINGS} times"
            )
        found = [glob + ("/" if number else "") + parts[0] for glob in found]
        for part in parts[1:]:
            found = [glob + way + part for glob in found for way in ("*", "*/**/*")]
    return found


class _Matcher:
    """Several patterns at once; the last one that matches decides, as in `.gitignore`."""

    def __init__(self, patterns: Sequence[str]) -> None:
        parsed = [_parse(text) for text in reversed(patterns)]
        self._patterns = [(item.last.fullmatch, item.directories_only, item.paths, item.negated) for item in parsed]

    def __call__(self, path: str, name: str, *, is_directory: bool) -> bool:
        for may_match, directories_only, paths, negated in self._patterns:
            if (
                may_match(name)
                and (is_directory or not directories_only)
                and (not paths or any(names.matches(path) for names in paths))
            ):
                return not negated
        return False


def _last_names(patterns: Sequence[str]) -> re.Pattern[str]:
    """Matches every name that one of the patterns could end in: most names end the search here."""
    last = {_last_name(text.removeprefix("!").rstrip("/").rpartition("/")[2]) for text in patterns}
    return re.compile("|".join(f"(?:{regex})" for regex in sorted(last)) or r"(?!)", re.DOTALL)


def _last_name(glob: str) -> str:
    """Of a name with `**` in it only what comes behind that."""
    return _translate("*" + glob[glob.rindex("**") :]) if "**" in glob else _translate(glob)


@dataclass(frozen=True)
class PathRules:
    """Patterns a class. Excluded comes before private, private before volatile."""

    private: tuple[str, ...] = PRIVATE
    excluded: tuple[str, ...] = ()
    volatile: tuple[str, ...] = VOLATILE
    kept: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    """Paths that are tracked where they would be volatile: a restore is about to overwrite them."""
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
        defaults (excluded has none); `defaults = false` starts from nothing. The defaults where there is no file.

        Raises:
            UsageError: the file can't be read or says something else, with the key that is wrong.
        """
        table = table_of(path, "paths", ("private", "excluded", "volatile", "defaults"))
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
        kept = path in self.kept
        if kept and parent is PathClass.VOLATILE:
            parent = PathClass.TRACKED
        if self._may_matter(name) is None:
            return parent
        excluded, private, volatile = self._matchers
        if excluded(path, name, is_directory=is_directory):
            return PathClass.EXCLUDED
        if parent is PathClass.PRIVATE or private(path, name, is_directory=is_directory):
            return PathClass.PRIVATE
        if not kept and (parent is PathClass.VOLATILE or volatile(path, name, is_directory=is_directory)):
            return PathClass.VOLATILE
        return PathClass.TRACKED
