"""Programs that run code: shells and interpreters, with the code in an option, in a file, or coming in."""

from __future__ import annotations

from dataclasses import replace

from agentrewind.effects import javascript, python_code
from agentrewind.effects.findings import Running, TooMuch
from agentrewind.effects.options import Arguments, parsed
from agentrewind.effects.places import DYNAMIC
from agentrewind.effects.table import Program
from agentrewind.effects.words import State, base

_SHELL_VALUES = ("-o", "-O", "+o", "+O", "--rcfile", "--init-file")
_PYTHON_VALUES = ("-W", "-X", "-Q", "--check-hash-based-pycs")
_NODE_VALUES = ("-e", "--eval", "-p", "--print", "-r", "--require", "--import", "--env-file", "-pe")
_PERL_VALUES = ("-e", "-E", "-M", "-I")
_REACHES = frozenset(
    {"system", "exec", "open", "unlink", "qx", "fork", "socket", "use", "require", "rename", "mkdir", "rmdir", "kill"}
    | {"eval", "do", "getline", "close", "fflush", "IO", "LWP", "Net"}
)
"""Words with which perl or awk reaches past what they read and print."""


def interpreted(
    shell: Running, words: list[str], program: Program, state: State, stdin: str | None
) -> str | None:
    """Run an interpreter of the table."""
    match program.interpreter:
        case "shell":
            return _shell(shell, words, state, stdin)
        case "python":
            return _python(shell, words, state, stdin)
        case "javascript":
            return _javascript(shell, words, state, stdin)
        case "perl":
            return _perl(shell, words, state)
        case "awk":
            return _awk(shell, words, state)
        case _:
            return _unread(shell, words)


def script(shell: Running, text: str, words: list[str], state: State, stdin: str | None) -> str | None:
    """Run a file of the workspace: by its first line, else by its name."""
    first = text.split("\n", 1)[0] if text.startswith("#!") else ""
    name = base(words[0])
    if "python" in first or (not first and name.endswith(".py")):
        return _python_text(shell, text, words, state, words[0])
    if "node" in first or "deno" in first or (not first and name.endswith((".js", ".mjs", ".cjs"))):
        javascript.read(shell, text, words, state)
        return None
    if first.rstrip().endswith("sh") or " -" in first or not first:
        return _script(shell, text, words, state, stdin)
    return _unread(shell, words)


def _unread(shell: Running, words: list[str], why: str = "runs code that isn't read") -> None:
    shell.findings.say("unknown", words, why)


def _script(shell: Running, text: str, words: list[str], state: State, stdin: str | None) -> str | None:
    inner = replace(state.copy(), arguments=tuple(words[1:]), name=words[0], aliases={})
    return shell.text(text, inner, stdin)


def _shell(shell: Running, words: list[str], state: State, stdin: str | None) -> str | None:
    flags = [word for word in words[1:] if word.startswith("-")]
    arguments = parsed(words[1:], _SHELL_VALUES, stop=True)
    if "-n" in arguments.given and not arguments.has(("-c",)):
        return None
    if arguments.has(("-c",)) and arguments.plain:
        inner = replace(state.copy(), arguments=arguments.plain[2:], name=(*arguments.plain[1:2], "sh")[0])
        return shell.text(arguments.plain[0], inner, stdin)
    if arguments.plain and not arguments.has(("-s",)):
        text = shell.file(arguments.plain[0], state)
        if text is None:
            return _unread(shell, words, "runs a script that can't be read here")
        return _script(shell, text, list(arguments.plain), state, stdin)
    if stdin is None or stdin.strip() == DYNAMIC:
        return None if flags == ["--version"] else _unread(shell, words, "runs commands that come in")
    return shell.text(stdin, replace(state.copy(), arguments=arguments.plain, aliases={}), None)


# --- Python -----------------------------------------------------------------------------------------------------------


def _python(shell: Running, words: list[str], state: State, stdin: str | None) -> str | None:
    at, flag = _python_start(words)
    rest = words[at:]
    if flag == "-c":
        return _python_text(shell, rest[0] if rest else DYNAMIC, words, state, None)
    if flag == "-m":
        return _module(shell, words, rest, state, stdin)
    if not rest or rest[0] == "-":
        if stdin is None:
            return _unread(shell, words, "runs code that comes in")
        return _python_text(shell, stdin, words, state, None)
    if base(rest[0]) == "setup.py":
        return _setup(shell, words, rest)
    text = shell.file(rest[0], state)
    if text is None:
        return _unread(shell, words, "runs a script that can't be read here")
    return _python_text(shell, text, words, state, rest[0])


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


