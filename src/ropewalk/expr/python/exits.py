"""Statements that end a program: `exit()`, `quit()`, `sys.exit(code)` and `raise SystemExit(code)`.

Without a code, or with 0, the program ends without a result. Any other code fails the run.
"""

from __future__ import annotations

import ast
from typing import Any, Final

from ...values import Json

_CALLS: Final = frozenset(("exit", "quit", "sys.exit"))
_RAISED: Final = "SystemExit"
EXIT_NAMES: Final = ("exit", "quit", _RAISED)
"""The built-in names by which a statement ends a program."""


class ProgramExit(Exception):
    """The program ended itself with a code, which no `except` of the program catches."""

    def __init__(self, code: Any = None) -> None:
        super().__init__(str(code))
        self.code = code

    def record(self, line: int) -> dict[str, Json]:
        """Return what is kept of the exit, as of an exception."""
        return {"type": _RAISED, "args": [], "message": str(self.code), "line": line}


def named_exit(node: ast.AST) -> ast.expr | None:
    """Return the name (`exit`, `sys.exit`, `SystemExit`) by which a statement ends the program; None for others."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = node.value.func
        if isinstance(function, (ast.Name, ast.Attribute)) and ast.unparse(function) in _CALLS:
            return function
    if isinstance(node, ast.Raise) and node.exc is not None:
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        if isinstance(raised, ast.Name) and raised.id == _RAISED:
            return raised
    return None


def code_of_exit(node: ast.Expr | ast.Raise) -> ast.expr | None:
    """Return the expression of the code with which a statement ends the program; None where it has none."""
    call = node.value if isinstance(node, ast.Expr) else node.exc
    return call.args[0] if isinstance(call, ast.Call) and call.args else None
