"""What Python code does, from its syntax tree: the network, other programs, files, processes."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from agentrewind.effects.places import DYNAMIC
from agentrewind.effects.python_table import python
from agentrewind.effects.words import State

if TYPE_CHECKING:
    from agentrewind.effects.findings import Running

MOST_FILES = 20
"""How many modules of the workspace one call is followed into."""
_OPENERS = frozenset({"open", "io.open", "codecs.open", "gzip.open", "bz2.open", "lzma.open", "os.open"})
_PATHS = frozenset({"pathlib.Path", "pathlib.PosixPath", "pathlib.PurePath"})
_SAME_PATHS = frozenset({"os.path.expanduser", "os.path.abspath", "os.path.realpath", "str", "os.fspath"})
_FIXED_PATHS = {
    "pathlib.Path.home": "~",
    **dict.fromkeys(("tempfile.mkdtemp", "tempfile.gettempdir", "tempfile.mkstemp"), "/tmp"),  # noqa: S108
}
_UNKNOWABLE = frozenset(
    {"exec", "eval", "ctypes.CDLL", "ctypes.cdll.LoadLibrary", "runpy.run_path", "runpy.run_module"}
)


def read(shell: Running, text: str, words: list[str], state: State, path: str | None) -> None:
    """Find what the code does. `path` is the file that it stands in."""
    _Files(shell, words, state).read(text, path)


class _Files:
    """The code and the modules of the workspace that it imports."""

    def __init__(self, shell: Running, words: list[str], state: State) -> None:
        self.shell, self.words, self.state = shell, words, state
        self._seen: set[str] = set()

    def read(self, text: str, path: str | None) -> None:
        try:
            tree = ast.parse(text.replace(DYNAMIC, "_"))
        except (SyntaxError, ValueError, MemoryError):
            self.shell.findings.say("unknown", self.words, "its code can't be read")
            return
        names = _imported(tree)
        _Code(self, names, _constants(tree)).visit(tree)
        for module in sorted(_modules(tree)):
            self._module(module, path)

    def _module(self, module: str, path: str | None) -> None:
        top = module.split(".", 1)[0]
        if not top or top in sys.stdlib_module_names or top in python().computes or python().network_module(module):
            return
        folders = ["", *([path.rpartition("/")[0] + "/"] if path and "/" in path else [])]
        for candidate in (
            folder + name for folder in folders for name in (f"{module.replace('.', '/')}.py", f"{top}.py",
                                                             f"{top}/__init__.py")
        ):  # fmt: skip
            text = self.shell.file(candidate, self.state)
            if text is not None:
                if candidate not in self._seen and len(self._seen) < MOST_FILES:
                    self._seen.add(candidate)
                    self.read(text, candidate)
                return
        self.shell.findings.say("unknown", self.words, f"uses {top}, which isn't known")


def _modules(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def _imported(tree: ast.AST) -> dict[str, str]:
    """What each name stands for that an import binds."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def _constants(tree: ast.AST) -> dict[str, ast.expr]:
    """The values of names that are assigned exactly once."""
    found: dict[str, ast.expr] = {}
    twice: set[str] = set()
    for node in ast.walk(tree):
        bound = _binding(node)
        if bound is not None:
            name, value = bound
            twice |= {name} & found.keys()
            found[name] = value
    return {name: value for name, value in found.items() if name not in twice}


def _binding(node: ast.AST) -> tuple[str, ast.expr] | None:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name, value
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return name, value
        case ast.withitem(context_expr=value, optional_vars=ast.Name(id=name)):
            return name, value
        case _:
            return None


