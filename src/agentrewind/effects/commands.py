"""What one program does with its arguments: the table says, and this reads it."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import replace

from agentrewind.core.effects import EffectClass
from agentrewind.effects import archives, builds, code, feeding, outputs
from agentrewind.effects.findings import Ran, Running
from agentrewind.effects.options import Arguments, parsed
from agentrewind.effects.places import DYNAMIC, Where
from agentrewind.effects.table import Program, programs
from agentrewind.effects.words import State, base

_BIN = ("/bin/", "/sbin/", "/node_modules/.bin/")
_ASKS = frozenset({"--version", "--help"})
_ASKS_ALONE = frozenset({"-V", "-v", "-h", "version", "help", "-version", "-help"})
LONGEST_SUB = 3
"""How many words a subcommand has at most."""
UNKNOWN = "isn't known"


def run(shell: Running, words: list[str], state: State, stdin: str | None) -> str | None:
    """Evaluate a command that is no builtin; what it prints, None where that can't be known."""
    name = words[0]
    if DYNAMIC in name:
        shell.findings.say("unknown", words, "which program runs is only known then")
        return None
    program = _known(name)
    if program is None or _lies_in_workspace(shell, name, state):
        return _file(shell, words, state, stdin, program)
    return _program(shell, words, program, state, stdin)


def _known(name: str) -> Program | None:
    found = programs().get(base(name))
    if found is None and base(name).startswith("python"):
        return programs()["python"]
    return found


def _lies_in_workspace(shell: Running, name: str, state: State) -> bool:
    """Whether a program that is called like a known one is a file of the workspace, and not of an environment in it."""
    if "/" not in name or any(part in name for part in _BIN):
        return False
    return shell.file(name, state) is not None and base(name) not in ("gradlew", "mvnw")


def _file(shell: Running, words: list[str], state: State, stdin: str | None, program: Program | None) -> str | None:
    """A program by its path: a script of the workspace is read."""
    text = shell.file(words[0], state) if "/" in words[0] else None
    if text is not None:
        return code.script(shell, text, words, state, stdin)
    if program is not None:
        return _program(shell, words, program, state, stdin)
    shell.findings.say("unknown", words, UNKNOWN)
    return None


def _program(shell: Running, words: list[str], program: Program, state: State, stdin: str | None) -> str | None:
    if _asks(words, program):
        return None
    carried = _carried_on(shell, words, program, state, stdin)
    if carried is not None:
        return carried.output
    plainly(shell, words, program, state)
    return outputs.of(shell, words, program, state, stdin)


def _carried_on(shell: Running, words: list[str], program: Program, state: State, stdin: str | None) -> Ran | None:
    """What a program does that runs another one, or code; None where it is none of those."""
    if program.wraps:
        return Ran(feeding.wrapped(shell, words, program, state, stdin))
    if program.feeds or program.finds:
        return Ran(feeding.fed(shell, words, state, stdin) if program.feeds else feeding.found(shell, words, state))
    if program.interpreter:
        return Ran(code.interpreted(shell, words, program, state, stdin))
    if program.runs_package or (program.runs and _carries_on(words, program)):
        carry = _package if program.runs_package else _carried
        return Ran(carry(shell, words, program, state, stdin))
    return Ran(None) if builds.ran(shell, words, program, state) else None


def _asks(words: Sequence[str], program: Program) -> bool:
    """Whether it is only asked for its version or its help."""
    if program.wraps or program.feeds or program.interpreter == "shell":
        return len(words) == 2 and words[1] in _ASKS  # noqa: PLR2004
    alone = len(words) == 2 and words[1] in _ASKS_ALONE and program.kind != "read"  # noqa: PLR2004
    return alone or words[1:2] == ["--help"] or (len(words) <= 3 and words[-1] in _ASKS)  # noqa: PLR2004


def _carries_on(words: Sequence[str], program: Program) -> bool:
    """Whether it is `uv run`, `bundle exec` and the like: what comes after that is run."""
    return parsed(words[1:], program.values, stop=True).plain[:1] in [(name,) for name in program.runs]


def _carried(shell: Running, words: list[str], program: Program, state: State, stdin: str | None) -> str | None:
    after = list(parsed(words[1:], program.values, stop=True).plain[1:])
    command = list(
        parsed(after, (*program.values, "--with", "--python", "-p", "--extra", "--group", "-n"), stop=True).plain
    )
    if not command:
        return None
    if command[0].endswith(".py"):
        command.insert(0, "python")
    return run(shell, command, state, stdin)


