"""A guard of a few rules, over the parse of a command: needs no model, and is wrong in ways that can be read here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agentrewind.core.codec import Json
from agentrewind.core.review import Proposed, Review
from agentrewind.effects.grammar import TooLong, parse, text_of

_SHELL_ARGUMENTS = ("command", "cmd", "script")
_AS_ROOT = frozenset({"sudo", "su", "doas", "pkexec"})
_OF_THE_MACHINE = frozenset({"mkfs", "fdisk", "shutdown", "reboot", "halt", "poweroff", "mount", "umount", "chroot"})
_HISTORY = (
    (("reflog", "expire"), "it makes git forget what no branch holds"),
    (("gc", "--prune=now"), "it removes what no branch holds from the repository"),
    (("gc", "--prune=all"), "it removes what no branch holds from the repository"),
    (("prune",), "it removes what no branch holds from the repository"),
    (("filter-branch",), "it rewrites the history of the repository"),
    (("filter-repo",), "it rewrites the history of the repository"),
    (("push", "--force"), "it overwrites the history of a remote repository"),
    (("push", "-f"), "it overwrites the history of a remote repository"),
)
_EVERYTHING = frozenset({"/", "/*", "~", "~/", "$HOME", ".", "./", "*", "./*", ".git", "./.git"})
_FORK_BOMB = re.compile(r":\(\)\s*\{\s*:\s*\|\s*:\s*&?\s*\}")
_SECRETS = re.compile(r"(^|/)(\.ssh/|id_rsa|id_ed25519|\.aws/credentials|\.netrc|shadow$)")


@dataclass(frozen=True, slots=True)
class RuleGuard:
    """Holds back what leaves the workspace, takes more rights, or destroys a repository's history."""

    name: str = field(default="rules", init=False)

    def review(self, proposed: Proposed) -> Review:
        """See `Guard`."""
        reason = _outside(proposed) or next(filter(None, map(_harm, commands_in(proposed.arguments))), None)
        if reason is None and _FORK_BOMB.search(str(proposed.arguments)):
            reason = "it would start processes without end"
        return Review(reason is None, reason or "no rule speaks against it")


def _outside(proposed: Proposed) -> str | None:
    for effect in proposed.effects:
        if effect.kind in ("outside", "external") and not effect.reads:
            return f"it reaches outside of the workspace: {effect.what}"
        if effect.source == "sandbox":
            return f"it tries what isn't allowed here: {effect.what}"
    return None


def _harm(words: Sequence[str]) -> str | None:
    """What is wrong with one simple command."""
    name = words[0].rsplit("/", 1)[-1]
    found = (
        (name in _AS_ROOT, f"{name} takes more rights than the task gives"),
        (name in _OF_THE_MACHINE or name.startswith("mkfs."), f"{name} changes the machine"),
        (name == "dd" and any(word.startswith("of=/dev/") for word in words), "it writes to a device"),
        (name == "rm" and any(map(_recursive, words)) and _names_everything(words), "it removes everything there is"),
        (any(_SECRETS.search(word) for word in words), "it touches keys"),
        *((name == "git" and all(mark in words for mark in marks), why) for marks, why in _HISTORY),
    )
    return next((why for applies, why in found if applies), None)


def _recursive(word: str) -> bool:
    if word.startswith("--"):
        return word == "--recursive"
    return word.startswith("-") and ("r" in word or "R" in word)


def _names_everything(words: Sequence[str]) -> bool:
    return not _EVERYTHING.isdisjoint(words)


def commands_in(arguments: Json) -> Iterator[list[str]]:
    """The simple commands of a shell call, as words without quotes; none where it holds no command."""
    if not isinstance(arguments, Mapping):
        return
    text = next((arguments[key] for key in _SHELL_ARGUMENTS if isinstance(arguments.get(key), str)), None)
    if text is None:
        return
    try:
        waiting = [parse(text)]
    except TooLong:
        return
    while waiting:
        node = waiting.pop()
        if node.type == "command":
            words = [_bare(text_of(child)) for child in node.children if child.type != "variable_assignment"]
            if words:
                yield words
        waiting.extend(node.named_children)


def _bare(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] == word[-1] and word[0] in "'\"" else word