class _Code(ast.NodeVisitor):
    """Every call in one text."""

    def __init__(self, files: _Files, names: Mapping[str, str], constants: Mapping[str, ast.expr]) -> None:
        self._files, self._names, self._constants = files, names, constants
        self._shell, self._words, self._state = files.shell, files.words, files.state
        self._known = python()
        self._depth = 0

    def visit_Call(self, node: ast.Call) -> None:
        dotted = self._dotted(node.func)
        if dotted is not None:
            self._called(dotted, node)
        elif isinstance(node.func, ast.Attribute):
            self._method(node.func, node)
        self.generic_visit(node)

    def _called(self, dotted: str, node: ast.Call) -> None:
        if dotted in ("__import__", "importlib.import_module"):
            self._import(node)
        elif dotted in self._known.shells or dotted in self._known.execs:
            self._command(dotted, node)
        elif dotted in _OPENERS:
            self._open(dotted, node)
        elif dotted in self._known.files:
            self._paths(dotted, node)
        elif dotted in self._known.state:
            self._say("outside", dotted, self._known.state[dotted])
        elif dotted in _UNKNOWABLE:
            self._evaluated(dotted, node)
        elif dotted == "sqlite3.connect":
            self._place(self._path(node.args[0]) if node.args else None, dotted, "works on a database file")
        elif dotted not in self._known.quiet and (module := self._known.network_module(dotted)) is not None:
            reads = dotted in self._known.reading and len(node.args) <= 1
            self._say("external", dotted, self._known.network[module], reads=reads)
        elif isinstance(node.func, ast.Attribute):
            self._method(node.func, node)

    def _say(self, kind: str, dotted: str, does: str, *, reads: bool = False) -> None:
        from_words = [*self._words[:1], f"{dotted}(…)"]
        self._shell.findings.say(kind, from_words, does, reads=reads)  # type: ignore[arg-type]

    def _place(self, path: str | None, dotted: str, does: str) -> None:
        where = self._shell.place.where(DYNAMIC if path is None else path, self._state.cwd)
        shown = [*self._words[:1], f"{dotted}({'…' if path is None else path})"]
        self._shell.findings.place(where, shown, does)

    # --- names and values ---------------------------------------------------------------------------------------------

    def _dotted(self, node: ast.expr) -> str | None:
        """What is called, by its full name where an import says so."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            head = self._names.get(node.id, node.id)
            if head == node.id and node.id in self._constants and parts:
                return self._of_value(self._constants[node.id], parts)
        elif isinstance(node, ast.Call) and parts:
            return self._of_value(node, parts)
        else:
            return None
        return ".".join([head, *reversed(parts)])

    def _of_value(self, value: ast.expr, parts: list[str]) -> str | None:
        """A method of what a call of a known module returned: `requests.Session().post`."""
        if not isinstance(value, ast.Call):
            return None
        if isinstance(value.func, ast.Name) and value.func.id == "__import__" and value.args:
            return ".".join([self._text(value.args[0]) or DYNAMIC, *reversed(parts)])
        self._depth += 1
        try:
            made = self._dotted(value.func) if self._depth < MOST_FILES else None
        finally:
            self._depth -= 1
        return None if made is None or made in _PATHS else ".".join([made, *reversed(parts)])

    def _text(self, node: ast.expr | None) -> str | None:
        """A text as far as it is known; None where nothing of it is."""
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.Constant(value=bytes(data)):
                return data.decode("utf-8", "replace")
            case ast.JoinedStr(values=parts):
                return "".join(self._text(part) or DYNAMIC for part in parts)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return (self._text(left) or DYNAMIC) + (self._text(right) or DYNAMIC)
            case ast.Name(id=name) if name in self._constants and self._depth < MOST_FILES:
                self._depth += 1
                try:
                    return self._text(self._constants[name])
                finally:
                    self._depth -= 1
            case _:
                return None

    def _path(self, node: ast.expr | None) -> str | None:
        """A path as far as it is known."""
        self._depth += 1
        try:
            if self._depth > MOST_FILES:
                return None
            match node:
                case ast.BinOp(left=left, op=ast.Div(), right=right):
                    head = self._path(left)
                    return None if head is None else f"{head}/{self._text(right) or DYNAMIC}"
                case ast.Call(func=func, args=args):
                    return self._made_path(self._dotted(func) or "", func, args)
                case ast.Name(id=name) if name in self._constants:
                    return self._path(self._constants[name])
                case ast.Attribute(value=value, attr="parent"):
                    head = self._path(value)
                    return None if head is None else f"{head}/.."
                case _:
                    return self._text(node)
        finally:
            self._depth -= 1

    def _made_path(self, dotted: str, func: ast.expr, args: list[ast.expr]) -> str | None:
        """What a call returns that makes a path."""
        if dotted in _FIXED_PATHS or dotted in ("pathlib.Path.cwd", "os.getcwd"):
            return _FIXED_PATHS.get(dotted, self._state.cwd)
        if dotted in _SAME_PATHS:
            return self._path(args[0]) if args else None
        if dotted in _PATHS or dotted == "os.path.join":
            return "/".join(self._path(arg) or DYNAMIC for arg in args) if args else "."
        if isinstance(func, ast.Attribute) and func.attr in ("resolve", "expanduser", "absolute", "joinpath"):
            head = self._path(func.value)
            tail = [self._text(arg) or DYNAMIC for arg in args] if func.attr == "joinpath" else []
            return None if head is None else "/".join([head, *tail])
        return None

    # --- what is done -------------------------------------------------------------------------------------------------

    def _import(self, node: ast.Call) -> None:
        name = self._text(node.args[0]) if node.args else None
        if name is None or DYNAMIC in name:
            self._say("unknown", "__import__", "imports what is only known then")

    def _command(self, dotted: str, node: ast.Call) -> None:
        """Another program, by a list of words or by a shell text."""
        first = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "args"), None)
        if isinstance(first, ast.Name) and first.id in self._constants:
            first = self._constants[first.id]
        if isinstance(first, ast.List | ast.Tuple):
            self._shell.run([self._text(item) or DYNAMIC for item in first.elts], self._state.copy(), None)
            return
        if dotted in self._known.execs and first is not None:
            self._shell.run([self._text(item) or DYNAMIC for item in node.args], self._state.copy(), None)
            return
        self._shell.text(self._text(first) or DYNAMIC, self._state.copy(), None)

    def _open(self, dotted: str, node: ast.Call) -> None:
        mode_node = (
            node.args[1] if len(node.args) > 1 else next((k.value for k in node.keywords if k.arg == "mode"), None)
        )
        mode = "r" if mode_node is None else (self._text(mode_node) or "w")
        if dotted == "os.open" or set(mode) & set("wax+"):
            self._place(self._path(node.args[0]) if node.args else None, dotted, "writes a file")

    def _paths(self, dotted: str, node: ast.Call) -> None:
        """A function that changes the files that some of its arguments name."""
        for number in self._known.files[dotted]:
            if number < len(node.args):
                self._place(self._path(node.args[number]), dotted, "changes files")

    def _method(self, func: ast.Attribute, node: ast.Call) -> None:
        """A method of a path, or of a thing that isn't known."""
        if func.attr == "open":
            mode = self._text(node.args[0]) if node.args else "r"
            if set(mode or "w") & set("wax+") and self._path(func.value) is not None:
                self._place(self._path(func.value), "open", "writes a file")
        elif func.attr in self._known.path_methods or func.attr in self._known.maybe_path_methods:
            path = self._path(func.value)
            if path is not None or func.attr in self._known.path_methods:
                self._place(path, func.attr, "changes files")
            if path is not None and func.attr in ("rename", "replace") and node.args:
                self._place(self._path(node.args[0]), func.attr, "changes files")

    def _evaluated(self, dotted: str, node: ast.Call) -> None:
        text = self._text(node.args[0]) if node.args else None
        if dotted in ("exec", "eval") and text is not None and DYNAMIC not in text:
            self._shell.findings.spend()
            self._files.read(text, None)
        else:
            self._say("unknown", dotted, "runs what is only known then")
