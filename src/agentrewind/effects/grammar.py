"""The parser of shell commands: tree-sitter with the grammar of bash, loaded when the first command is parsed.

It takes any text, but for some malformed ones its time grows with the square of their length, and it can't be stopped
from within its process: texts that aren't short are parsed in one of their own (`aside`).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

SHORT = 2000
"""Bytes of a text that is parsed in any case within a fraction of a second."""
LONGEST = 1 << 20
"""Bytes of one text that is parsed at all."""


class TooLong(Exception):
    """The text is longer than may be parsed in this process."""


@functools.cache
def _parser() -> Parser:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parse(text: str, longest: int = SHORT) -> Node:
    """The tree of a text, whatever it holds. Raises: TooLong."""
    data = text.encode("utf-8", "replace")
    if len(data) > longest:
        raise TooLong
    return _parser().parse(data).root_node


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
