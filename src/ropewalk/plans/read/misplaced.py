"""Code that Python reads and does not compile, such as `break` outside of a loop or `yield` outside of a function."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from typing import Final

from .names import FUNCTIONS, own_nodes
from .problems import Problem, problem_at

_YIELD: Final = (
    "yield outside of a function; a program returns its result, so collect the values in a list and return it"
)


def misplaced(tree: ast.Module) -> list[Problem]:
    """Return the problems of statements and expressions that are not allowed where they are."""
    yields = [problem_at(node, _YIELD) for node in _outside(tree) if isinstance(node, ast.Yield | ast.YieldFrom)]
    if yields:
        return yields
    # A program is the body of an async function, in which an import from the future has no effect.
    body = [node for node in tree.body if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")]
    whole = ast.parse("async def program(): pass")
    whole.body[0].body = body or whole.body[0].body  # type: ignore[attr-defined]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(whole, "program", "exec", dont_inherit=True)
    except SyntaxError as error:
        return [Problem(error.lineno or 1, max(error.offset or 1, 1), f"SyntaxError: {error.msg}")]
    return []


def _outside(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes outside of functions, with the decorators and default values of these."""
    todo: list[ast.AST] = [*tree.body]
    while todo:
        group, todo = todo, []
        for node in own_nodes(group):
            yield node
            if isinstance(node, FUNCTIONS):
                todo += [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