def _package(shell: Running, words: list[str], _program: Program, state: State, stdin: str | None) -> str | None:
    """`npx` and its kin: a package that is fetched where it isn't there, and run."""
    arguments = parsed(words[1:], ("-p", "--package", "--from", "--with", "-c", "--call"), stop=True)
    for text in arguments.values(("-c", "--call")):
        shell.text(text, state, stdin)
    if not arguments.plain:
        return None
    name, _, _ = arguments.plain[0].rpartition("@")
    run_as = [name or arguments.plain[0], *arguments.plain[1:]]
    return run(shell, run_as, state, stdin)


def plainly(shell: Running, words: list[str], program: Program, state: State) -> None:
    """Find what a program does by its entry alone."""
    name = base(words[0])
    if name in archives.READERS:
        archives.READERS[name](shell, words, state)
        return
    arguments = parsed(words[1:], (*program.values, *program.write_options, *program.into, *program.sends,
                                   *program.method))  # fmt: skip
    for moved in arguments.values(program.moves):
        absolute = shell.place.absolute(moved, state.cwd)
        state = replace(state, cwd=absolute)
    if program.subs:
        program, arguments = _sub(program, arguments, words)
    program = _case(program, arguments, words)
    _written(shell, words, program, arguments, state)
    _class(shell, words, program, arguments, state)


def _sub(program: Program, arguments: Arguments, words: Sequence[str]) -> tuple[Program, Arguments]:
    """The entry of the subcommand, and its own arguments."""
    plain = arguments.plain
    for length in range(min(LONGEST_SUB, len(plain)), 0, -1):
        sub = program.subs.get(" ".join(plain[:length])) or program.subs.get(
            " ".join([*plain[:length], *_flags(words)])
        )
        if sub is not None:
            more = (*sub.values, *sub.write_options, *sub.into)
            if more:
                arguments = parsed(words[1:], (*program.values, *more))
                plain = arguments.plain
            inherited = replace(sub, kind=sub.kind or program.kind, does=sub.does or program.does)
            return inherited, replace(arguments, plain=plain[length:])
    if not plain and program.bare:
        return replace(program, kind=program.bare, reads=program.bare == "external"), arguments
    if not plain or any(DYNAMIC in word for word in plain[:1]):
        return replace(program, kind=_least(program, plain)), arguments
    other = program.other or program.kind or "unknown"
    return replace(program, kind=other, does=program.does if other != "unknown" else UNKNOWN, reads=False), arguments


def _least(program: Program, plain: Sequence[str]) -> EffectClass:
    """Without a subcommand most programs print their help; one that is only known later may be any."""
    if plain:
        return "unknown" if program.other != "external" else "external"
    return program.kind if program.kind in ("external", "outside") and not program.subs else "read"


def _flags(words: Sequence[str]) -> list[str]:
    """`-v` of `git remote -v`: some subcommands are told apart by an option."""
    return [word for word in words[1:] if word.startswith("-")][-1:]


def _case(program: Program, arguments: Arguments, words: Sequence[str]) -> Program:
    if program.bare and len(words) == 1:
        return replace(program, kind=program.bare)
    for case in program.when:
        if (case.options and arguments.has(case.options)) or any(
            word.startswith(case.words) for word in arguments.plain if case.words
        ):
            kind = case.kind or program.kind
            writes = "" if kind in ("read", "external", "outside") else program.writes
            return replace(program, kind=kind, does=case.does or program.does, reads=case.reads, writes=writes)
    return program


def _written(shell: Running, words: Sequence[str], program: Program, arguments: Arguments, state: State) -> None:
    """The files that its arguments name for writing."""
    does = program.does if program.kind == "workspace" and program.does else "writes files"
    targets = list(arguments.values(program.write_options)) if program.kind != "read" or not program.when else []
    if program.in_place and any(option.startswith(program.in_place) for option in arguments.given):
        given = arguments.has(("-e", "-f", "--expression", "--file"))
        targets += arguments.plain[0 if given else 1 :]
    elif not (program.writes == "last" and targets):
        targets += _targets(program, arguments.plain)
    targets += [word.partition("=")[2] for word in words if word.partition("=")[0] in program.assigned]
    for target in targets:
        if not (program.remote and _is_remote(target)):
            shell.findings.place(shell.place.where(target, state.cwd), words, does)


