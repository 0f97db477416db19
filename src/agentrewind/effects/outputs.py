"""What a command prints, where that can be told without running it: texts for a shell, and names of files.

A name that stands for many has an unknown part, as in `src/…`.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from agentrewind.effects.findings import Running
from agentrewind.effects.places import DYNAMIC
from agentrewind.effects.table import Program
from agentrewind.effects.words import State, base

_PASSING = frozenset({"sort", "uniq", "head", "tail", "grep", "egrep", "fgrep", "tac", "tee", "less", "more", "shuf"})
_GIT_LISTS = frozenset({"ls-files", "diff", "ls-tree", "status", "show", "grep"})


def of(shell: Running, words: Sequence[str], program: Program, state: State, stdin: str | None) -> str | None:
    """None where nobody can say."""
    name, plain = base(words[0]), [word for word in words[1:] if not word.startswith("-")]
    match name:
        case "echo":
            return " ".join(word for word in words[1:] if word not in ("-n", "-e", "-E")) + "\n"
        case "printf":
            return _printed(words[1:])
        case "cat":
            return _contents(shell, plain, state, stdin)
        case "pwd":
            return None if state.cwd is None else state.cwd + "\n"
        case "ls":
            return "".join(_within(word) for word in plain or ["."])
        case "mktemp":
            return f"/tmp/{DYNAMIC}\n"  # noqa: S108
        case "dirname" | "basename" | "realpath" | "readlink" if plain and DYNAMIC not in plain[0]:
            function = {"dirname": posixpath.dirname, "basename": posixpath.basename}.get(name, lambda path: path)
            return (function(plain[0]) or ".") + "\n"
        case "git":
            return _of_git(shell, words)
    if name == "grep" and any(word.startswith("-") and set("lLr") & set(word) for word in words[1:]):
        return "".join(_within(word) for word in plain[1:] or ["."])
    reads_stdin = len(plain) <= (name in ("grep", "egrep", "fgrep"))
    return stdin if (name in _PASSING and reads_stdin) or program.passes else None


def _within(path: str) -> str:
    return f"{path}\n" if any(sign in path for sign in "*?[") else f"{path.rstrip('/')}/{DYNAMIC}\n"


def _contents(shell: Running, plain: Sequence[str], state: State, stdin: str | None) -> str | None:
    texts = [stdin if path == "-" else shell.file(path, state) for path in plain or ["-"]]
    return None if any(text is None for text in texts) else "".join(text or "" for text in texts)


def _printed(arguments: Sequence[str]) -> str | None:
    """`printf`, with texts for its conversions."""
    if not arguments:
        return ""
    form, *values = arguments
    form = form.replace("\\n", "\n").replace("\\t", "\t").replace("%%", "%")
    for value in values:
        form = form.replace("%s", value, 1) if "%s" in form else form + value
    return form if "%" not in form else None


def _of_git(shell: Running, words: Sequence[str]) -> str | None:
    if "--show-toplevel" in words:
        return shell.place.workspace + "\n"
    return f"./{DYNAMIC}\n" if any(word in _GIT_LISTS for word in words) else None
