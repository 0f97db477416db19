"""Reads a shell text as the shell would, as far as that goes without running it, and finds what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agentrewind.effects import builtins, commands
from agentrewind.effects.findings import Findings
from agentrewind.effects.grammar import parse, text_of
from agentrewind.effects.places import DYNAMIC, Place
from agentrewind.effects.words import State, Words, joined

if TYPE_CHECKING:
    from tree_sitter import Node

    from agentrewind.effects.rules import Rules

LOOPS = 16
"""How many values of a `for` are gone through."""
WRITES = frozenset({">", ">>", ">|", "&>", "&>>", "<>"})
_WORDS = frozenset(
    {
        "word", "string", "raw_string", "ansi_c_string", "translated_string", "number", "concatenation",
        "simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion",
        "extglob_pattern", "regex", "brace_expression", "array",
    }
)  # fmt: skip
_SILENT = frozenset({"comment", "heredoc_start", "heredoc_end", "file_descriptor", "variable_name", "heredoc_content"})


class Shell:
    """One reading of one call. `findings` holds what it came to."""

    def __init__(self, place: Place, findings: Findings, rules: Rules) -> None:
        self.place = place
        self.findings = findings
        self._rules = rules
        self._words = Words(place, self._substitution)
        self._written: dict[str, str] = {}
        """Files that the text itself writes before it uses them."""
        self._kinds: dict[str, Callable[[Node, State, str | None], str | None]] = {
            "command": self._command,
            "pipeline": self._pipeline,
            "redirected_statement": self._redirected,
            "subshell": lambda node, state, stdin: self._children(node, state.copy(), stdin),
            "function_definition": self._definition,
            "for_statement": self._for,
            "variable_assignment": self._assignment,
            "declaration_command": self._quiet,
            "unset_command": self._quiet,
            "test_command": self._quiet,
        }

    # --- texts --------------------------------------------------------------------------------------------------------

    def text(self, text: str, state: State, stdin: str | None) -> str | None:
        with self.findings.deeper():
            self.findings.spend()
            root = parse(text.replace(DYNAMIC, "${_}"))
            if root.has_error:
                self.findings.say("unknown", [text], "can't be read as a shell command in full")
            return self._children(root, state, stdin)

    def file(self, path: str, state: State) -> str | None:
        absolute = self.place.absolute(path, state.cwd)
        return self._written[absolute] if absolute in self._written else self.place.read(path, state.cwd)

    def data(self, path: str, state: State) -> str | None:
        text = self.file(path, state)
        if text is not None:
            self.findings.hide(text)
        return text

    def run(self, words: list[str], state: State, stdin: str | None) -> str | None:
        self.findings.spend()
        if not words:
            return ""
        ruled = self._rules.of_command(words)
        if ruled is not None:
            self.findings.add(ruled)
            return None
        with self.findings.undone_by(self._rules.undo_of_command(words)):
            known = builtins.run(self, words, state, stdin)
            return known.output if known is not None else commands.run(self, words, state, stdin)

    # --- statements ---------------------------------------------------------------------------------------------------

    def _statement(self, node: Node, state: State, stdin: str | None) -> str | None:
        with self.findings.deeper():
            return self._kinds.get(node.type, self._other)(node, state, stdin)

    def _other(self, node: Node, state: State, stdin: str | None) -> str | None:
        if node.type in _WORDS:
            self._words.value(node, state)
            return ""
        return "" if node.type in _SILENT else self._children(node, state, stdin)

    def _children(self, node: Node, state: State, stdin: str | None) -> str | None:
        return _joined([self._statement(child, state, stdin) for child in node.named_children])

    def _quiet(self, node: Node, state: State, stdin: str | None) -> str | None:
        """What runs nothing by itself: its assignments and substitutions count."""
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assignment(child, state, stdin)
            else:
                self._words.visit(child, state)
        return ""

    def _definition(self, node: Node, state: State, _stdin: str | None) -> str | None:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is not None and body is not None:
            state.functions[text_of(name)] = body
        return ""

    def call(self, body: Node, words: list[str], state: State, stdin: str | None) -> str | None:
        """Run a function that the text defined."""
        before, state.arguments = state.arguments, tuple(words[1:])
        try:
            return self._statement(body, state, stdin)
        finally:
            state.arguments = before

    def _for(self, node: Node, state: State, stdin: str | None) -> str | None:
        variable = node.child_by_field_name("variable")
        body = node.child_by_field_name("body")
        values = [word for item in node.children_by_field_name("value") for word in self._words.of(item, state)]
        if variable is None or body is None:
            return self._children(node, state, stdin)
        for value in values[:LOOPS] or ([DYNAMIC] if not node.children_by_field_name("value") else []):
            state.assign(text_of(variable), value)
            self._statement(body, state, stdin)
        if len(values) > LOOPS:
            state.variables[text_of(variable)] = DYNAMIC
            self._statement(body, state, stdin)
        return None

    def _assignment(self, node: Node, state: State, _stdin: str | None) -> str | None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None:
            return ""
        text = "" if value is None else self._words.value(value, state)
        adds = any(child.type == "+=" for child in node.children)
        known = state.variables.get(text_of(name), DYNAMIC) if adds else ""
        state.assign(text_of(name), known + text)
        self.findings.learnt(text)
        return ""

    def _pipeline(self, node: Node, state: State, stdin: str | None) -> str | None:
        return self._through(node.named_children, state, stdin)

    def _through(self, stages: Sequence[Node], state: State, stdin: str | None) -> str | None:
        for stage in stages:
            stdin = self._statement(stage, state.copy(), stdin)
        return stdin

    def _substitution(self, node: Node, state: State) -> str | None:
        with self.findings.deeper():
            self.findings.spend()
            return self._children(node, state.copy(), None)

    # --- redirections -------------------------------------------------------------------------------------------------

    def _redirected(self, node: Node, state: State, stdin: str | None) -> str | None:
        body = node.child_by_field_name("body")
        redirects = [child for child in node.named_children if child != body]
        for child in redirects:
            stdin = self._input(child, state, stdin)
        output = self._statement(body, state, stdin) if body is not None else ""
        for child in redirects:
            output = self._output(child, state, output)
        return output

    def _input(self, node: Node, state: State, stdin: str | None) -> str | None:
        """What a redirection gives the command to read; what it had, where it is none."""
        if node.type == "heredoc_redirect":
            return self._heredoc(node, state)
        if node.type == "herestring_redirect":
            return "".join(self._words.value(child, state) for child in node.named_children) + "\n"
        if node.type == "file_redirect" and any(child.type == "<" for child in node.children):
            target = node.child_by_field_name("destination")
            return None if target is None else self.data(self._words.value(target, state), state)
        return stdin

    def _heredoc(self, node: Node, state: State) -> str | None:
        body = next((child for child in node.named_children if child.type == "heredoc_body"), None)
        start = next((child for child in node.named_children if child.type == "heredoc_start"), None)
        if body is None or start is None:
            return ""
        raw, offset = body.text or b"", body.start_byte
        if any(sign in text_of(start) for sign in "'\"\\"):
            return raw.decode("utf-8", "replace")
        parts: list[str] = []
        at = 0
        for child in body.named_children:
            if child.type != "heredoc_content":
                parts += [
                    raw[at : child.start_byte - offset].decode("utf-8", "replace"),
                    self._words.value(child, state),
                ]
                at = child.end_byte - offset
        return joined([*parts, raw[at:].decode("utf-8", "replace")])

    def _output(self, node: Node, state: State, output: str | None) -> str | None:
        if node.type == "heredoc_redirect":
            return self._behind_heredoc(node, state, output)
        if node.type != "file_redirect":
            return output
        sign = next((child.type for child in node.children if child.type in WRITES or child.type == ">&"), "")
        targets = node.children_by_field_name("destination")
        for target in targets:
            path = self._words.value(target, state)
            if sign in WRITES or (sign == ">&" and not path.isdigit() and path != "-"):
                self._writes(path, state, output, sign)
            elif path.startswith(("/dev/tcp/", "/dev/udp/")):
                self.findings.place("network", [path], "talks to the network")
        descriptor = next((text_of(child) for child in node.children if child.type == "file_descriptor"), "1")
        return "" if sign in WRITES and descriptor == "1" else output

    def _writes(self, path: str, state: State, output: str | None, sign: str) -> None:
        self.findings.place(self.place.where(path, state.cwd), [sign, path], "writes a file")
        absolute = self.place.absolute(path, state.cwd)
        if absolute is not None and output is not None and DYNAMIC not in absolute:
            before = self._written.get(absolute, "") if ">>" in sign else ""
            self._written[absolute] = joined([before, output])

    def _behind_heredoc(self, node: Node, state: State, output: str | None) -> str | None:
        """What stands on the line of a here-document after it: redirections, a pipeline, the rest of a list."""
        for child in node.named_children:
            if child.type == "file_redirect":
                output = self._output(child, state, output)
            elif child.type == "pipeline":
                output = self._through(child.named_children, state, output)
            elif child.type in ("heredoc_body", "heredoc_start", "heredoc_end"):
                continue
            elif child.type not in _WORDS:
                self._statement(child, state, None)
        return output

    # --- commands -----------------------------------------------------------------------------------------------------

    def _command(self, node: Node, state: State, stdin: str | None) -> str | None:
        words: list[str] = []
        name = node.child_by_field_name("name")
        redirects: list[Node] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assignment(child, state if name is None else state.copy(), stdin)
            elif child.type == "command_name":
                words += self._words.of(child.named_children[0], state) if child.named_children else []
            elif child.type.endswith("_redirect"):
                stdin = self._input(child, state, stdin)
                redirects.append(child)
            else:
                words += self._words.of(child, state)
        output = self.run(words, state, stdin)
        for child in redirects:
            output = self._output(child, state, output)
        return output


def _joined(outputs: Sequence[str | None]) -> str | None:
    return None if any(output is None for output in outputs) else joined([output or "" for output in outputs])