def _targets(program: Program, plain: Sequence[str]) -> Sequence[str]:
    match program.writes:
        case "all":
            return plain
        case "first":
            return plain[:1]
        case "last":
            return plain[-1:] if len(plain) > 1 else ["."]
        case "rest":
            return plain[1:] or ["."] * (len(plain) == 1)
        case _:
            return ()


def _is_remote(word: str) -> bool:
    host, colon, _ = word.partition(":")
    return bool(colon) and "/" not in host


def _class(shell: Running, words: Sequence[str], program: Program, arguments: Arguments, state: State) -> None:
    """What it does besides writing the files that its arguments name."""
    say = shell.findings.say
    if program.database:
        _database(shell, words, arguments, state)
        return
    if program.clones:
        _cloned(shell, words, arguments, state)
        return
    if program.http:
        say("external", words, "reads from the network" if _gets(program, arguments, words) else program.does,
            reads=_gets(program, arguments, words))  # fmt: skip
        return
    if program.remote and any(map(_is_remote, arguments.plain)):
        sends = _is_remote(arguments.plain[-1])
        say("external", words, "copies to another machine" if sends else "copies from another machine", reads=not sends)
        return
    match program.kind:
        case None | "read":
            return
        case "workspace":
            if (not program.writes or not arguments.plain) and not (program.into and arguments.values(program.into)):
                _in_directory(shell, words, program.does or "changes files", state)
        case "external":
            reads = program.reads or _asks_only(program, arguments)
            say("external", words, program.does or "talks to the network", reads=reads)
        case _:
            _outside(shell, words, program, arguments, state)
    for target in arguments.values(program.into):
        shell.findings.place(shell.place.where(target, state.cwd), words, "writes files")


def _in_directory(shell: Running, words: Sequence[str], does: str, state: State) -> None:
    where: Where = "unknown" if state.cwd is None else "workspace" if shell.place.holds(state.cwd) else "outside"
    shell.findings.place(where, words, does)


def _outside(shell: Running, words: Sequence[str], program: Program, arguments: Arguments, state: State) -> None:
    kind = program.kind or "unknown"
    if base(words[0]).startswith("pip") and kind == "outside":
        shell.findings.say("external", words, "downloads packages", reads=True)
        if arguments.values(program.into):
            return
        home = posixpath.dirname(posixpath.dirname(words[0])) or state.variables.get("VIRTUAL_ENV", "")
        if home and "--user" not in words:
            shell.findings.place(shell.place.where(home, state.cwd), words, program.does)
            return
    shell.findings.say(kind, words, program.does)


def _asks_only(program: Program, arguments: Arguments) -> bool:
    """Whether the words of a cloud command say that it only reads."""
    return bool(program.verbs) and any(word.startswith(program.verbs) for word in arguments.plain[1:3])


def _gets(program: Program, arguments: Arguments, words: Sequence[str]) -> bool:
    """Whether an HTTP client is told nothing but to fetch."""
    if any(DYNAMIC in word and word.startswith(DYNAMIC) and len(word) == 1 for word in words) and len(words) == 2:  # noqa: PLR2004
        return True
    methods = [method.upper() for method in arguments.values(program.method)]
    if methods:
        return all(method in ("GET", "HEAD", "OPTIONS") for method in methods)
    return not arguments.has(program.sends) or arguments.has(program.gets)


def _database(shell: Running, words: Sequence[str], arguments: Arguments, state: State) -> None:
    """A database that is one file."""
    if arguments.plain and arguments.plain[0] != ":memory:" and not arguments.has(("-readonly", "--readonly")):
        where = shell.place.where(arguments.plain[0].removeprefix("file:"), state.cwd)
        shell.findings.place(where, words, "works on a database file")


def _cloned(shell: Running, words: Sequence[str], arguments: Arguments, state: State) -> None:
    if not arguments.plain:
        return
    source = arguments.plain[0]
    if "://" in source or _is_remote(source) or source.startswith(DYNAMIC):
        shell.findings.say("external", words, "clones a repository", reads=True)
    target = arguments.plain[1] if len(arguments.plain) > 1 else "."
    shell.findings.place(shell.place.where(target, state.cwd), words, "clones a repository")
