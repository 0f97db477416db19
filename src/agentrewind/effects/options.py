"""A command's arguments as options and plain arguments."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arguments:
    """`given` holds each option once as it stands and once a letter of a cluster; `valued` those that have a value."""

    plain: tuple[str, ...]
    given: tuple[str, ...]
    valued: tuple[tuple[str, str], ...]

    def has(self, options: Collection[str]) -> bool:
        return any(option in options for option in self.given)

    def values(self, options: Collection[str]) -> list[str]:
        return [value for option, value in self.valued if option in options]


def parsed(words: Sequence[str], takes: Collection[str], *, stop: bool = False) -> Arguments:
    """Take words apart. `takes` are the options that have a value; `stop`: options end at the first plain argument."""
    plain: list[str] = []
    given: list[str] = []
    valued: list[tuple[str, str]] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--" or (stop and not _is_option(word)):
            plain += words[at - (word != "--") :]
            break
        if not _is_option(word):
            plain.append(word)
            continue
        name, value = _split(word, takes)
        given += [name, *_letters(word)]
        if value is None and (name in takes or _cluster_takes(word, takes)) and at < len(words):
            value, at = words[at], at + 1
            name = name if name in takes else "-" + word[-1]
            given.append(name)
        if value is not None:
            valued.append((name, value))
    return Arguments(tuple(plain), tuple(given), tuple(valued))


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _split(word: str, takes: Collection[str]) -> tuple[str, str | None]:
    """The name of an option, and its value where it stands in the same word."""
    if word in takes:
        return word, None
    if "=" in word and (word.startswith("--") or word.split("=", 1)[0] in takes):
        name, _, value = word.partition("=")
        return name, value
    if not word.startswith("--") and len(word) > 2 and word[:2] in takes:  # noqa: PLR2004
        return word[:2], word[2:]
    return word, None


def _letters(word: str) -> list[str]:
    return [] if word.startswith("--") else ["-" + letter for letter in word[1:]]


def _cluster_takes(word: str, takes: Collection[str]) -> bool:
    return not word.startswith("--") and len(word) > 2 and "-" + word[-1] in takes  # noqa: PLR2004
