"""What can be said of a task without running it: its checks, its feedback, its scripts, its policy."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from typing import Any

from agentrewind.tasks.inspection import Grounds
from agentrewind.tasks.review import review_of
from agentrewind.tasks.task import Criterion, text_of

_FORBIDDEN = {
    "asyncio": "the network", "datetime": "the clock", "ftplib": "the network", "http": "the network",
    "imaplib": "the network", "importlib": "modules by name", "poplib": "the network", "random": "chance",
    "requests": "the network", "runpy": "modules by name", "secrets": "chance", "select": "the network",
    "smtplib": "the network", "socket": "the network", "socketserver": "the network", "ssl": "the network",
    "time": "the clock", "urllib": "the network", "uuid": "chance", "xmlrpc": "the network",
}  # fmt: skip
_NAMES = {"urandom": "chance", "getrandom": "chance", "__import__": "modules by name", "exec": "text as a program",
          "eval": "text as a program"}  # fmt: skip
_PROGRAMS = {"date": "the clock", "curl": "the network", "wget": "the network", "uuidgen": "chance"}
_RUNNERS = {"Popen", "call", "check_call", "check_output", "popen", "python", "run", "system"}
_COMMANDS = (
    "awk", "bash", "cat", "chmod", "cp", "curl", "find", "grep", "gzip", "mv", "openssl", "pip", "pytest", "python",
    "python3", "rm", "sed", "sh", "sqlite3", "tar", "touch", "wget", "xargs",
)  # fmt: skip
_SUBCOMMANDS = {
    "git": r"add|branch|cat-file|checkout|commit|fsck|filter-branch|gc|log|prune|rebase|reflog|reset|stash|tag",
    "make": r"[a-z-]+",
}
_TOLD = tuple(
    (re.compile(pattern), what)
    for pattern, what in (
        (r"`", "quotes code"),
        (r"(?<![\w-])--?[a-z][\w-]*(?![\w-])", "names an option"),
        (r"\S+\.(?:py|sh)\b", "names a script"),
        (r"\b(?:tests|solution|environment)/", "names a path of the evaluation"),
        (r"(?i)\b(?:checklist|criterion|criteria|evaluator|verifier|expected\.json)\b", "speaks of the evaluation"),
        (r"\b[0-9a-f]{12,}\b", "holds a digest"),
        (rf"(?<![\w/.-])(?:{'|'.join(_COMMANDS)})(?![\w-])", "names a command"),
        *((rf"\b{name} (?:{words})\b", "names a command") for name, words in _SUBCOMMANDS.items()),
    )
)  # fmt: skip
_SHORTEST = 30
_LONGEST = 400
_NO_REFERENCE = tuple(
    (re.compile(pattern, re.MULTILINE), what)
    for pattern, what in (
        (r"^\s*sleep\b|[;&|]\s*sleep\b", "waits"),
        (r"\buntil\b.*;\s*do\b|\bfor attempt\b|\bretry\b", "tries something again"),
        (r"\bgit\s+(?:reset\s+--hard|stash|checkout\s+--|restore)\b", "takes something back"),
        (r"\|\s*head\b", "closes a pipe while it is written to, so that chance decides what is said"),
        (r"\b(?:curl|wget|pip install|apt-get|git clone \w+://)", "uses the network"),
    )
)


def structure(at: Grounds) -> Iterator[str]:
    """Each criterion has one check and each check a criterion; what is asked is said; nothing is named twice.

    A review, where there is one, answers every question.
    """
    names = [name for name in _functions(at) if re.match(r"[a-z]\w*?\d+_", name)]
    for criterion in at.task.checklist:
        count = sum(name.startswith(f"{criterion.id.lower()}_") for name in names)
        if count != 1:
            yield f"checks.py has {count} functions {criterion.id.lower()}_..., and {criterion.id} needs one"
    ids = tuple(f"{item.id.lower()}_" for item in at.task.checklist)
    yield from (f"no criterion has the check {name}" for name in names if not name.startswith(ids))
    for what, text in (("instruction.md", at.task.instruction), ("[task] description", at.task.title),
                       ("trap", at.task.trap), ("family", at.task.family)):  # fmt: skip
        if not text.strip():
            yield f"{what} is empty"
    if at.task.network:
        yield "the environment has a network"
    for name in ("environment/Dockerfile", "tests/test.sh"):
        text_of(at.task.path / name)
    review_of(at.task.path)


def _functions(at: Grounds) -> list[str]:
    return [node.name for node in _tree(at).body if isinstance(node, ast.FunctionDef)]


def _tree(at: Grounds) -> ast.Module:
    file = at.task.tests / "checks.py"
    try:
        return ast.parse(text_of(file))
    except SyntaxError:
        return ast.parse("")  # then no criterion has a check, which is said


def imports(at: Grounds) -> Iterator[str]:
    """No check draws on chance, the clock or the network, nor could in a way that can't be seen."""
    for node in ast.walk(_tree(at)):
        for name in _modules(node):
            if name in _FORBIDDEN:
                yield f"line {_line(node)} of checks.py imports {name}: {_FORBIDDEN[name]}"
        used = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        if used in _NAMES:
            yield f"line {_line(node)} of checks.py uses {used}: {_NAMES[used]}"
        if isinstance(node, ast.Call) and (program := _program(node)) in _PROGRAMS:
            yield f"line {_line(node)} of checks.py runs the program {program}: {_PROGRAMS[program]}"


