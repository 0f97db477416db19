"""Programs that run code: shells and interpreters, with the code in an option, in a file, or coming in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

from agentrewind.effects import python_code, python_table
from agentrewind.effects.findings import Running
from agentrewind.effects.options import parsed
from agentrewind.effects.places import DYNAMIC
from agentrewind.effects.table import Program
from agentrewind.effects.words import State, base

_SHELL_VALUES = ("-o", "-O", "+o", "+O", "--rcfile", "--init-file")
_PYTHON_VALUES = ("-W", "-X", "-Q", "--check-hash-based-pycs")
_PERL_VALUES = ("-e", "-E", "-M", "-I")
_REACHES = frozenset(
    {"system", "exec", "open", "unlink", "qx", "fork", "socket", "use", "require", "rename", "mkdir", "rmdir", "kill"}
    | {"eval", "do", "getline", "close", "fflush", "IO", "LWP", "Net"}
)
"""Words with which perl or awk reaches past what they read and print."""


def interpreted(shell: Running, words: list[str], program: Program, state: State, stdin: str | None) -> str | None:
    """Run an interpreter of the table."""
    if program.interpreter == "shell":
        return _shell(shell, words, state, stdin)
    _READERS.get(program.interpreter, _other)(shell, words, state, stdin)
    return None


def script(shell: Running, text: str, words: list[str], state: State, stdin: str | None) -> str | None:
    """Run a file of the workspace: by its first line, else by its name."""
    first = text.split("\n", 1)[0] if text.startswith("#!") else ""
    name = base(words[0])
    if not first or first.rstrip().endswith("sh") or "sh -" in first:
        if not first and name.endswith(".py"):
            _python_text(shell, text, words, state, words[0])
            return None
        return _script(shell, text, words, state, stdin)
    if "python" in first:
        _python_text(shell, text, words, state, words[0])
    else:
        _unread(shell, words)
    return None


def _unread(shell: Running, words: list[str], why: str = "runs code that isn't read") -> None:
    shell.findings.say("unknown", words, why)


def _other(shell: Running, words: list[str], _state: State, _stdin: str | None) -> None:
    _unread(shell, words)


def _script(shell: Running, text: str, words: list[str], state: State, stdin: str | None) -> str | None:
    inner = replace(state.copy(), arguments=tuple(words[1:]), name=words[0], aliases={})
    with shell.findings.of_file():
        return shell.text(text, inner, stdin)


def _shell(shell: Running, words: list[str], state: State, stdin: str | None) -> str | None:
    arguments = parsed(words[1:], _SHELL_VALUES, stop=True)
    if "-n" in arguments.given and not arguments.has(("-c",)):
        return None
    if arguments.has(("-c",)) and arguments.plain:
        inner = replace(state.copy(), arguments=arguments.plain[2:], name=(*arguments.plain[1:2], "sh")[0])
        return shell.text(arguments.plain[0], inner, stdin)
    if arguments.plain and not arguments.has(("-s",)):
        text = shell.file(arguments.plain[0], state)
        if text is not None:
            return _script(shell, text, list(arguments.plain), state, stdin)
        _unread(shell, words, "runs a script that can't be read here")
        return None
    if stdin is not None and stdin.strip() != DYNAMIC:
        return shell.text(stdin, replace(state.copy(), arguments=arguments.plain, aliases={}), None)
    _unread(shell, words, "runs commands that come in")
    return None


# --- Python -----------------------------------------------------------------------------------------------------------


def _python(shell: Running, words: list[str], state: State, stdin: str | None) -> None:
    at, flag = _python_start(words)
    rest = words[at:]
    if flag == "-c":
        _python_text(shell, rest[0] if rest else DYNAMIC, words, state, None)
    elif flag == "-m":
        _module(shell, words, rest, state, stdin)
    elif not rest or rest[0] == "-":
        _python_text(shell, DYNAMIC if stdin is None else stdin, words, state, None)
    elif base(rest[0]) == "setup.py":
        _setup(shell, words, rest)
    elif (text := shell.file(rest[0], state)) is not None:
        _python_text(shell, text, words, state, rest[0])
    else:
        _unread(shell, words, "runs a script that can't be read here")


def _python_start(words: list[str]) -> tuple[int, str]:
    """Where the code begins, and `-c` or `-m` where one of them says what it is. (`-mX` and `-cX` are split.)"""
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        word = words[at]
        place = next((number for number, sign in enumerate(word[1:], 1) if sign in "cm" and word[1] != "-"), 0)
        if place:
            value = word[place + 1 :]
            if value:
                words.insert(at + 1, value)
            return at + 1, "-" + word[place]
        at += 2 if word in _PYTHON_VALUES else 1
    return at, ""


def _module(shell: Running, words: list[str], rest: list[str], state: State, stdin: str | None) -> None:
    """`python -m`: a program of that name, or a module of the workspace."""
    if not rest:
        return
    name = rest[0]
    kind = python_table.python().modules.get(name)
    path = name.replace(".", "/")
    files = ((candidate, shell.file(candidate, state)) for candidate in (f"{path}.py", f"{path}/__main__.py"))
    own = next(((candidate, text) for candidate, text in files if text is not None), None)
    if kind is not None:
        shell.findings.say(kind.kind, words, kind.does, reads=kind.reads)
    elif own is not None:
        _python_text(shell, own[1], words, state, own[0])
    else:
        beside = f"{words[0].rpartition('/')[0]}/{name}"
        shell.run([beside if "/bin/" in beside else name, *rest[1:]], state, stdin)


def _setup(shell: Running, words: list[str], rest: list[str]) -> None:
    if any(word in ("upload", "register") for word in rest):
        shell.findings.say("external", words, "publishes a package")
    elif any(word in ("install", "develop") for word in rest):
        shell.findings.say("outside", words, "installs a package")
    else:
        shell.findings.say("workspace", words, "builds the project")


def _python_text(shell: Running, text: str, words: list[str], state: State, path: str | None) -> None:
    if text.strip() == DYNAMIC:
        _unread(shell, words, "runs code that is only known then")
        return
    with shell.findings.deeper(), shell.findings.of_file() if path is not None else nullcontext():
        shell.findings.spend()
        python_code.read(shell, text, words, state, path)


def python(shell: Running, text: str, words: list[str], state: State) -> None:
    """Python code that a tool runs."""
    _python_text(shell, text, words, state, None)


# --- others -----------------------------------------------------------------------------------------------------------


def _harmless(text: str) -> bool:
    """Whether a perl or awk program has none of the words with which it would do more than read and print."""
    words, word = set(), ""
    for sign in text:
        if sign.isalnum() or sign == "_":
            word += sign
        else:
            words.add(word)
            word = ""
    return not ({*words, word} & _REACHES) and "`" not in text and DYNAMIC not in text


def _perl(shell: Running, words: list[str], state: State, _stdin: str | None) -> None:
    arguments = parsed(words[1:], _PERL_VALUES)
    codes = arguments.values(("-e", "-E"))
    filters = any(letter in option for option in arguments.given for letter in "pn" if not option.startswith("--"))
    if not codes or not filters or not all(map(_harmless, codes)):
        _unread(shell, words)
    elif any(option.startswith("-i") for option in arguments.given):
        for path in arguments.plain:
            shell.findings.place(shell.place.where(path, state.cwd), words, "changes files")


def _awk(shell: Running, words: list[str], state: State, _stdin: str | None) -> None:
    arguments = parsed(words[1:], ("-F", "-v", "-f", "--file", "--field-separator", "--assign"), stop=True)
    codes = [shell.file(path, state) for path in arguments.values(("-f", "--file"))] or list(arguments.plain[:1])
    extended = any(option in arguments.given for option in ("-i", "--include"))
    if extended or any(text is None or not _only_prints(text) for text in codes):
        _unread(shell, words)


def _only_prints(text: str) -> bool:
    """Whether an awk program has no pipe and no redirection: a `>` after `print`, outside of parentheses."""
    bare = _without_texts(text).replace("||", "").replace("&&", "")
    return _harmless(text) and "|" not in bare and not any(map(_redirects, bare.replace("}", ";").split(";")))


def _redirects(statement: str) -> bool:
    _, prints, rest = statement.partition("print")
    depth = 0
    for sign in rest if prints else "":
        depth += (sign == "(") - (sign == ")")
        if sign == ">" and depth <= 0:
            return True
    return False


def _without_texts(text: str) -> str:
    """A program without what stands between quotes or slashes."""
    kept: list[str] = []
    inside = ""
    for sign in text:
        if inside:
            inside = "" if sign == inside else inside
        elif sign in '"/':
            inside = sign
        else:
            kept.append(";" if sign == "\n" else sign)
    return "".join(kept)


_READERS: dict[str, Callable[[Running, list[str], State, str | None], None]] = {
    "python": _python,
    "perl": _perl,
    "awk": _awk,
}
