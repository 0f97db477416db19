"""The parser of shell commands: tree-sitter with the grammar of bash.

It takes any text, but on some malformed ones it takes very long or brings its process down: for the `worker` only.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node

LONGEST = 1 << 20
"""Bytes of one text that is parsed at all."""


class TooLong(Exception):
    """The text is longer than may be parsed."""


@functools.cache
def language() -> Language:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())


def parse(text: str) -> Node:
    """The tree of a text, whatever it holds. Raises: TooLong."""
    import tree_sitter

    data = text.encode("utf-8", "replace")
    if len(data) > LONGEST:
        raise TooLong
    return tree_sitter.Parser(language()).parse(data).root_node


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")
