"""Programs that run another one: with other rights or limits, once for each line or for each file."""

from __future__ import annotations

from collections.abc import Sequence

from agentrewind.effects.findings import Running
from agentrewind.effects.options import parsed
from agentrewind.effects.places import DYNAMIC
from agentrewind.effects.table import Program
from agentrewind.effects.words import State, base

MOST = 16
"""How many lines are gone through one by one."""
_XARGS = ("-I", "-i", "-n", "-P", "-L", "-s", "-d", "-E", "-a", "--max-args", "--max-procs", "--max-lines", "--delimiter", "--replace", "--arg-file")  # noqa: E501 # fmt: skip
_PARALLEL = ("-j", "--jobs", "-I", "-n", "-N", "--colsep", "-C", "-a", "--joblog", "--timeout", "--delay", "--retries", "--results", "-S", "--sshlogin")  # noqa: E501 # fmt: skip
_EXECS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_FLAGS = frozenset({"-H", "-L", "-P"})


def wrapped(shell: Running, words: list[str], program: Program, state: State, stdin: str | None) -> str | None:
    """`sudo`, `env`, `timeout` and their kin: what they run counts."""
    takes = (*program.values, *program.text)
    arguments = parsed(words[1:], takes, stop=True)
    if any(case.options and arguments.has(case.options) for case in program.when):
        return None
    for target in arguments.values(program.write_options):
        shell.findings.place(shell.place.where(target, state.cwd), words, "writes a file")
    for text in arguments.values(program.text):
        shell.text(text, state, stdin)
    rest = list(arguments.plain)
    if program.assigns:
        while rest and "=" in rest[0] and rest[0].split("=", 1)[0].isidentifier():
            rest.pop(0)
    rest = rest[program.skip :]
    if not rest:
        return _nothing_run(shell, words, program, state, stdin, told=bool(arguments.values(program.text)))
    if program.writes:
        return None
    if program.text and arguments.values(program.text):
        return None
    if rest[0] in ("-c", *program.text) and len(rest) > 1:
        return shell.text(rest[1], state, stdin)
    return shell.text(" ".join(rest), state, stdin) if program.joined else shell.run(rest, state, stdin)


def _nothing_run(
    shell: Running, words: Sequence[str], program: Program, state: State, stdin: str | None, *, told: bool
) -> str | None:
    """`sudo -i` and `su` alone give a shell that reads its input; `env` alone only prints."""
    if told or program.bare == "read" or base(words[0]) not in ("sudo", "su", "doas", "chroot", "unshare", "nsenter"):
        return None
    if stdin is not None:
        return shell.text(stdin, state, None)
    shell.findings.say("unknown", words, "opens a shell")
    return None


def fed(shell: Running, words: list[str], state: State, stdin: str | None) -> str | None:
    """`xargs` and `parallel`: the command is run with what comes in."""
    is_parallel = base(words[0]) == "parallel"
    arguments = parsed(words[1:], _PARALLEL if is_parallel else _XARGS, stop=True)
    command = list(arguments.plain)
    lines = _lines(stdin)
    for path in arguments.values(("-a", "--arg-file")):
        lines = _lines(shell.data(path, state))
    if is_parallel:
        command, given = _before(command, (":::", "::::", ":::+"))
        lines = given or lines
    mark = next(iter(arguments.values(("-I", "--replace"))), "{}" if is_parallel or arguments.has(("-i",)) else "")
    command = command or ["echo"]
    if mark and any(mark in word for word in command):
        for line in lines:
            _once(shell, [word.replace(mark, line) for word in command], state, joined=is_parallel)
    else:
        _once(shell, [*command, *lines], state, joined=is_parallel)
    return "\n".join(lines) if command[0] in ("echo", "cat", "ls") else None


def _once(shell: Running, command: list[str], state: State, *, joined: bool) -> None:
    if joined and len(command) == 1:
        shell.text(command[0], state, None)
    else:
        shell.run(command, state.copy(), None)


def _lines(text: str | None) -> list[str]:
    """At most `MOST` items; one that stands for all where they aren't known."""
    if text is None:
        return [DYNAMIC]
    found = [line.strip() for line in text.split("\n") if line.strip()]
    return found[:MOST] if len(found) <= MOST else [*found[:MOST], DYNAMIC]


def _before(command: list[str], marks: Sequence[str]) -> tuple[list[str], list[str]]:
    at = next((place for place, word in enumerate(command) if word in marks), None)
    return (command, []) if at is None else (command[:at], [w for w in command[at + 1 :] if w not in marks][:MOST])


def found(shell: Running, words: list[str], state: State) -> str | None:
    """`find`: what it runs for each file, and what it deletes. It prints names below where it begins."""
    at = 1
    while at < len(words) and words[at] in _FIND_FLAGS:
        at += 1
    roots: list[str] = []
    while at < len(words) and not words[at].startswith(("-", "(", "!", ")")):
        roots.append(words[at])
        at += 1
    names = [f"{root.rstrip('/')}/{DYNAMIC}" for root in roots or ["."]]
    while at < len(words):
        at = _action(shell, words, at, names, state)
    return "".join(f"{name}\n" for name in names)


def _action(shell: Running, words: list[str], at: int, names: Sequence[str], state: State) -> int:
    """One word of the expression, with what belongs to it; where the next begins."""
    word = words[at]
    if word == "-delete":
        for name in names:
            shell.findings.place(shell.place.where(name, state.cwd), words, "deletes files")
    elif word in ("-fprint", "-fprint0", "-fls", "-fprintf") and at + 1 < len(words):
        shell.findings.place(shell.place.where(words[at + 1], state.cwd), words, "writes a file")
        return at + 2
    elif word in _EXECS:
        end = next((place for place in range(at + 1, len(words)) if words[place] in (";", "+")), len(words))
        for name in names:
            shell.run([item.replace("{}", name) for item in words[at + 1 : end]], state.copy(), None)
        return end + 1
    return at + 1
