"""The parser of shell commands: tree-sitter with the grammar of bash, loaded when the first command is parsed."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST = 1 << 20
"""Bytes of one text that is parsed; what is longer isn't looked at."""


@functools.cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(text: str) -> Node | None:
    """The tree of a text, whatever it holds; None where it is too long to be looked at."""
    data = text.encode("utf-8", "replace")
    return None if len(data) > LONGEST else _parser().parse(data).root_node


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
