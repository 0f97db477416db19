"""What a command prints, where that can be told without running it: texts for a shell, and names of files.

A name that stands for many has an unknown part, as in `src/…`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentrewind.effects.findings import Running
from agentrewind.effects.places import DYNAMIC
from agentrewind.effects.table import Program
from agentrewind.effects.words import State, base

_PASSING = frozenset({"sort", "uniq", "head", "tail", "grep", "egrep", "fgrep", "tac", "tee", "less", "more", "shuf"})
_GIT_LISTS = frozenset({"ls-files", "diff", "ls-tree", "status", "show", "grep"})


def of(shell: Running, words: Sequence[str], program: Program, state: State, stdin: str | None) -> str | None:
    """None where nobody can say."""
    name, plain = base(words[0]), [word for word in words[1:] if not word.startswith("-")]
    known = _OF.get(name)
    if known is not None:
        return known(Asked(shell, words, plain, state, stdin))
    if name == "grep" and any(word.startswith("-") and set("lLr") & set(word) for word in words[1:]):
        return "".join(_within(word) for word in plain[1:] or ["."])
    reads_stdin = len(plain) <= (name in ("grep", "egrep", "fgrep"))
    return stdin if (name in _PASSING and reads_stdin) or program.passes else None


@dataclass(frozen=True, slots=True)
class Asked:
    """A command whose output is wanted. `plain` are its words without options."""

    shell: Running
    words: Sequence[str]
    plain: Sequence[str]
    state: State
    stdin: str | None


def _echoed(asked: Asked) -> str:
    return " ".join(word for word in asked.words[1:] if word not in ("-n", "-e", "-E")) + "\n"


def _cwd(asked: Asked) -> str | None:
    return None if asked.state.cwd is None else asked.state.cwd + "\n"


def _listed(asked: Asked) -> str:
    return "".join(_within(word) for word in asked.plain or ["."])


def _temporary(_asked: Asked) -> str:
    return f"/tmp/{DYNAMIC}\n"  # noqa: S108


def _path(asked: Asked) -> str | None:
    if not asked.plain or DYNAMIC in asked.plain[0]:
        return None
    name = base(asked.words[0])
    path = asked.plain[0]
    found = posixpath.dirname(path) if name == "dirname" else posixpath.basename(path) if name == "basename" else path
    return (found or ".") + "\n"


def _within(path: str) -> str:
    return f"{path}\n" if any(sign in path for sign in "*?[") else f"{path.rstrip('/')}/{DYNAMIC}\n"


def _contents(asked: Asked) -> str | None:
    texts = [asked.stdin if path == "-" else asked.shell.data(path, asked.state) for path in asked.plain or ["-"]]
    return None if any(text is None for text in texts) else "".join(text or "" for text in texts)


def _printed(asked: Asked) -> str | None:
    """`printf`, with texts for its conversions."""
    arguments = asked.words[1:]
    if not arguments:
        return ""
    form, *values = arguments
    form = form.replace("\\n", "\n").replace("\\t", "\t").replace("%%", "%")
    for value in values:
        form = form.replace("%s", value, 1) if "%s" in form else form + value
    return form if "%" not in form else None


def _of_git(asked: Asked) -> str | None:
    if "--show-toplevel" in asked.words:
        return asked.shell.place.workspace + "\n"
    return f"./{DYNAMIC}\n" if any(word in _GIT_LISTS for word in asked.words) else None


_OF: dict[str, Callable[[Asked], str | None]] = {
    "echo": _echoed,
    "printf": _printed,
    "cat": _contents,
    "pwd": _cwd,
    "ls": _listed,
    "mktemp": _temporary,
    "git": _of_git,
    **dict.fromkeys(("dirname", "basename", "realpath", "readlink"), _path),
}