def _program(call: ast.Call) -> str:
    """What a call that runs a program names first; empty for other calls."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    first = call.args[0] if call.args and name in _RUNNERS else None
    if isinstance(first, ast.List | ast.Tuple) and first.elts:
        first = first.elts[0]
    return str(first.value) if isinstance(first, ast.Constant) else ""


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    return [(node.module or "").partition(".")[0]] if isinstance(node, ast.ImportFrom) else []


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def feedback(at: Grounds) -> Iterator[str]:
    """What the agent is told says what is wrong in observable terms: no command, no path, nothing of the checks."""
    for criterion in at.task.checklist:
        yield from (f"the feedback of {criterion.id} {what}: {criterion.feedback[:100]}" for what in _wrong(criterion))
    for text, count in Counter(item.feedback for item in at.task.checklist).items():
        if count > 1:
            yield f"{count} criteria have the same feedback: {text[:100]}"


def _wrong(criterion: Criterion) -> Iterator[str]:
    text = criterion.feedback
    if not _SHORTEST <= len(text) <= _LONGEST or not text.endswith("."):
        yield f"is no sentence of {_SHORTEST} to {_LONGEST} characters with a full stop"
    if re.search(rf"\b{re.escape(criterion.id)}\b", text):
        yield "names its criterion"
    for pattern, what in _TOLD:
        if found := pattern.search(text):
            yield f"{what} ({found[0].strip()!r})"


def scripts(at: Grounds) -> Iterator[str]:
    """The reference goes forward only: it doesn't wait, try again, take back or use the network; nor does the other."""
    for file in (at.task.solution, at.task.violation):
        text = text_of(file)
        yield from (
            f"{file.name} {what}: {hit[0].strip()}" for pattern, what in _NO_REFERENCE if (hit := pattern.search(text))
        )


# --- policy -----------------------------------------------------------------------------------------------------------

_KINDS = {"order violation", "destructive slip", "repairable bug"}


def policy(at: Grounds) -> Iterator[str]:
    """The policy for the simulated model fits the reference and the checklist. Whether its errors do what it says is
    shown by running them (`agentrewind.bench`).
    """
    file = at.task.policy
    if file is None:
        yield "there is no solution/policy.toml"
        return
    try:
        given: list[dict[str, Any]] = tomllib.loads(text_of(file)).get("steps", [])
    except tomllib.TOMLDecodeError as error:
        yield f"policy.toml is no TOML: {error}"
        return
    names = [step.get("id") for step in given]
    wanted = [step.name for step in at.task.steps]
    if names != wanted:
        yield f"policy.toml has the steps {names}, and the reference {wanted}"
    ids = {criterion.id for criterion in at.task.checklist}
    for step in given:
        if step.get("criterion") not in ids:
            yield f"policy.toml: the step {step.get('id')} works for {step.get('criterion')!r}, which is no criterion"
        if not step.get("says"):
            yield f"policy.toml: the step {step.get('id')} says nothing"
    yield from _errors([(str(step.get("id")), error) for step in given for error in step.get("errors", [])], ids)
    for step in given:
        if sum(error.get("probability", 0) for error in step.get("errors", [])) > 1:
            yield f"policy.toml: the errors of the step {step.get('id')} have a probability over 1 together"


def _errors(errors: list[tuple[str, dict[str, Any]]], ids: set[str]) -> Iterator[str]:
    for step, error in errors:
        name = f"{step}/{error.get('id')}"
        if error.get("kind") not in _KINDS:
            yield f"policy.toml: {name} is of the kind {error.get('kind')!r}; there are {', '.join(sorted(_KINDS))}"
        if error.get("breaks") not in ids:
            yield f"policy.toml: {name} breaks {error.get('breaks')!r}, which is no criterion"
        if not error.get("run") or not error.get("lesson") or not 0 < error.get("probability", 0) <= 1:
            yield f"policy.toml: {name} needs run, lesson, and a probability above 0 and up to 1"
    lessons = Counter(error.get("lesson") for _, error in errors)
    yield from (f"policy.toml: two errors teach the same: {lesson}" for lesson, count in lessons.items() if count > 1)
    if not [error for _, error in errors if error.get("kind") in _KINDS - {"repairable bug"}]:
        yield "policy.toml has no error that can't be undone"
