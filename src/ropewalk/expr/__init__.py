"""The expression language: text and documents to trees, trees to closures.

One parser, one evaluator, one table of functions for every notation. No side effects, no clock, no
randomness, no attribute access, no calls into Python: expressions read JSON and give JSON.
To add a function, see `functions`; a macro, `macros` and `runners`; an operator, `closures`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .ast import NULL, Arr, Each, Expr, Fn, Lit, Obj, Ref, Var, children, rebind, refs
from .compile import MISSING, compile_condition, compile_expr
from .lift import lift
from .paths import ROOTS
from .show import show

if TYPE_CHECKING:
    from .calls import FUNCTIONS
    from .macros import MACROS, Macro
    from .parser import parse
    from .reshape import TRANSFORMS, transform
    from .table import Function, function
    from .transforms import TRANSFORM_TYPES, configured, transform_expr

__all__ = [
    "Arr", "Each", "Expr", "FUNCTIONS", "Fn", "Function", "Lit", "MACROS", "MISSING", "Macro", "NULL", "Obj",
    "ROOTS", "Ref", "TRANSFORMS", "TRANSFORM_TYPES", "Var", "children", "compile_condition", "compile_expr",
    "configured", "function", "lift", "parse", "rebind", "refs", "show", "transform", "transform_expr",
]  # fmt: skip

_HOME = {
    "FUNCTIONS": "calls", "Function": "table", "MACROS": "macros", "Macro": "macros", "TRANSFORMS": "reshape",
    "TRANSFORM_TYPES": "transforms", "configured": "transforms", "function": "table", "parse": "parser",
    "transform": "reshape", "transform_expr": "transforms",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """The parser and the functions when they are first asked for: a flow that only passes values on has neither."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
