"""The text of a program as a tree, by the grammar of Python 3.11, and within limits of size and depth.

Every walk over a tree that may be deep keeps its own list of nodes, so that no text exhausts the stack of the reader.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from ...expr.python.tree import children, walk
from .imports import use_imports
from .problems import Problem, Unreadable, problem_at

GRAMMAR: Final = (3, 11)
MAX_CHARACTERS: Final = 200_000
MAX_NODES: Final = 60_000
MAX_NESTING: Final = 60
"""How deep expressions and statements may be nested."""
MAX_BRANCHES: Final = 300
"""How many `elif` an `if` may have."""


def parse(text: str) -> ast.Module:
    """Return the tree of a program."""
    # Raises Unreadable with every problem of grammar, size and depth.
    if len(text) > MAX_CHARACTERS:
        raise Unreadable(
            [Problem(1, 1, f"the program is longer than {MAX_CHARACTERS:,} characters; use data as input")]
        )
    problem = _unread_nesting(text)
    if problem is not None:
        raise Unreadable([problem])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, feature_version=GRAMMAR)
    except SyntaxError as error:
        raise Unreadable([Problem(error.lineno or 1, max(error.offset or 1, 1), f"SyntaxError: {error.msg}")]) from None
    except (ValueError, UnicodeError):
        raise Unreadable([Problem(1, 1, "the text has a character that Python does not read; remove it")]) from None
    except (RecursionError, MemoryError):
        raise Unreadable([_too_deep(_longest_line(text), 1)]) from None
    problems = [*_too_large(tree), *_newer_grammar(tree, text)]
    problems = problems or [*use_imports(tree, text)]
    if problems:
        raise Unreadable(problems)
    return tree


@lru_cache(maxsize=32)
def read(text: str) -> ast.Module:
    """Return the tree of a program, which nobody changes."""
    return parse(text)


def _too_deep(line: int, column: int) -> Problem:
    return Problem(line, column, "the code is nested too deeply; assign parts of it to names first")


def too_deep(tree: ast.AST) -> Problem:
    """Return the problem of a tree that is too deep to compile, at its deepest node."""
    level: list[tuple[ast.AST, ast.AST]] = [(tree, tree)]
    deepest = tree
    while level:
        deepest = level[0][1]
        level = [
            (child, child if hasattr(child, "lineno") else at)
            for node, at in level
            for child in ast.iter_child_nodes(node)
        ]
    return _too_deep(getattr(deepest, "lineno", 1), getattr(deepest, "col_offset", 0) + 1)


def _unread_nesting(text: str) -> Problem | None:
    """Return a problem of text that could exhaust the parser itself: brackets, unary operators, `elif`, indentation."""
    branches = depth = 0
    for number, line in enumerate(text.split("\n"), 1):
        code = line.strip()
        branches = branches + 1 if code.startswith("elif") else 0 if code.startswith(("if ", "if(")) else branches
        if branches > MAX_BRANCHES:
            return Problem(number, 1, f"more than {MAX_BRANCHES} branches of one if; use a dict or match")
        if len(line) - len(line.lstrip()) > 4 * MAX_NESTING and code:
            return _too_deep(number, 1)
        depth = _bracket_depth(code, depth)
        if depth > 2 * MAX_NESTING:
            return _too_deep(number, 1)
    return None


def _bracket_depth(code: str, depth: int) -> int:
    deepest = depth
    for character in code:
        if character in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]}":
            depth = max(depth - 1, 0)
    return deepest if deepest > 2 * MAX_NESTING else depth


def _longest_line(text: str) -> int:
    lines = text.split("\n")
    return max(range(len(lines)), key=lambda index: len(lines[index])) + 1


def _too_large(tree: ast.Module) -> Iterator[Problem]:
    """Yield the first place at which the tree is too deep, or too large as a whole."""
    todo: list[tuple[ast.AST, int]] = [(tree, 0)]
    count = 0
    while todo:
        node, depth = todo.pop()
        count += 1
        if count > MAX_NODES:
            yield Problem(1, 1, f"the program has more than {MAX_NODES:,} parts; use data as input")
            return
        if depth > MAX_NESTING:
            yield _too_deep(getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1)
            return
        for child in children(node):
            is_branch = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
            todo.append((child, depth if is_branch else depth + 1))


def _newer_grammar(tree: ast.Module, text: str) -> Iterator[Problem]:
    """Yield f-strings that only Python 3.12 and later read: quotes, backslashes or line breaks inside of braces."""
    if sys.version_info < (3, 12):
        return
    for node in walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        whole = ast.get_source_segment(text, node) or ""
        opening = whole.lstrip("fFrR")
        quote = opening[:3] if opening[:3] in ('"""', "'''") else opening[:1]
        for part in node.values:
            inner = ast.get_source_segment(text, part.value) or "" if isinstance(part, ast.FormattedValue) else ""
            if "\\" in inner or (quote and quote in inner) or (len(quote) == 1 and "\n" in inner):
                yield problem_at(node, "quotes or backslashes inside the braces of an f-string; assign the value first")
