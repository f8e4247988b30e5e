"""The text of statements, as the evaluator of pieces reads it.

A statement of the program is copied from its text. A made one is written by `ast.unparse`, which is much slower.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Final

from .facts import walk

_BLOCKS: Final = (ast.If, ast.For, ast.While, ast.Try, ast.FunctionDef, ast.Match)
_TEXTS: Final = (ast.Constant, ast.JoinedStr)
_ODD: Final = re.compile("[\r\f]")
"""Characters for which Python counts lines and columns in another way."""


class Source:
    """The text of a program, from which its statements are copied."""

    def __init__(self, code: str, statements: Iterable[ast.stmt]) -> None:
        self.lines = [] if _ODD.search(code) else code.split("\n")
        self._is_ascii = code.isascii()
        self._own = set(map(id, statements))

    def copy(self, node: ast.stmt) -> tuple[str, list[int]] | None:
        """Return the text of a statement without its indentation, and the line of each of its lines."""
        if id(node) not in self._own or not self.lines:
            return None
        first, last = node.lineno, node.end_lineno or node.lineno
        lines = self.lines[first - 1 : last]
        lines[-1] = self._cut(lines[-1], None, node.end_col_offset)
        indent = self._cut(lines[0], None, node.col_offset)
        lines[0] = lines[0][len(indent) :]
        if isinstance(node, ast.If):
            lines[0] = lines[0].removeprefix("el")  # an elif is an if of its own
        if first < last and indent and isinstance(node, _BLOCKS):
            if _has_long_texts(node):
                return None
            lines[1:] = [line.removeprefix(indent) for line in lines[1:]]
        return "\n".join(lines), list(range(first, last + 1))

    def _cut(self, line: str, start: int | None, end: int | None) -> str:
        """Return a part of a line; columns count bytes."""
        return line[start:end] if self._is_ascii else line.encode()[start:end].decode(errors="ignore")


def text_of(node: ast.stmt, source: Source) -> tuple[str, list[int]]:
    """Return the text of a statement, and for each line of it the line of the program."""
    copy = source.copy(node)
    if copy is not None:
        return copy
    text = ast.unparse(node)
    lines = [node.lineno] * (text.count("\n") + 1)
    if len(lines) > 1:
        # The trees have the same shape.
        for made, original in zip(walk(ast.parse(text).body[0]), walk(node), strict=False):
            if isinstance(made, ast.stmt) and isinstance(original, ast.stmt):
                lines[made.lineno - 1] = original.lineno
    return text, lines


def _has_long_texts(node: ast.AST) -> bool:
    """Return True if a text in a statement has several lines, whose indentation belongs to it."""
    return any(isinstance(part, _TEXTS) and part.end_lineno != part.lineno for part in walk(node))