def _module(
    shell: Running, words: list[str], rest: list[str], state: State, stdin: str | None
) -> str | None:
    """`python -m`: a program of that name, or a module of the workspace."""
    if not rest:
        return None
    name = rest[0]
    kind = python_code.MODULES.get(name)
    if kind is not None:
        shell.findings.say(kind.kind, words, kind.does, reads=kind.reads)
        return None
    path = name.replace(".", "/")
    for candidate in (f"{path}.py", f"{path}/__main__.py"):
        text = shell.file(candidate, state)
        if text is not None:
            return _python_text(shell, text, words, state, candidate)
    beside = f"{words[0].rpartition('/')[0]}/{name}" if "/" in words[0] else name
    return shell.run([beside if "/bin/" in beside else name, *rest[1:]], state, stdin)


def _setup(shell: Running, words: list[str], rest: list[str]) -> None:
    if any(word in ("upload", "register") for word in rest):
        shell.findings.say("external", words, "publishes a package")
    elif any(word in ("install", "develop") for word in rest):
        shell.findings.say("outside", words, "installs a package")
    else:
        shell.findings.say("workspace", words, "builds the project")


def _python_text(shell: Running, text: str, words: list[str], state: State, path: str | None) -> None:
    if DYNAMIC in text and text.strip() == DYNAMIC:
        return _unread(shell, words, "runs code that is only known then")
    shell.findings.depth += 1
    try:
        shell.findings.spend()
        python_code.read(shell, text, words, state, path)
    except RecursionError:
        raise TooMuch from None
    finally:
        shell.findings.depth -= 1
    return None


def python(shell: Running, text: str, words: list[str], state: State) -> None:
    """Python code that a tool runs."""
    _python_text(shell, text, words, state, None)


# --- others -----------------------------------------------------------------------------------------------------------


def _javascript(shell: Running, words: list[str], state: State, stdin: str | None) -> str | None:
    arguments = parsed(words[1:], _NODE_VALUES, stop=True)
    codes = arguments.values(("-e", "--eval", "-p", "--print", "-pe"))
    if arguments.has(("-c", "--check")) and not codes:
        return None
    if not codes and arguments.plain and arguments.plain[0] != "-":
        text = shell.file(arguments.plain[0], state)
        if text is None:
            return _unread(shell, words, "runs a script that can't be read here")
        codes = [text]
    elif not codes and stdin is not None:
        codes = [stdin]
    if not codes:
        return _unread(shell, words, "runs code that comes in")
    for text in codes:
        javascript.read(shell, text, words, state)
    return None


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


def _perl(shell: Running, words: list[str], state: State) -> None:
    arguments = _perl_arguments(words)
    codes = arguments.values(("-e", "-E"))
    filters = any(letter in option for option in arguments.given for letter in "pn" if not option.startswith("--"))
    if not codes or not filters or not all(map(_harmless, codes)):
        return _unread(shell, words)
    if any(option.startswith("-i") or option == "-pi" for option in arguments.given):
        for path in arguments.plain:
            shell.findings.place(shell.place.where(path, state.cwd), words, "changes files")
    return None


def _perl_arguments(words: list[str]) -> Arguments:
    return parsed(words[1:], _PERL_VALUES)


def _awk(shell: Running, words: list[str], state: State) -> str | None:
    arguments = parsed(words[1:], ("-F", "-v", "-f", "--file", "--field-separator", "--assign"), stop=True)
    codes = [shell.file(path, state) for path in arguments.values(("-f", "--file"))] or list(arguments.plain[:1])
    if any(option in arguments.given for option in ("-i", "--include")) or any(
        text is None or not _only_prints(text) for text in codes
    ):
        return _unread(shell, words)
    return None


def _only_prints(text: str) -> bool:
    """Whether an awk program has no pipe and no redirection: `>` counts where it stands before a text or a group."""
    if not _harmless(text):
        return False
    plain = text.replace("||", "").replace("&&", "")
    packed = "".join(plain.split())
    return "|" not in _without_patterns(packed) and '>"' not in packed and ">>" not in packed


def _without_patterns(text: str) -> str:
    """The program without what stands between quotes or slashes."""
    kept: list[str] = []
    inside = ""
    for sign in text:
        if inside:
            inside = "" if sign == inside else inside
        elif sign in '"/':
            inside = sign
        else:
            kept.append(sign)
    return "".join(kept)
