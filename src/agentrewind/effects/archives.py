"""Programs whose options say both what they do and where: tar and its kin."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentrewind.effects.findings import Running
from agentrewind.effects.words import State

_VALUES = "fCTXbLKHVIFg"
_LONG = {"--create": "c", "--extract": "x", "--get": "x", "--list": "t", "--append": "r", "--update": "u"}
_LONG_VALUES = {"--file": "f", "--directory": "C"}


def tar(shell: Running, words: Sequence[str], state: State) -> None:
    """Unpacking writes into the directory, packing writes the archive."""
    does, archive, directory = _tar(list(words[1:]))
    if "x" in does:
        shell.findings.place(shell.place.where(directory, state.cwd), words, "unpacks an archive")
    elif set(does) & set("cruA") and archive != "-":
        shell.findings.place(shell.place.where(archive, state.cwd), words, "writes an archive")


def _tar(words: list[str]) -> tuple[str, str, str]:
    """The operations, the archive, the directory. Options come with a dash, without it, or long."""
    does, archive, directory = "", "-", "."
    if words and not words[0].startswith("-"):
        words[0] = "-" + words[0]
    waiting = ""
    for word in words:
        if waiting:
            letter, waiting = waiting[0], waiting[1:]
            archive, directory = (word if letter == "f" else archive), (word if letter == "C" else directory)
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            does += _LONG.get(name, "")
            letter = _LONG_VALUES.get(name, "")
            if letter and not equals:
                waiting = letter
            elif letter:
                archive, directory = (value if letter == "f" else archive), (value if letter == "C" else directory)
        elif word.startswith("-"):
            does += word[1:]
            waiting = "".join(letter for letter in word[1:] if letter in _VALUES)
    return does, archive, directory


READERS: dict[str, Callable[[Running, Sequence[str], State], None]] = {"tar": tar, "gtar": tar, "bsdtar": tar}
